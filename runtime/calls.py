"""Whole calls of an interpreter: inputs by name in, outputs by name out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .async_run import AsyncRun
from .delegated import Delegated
from .device_arrays import Lent, is_device_array
from .named import Call, Names
from .resize import check_resize
from .turns import Turns
from .values import check_shape, convert, get_value, writable

if TYPE_CHECKING:
    from .tensor import LiveTensor


class Calls(Delegated):
    """The part of `Interpreter` that does an inference in one go, from any thread."""

    _turns: Turns

    def run(
        self,
        inputs: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        signature_key: str | None = None,
        reset_variables: bool = False,
        on_device: bool = False,
    ) -> dict[str, Any]:
        """One inference by name: sets the inputs, resizing them where need be; gives fresh arrays.

        The names are those of the signature (`signature_key`, the only one, or "serving_default"),
        or else the tensors'. The outputs have the same kind of names as the inputs. With
        `reset_variables` nothing is left of earlier calls. Calls from several threads take turns.
        Inputs may be arrays on a device that a delegate reaches (CuPy's, torch's, PyOpenCL's …);
        with `on_device` the outputs are, too, if the delegate can: no copy goes through the host.
        ValueError for missing or unknown names; it lists them.
        """
        call = Names(self._graph).call(inputs, signature_key)
        return self._call(call, "run", reset_variables, on_device)

    def _call(
        self, call: Call, what: str, reset_variables: bool = False, on_device: bool = False
    ) -> dict[str, Any]:
        with self._guard.whole(what):
            return self._run_call(call, what, reset_variables, on_device)

    def _call_async(self, call: Call, what: str) -> AsyncRun[dict[str, Any]]:
        """As `_call`, on a thread; the values are taken now."""
        delegates = self._graph.delegation.delegates
        taken = {
            i: v if is_device_array(v, delegates) else deepcopy(v) for i, v in call.inputs.items()
        }
        call = replace(call, inputs=taken)
        found: dict[str, Any] = {}
        with self._guard.whole(what):
            run = AsyncRun(
                self._guard,
                self._graph.subgraphs[call.subgraph],
                lambda: found.update(self._run_call(call, what)),
                lambda: found,
                self,
                direct=False,
            )
        return run.begin()

    def _run_call(
        self, call: Call, what: str, reset_variables: bool = False, on_device: bool = False
    ) -> dict[str, Any]:
        settings = self._settings
        subgraph = self._graph.subgraphs[call.subgraph]
        delegates = self._graph.delegation.delegates
        values: list[tuple[LiveTensor, Any]] = []
        on_devices: list[tuple[LiveTensor, Any]] = []
        for i, value in call.inputs.items():
            t = subgraph.tensors[i]
            if is_device_array(value, delegates):
                on_devices.append((t, value))
            else:
                values.append((t, convert(t, value, quantize=settings.quantize_inputs)))
        self._views.ensure_none(what)
        if call.subgraph == 0:  # whose inputs set_tensor sets
            self._turns.runs(own_inputs=True)
        # a buffer, which has no shape, has to be of the present one
        given = [(t, getattr(v, "shape", t.shape)) for t, v in (*values, *on_devices)]
        before = [(t.index, t.shape) for t, _ in given]
        try:
            for t, shape in given:
                if t.shape != tuple(shape):
                    check_resize(subgraph, t.index, list(shape), False)
                    subgraph.resize_tensor(t.index, tuple(shape))
            self._allocate(subgraph)
        except Exception:
            for index, shape in before:
                subgraph.resize_tensor(index, shape)
            raise
        if reset_variables:
            self._graph.reset_state()
        with Lent(self._graph.delegation, subgraph) as lent:
            for t, array in on_devices:
                lent.give(t, array)
            for t, array in values:
                check_shape(t, array)
                np.copyto(writable(t), array)
                self._store(t, call.subgraph)
            outputs = {name: subgraph.tensors[i] for name, i in call.outputs.items()}
            if on_device:
                lent.make(outputs.values())
            self._invoke(subgraph)
            return {name: self._result(t, lent, call) for name, t in outputs.items()}

    def _result(self, tensor: LiveTensor, lent: Lent, call: Call) -> Any:
        array = lent.array(tensor)
        if array is None:
            self._fetch(tensor, call.subgraph)
            array = get_value(tensor, dequantize=self._settings.dequantize_outputs)
        return array
