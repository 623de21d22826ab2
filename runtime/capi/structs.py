"""The structs of TensorFlow Lite's `c/common.h`, as published: fields are only ever added at the
end. Pointers are plain addresses: C may set them to anything, and each is checked when followed.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)

# -- functions that C gives

INIT = CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_size_t)
FREE = CFUNCTYPE(None, c_void_p, c_void_p)
STEP = CFUNCTYPE(c_int, c_void_p, c_void_p)
INIT_WITH_DATA = CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_void_p, c_size_t)
FREE_WITH_DATA = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
STEP_WITH_DATA = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
INIT_FAILED = c_void_p(-1).value  # TfLiteKernelInitFailed()


class Params(Structure):
    """TfLiteQuantizationParams."""

    _fields_ = [("scale", c_float), ("zero_point", c_int32)]


class Quantization(Structure):
    _fields_ = [("type", c_int), ("params", c_void_p)]


class AffineQuantization(Structure):
    _fields_ = [("scale", c_void_p), ("zero_point", c_void_p), ("quantized_dimension", c_int32)]


class DimensionMetadata(Structure):
    _fields_ = [
        ("format", c_int),
        ("dense_size", c_int),
        ("array_segments", c_void_p),
        ("array_indices", c_void_p),
    ]


class Sparsity(Structure):
    _fields_ = [
        ("traversal_order", c_void_p),
        ("block_map", c_void_p),
        ("dim_metadata", c_void_p),
        ("dim_metadata_size", c_int),
    ]


class TensorStruct(Structure):
    """TfLiteTensor."""

    _fields_ = [
        ("type", c_int),
        ("data", c_void_p),
        ("dims", c_void_p),
        ("params", Params),
        ("allocation_type", c_int),
        ("bytes", c_size_t),
        ("allocation", c_void_p),
        ("name", c_void_p),
        ("delegate", c_void_p),
        ("buffer_handle", c_int),
        ("data_is_stale", c_bool),
        ("is_variable", c_bool),
        ("quantization", Quantization),
        ("sparsity", c_void_p),
        ("dims_signature", c_void_p),
    ]


class NodeStruct(Structure):
    """TfLiteNode."""

    _fields_ = [
        ("inputs", c_void_p),
        ("outputs", c_void_p),
        ("intermediates", c_void_p),
        ("temporaries", c_void_p),
        ("user_data", c_void_p),
        ("builtin_data", c_void_p),
        ("custom_initial_data", c_void_p),
        ("custom_initial_data_size", c_int),
        ("delegate", c_void_p),
        ("might_have_side_effect", c_bool),
    ]


class RegistrationStruct(Structure):
    """TfLiteRegistration. What was built before a field was added gives a shorter one."""

    _fields_ = [
        ("init", c_void_p),
        ("free", c_void_p),
        ("prepare", c_void_p),
        ("invoke", c_void_p),
        ("profiling_string", c_void_p),
        ("builtin_code", c_int32),
        ("custom_name", c_void_p),
        ("version", c_int),
        ("registration_external", c_void_p),
        ("async_kernel", c_void_p),
        ("inplace_operator", c_uint64),
    ]


class OperatorStruct(Structure):
    """TfLiteOperator, or TfLiteRegistrationExternal, as TensorFlow Lite's own C API makes it."""

    _fields_ = [
        ("custom_name", c_void_p),
        ("version", c_int),
        ("init", c_void_p),
        ("free", c_void_p),
        ("prepare", c_void_p),
        ("invoke", c_void_p),
        ("async_kernel", c_void_p),
        ("builtin_code", c_int32),
        ("node_index", c_int),
        ("inplace_operator", c_uint64),
        ("user_data", c_void_p),
        ("init_with_data", c_void_p),
        ("free_with_data", c_void_p),
        ("prepare_with_data", c_void_p),
        ("invoke_with_data", c_void_p),
        ("async_kernel_with_data", c_void_p),
    ]


class DelegateParams(Structure):
    """TfLiteDelegateParams."""

    _fields_ = [
        ("delegate", c_void_p),
        ("nodes_to_replace", c_void_p),
        ("input_tensors", c_void_p),
        ("output_tensors", c_void_p),
    ]


class OpaqueDelegateParams(Structure):
    _fields_ = [
        ("delegate", c_void_p),
        ("delegate_data", c_void_p),
        ("nodes_to_replace", c_void_p),
        ("input_tensors", c_void_p),
        ("output_tensors", c_void_p),
    ]


class DelegateStruct(Structure):
    """TfLiteDelegate."""

    _fields_ = [
        ("data", c_void_p),
        ("prepare", c_void_p),
        ("copy_from_buffer_handle", c_void_p),
        ("copy_to_buffer_handle", c_void_p),
        ("free_buffer_handle", c_void_p),
        ("flags", c_int64),
        ("opaque_delegate_builder", c_void_p),
    ]


class OpaqueDelegateBuilder(Structure):
    """TfLiteOpaqueDelegateBuilder: its functions are handed `data` after the delegate."""

    _fields_ = [
        ("data", c_void_p),
        ("prepare", c_void_p),
        ("copy_from_buffer_handle", c_void_p),
        ("copy_to_buffer_handle", c_void_p),
        ("free_buffer_handle", c_void_p),
        ("flags", c_int64),
    ]


class ContextStruct(Structure):
    """TfLiteContext."""

    _fields_ = [
        ("tensors_size", c_size_t),
        ("get_execution_plan", c_void_p),
        ("tensors", c_void_p),
        ("impl", c_void_p),
        ("resize_tensor", c_void_p),
        ("report_error", c_void_p),
        ("add_tensors", c_void_p),
        ("get_node_and_registration", c_void_p),
        ("replace_node_subsets_with_delegate_kernels", c_void_p),
        ("recommended_num_threads", c_int),
        ("get_external_context", c_void_p),
        ("set_external_context", c_void_p),
        ("allow_fp32_relax_to_fp16", c_bool),
        ("profiler", c_void_p),
        ("allocate_persistent_buffer", c_void_p),
        ("allocate_buffer_for_eval", c_void_p),
        ("request_scratch_buffer_in_arena", c_void_p),
        ("get_scratch_buffer", c_void_p),
        ("resize_tensor_explicit", c_void_p),
        ("preview_delegate_partitioning", c_void_p),
        ("get_tensor", c_void_p),
        ("get_eval_tensor", c_void_p),
        ("get_model_metadata", c_void_p),
        ("acquire_subgraph_context", c_void_p),
        ("release_subgraph_context", c_void_p),
        # Windows alone: arrays have to come from the runtime's heap
        ("int_array_create", c_void_p),
        ("int_array_free", c_void_p),
    ]


# -- functions of the context, by its fields

CONTEXT_FUNCTIONS = {
    "get_execution_plan": CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p)),
    "resize_tensor": CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p),
    "add_tensors": CFUNCTYPE(c_int, c_void_p, c_int, POINTER(c_int)),
    "get_node_and_registration": CFUNCTYPE(
        c_int, c_void_p, c_int, POINTER(c_void_p), POINTER(c_void_p)
    ),
    "replace_node_subsets_with_delegate_kernels": CFUNCTYPE(
        c_int, c_void_p, RegistrationStruct, c_void_p, c_void_p
    ),
    "get_external_context": CFUNCTYPE(c_void_p, c_void_p, c_int),
    "set_external_context": CFUNCTYPE(None, c_void_p, c_int, c_void_p),
    "resize_tensor_explicit": CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, POINTER(c_int)),
    "preview_delegate_partitioning": CFUNCTYPE(
        c_int, c_void_p, c_void_p, POINTER(c_void_p), POINTER(c_int)
    ),
    "get_tensor": CFUNCTYPE(c_void_p, c_void_p, c_int),
    "get_model_metadata": CFUNCTYPE(
        c_int, c_void_p, c_char_p, POINTER(c_void_p), POINTER(c_size_t)
    ),
    "acquire_subgraph_context": CFUNCTYPE(c_int, c_void_p, c_int, POINTER(c_void_p)),
    "release_subgraph_context": CFUNCTYPE(c_int, c_void_p, c_int),
    "int_array_create": CFUNCTYPE(c_void_p, c_int),
    "int_array_free": CFUNCTYPE(None, c_void_p),
}
DELEGATE_PREPARE = CFUNCTYPE(c_int, c_void_p, c_void_p)
OPAQUE_PREPARE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
COPY = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_void_p)
OPAQUE_COPY = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
FREE_HANDLE = CFUNCTYPE(None, c_void_p, c_void_p, POINTER(c_int))
OPAQUE_FREE_HANDLE = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p, POINTER(c_int))


def text_at(address: int | None) -> str:
    """A C string; empty for NULL."""
    return ctypes.string_at(address).decode("utf-8", "replace") if address else ""
