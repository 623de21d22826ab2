"""What `inspect` knows of a model, as plain dictionaries: read from the file, nothing is run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from ..kernels.api import Quantization
from ..runtime.build import problem
from ..runtime.graph import resolve
from ..runtime.memory import Block, align, plan
from ..runtime.model import Model, OperatorDef, SubGraph, TensorDef
from ..runtime.resolver import BuiltinOpResolver, OpResolver
from ..runtime.tensor import size_in_bytes
from .packed import packed_files

Report = dict[str, Any]


def report(path: Path, model: Model, resolver: OpResolver | None = None) -> Report:
    resolver = resolver or BuiltinOpResolver()
    _, missing = resolve(model, resolver)
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "schema_version": model.version,
        "problem": problem(model),
        "description": model.description,
        "min_runtime_version": model.min_runtime_version,
        "operators": _operators(model, resolver),
        "unresolved": [
            {
                "op": m.op,
                "custom": m.custom,
                "version": m.version,
                "supported": m.supported,
                "nodes": [{"subgraph": s, "node": n, "option_bytes": b} for s, n, b in m.nodes],
            }
            for m in missing
        ],
        "signatures": [
            {
                "key": s.key,
                "subgraph": s.subgraph,
                "inputs": dict(s.inputs),
                "outputs": dict(s.outputs),
            }
            for s in model.signatures
        ],
        "memory": memory(model),
        "metadata": {name: int(data.size) for name, data in model.metadata.items()},
        "packed_files": packed_files(path),
        "subgraphs": [
            {
                "index": s.index,
                "name": s.name,
                "inputs": list(s.inputs),
                "outputs": list(s.outputs),
                "tensors": [_tensor(model, s, t) for t in s.tensors],
                "nodes": [_node(o) for o in s.operators],
            }
            for s in model.subgraphs
        ],
    }


def _operators(model: Model, resolver: OpResolver) -> list[Report]:
    """One entry for each op and version in use, the most frequent first."""
    uses = Counter(
        (o.op, o.version, o.custom) for subgraph in model.subgraphs for o in subgraph.operators
    )
    return [
        {
            "op": op,
            "version": version,
            "custom": custom,
            "count": count,
            "supported": resolver.versions(op, custom=custom),
            "resolved": resolver.find_op(op, version, custom=custom) is not None,
        }
        for (op, version, custom), count in sorted(uses.items(), key=lambda u: (-u[1], u[0]))
    ]


def _tensor(model: Model, subgraph: SubGraph, tensor: TensorDef) -> Report:
    return {
        "index": tensor.index,
        "name": tensor.name,
        "dtype": tensor.dtype.label,
        "shape": list(tensor.shape),
        "shape_signature": None if tensor.shape_signature is None else list(tensor.shape_signature),
        "kind": kind(model, subgraph, tensor),
        "bytes": size_in_bytes(fixed(tensor), tensor.dtype),
        "sparse": tensor.sparsity is not None,
        "quantization": _quantization(tensor.quantization),
    }


def kind(model: Model, subgraph: SubGraph, tensor: TensorDef) -> str:
    if tensor.index in subgraph.inputs:
        return "input"
    if tensor.is_variable:
        return "variable"
    if has_value(model, tensor):
        return "constant"
    return "output" if tensor.index in subgraph.outputs else "activation"


def has_value(model: Model, tensor: TensorDef) -> bool:
    """Whether the file holds its value; does not read it."""
    return (
        not tensor.is_variable and bool(tensor.buffer) and model.buffer(tensor.buffer) is not None
    )


def fixed(tensor: TensorDef) -> tuple[int, ...]:
    """The shape with 1 for each dimension that is not known."""
    return tuple(max(d, 1) if d < 0 else d for d in tensor.shape)


def _quantization(quant: Quantization | None) -> Report | None:
    if quant is None:
        return None
    return {
        "scale": quant.scale,
        "zero_point": quant.zero_point,
        "axis": quant.axis if quant.per_axis else None,
        "block_size": quant.block_size or None,
    }


def _node(operator: OperatorDef) -> Report:
    custom = operator.custom
    return {
        "index": operator.index,
        "op": operator.op,
        "version": operator.version,
        "custom": custom,
        "inputs": list(operator.inputs),
        "outputs": list(operator.outputs),
        "options": None if custom else dict(operator.options),
        "custom_option_bytes": len(operator.custom_options) if custom else None,
    }


def memory(model: Model) -> Report:
    """Bytes, for the shapes in the file.

    The arena is an estimate: in-place ops and scratch memory show only at allocation.
    """
    constants = {
        t.buffer: data.size
        for s in model.subgraphs
        for t in s.tensors
        if not t.is_variable and t.buffer and (data := model.buffer(t.buffer)) is not None
    }
    blocks = [_blocks(model, s) for s in model.subgraphs]
    variables = [t for s in model.subgraphs for t in s.tensors if t.is_variable]
    return {
        "constants": int(sum(constants.values())),
        "variables": sum(size_in_bytes(fixed(t), t.dtype) for t in variables),
        "activations": sum(align(b.size) for s in blocks for b in s),
        "arena_estimate": sum(plan(s) for s in blocks),
    }


def _blocks(model: Model, subgraph: SubGraph) -> list[Block]:
    """The lifetime of each tensor that inference writes: from its maker to its last reader."""
    end = len(subgraph.operators)
    first = dict.fromkeys(subgraph.inputs, -1)
    last: dict[int, int] = dict.fromkeys((*subgraph.inputs, *subgraph.outputs), end)
    for operator in subgraph.operators:
        for index in operator.outputs:
            first.setdefault(index, operator.index)
            last.setdefault(index, operator.index)
        for index in operator.inputs:
            if index >= 0:
                last[index] = max(last.get(index, 0), operator.index)
    return [
        Block(size_in_bytes(fixed(t), t.dtype), first[t.index], last[t.index])
        for t in subgraph.tensors
        if t.index in first and not has_value(model, t) and not t.is_variable
    ]


def quantization_text(quant: Report | None) -> str:
    """How a tensor is quantised, in a few characters."""
    if quant is None:
        return ""
    scale, zero = np.asarray(quant["scale"]), np.asarray(quant["zero_point"])
    if quant["block_size"]:
        return f"{scale.size} scales, blocks of {quant['block_size']}"
    if quant["axis"] is not None:
        zeros = "" if not zero.any() else ", with zero points"
        return f"{scale.size} scales along axis {quant['axis']}{zeros}"
    offset = int(zero.flat[0]) if zero.size else 0
    q = f"(q {'−' if offset > 0 else '+'} {abs(offset)})" if offset else "q"
    return f"{float(scale.flat[0]):.6g} × {q}"
