"""Compares two models field by field."""

from __future__ import annotations

from typing import Any

import numpy as np

from litedelegate.runtime.model import Model


def plain(value: Any) -> Any:
    """Options, arrays and what they hold as lists and dicts that compare by value."""
    if value is None or isinstance(value, str | bytes):
        return value
    if isinstance(value, np.ndarray):
        content = value.tolist() if value.dtype == object else value.tobytes()
        return value.dtype.str, value.shape, content
    if hasattr(value, "items"):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def describe(model: Model) -> dict[str, Any]:
    """All that a model holds, for comparison with ==."""
    return {
        "model": (model.version, model.description, model.missing),
        "codes": [(c.builtin_code, c.custom_bytes, c.version) for c in model.operator_codes],
        "buffers": [plain(model.buffer(i)) for i in model.buffers],
        "metadata": {name: data.tobytes() for name, data in model.metadata.items()},
        "edges": list(model.control_edges),
        "signatures": [
            (s.key, s.subgraph, list(s.inputs.items()), list(s.outputs.items()))
            for s in model.signatures
        ],
        "subgraphs": [
            {
                "graph": (g.name, g.inputs, g.outputs, g.missing, g.debug_metadata_index),
                "tensors": [
                    (
                        (t.name, t.shape, t.shape_signature, t.dtype, t.buffer, t.is_variable),
                        (t.has_rank, t.external_buffer, plain(t.quantization_parameters)),
                        (plain(t.sparsity), plain(t.variant_tensors), plain(model.constant(t))),
                    )
                    for t in g.tensors
                ],
                "operators": [
                    (
                        (o.opcode_index, o.op, o.custom, o.version, o.inputs, o.outputs),
                        (o.intermediates, o.mutating_variable_inputs, o.debug_metadata_index),
                        (plain(o.options), o.custom_options),
                    )
                    for o in g.operators
                ],
            }
            for g in model.subgraphs
        ],
    }
