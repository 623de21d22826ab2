"""LiteDelegate runs TensorFlow Lite models from Python.

`Interpreter` is a drop-in for `tf.lite.Interpreter`. Names are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .customops.bundle import Bundle as Bundle
    from .customops.bundle import BundleError as BundleError
    from .customops.library import OpLibrary as OpLibrary
    from .customops.library import OpLibraryError as OpLibraryError
    from .customops.library import load_op_library as load_op_library
    from .customops.library import registration_at as registration_at
    from .kernels.api import Context as Context
    from .kernels.api import Node as Node
    from .kernels.api import NodeSpec as NodeSpec
    from .kernels.api import OpError as OpError
    from .kernels.api import Options as Options
    from .kernels.api import Quantization as Quantization
    from .kernels.api import Registration as Registration
    from .kernels.api import TensorSpec as TensorSpec
    from .kernels.api import Unsupported as Unsupported
    from .kernels.types import DType as DType
    from .runtime.async_kernel import AsyncKernel as AsyncKernel
    from .runtime.builder import ModelBuilder as ModelBuilder
    from .runtime.builder import Quant as Quant
    from .runtime.custom import custom_op as custom_op
    from .runtime.delegate import BuildError as BuildError
    from .runtime.delegate import Delegate as Delegate
    from .runtime.delegate import DelegateContext as DelegateContext
    from .runtime.delegate import DelegateError as DelegateError
    from .runtime.delegate import Kernel as Kernel
    from .runtime.delegate import Partition as Partition
    from .runtime.delegate import Refusal as Refusal
    from .runtime.delegate import Unavailable as Unavailable
    from .runtime.external import load_delegate as load_delegate
    from .runtime.interpreter import Interpreter as Interpreter
    from .runtime.interpreter import InterpreterWithCustomOps as InterpreterWithCustomOps
    from .runtime.settings import OpResolverType as OpResolverType
    from .runtime.interpreter_builder import ErrorReporter as ErrorReporter
    from .runtime.interpreter_builder import FlatBufferModel as FlatBufferModel
    from .runtime.interpreter_builder import InterpreterBuilder as InterpreterBuilder
    from .runtime.model import InvalidModelError as InvalidModelError
    from .runtime.model import Model as Model
    from .runtime.named import PositionalInputWarning as PositionalInputWarning
    from .runtime.resolver import BuiltinOperator as BuiltinOperator
    from .runtime.resolver import BuiltinOpResolver as BuiltinOpResolver
    from .runtime.resolver import MutableOpResolver as MutableOpResolver
    from .runtime.resolver import OpResolver as OpResolver
    from .runtime.signature_runner import SignatureRunner as SignatureRunner
    from .runtime.simple_delegate import SimpleDelegate as SimpleDelegate
    from .runtime.turns import InterleavedThreadsWarning as InterleavedThreadsWarning

__version__ = "0.1.0"

_PLACES = {
    "customops.bundle": ("Bundle", "BundleError"),
    "customops.library": ("OpLibrary", "OpLibraryError", "load_op_library", "registration_at"),
    "kernels.api": (
        *("Context", "Node", "NodeSpec", "OpError", "Options", "Quantization"),
        *("Registration", "TensorSpec", "Unsupported"),
    ),
    "kernels.types": ("DType",),
    "runtime.async_kernel": ("AsyncKernel",),
    "runtime.builder": ("ModelBuilder", "Quant"),
    "runtime.custom": ("custom_op",),
    "runtime.delegate": (
        *("BuildError", "Delegate", "DelegateContext", "DelegateError", "Kernel", "Partition"),
        *("Refusal", "Unavailable"),
    ),
    "runtime.external": ("load_delegate",),
    "runtime.interpreter": ("Interpreter", "InterpreterWithCustomOps"),
    "runtime.interpreter_builder": ("ErrorReporter", "FlatBufferModel", "InterpreterBuilder"),
    "runtime.model": ("InvalidModelError", "Model"),
    "runtime.named": ("PositionalInputWarning",),
    "runtime.turns": ("InterleavedThreadsWarning",),
    "runtime.resolver": (
        *("BuiltinOperator", "BuiltinOpResolver", "MutableOpResolver", "OpResolver"),
    ),
    "runtime.settings": ("OpResolverType",),
    "runtime.signature_runner": ("SignatureRunner",),
    "runtime.simple_delegate": ("SimpleDelegate",),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
