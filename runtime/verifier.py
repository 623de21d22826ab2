"""Checks that a model is sound before anything else touches it.

Structure only: every offset, length and index, the order of the operators, the sizes of constants,
the calls between subgraphs. Whether an operator takes these types and shapes is its own to say;
schema version and absent parts are the interpreter's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.types import Array
from .encoding import CONTROL_EDGES
from .flatbuffer import InvalidModelError, Rows
from .schema import Field, options_table, table
from .schema_arity import arity
from .verifier_tensors import check_constants, check_quantization, element_counts

if TYPE_CHECKING:
    from .model import Model

MAX_CALL_DEPTH = 64
MAX_CALLS = 100_000


def verify(model: Model) -> None:
    """Raises InvalidModelError where the model is broken; the text names the table, its index and
    the field.
    """
    check_layout(model.root)
    _ = model.operator_tables.custom_places  # which checks them
    counts = element_counts(model.tensor_rows)
    check_constants(model, counts)
    check_quantization(model, counts)
    graph = _Graph(model, counts)
    graph.check_operators()
    graph.check_order()
    check_calls(model)
    check_signatures(model)
    check_metadata(model)


def check_layout(rows: Rows) -> None:
    """Follows every offset of the tables and of all below them; checks that enums have a value the
    schema knows.
    """
    if not len(rows):
        return
    for field in rows.table.fields:
        if field.kind == "scalar":
            _check_enum(rows, field, rows.scalar(field.name), None)
        elif field.kind == "vector" and field.enum is not None:
            _check_enum(rows, field, *rows.flat(field.name))
        elif field.kind in ("string", "vector"):
            rows.vector(field.name)
        elif field.kind == "union":
            for members in rows.members(field.name).values():
                check_layout(members)
        else:
            check_layout(rows.children(field.name))


def _check_enum(rows: Rows, field: Field, values: Array, bounds: Array | None) -> None:
    if field.enum is None:
        return
    bad = (values < 0) | (values >= len(field.enum.names))
    if bad.any():
        at = int(bad.argmax())
        row = at if bounds is None else int(np.searchsorted(bounds, at, "right")) - 1
        rows.fail(row, field.name, f"{values[at]} is none of {', '.join(field.enum.names)}")


class _Graph:
    """The tensor indexes of all operators of all subgraphs, as tensor rows."""

    def __init__(self, model: Model, counts: Array) -> None:
        self.model = model
        self.element_counts = counts
        self.rows = model.operator_rows
        self.base = model.tensor_rows.row_bounds  # first tensor row of each subgraph
        self.count = np.diff(self.base)
        self.owner = self.rows.parent_rows  # subgraph of each operator

    def indexes(self, rows: Rows, name: str, owner: Array, absent: bool) -> tuple[Array, Array]:
        """The vector `name` of each row: its values as tensor rows, −1 where absent, and the row of
        each.
        """
        values, bounds = rows.flat(name)
        at = np.repeat(np.arange(len(rows)), np.diff(bounds))
        graph = owner[at]
        bad = (values < (-1 if absent else 0)) | (values >= self.count[graph])
        if bad.any():
            i = int(bad.argmax())
            row = int(at[i])
            rows.fail(
                row,
                f"{name}[{i - int(bounds[row])}]",
                f"{values[i]} is no tensor; subgraph {graph[i]} has {self.count[graph[i]]}",
            )
        return np.where(values < 0, -1, values + self.base[graph]), at

    def check_operators(self) -> None:
        """Operator codes, arity, and that only what is optional is absent."""
        model, rows = self.model, self.rows
        graphs = model.subgraph_rows
        everyone = np.arange(len(graphs))
        self.graph_inputs, _ = self.indexes(graphs, "inputs", everyone, absent=False)
        self.indexes(graphs, "outputs", everyone, absent=False)
        self.inputs, self.input_owner = self.indexes(rows, "inputs", self.owner, absent=True)
        self.outputs, self.output_owner = self.indexes(rows, "outputs", self.owner, absent=True)
        self.indexes(rows, "intermediates", self.owner, absent=True)
        if "operator_codes" in model.missing:
            return
        used = rows.scalar("opcode_index")
        codes = model.operator_codes
        bad = used >= len(codes)
        if bad.any():
            row = int(bad.argmax())
            rows.fail(
                row, "opcode_index", f"{used[row]} is no operator code; there are {len(codes)}"
            )
        codes_used = used.tolist()
        ins = np.diff(rows.flat("inputs")[1]).tolist()
        outs = np.diff(rows.flat("outputs")[1]).tolist()
        for code, n, m in sorted(set(zip(codes_used, ins, outs, strict=True))):
            op = codes[code].builtin
            takes = arity(op)
            if n in takes.inputs and m in takes.outputs:
                continue
            row = next(r for r, c in enumerate(codes_used) if (c, ins[r], outs[r]) == (code, n, m))
            if n not in takes.inputs:
                rows.fail(row, "inputs", f"{op} has {n} inputs; it takes {takes.inputs.text}")
            rows.fail(row, "outputs", f"{op} has {m} outputs; it gives {takes.outputs.text}")
        for name, values, owner in (
            ("inputs", self.inputs, self.input_owner),
            ("outputs", self.outputs, self.output_owner),
        ):
            bounds = rows.flat(name)[1]
            for i in np.flatnonzero(values < 0).tolist():
                row = int(owner[i])
                place = i - int(bounds[row])
                takes = arity(codes[codes_used[row]].builtin)
                if place not in (takes.optional if name == "inputs" else takes.optional_outputs):
                    rows.fail(
                        row,
                        f"{name}[{place}]",
                        f"is absent (-1), which {codes[codes_used[row]].builtin} needs",
                    )

    def check_order(self) -> None:
        """Each tensor is made once, and before it is read."""
        model = self.model
        tensors = model.tensor_rows
        given = np.zeros(len(tensors), bool)
        given[self.graph_inputs] = True
        constant = np.fromiter(
            (start > 0 and length > 0 for start, length in model.buffer_places),
            bool,
            len(model.buffer_places),
        )
        buffer = tensors.scalar("buffer")
        valued = np.zeros(len(tensors), bool)
        if constant.size:
            valued = constant[buffer] & (buffer > 0)
        outputs = self.outputs[self.outputs >= 0]
        owner = self.output_owner[self.outputs >= 0]
        maker = np.full(len(tensors), -1)
        maker[outputs[::-1]] = owner[::-1]  # the first one stays
        first = np.zeros(outputs.size, bool)
        first[np.unique(outputs, return_index=True)[1]] = True
        for bad, why in (
            (~first, "is made twice: operator {maker} makes it too"),
            (valued[outputs], "is a constant, which no operator may make"),
            (given[outputs], "is an input of its subgraph, which no operator may make"),
        ):
            if bad.any():
                i = int(bad.argmax())
                self._fail("outputs", int(outputs[i]), int(owner[i]), why, maker)
        inputs = self.inputs[self.inputs >= 0]
        reader = self.input_owner[self.inputs >= 0]
        made_by = maker[inputs]
        self._refuse_input(
            made_by == reader, inputs, reader, "is also an output of the same operator", maker
        )
        self._refuse_input(
            made_by > reader, inputs, reader, "is read before operator {maker} makes it", maker
        )
        # A tensor without elements, or kept outside of the file, has its value from elsewhere.
        excused = given | valued | tensors.scalar("is_variable")
        excused |= (tensors.scalar("external_buffer") > 0) | (self.element_counts == 0)
        if "buffers" in model.missing:
            excused |= buffer > 0
        self._refuse_input(
            (made_by < 0) & ~excused[inputs],
            inputs,
            reader,
            "has no value: it is no constant, no variable and no input, and no operator makes it",
            maker,
        )

    def _refuse_input(
        self, bad: Array, inputs: Array, reader: Array, why: str, maker: Array
    ) -> None:
        if bad.any():
            i = int(bad.argmax())
            self._fail("inputs", int(inputs[i]), int(reader[i]), why, maker)

    def _fail(self, field: str, tensor: int, operator: int, why: str, maker: Array) -> None:
        graph = int(self.owner[operator])
        index = tensor - int(self.base[graph])
        made = int(maker[tensor]) - int(self.rows.row_bounds[graph])
        name = self.model.tensor_names[tensor]
        self.rows.fail(operator, field, f"tensor {index} {name!r} {why.format(maker=made)}")


def check_calls(model: Model) -> None:
    """Subgraphs that operators call exist, take and give as many tensors, and do not call
    themselves.
    """
    callees: list[list[int]] = [[] for _ in model.subgraphs]
    if "operator_codes" in model.missing:
        return
    for graph, row, op, name, called in _calls(model):
        if not 0 <= called < len(model.subgraphs):
            model.operator_rows.fail(
                row, name, f"{called} is no subgraph; there are {len(model.subgraphs)}"
            )
        callees[graph].append(called)
        _check_call(model, row, op, name, called)
    _check_recursion(callees)


def _calls(model: Model) -> list[tuple[int, int, str, str, int]]:
    """Subgraph, operator row, name, field and callee of each call."""
    found = []
    rows = model.operator_rows
    used = rows.scalar("opcode_index")
    callers = {
        code.index: fields
        for code in model.operator_codes
        if not code.is_custom and (fields := call_fields(code.builtin))
    }
    for row in np.flatnonzero(np.isin(used, list(callers))).tolist():
        graph = int(rows.parent_rows[row])
        code = model.operator_codes[int(used[row])]
        options = model.operator_tables.options(row, code.builtin)
        for name in callers[code.index]:
            value: Any = options[name]
            for called in value if isinstance(value, tuple) else (value,):
                found.append((graph, row, code.builtin, name, int(called)))
    return found


def call_fields(op: str) -> Sequence[str]:
    """The options of a builtin operator that hold indexes of subgraphs."""
    name = options_table(op)
    fields = () if name is None else table(name).fields
    return [f.name for f in fields if "subgraph" in f.name or f.name == "called_computations"]


# Operators that hand their inputs, but for the first few, to the graphs they call.
_PASSES = {"IF": 1, "STABLEHLO_CASE": 1, "WHILE": 0, "STABLEHLO_COMPOSITE": 0, "CALL_ONCE": 0}


def _check_call(model: Model, row: int, op: str, name: str, called: int) -> None:
    if op not in _PASSES:
        return
    rows, graphs = model.operator_rows, model.subgraph_rows
    wanted = int(rows.vector("inputs").length[row]) - _PASSES[op]
    takes = int(graphs.vector("inputs").length[called])
    if takes != wanted:
        rows.fail(row, name, f"{op} passes {wanted} inputs; subgraph {called} takes {takes}")
    gives = int(graphs.vector("outputs").length[called])
    wanted = 1 if name == "cond_subgraph_index" else int(rows.vector("outputs").length[row])
    if gives != wanted:
        rows.fail(row, name, f"{op} takes {wanted} outputs; subgraph {called} gives {gives}")


def _check_recursion(callees: Sequence[Sequence[int]]) -> None:
    """No cycles, no deeper nesting than MAX_CALL_DEPTH, no more calls in all than MAX_CALLS."""
    depth: dict[int, int] = {}
    calls: dict[int, int] = {}
    for start in range(len(callees)):
        if start in depth:
            continue
        path = [start]
        todo = [iter(callees[start])]
        while path:
            graph = path[-1]
            called = next(todo[-1], None)
            if called is None:
                depth[graph] = 1 + max((depth[c] for c in callees[graph]), default=0)
                calls[graph] = 1 + sum(calls[c] for c in callees[graph])
                if depth[graph] > MAX_CALL_DEPTH or calls[graph] > MAX_CALLS:
                    raise InvalidModelError(
                        f"Model.subgraphs[{graph}].operators: {calls[graph]} calls of subgraphs, "
                        f"{depth[graph]} deep; at most {MAX_CALLS} and {MAX_CALL_DEPTH} are taken"
                    )
                path.pop()
                todo.pop()
            elif called in path:
                raise InvalidModelError(
                    f"Model.subgraphs[{graph}].operators: subgraph {called} is called from within "
                    f"itself, by way of {' -> '.join(map(str, path[path.index(called) :]))}"
                )
            elif called not in depth:
                if len(path) == MAX_CALL_DEPTH:
                    raise InvalidModelError(
                        f"Model.subgraphs[{graph}].operators: calls of subgraphs are more than "
                        f"{MAX_CALL_DEPTH} deep"
                    )
                path.append(called)
                todo.append(iter(callees[called]))


def check_signatures(model: Model) -> None:
    """A key, a subgraph, and tensors of that subgraph."""
    rows = model.root.children("signature_defs")
    if not len(rows):
        return
    absent = rows.vector("signature_key").start == 0
    if absent.any():
        rows.fail(int(absent.argmax()), "signature_key", "the signature has no name")
    graph = rows.scalar("subgraph_index")
    graphs = len(model.subgraph_rows)
    if (graph >= graphs).any():
        row = int((graph >= graphs).argmax())
        rows.fail(row, "subgraph_index", f"{graph[row]} is no subgraph; there are {graphs}")
    counts = np.diff(model.tensor_rows.row_bounds)
    for side in ("inputs", "outputs"):
        tensors = rows.children(side)
        owner = graph[tensors.parent_rows]
        index = tensors.scalar("tensor_index")
        bad = index >= counts[owner]
        if bad.any():
            i = int(bad.argmax())
            tensors.fail(
                i,
                "tensor_index",
                f"{index[i]} is no tensor; subgraph {owner[i]} has {counts[owner[i]]}",
            )


def check_metadata(model: Model) -> None:
    """Buffers, and the control edges: from an operator to a later one."""
    edges = model.control_edges  # reads the metadata
    counts = np.diff(model.operator_rows.row_bounds).tolist()
    for graph, (pairs, count) in enumerate(zip(edges, counts, strict=True)):
        for before, after in pairs:
            if not 0 <= before < after < count:
                raise InvalidModelError(
                    f"metadata {CONTROL_EDGES!r}: the edge {before} -> {after} of subgraph "
                    f"{graph} is none from an operator to a later one; there are {count}"
                )
