"""A node of the model that is an operator of TensorFlow: its definition, checked and completed."""

from __future__ import annotations

from typing import Any

from ...kernels.api import Context, Node, OpError, Tensor
from .library import CPU, Library, library
from .program import HANDLES, Program
from .resources import RESOURCE, Resources

KNOWN_VALUES = 1024  # elements of a constant that shapes are inferred from


class FlexNode:
    """The user data of a Flex node.

    The node's options are a FlexBuffer vector of the operator's name and its serialised NodeDef.
    """

    def __init__(self, op: str, context: Context, options: Any) -> None:
        """`op`: TensorFlow's name of it, which the options must have too."""
        self.op = op
        self.library = library()
        self.resize = context.resize
        self.node_def = _parse(self.library, op, options)
        self.name: str = self.node_def.name
        self.op_def = _definition(self.library, self.op)
        _complete(self.node_def, self.op_def)
        self.resources = Resources.of(context.resources, self.library)
        self.resources.adopt(self.node_def)
        self.outputs = _types(self.node_def, self.op_def.output_arg)
        self.places = _places(self.node_def, self.op_def)
        self.input_count = len(_types(self.node_def, self.op_def.input_arg))
        self.stateful = is_stateful(self.op_def)
        self._alone: tuple[Node, Program] | None = None

    def free(self) -> None:
        self.resources.release()

    def check(self, node: Node) -> None:
        """OpError where the node's tensors are not those of its NodeDef."""
        given = sum(t is not None for t in node.inputs)
        if (given, len(node.outputs)) != (self.input_count, len(self.outputs)):
            raise OpError(
                f"TensorFlow's {self.op} {self.name!r} has {self.input_count} inputs and "
                f"{len(self.outputs)} outputs; the model gives it {given} and {len(node.outputs)}"
            )
        for i, (tensor, made) in enumerate(zip(node.outputs, self.outputs, strict=True)):
            name = self.library.type_name(made)
            if tensor.dtype.label != name:
                raise OpError(
                    f"output {i} of TensorFlow's {self.op} {self.name!r} is {name}; the model "
                    f"declares {tensor.dtype.label}"
                )

    def prepare(self, context: Context, node: Node) -> None:
        """Shapes by TensorFlow's own rules; what they leave open is dynamic."""
        self.check(node)
        if not node.inputs and len(node.outputs) == 1:
            self.resources.handles[node.outputs[0]] = self.node_def
        for tensor, shape in zip(node.outputs, self._infer(node), strict=True):
            if shape is None:
                context.set_dynamic(tensor)
            else:
                context.resize(tensor, shape)

    def invoke(self, context: Context, node: Node) -> None:
        """For a node that is in no partition: a body that gets new shapes while the model runs."""
        alone = self._alone
        if alone is None or alone[0] is not node:  # a self-check has a node of its own
            alone = self._alone = node, Program(self, [node], node.outputs)
        alone[1].run(context.resize)

    def _infer(self, node: Node) -> list[tuple[int, ...] | None]:
        graph = self.library.graph_def.GraphDef()
        own = graph.node.add()
        own.CopyFrom(self.node_def)
        own.name = "node"
        own.ClearField("input")
        for i, tensor in enumerate(node.inputs):
            if tensor is None or tensor.is_dynamic:
                return [None] * len(node.outputs)
            source = graph.node.add()
            self._describe(source, tensor)
            source.name = f"input{i}"
            own.input.append(source.name)
        try:
            return self.library.infer(graph, own.name)
        except ValueError as e:
            raise OpError(f"TensorFlow's {self.op} {self.name!r}: {e}") from e

    def _describe(self, source: Any, tensor: Tensor) -> None:
        """Makes a node that tells all that is known of an input."""
        spec, maker = tensor.spec, self.resources.handles.get(tensor)
        if maker is not None:  # says of which shape a variable is
            source.CopyFrom(maker)
            return
        source.attr["dtype"].type = self.library.dtype(spec.dtype).as_datatype_enum
        if spec.const is not None and spec.size <= KNOWN_VALUES and spec.sparsity is None:
            source.op = "Const"
            source.attr["value"].tensor.CopyFrom(self.library.proto(spec.const, spec.dtype))
            return
        source.op = "Placeholder"
        known = source.attr["shape"].shape
        known.unknown_rank = spec.dtype in HANDLES
        if not known.unknown_rank:
            for size in spec.shape:
                known.dim.add().size = size


def is_stateful(op_def: Any) -> bool:
    """Whether the order counts in which it runs: it says so, or it takes or gives a resource."""
    from_or_to = (*op_def.input_arg, *op_def.output_arg)
    return bool(op_def.is_stateful) or any(arg.type == RESOURCE for arg in from_or_to)


def _parse(library: Library, op: str, options: Any) -> Any:
    try:
        name, raw = options.flexbuffer(raw=True)
        node_def = library.node_def.NodeDef.FromString(raw)
    except Exception as e:  # protobuf's DecodeError is no ValueError
        raise OpError(
            f"{len(options)} bytes of options are no FlexBuffer of [name, NodeDef]: {e}"
        ) from e
    if not op.encode() == name == node_def.op.encode():
        raise OpError(
            f"the options of an operator {op!r} name {name!r}, and their NodeDef {node_def.op!r}"
        )
    return node_def


def _definition(library: Library, op: str) -> Any:
    found = library.op_def(op)
    if found is None:
        raise OpError(f"TensorFlow {library.version} has no operator {op!r}")
    return found


def _complete(node_def: Any, op_def: Any) -> None:
    """Attributes that were left out get the operator's defaults; functions are refused."""
    for attr in op_def.attr:
        if attr.name not in node_def.attr:
            if not attr.HasField("default_value"):
                raise OpError(f"the NodeDef {node_def.name!r} lacks the attribute {attr.name!r}")
            node_def.attr[attr.name].CopyFrom(attr.default_value)
    known = {attr.name for attr in op_def.attr}
    for name in [n for n in node_def.attr if n not in known and n.startswith("_")]:
        del node_def.attr[name]  # notes of the graph it comes from
    for name, value in node_def.attr.items():
        if value.func.name or any(f.name for f in value.list.func):
            raise OpError(
                f"the attribute {name!r} of {node_def.op} {node_def.name!r} is the function "
                f"{value.func.name or value.list.func[0].name!r}, and a .tflite file holds no "
                "functions of TensorFlow"
            )
    node_def.device = CPU


def _types(node_def: Any, args: Any) -> list[int]:
    """TensorFlow's numbers of the types of all tensors that these arguments stand for."""
    types: list[int] = []
    for arg in args:
        if arg.type_list_attr:
            types += node_def.attr[arg.type_list_attr].list.type
            continue
        kind = arg.type or node_def.attr[arg.type_attr].type
        types += [kind] * (node_def.attr[arg.number_attr].i if arg.number_attr else 1)
    return types


def _places(node_def: Any, op_def: Any) -> list[str]:
    """The outputs as a function's body refers to them: "output:place"."""
    names = []
    for arg in op_def.output_arg:
        count = 1
        if arg.type_list_attr:
            count = len(node_def.attr[arg.type_list_attr].list.type)
        elif arg.number_attr:
            count = node_def.attr[arg.number_attr].i
        names += [f"{arg.name}:{i}" for i in range(count)]
    return names
