"""Ops that run other subgraphs: IF, WHILE, CALL, CALL_ONCE and their StableHLO forms.

Subgraphs are prepared when the node is, and again only for other shapes. Values are copied in and
out. Where a branch or a loop settles no shape beforehand, the node's outputs are dynamic.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .api import Context, Node, OpError, Registration, Run, Subgraph, Tensor
from .types import Array, DType

Tensors = Sequence["Tensor | None"]


def _check(node: Node, what: str, callee: Subgraph, inputs: Tensors, outputs: Tensors) -> None:
    """A subgraph must take and give what the node does."""
    for side, own, other in (
        ("inputs", inputs, callee.inputs),
        ("outputs", outputs, callee.outputs),
    ):
        if len(own) != len(other):
            raise OpError(f"the {what} has {len(other)} {side}; {node.op} has {len(own)} for it")
        for i, (a, b) in enumerate(zip(own, other, strict=True)):
            if a is not None and a.dtype is not b.dtype:
                raise OpError(
                    f"{side[:-1]} {i} of the {what} is {b.dtype.label}; {node.op} has "
                    f"{a.dtype.label} for it"
                )


def _shape(callee: Subgraph, inputs: Tensors) -> None:
    """Prepares a subgraph for inputs of these shapes; nothing to do where it has them."""
    for i, tensor in enumerate(inputs):
        if tensor is not None:
            callee.resize_input(i, tensor.shape)
    callee.allocate()


def _copy(source: Tensors, target: Sequence[Tensor]) -> None:
    for a, b in zip(source, target, strict=True):
        if a is None or a is b:
            continue
        np.copyto(b.array, _as_shaped(a, b))


def _as_shaped(a: Tensor, b: Tensor) -> Array:
    """The value of a in the shape of b: a scalar and one element in a row are the same."""
    value = a.array
    return value if value.shape == b.shape else value.reshape(b.shape)


def _give(context: Context, source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    """Copies results into a node's outputs, which take their shapes where they are dynamic."""
    for a, b in zip(source, target, strict=True):
        if b.is_dynamic:
            context.resize(b, a.shape)
    _copy(source, target)


def _call(context: Context, node: Node, callee: Subgraph, inputs: Tensors) -> None:
    _shape(callee, inputs)
    _copy(inputs, callee.inputs)
    callee.invoke()
    _give(context, callee.outputs, node.outputs)


def _prepare_choice(
    context: Context, node: Node, what: str, branches: Sequence[Subgraph], inputs: Tensors
) -> None:
    """Outputs are static where all branches agree on their shape."""
    for branch in branches:
        _check(node, what, branch, inputs, node.outputs)
        _shape(branch, inputs)
    for i, output in enumerate(node.outputs):
        results = [branch.outputs[i] for branch in branches]
        if any(r.is_dynamic or r.shape != results[0].shape for r in results):
            context.set_dynamic(output)
        else:
            context.resize(output, results[0].shape)


def _selector(node: Node, dtype: DType) -> Tensor:
    chosen = node.inputs[0] if node.inputs else None
    if chosen is None or chosen.dtype is not dtype or chosen.spec.size != 1:
        got = "absent" if chosen is None else str(chosen.spec)
        raise OpError(f"input 0 is {got}; {node.op} takes one {dtype.label} there")
    return chosen


# -- IF, STABLEHLO_CASE, CALL, STABLEHLO_COMPOSITE


def _prepare_if(context: Context, node: Node) -> None:
    _selector(node, DType.BOOL)
    o = node.options
    branches = [context.subgraph(i) for i in (o.then_subgraph_index, o.else_subgraph_index)]
    _prepare_choice(context, node, "branch", branches, node.inputs[1:])


def _if(context: Context, node: Node) -> None:
    o = node.options
    chosen = bool(_selector(node, DType.BOOL).array.reshape(-1)[0])
    index = o.then_subgraph_index if chosen else o.else_subgraph_index
    _call(context, node, context.subgraph(index), node.inputs[1:])


def _prepare_case(context: Context, node: Node) -> None:
    _selector(node, DType.INT32)
    branches = [context.subgraph(i) for i in node.options.branch_subgraph_indices]
    if not branches:
        raise OpError(f"{node.op} has no branches; it takes at least one")
    _prepare_choice(context, node, "branch", branches, node.inputs[1:])


def _case(context: Context, node: Node) -> None:
    branches = node.options.branch_subgraph_indices
    chosen = int(_selector(node, DType.INT32).array.reshape(-1)[0])
    # any other number means the last branch
    index = branches[chosen if 0 <= chosen < len(branches) else -1]
    _call(context, node, context.subgraph(index), node.inputs[1:])


def _callee(context: Context, node: Node) -> Subgraph:
    o = node.options
    index = o.subgraph if node.op == "CALL" else o.decomposition_subgraph_index
    return context.subgraph(index)


def _prepare_call(context: Context, node: Node) -> None:
    _prepare_choice(context, node, "subgraph", [_callee(context, node)], node.inputs)


def _invoke_call(context: Context, node: Node) -> None:
    _call(context, node, _callee(context, node), node.inputs)


# -- CALL_ONCE


def _prepare_once(context: Context, node: Node) -> None:
    callee = context.subgraph(node.options.init_subgraph_index)
    _check(node, "initialisation", callee, (), ())
    if node.inputs or node.outputs:
        raise OpError(f"{node.op} takes no inputs and gives no outputs")


def _once(context: Context, node: Node) -> None:
    index = node.options.init_subgraph_index
    key = ("initialised", index)
    if key not in context.resources:
        callee = context.subgraph(index)
        callee.allocate()
        callee.invoke()
        context.resources[key] = True


# -- WHILE


class _Loop:
    """What prepare settles of a loop."""

    staged = False  # the state passes through the node's outputs
    dynamic = False  # ... and may change its shape
    asked: Sequence[int] = ()  # the variables that the condition reads


def _init_loop(context: Context, options: Any) -> _Loop:
    return _Loop()


def _loop_subgraphs(context: Context, node: Node) -> tuple[Subgraph, Subgraph]:
    o = node.options
    return context.subgraph(o.cond_subgraph_index), context.subgraph(o.body_subgraph_index)


def _prepare_while(context: Context, node: Node) -> None:
    cond, body = _loop_subgraphs(context, node)
    if len(cond.outputs) != 1:
        raise OpError(f"the condition has {len(cond.outputs)} outputs; taken: one bool")
    state = _present(node)
    _check(node, "condition", cond, state, cond.outputs)
    _check(node, "body", body, state, node.outputs)
    _check(node, "body", body, state, state)
    _shape(cond, state)
    _shape(body, state)
    if not cond.outputs[0].is_dynamic:
        _verdict(cond, read=False)
    before, after = body.inputs, body.outputs
    loop: _Loop = node.user_data
    loop.dynamic = any(
        b.is_dynamic or not _same_shape(a, b) for a, b in zip(before, after, strict=True)
    )
    moved = any(b is a for i, b in enumerate(after) for j, a in enumerate(before) if i != j)
    loop.staged = loop.dynamic or moved
    loop.asked = [i for i in range(len(state)) if cond.reads_input(i)]
    for a, b, output in zip(before, after, node.outputs, strict=True):
        if loop.dynamic and a is not b:
            context.set_dynamic(output)
        else:
            context.resize(output, b.shape)


def _present(node: Node) -> list[Tensor]:
    present = [t for t in node.inputs if t is not None]
    if len(present) != len(node.inputs):
        raise OpError(f"an input is absent; {node.op} takes a value for each variable of the loop")
    return present


def _same_shape(a: Tensor, b: Tensor) -> bool:
    """Equal, or a scalar and one element in a row."""
    return a.shape == b.shape or {a.shape, b.shape} == {(), (1,)}


def _verdict(cond: Subgraph, read: bool = True) -> bool:
    result = cond.outputs[0]
    if result.dtype is not DType.BOOL or result.spec.size != 1:
        raise OpError(f"the condition gives {result.spec}; taken: one bool")
    return bool(result.array.item()) if read else False


def _while(context: Context, node: Node) -> None:
    cond, body = _loop_subgraphs(context, node)
    loop: _Loop = node.user_data
    state = _present(node)
    _shape(cond, state)
    _shape(body, state)
    if loop.dynamic or cond.outputs[0].is_dynamic:
        _while_dynamic(context, node, cond, body, state)
    else:
        _while_static(node, loop, cond, body, state)


def _while_dynamic(
    context: Context, node: Node, cond: Subgraph, body: Subgraph, state: Sequence[Tensor]
) -> None:
    """The subgraphs take the shapes of the state before each run."""
    while True:
        _copy(state, cond.inputs)
        cond.invoke()
        if not _verdict(cond):
            break
        _shape(body, state)
        _copy(state, body.inputs)
        body.invoke()
        _give(context, body.outputs, node.outputs)
        state = node.outputs
        _shape(cond, state)
    if state is not node.outputs:
        _give(context, state, node.outputs)


def _while_static(
    node: Node, loop: _Loop, cond: Subgraph, body: Subgraph, state: Sequence[Tensor]
) -> None:
    """Every array stays where it is, so all copies are settled before the loop."""
    asked, asked_of = [state[i] for i in loop.asked], [cond.inputs[i] for i in loop.asked]
    verdict = cond.outputs[0].array
    _copy(asked, asked_of)
    cond.invoke()
    if not verdict.item():
        _copy(state, node.outputs)
        return
    _copy(state, body.inputs)
    results = node.outputs if loop.staged else body.outputs
    after = _copies(body.outputs, node.outputs) if loop.staged else []
    after += _copies([results[i] for i in loop.asked], asked_of)
    before = _copies(results, body.inputs)
    while True:
        body.invoke()
        for copy in after:
            copy()
        cond.invoke()
        if not verdict.item():
            break
        for copy in before:
            copy()
    _copy(results, node.outputs)


def _copies(source: Sequence[Tensor], target: Sequence[Tensor]) -> list[Run]:
    """`_copy` to tensors of fixed arrays, to be called again and again."""
    return [
        functools.partial(np.copyto, b.array, _as_shaped(a, b))
        for a, b in zip(source, target, strict=True)
        if a is not b
    ]


def _loop_op(name: str) -> Registration:
    return Registration(name=name, init=_init_loop, prepare=_prepare_while, invoke=_while)


OPS = {
    "IF": Registration(name="IF", prepare=_prepare_if, invoke=_if),
    "STABLEHLO_CASE": Registration(name="STABLEHLO_CASE", prepare=_prepare_case, invoke=_case),
    "CALL": Registration(name="CALL", prepare=_prepare_call, invoke=_invoke_call),
    "STABLEHLO_COMPOSITE": Registration(
        name="STABLEHLO_COMPOSITE", prepare=_prepare_call, invoke=_invoke_call
    ),
    "CALL_ONCE": Registration(name="CALL_ONCE", prepare=_prepare_once, invoke=_once),
    "WHILE": _loop_op("WHILE"),
    "STABLEHLO_WHILE": _loop_op("STABLEHLO_WHILE"),
}
