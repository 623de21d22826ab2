"""Functions of one byte: maps of 8-bit tensors that all come from one become one table.

A LOGISTIC and a MUL by what it was made of are a function of each byte, and so is any chain of such
maps: numpy evaluates it once for all 256 values, with the functions that the maps bring along.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from ...kernels.device import Map, Read
from ...kernels.types import Array, DType
from .texts import Bodied, Mapped, Operand

Step = tuple[Mapped | Bodied, int]
_BYTES = (DType.INT8, DType.UINT8)


def compose(
    steps: Sequence[Step],
    given: Collection[int],
    wanted: Collection[int],
    constants: Mapping[int, Array],
    hold: Callable[[Array], int],
) -> list[Step]:
    """The steps with such maps joined; what nobody reads any more is left out.

    `given` and `wanted`: tensors that others make and read. `hold` makes a constant of a table and
    gives its key.
    """
    return _Composer(steps, given, wanted, constants, hold).run()


class _Composer:
    def __init__(
        self,
        steps: Sequence[Step],
        given: Collection[int],
        wanted: Collection[int],
        constants: Mapping[int, Array],
        hold: Callable[[Array], int],
    ) -> None:
        self._steps, self._wanted, self._constants, self._hold = steps, wanted, constants, hold
        self._given = given
        self._writers = Counter(step.output.key for step, _ in steps)
        self._readers = Counter(key for step, _ in steps for key in _keys(step))
        # of what tensor a tensor is a function, and its table of bit patterns
        self._origins: dict[int, tuple[Operand, Array]] = {}
        self._dead: set[int] = set()

    def run(self) -> list[Step]:
        made = [(self._joined(step), number) for step, number in self._steps]
        return [s for s in made if s[0].output.key not in self._dead]

    def _joined(self, step: Mapped | Bodied) -> Mapped | Bodied:
        if not isinstance(step, Mapped) or not self._is_function(step):
            return step
        found = self._source(step)
        if found is None:
            return step
        source, inner = found
        arrays = []
        for operand in step.reads:
            assert operand is not None
            if operand.key in self._constants:
                arrays.append(self._constants[operand.key].reshape(1))
            else:
                bits = self._origins[operand.key][1] if operand.key in inner else _ALL
                arrays.append(bits.view(operand.dtype.numpy))
        assert step.step.function is not None
        table = np.broadcast_to(step.step.function(*arrays), 256).astype(step.output.dtype.numpy)
        table = np.ascontiguousarray(table)
        self._origins[step.output.key] = source, table.view(np.uint8)
        if not inner:
            return step  # it is one table as it is
        self._dead |= inner
        whole = Operand(source.key, source.dtype, step.output.shape)
        one = Map(
            "@0[(u8)$0]",
            (Read(0),),
            (table,),
            vector="VCONVERT(i32, 16, LOOKUP_16(@0, $0))",
        )
        held = Operand(self._hold(table), step.output.dtype, table.shape)
        return Mapped(one, (whole,), (held,), step.output, step.output.shape)

    def _is_function(self, step: Mapped) -> bool:
        """Whether each byte of the result comes from bytes at the same place."""
        size = math.prod(step.shape)
        if step.step.function is None or step.step.faults or step.step.strides is not None:
            return False
        if step.output.dtype not in _BYTES or self._writers[step.output.key] != 1:
            return False
        for operand, read in zip(step.reads, step.step.reads, strict=True):
            if operand is None or operand.dtype not in _BYTES or read.strides is not None:
                return False
            single = operand.key in self._constants and math.prod(operand.shape) == 1
            if not single and math.prod(operand.shape) != size:
                return False
        return True

    def _source(self, step: Mapped) -> tuple[Operand, set[int]] | None:
        """The tensor from which all reads come, and those among them that none else reads."""
        sources: dict[int, Operand] = {}
        inner = set()
        for operand in step.reads:
            assert operand is not None
            if operand.key in self._constants:
                if math.prod(operand.shape) != 1:
                    return None
                continue
            origin = self._origins.get(operand.key)
            alone = self._readers[operand.key] == 1 and operand.key not in self._wanted
            if origin is not None and alone:
                inner.add(operand.key)
                operand = origin[0]
            sources[operand.key] = operand
        if len(sources) != 1:
            return None
        (source,) = sources.values()
        # one that is written once more might have changed
        changes = self._writers[source.key] > (source.key not in self._given)
        return None if changes else (source, inner)


_ALL = np.arange(256, dtype=np.uint8)


def _keys(step: Mapped | Bodied) -> set[int]:
    """What a step reads."""
    tables = step.tables if isinstance(step, Mapped) else ()
    return {o.key for o in (*step.reads, *tables) if o is not None}
