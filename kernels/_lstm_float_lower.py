"""The device form of LSTM layers in floats, and with integer weights."""

from __future__ import annotations

import math

import numpy as np

from ._hybrid import HybridWeights
from ._lower import f32
from ._lstm_float import Packed, pack
from ._lstm_layout import Layout, Sizes
from ._recurrent import Weights
from ._recurrent_lower import (
    Builder,
    activation_text,
    blocked,
    constants,
    dense,
    float_macros,
    group_of,
    hybrid_macros,
    local_floats,
    output_map,
    padded,
    series,
    vector_macros,
    work_group,
)
from .device import Capability, Kernel, Map, Read
from .types import Array


def add_layer(
    b: Builder,
    capability: Capability,
    at: Layout,
    s: Sizes,
    x: tuple[int, int, int],
    time_major: bool,
    output: tuple[int, int, int],
    auxiliary: int | None = None,
    backward: bool = False,
) -> None:
    """Adds the steps of one direction.

    `x`: number of the input, steps, batch. `output`: its number, columns, first column.
    `auxiliary`: number of the input that has weights of its own.
    """
    node = b.node
    w = pack(constants(node), at, s)
    source, steps, batch = x
    wide = s.gates * s.cells
    early = b.add_scratch((steps * batch, wide))
    added: list[tuple[str, int | Array]] = []
    if not s.norm:
        added.append(("n", np.ascontiguousarray(w.bias.reshape(-1))))
    if auxiliary is not None and w.auxiliary is not None:
        more = b.add_scratch((steps * batch, wide))
        b.steps.append(
            dense(capability, auxiliary, steps * batch, w.auxiliary, b.write(more), node=node)
        )
        added.append((f"(r) * {wide} + n", b.read(more)))
    b.steps.append(dense(capability, source, steps * batch, w.inputs, b.write(early), added, node))
    row = steps * s.outputs + s.cells
    result = b.add_scratch((batch, row))
    by_time = f"(t) * {batch} + (row)" if time_major else f"(row) * {steps} + (t)"
    b.steps.append(
        _steps(
            b,
            capability,
            at,
            s,
            w,
            b.read(early),
            (steps, batch),
            by_time,
            b.write(result),
            backward,
        )
    )
    shape, read = series(b.read(result), batch, steps, s.outputs, row, time_major)
    b.steps.append(output_map(shape, read, *output))
    last = 0 if backward else steps - 1
    for i, units, offset in (
        (at.output_state, s.outputs, last * s.outputs),
        (at.cell_state, s.cells, steps * s.outputs),
    ):
        kept = Read(b.read(result), strides=(row, 1), offset=offset)
        b.states.append((i, Map("$0", (kept,), shape=(batch, units))))


def _steps(
    b: Builder,
    capability: Capability,
    at: Layout,
    s: Sizes,
    w: Packed,
    early: int,
    counts: tuple[int, int],
    early_row: str,
    output: int,
    backward: bool,
) -> Kernel:
    o, n = b.node.options, s.cells
    wide = s.gates * n
    hybrid = isinstance(w.inputs, HybridWeights)
    macros = vector_macros(capability, "f32", "f32", wide)
    group = group_of(capability, wide)
    reads: list[int | Array] = [early, at.output_state, at.cell_state]
    defines: dict[str, object] = {
        **macros,
        **float_macros(capability, n),
        **work_group(capability, group),
        "STEPS": counts[0],
        "OUTPUTS": s.outputs,
        "N": n,
        "GATES": s.gates,
        "WIDE": padded(wide, macros),
        "CIFG": int(s.cifg),
        "PEEPHOLES": int(s.peephole),
        "NORMS": int(s.norm),
        "PROJECTED": int(s.projection),
        "DIAGONAL": int(s.diagonal),
        "HYBRID": int(hybrid),
        "BACKWARD": int(backward),
        "EARLY": "IN0",
        "EARLY_ROW(t, row)": early_row,
        "ACTIVATE(v)": activation_text(o.fused_activation_function),
        "CLIPPED_CELL(v)": _clipped(o.cell_clip),
        "CLIPPED_OUTPUT(v)": _clipped(o.proj_clip if s.projection else 0),
    }

    def give(name: str, array: Array) -> None:
        defines[name] = f"IN{len(reads)}"
        reads.append(np.ascontiguousarray(array, np.float32).reshape(-1))

    def give_weights(name: str, weights: Weights) -> None:
        if isinstance(weights, HybridWeights):
            matrix = weights.matrix.T
            give(f"{name}_SCALE", np.broadcast_to(weights.scale, len(matrix)))
        else:
            matrix = weights
        give(name, blocked(matrix, macros, np.float32))

    if w.diagonal is not None:
        give("RECURRENT", w.diagonal)
    elif w.recurrent is not None:
        give_weights("RECURRENT", w.recurrent)
    if s.peephole:
        give("PEEPHOLE", w.peephole)
        give("OUTPUT_PEEPHOLE", w.output_peephole)
    if s.norm:
        give("NORM", w.norm)
        give("BIAS", w.bias)
    longest = padded(wide, macros)
    if w.projection is not None:
        give_weights("PROJECTION", w.projection)
        defines["PROJECTION_WIDE"] = padded(s.outputs, macros)
        defines["PROJECTION_BIAS(u)"] = "0.0f"
        longest = max(longest, padded(s.outputs, macros))
        if w.projection_bias is not None:
            defines["PROJECTION_BIAS(u)"] = f"IN{len(reads)}[u]"
            reads.append(w.projection_bias)
    defines["LONGEST"] = longest
    local_floats(capability, longest, s.outputs, 2 * n, max(n, s.outputs) if hybrid else 0)
    rows, uses = hybrid_macros(b.node, hybrid)
    grid = (counts[1] * group,)
    defines |= rows
    return Kernel("lstm", tuple(reads), grid, defines, uses, output, (group,))


def _clipped(most: float) -> str:
    """Bounds of a float `v`, scalar or vector; 0: none."""
    if not most or math.isinf(most):
        return "(v)"
    return f"F_MIN(F_MAX(v, {f32(-most)}), {f32(most)})"
