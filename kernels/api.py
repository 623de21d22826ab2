"""What an operator is, and what it sees of the runtime.

`Registration` is the one type for an op, builtin or custom. A builtin is usually made by `op(...)`
from two pure pieces: `infer`, its shape rule and checks, and `bind`, which settles all that can be
settled once and returns the callable that runs per invoke. Where these do not fit (control flow,
resources), an op gives `prepare` and `invoke` on the `Context`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._live import Binding as Binding
from ._live import Context as Context
from ._live import Node as Node
from ._live import Subgraph as Subgraph
from ._live import Tensor as Tensor
from .types import Array, DType

Shape = tuple[int, ...]
Run = Callable[[], object]


class OpError(RuntimeError):
    """A node that cannot be prepared or run.

    The text says what was got and what is taken; the runtime adds the node.
    """


class Unsupported(Exception):
    """Raised by `lower`: the device does not take this node, and this says why.

    `code` is one of OP VERSION DTYPE QUANT SHAPE OPTION DYNAMIC NOT_CONSTANT DEVICE POLICY
    BUILD_FAILED UNAVAILABLE.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True, eq=False)
class Quantization:
    """Affine quantisation: real = scale * (stored - zero_point).

    `scale` (float32) and `zero_point` (int64) hold one value, or one for each index of dimension
    `axis`. With `block_size` > 0 there is one scale for each block of that many elements along the
    last dimension: `scale` then has the shape [channels, blocks].
    """

    scale: Array
    zero_point: Array
    axis: int = 0
    block_size: int = 0

    @property
    def per_axis(self) -> bool:
        return self.scale.size > 1


@dataclass(frozen=True, slots=True, eq=False)
class TensorSpec:
    """What is known of a tensor before it has data.

    `const` is its value where that can never change. With `sparsity` (the schema's
    SparsityParameters) `const` holds the stored values alone, in one dimension, and `shape` is that
    of the dense tensor.
    """

    shape: Shape
    dtype: DType
    quant: Quantization | None = None
    const: Array | None = None
    name: str = ""
    variable: bool = False
    sparsity: Any = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def scale(self) -> float:
        """Scale of a tensor quantised as a whole; 0.0 where it has none, as in TensorFlow Lite."""
        return (
            float(self.quant.scale.flat[0])
            if self.quant is not None and self.quant.scale.size
            else 0.0
        )

    @property
    def zero_point(self) -> int:
        return (
            int(self.quant.zero_point.flat[0])
            if self.quant is not None and self.quant.zero_point.size
            else 0
        )

    def __str__(self) -> str:
        return f"{self.dtype.label}{list(self.shape)}"


class Options(Mapping[str, Any]):
    """The attributes of a builtin operator, by their schema names, as items and as attributes.

    Enums are their names ("SAME", "RELU6"), vectors are tuples; types (`out_data_type`) are
    `DType`. An absent field has the schema's default.
    """

    def __init__(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        self.__dict__.update(values or {}, **more)

    def __getitem__(self, key: str) -> Any:
        return self.__dict__[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)

    def __getattr__(self, key: str) -> Any:  # only for names that are not there
        raise AttributeError(f"no option {key!r}; there are {', '.join(self.__dict__) or 'none'}")

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


@dataclass(slots=True, eq=False)
class NodeSpec:
    """A node as `infer` and `lower` see it.

    `inputs` holds None where an optional input is absent. `outputs` are as the model file declares
    them (their dtype and quantisation count; their shape does not, until `infer` has given it).
    """

    op: str
    inputs: Sequence[TensorSpec | None]
    outputs: Sequence[TensorSpec]
    options: Any = field(default_factory=Options)
    version: int = 1
    index: int = 0
    # tensors of no data whose quantisation an op needs: the inner values of an integer LSTM
    intermediates: Sequence[TensorSpec] = ()

    def input(self, i: int) -> TensorSpec:
        """Input `i`, which must be there."""
        spec = self.inputs[i] if i < len(self.inputs) else None
        if spec is None:
            raise OpError(
                f"{self.op} needs input {i}, which is absent ({len(self.inputs)} inputs are given)"
            )
        return spec

    def optional(self, i: int) -> TensorSpec | None:
        return self.inputs[i] if i < len(self.inputs) else None


Infer = Callable[[NodeSpec], Sequence["Shape | None"]]
Bind = Callable[[Binding], "Run | None"]


@dataclass(frozen=True, kw_only=True)
class Registration:
    """An op: TensorFlow Lite's init, free, prepare and invoke, and what more Python can use.

    * `init(context, options) -> user_data`: once for each node. A custom op's options are a `bytes`
      with `.flexbuffer()`.
    * `free(context, user_data)`: once for each init.
    * `reset(context, user_data)`: what the op keeps from one invoke to the next, back to its start;
      called when the variables are reset.
    * `prepare(context, node)`: whenever an input may have another shape; checks, sizes outputs,
      asks for temporaries.
    * `invoke(context, node)`: computes.
    * `async_kernel(context, node)`: an `AsyncKernel` (`runtime.async_kernel`), which
      `Interpreter.invoke_async` drives in place of `invoke`, and other invokes where there is none.
    * `infer(spec) -> shapes`: the pure form of prepare; None for an output whose shape the values
      at hand do not settle. At invoke it is asked again, with the value of every input in `const`.
    * `bind(binding) -> callable`: the prepared form of invoke; None where there is nothing to do.
    * `lower(spec, capability) -> Lowered`: the device form (see `kernels.device`), if there is one;
      `Unsupported` where a device cannot take this node.

    An op gives `prepare` and `invoke`, or `infer` and `bind`. `inplace` lists the inputs whose
    memory output 0 may take over (same size in bytes, last use). `pure` says that equal inputs give
    equal outputs and nothing else changes: such a node is computed at allocation when all its
    inputs are constant; with `shape_only` (SHAPE, RANK), when their shapes are known.
    """

    name: str = ""
    versions: tuple[int, int] = (1, 1)
    init: Callable[[Context, Any], Any] | None = None
    free: Callable[[Context, Any], None] | None = None
    reset: Callable[[Context, Any], None] | None = None
    prepare: Callable[[Context, Node], None] | None = None
    invoke: Callable[[Context, Node], None] | None = None
    infer: Infer | None = None
    bind: Bind | None = None
    async_kernel: Callable[[Context, Node], Any] | None = None
    lower: Callable[..., Any] | None = None
    inplace: tuple[int, ...] = ()
    pure: bool = False
    shape_only: bool = False
    custom: bool = False
    profiling_name: Callable[[Node], str] | None = None


def op(
    name: str,
    infer: Infer,
    bind: Bind,
    *,
    versions: tuple[int, int] = (1, 1),
    inplace: tuple[int, ...] = (),
    pure: bool = True,
    shape_only: bool = False,
    lower: Callable[..., Any] | None = None,
    custom: bool = False,
) -> Registration:
    """A registration from the pure pieces."""
    return Registration(
        name=name,
        versions=versions,
        infer=infer,
        bind=bind,
        inplace=inplace,
        pure=pure,
        shape_only=shape_only,
        lower=lower,
        custom=custom,
    )


def take(node: NodeSpec | Binding, what: str, spec: TensorSpec, *dtypes: DType) -> None:
    """Checks a dtype: `take(node, "input 0", spec, DType.FLOAT32, DType.INT8)`."""
    if spec.dtype not in dtypes:
        raise OpError(
            f"{what} {spec.name!r} is {spec.dtype.label}; {node.op} takes "
            f"{', '.join(d.label for d in dtypes)} there"
        )


def require(condition: bool, text: str) -> None:
    """Raises OpError(text) unless the condition holds. For checks whose text is cheap to make."""
    if not condition:
        raise OpError(text)
