"""Field tables of the `.tflite` format, in the notation that `schema` explains. Data only."""

from __future__ import annotations

# Storage, then the names in order of their values from 0. TensorType is `kernels.types.DType`.
ENUMS: dict[str, str] = {
    "TensorType": "byte",
    "ActivationFunctionType": "byte NONE RELU RELU_N1_TO_1 RELU6 TANH SIGN_BIT",
    "Padding": "byte SAME VALID",
    "DimensionType": "byte DENSE SPARSE_CSR",
    "CustomOptionsFormat": "byte FLEXBUFFERS",
    "LSHProjectionType": "byte UNKNOWN SPARSE DENSE",
    "FullyConnectedOptionsWeightsFormat": "byte DEFAULT SHUFFLED4x16INT8",
    "LSTMKernelType": "byte FULL BASIC",
    "CombinerType": "byte SUM MEAN SQRTN",
    "MirrorPadMode": "byte REFLECT SYMMETRIC",
    "RngAlgorithm": "byte DEFAULT PHILOX THREEFRY",
    "ReduceWindowFunction": "int UNSUPPORTED ADD MUL MINIMUM MAXIMUM ALL ANY",
    "StablehloPrecisionConfig": "uint DEFAULT HIGH HIGHEST",
    "StablehloComparisonDirection": "uint "
    + " ".join(f"STABLEHLO_COMPARISON_DIRECTION_{d}" for d in ("EQ", "NE", "GE", "GT", "LE", "LT")),
    "StablehloComparisonType": "uint "
    + " ".join(
        f"STABLEHLO_COMPARISON_TYPE_{t}"
        for t in ("NOTYPE", "FLOAT", "FLOAT_TOTAL_ORDER", "SIGNED", "UNSIGNED")
    ),
}

# A line that is not indented begins a table.
_TABLES = """
Model = version:uint operator_codes:[OperatorCode] subgraphs:[SubGraph] description:string
    buffers:[Buffer] metadata_buffer:[int] metadata:[Metadata] signature_defs:[SignatureDef]
    external_buffer_groups:[ExternalBufferGroup] external_buffers:[ExternalBuffer]
OperatorCode = deprecated_builtin_code:byte custom_code:string version:int=1 builtin_code:int
SubGraph = tensors:[Tensor] inputs:[int] outputs:[int] operators:[Operator] name:string
    debug_metadata_index:int=-1
Buffer = data:[ubyte] offset:ulong size:ulong
Metadata = name:string buffer:uint
SignatureDef = inputs:[TensorMap] outputs:[TensorMap] signature_key:string deprecated_tag:string
    subgraph_index:uint
TensorMap = name:string tensor_index:uint
ExternalBufferGroup = name:string
ExternalBuffer = id:uint group:uint offset:ulong length:ulong packing:string
Tensor = shape:[int] type:TensorType buffer:uint name:string quantization:QuantizationParameters
    is_variable:bool sparsity:SparsityParameters shape_signature:[int] has_rank:bool
    variant_tensors:[VariantSubType] external_buffer:uint
VariantSubType = shape:[int] type:TensorType has_rank:bool
QuantizationParameters = min:[float] max:[float] scale:[float] zero_point:[long]
    details:QuantizationDetails quantized_dimension:int
CustomQuantization = custom:[ubyte]
BlockwiseQuantization = scales:int zero_points:int block_size:int block_shape:[int]
MultiAxisQuantization = scales:int zero_points:int block_size:int quantized_dimensions:[int]
SparsityParameters = traversal_order:[int] block_map:[int] dim_metadata:[DimensionMetadata]
DimensionMetadata = format:DimensionType dense_size:int array_segments:SparseIndexVector
    array_indices:SparseIndexVector
Int32Vector = values:[int]
Uint16Vector = values:[ushort]
Uint8Vector = values:[ubyte]
Operator = opcode_index:uint inputs:[int] outputs:[int] builtin_options:BuiltinOptions
    custom_options:[ubyte] custom_options_format:CustomOptionsFormat mutating_variable_inputs:[bool]
    intermediates:[int] large_custom_options_offset:ulong large_custom_options_size:ulong
    builtin_options_2:BuiltinOptions2 debug_metadata_index:int=-1
Conv2DOptions = padding:Padding stride_w:int stride_h:int
    fused_activation_function:ActivationFunctionType dilation_w_factor:int=1 dilation_h_factor:int=1
    quantized_bias_type:TensorType
Conv3DOptions = padding:Padding stride_d:int stride_w:int stride_h:int
    fused_activation_function:ActivationFunctionType dilation_d_factor:int=1 dilation_w_factor:int=1
    dilation_h_factor:int=1
DepthwiseConv2DOptions = padding:Padding stride_w:int stride_h:int depth_multiplier:int
    fused_activation_function:ActivationFunctionType dilation_w_factor:int=1 dilation_h_factor:int=1
TransposeConvOptions = padding:Padding stride_w:int stride_h:int
    fused_activation_function:ActivationFunctionType quantized_bias_type:TensorType
Pool2DOptions = padding:Padding stride_w:int stride_h:int filter_width:int filter_height:int
    fused_activation_function:ActivationFunctionType
FullyConnectedOptions = fused_activation_function:ActivationFunctionType
    weights_format:FullyConnectedOptionsWeightsFormat keep_num_dims:bool
    asymmetric_quantize_inputs:bool quantized_bias_type:TensorType quant_spec:[ubyte]
ConcatEmbeddingsOptions = num_channels:int num_columns_per_channel:[int]
    embedding_dim_per_channel:[int]
LSHProjectionOptions = type:LSHProjectionType
SVDFOptions = rank:int fused_activation_function:ActivationFunctionType
    asymmetric_quantize_inputs:bool
RNNOptions = fused_activation_function:ActivationFunctionType asymmetric_quantize_inputs:bool
SequenceRNNOptions = time_major:bool fused_activation_function:ActivationFunctionType
    asymmetric_quantize_inputs:bool
BidirectionalSequenceRNNOptions = time_major:bool fused_activation_function:ActivationFunctionType
    merge_outputs:bool asymmetric_quantize_inputs:bool
LSTMOptions = fused_activation_function:ActivationFunctionType cell_clip:float proj_clip:float
    kernel_type:LSTMKernelType asymmetric_quantize_inputs:bool
UnidirectionalSequenceLSTMOptions = fused_activation_function:ActivationFunctionType cell_clip:float
    proj_clip:float time_major:bool asymmetric_quantize_inputs:bool diagonal_recurrent_tensors:bool
BidirectionalSequenceLSTMOptions = fused_activation_function:ActivationFunctionType cell_clip:float
    proj_clip:float merge_outputs:bool time_major:bool=1 asymmetric_quantize_inputs:bool
SoftmaxOptions = beta:float
ConcatenationOptions = axis:int fused_activation_function:ActivationFunctionType
AddOptions = fused_activation_function:ActivationFunctionType pot_scale_int16:bool=1
SubOptions = fused_activation_function:ActivationFunctionType pot_scale_int16:bool=1
MulOptions = fused_activation_function:ActivationFunctionType
DivOptions = fused_activation_function:ActivationFunctionType
L2NormOptions = fused_activation_function:ActivationFunctionType
LocalResponseNormalizationOptions = radius:int bias:float alpha:float beta:float
ResizeBilinearOptions = new_height:int new_width:int align_corners:bool half_pixel_centers:bool
ResizeNearestNeighborOptions = align_corners:bool half_pixel_centers:bool
CallOptions = subgraph:uint
ReshapeOptions = new_shape:[int]
SkipGramOptions = ngram_size:int max_skip_size:int include_all_ngrams:bool
SpaceToDepthOptions = block_size:int
DepthToSpaceOptions = block_size:int
EmbeddingLookupSparseOptions = combiner:CombinerType
GatherOptions = axis:int batch_dims:int
ReducerOptions = keep_dims:bool
SqueezeOptions = squeeze_dims:[int]
SplitOptions = num_splits:int
SplitVOptions = num_splits:int
StridedSliceOptions = begin_mask:int end_mask:int ellipsis_mask:int new_axis_mask:int
    shrink_axis_mask:int offset:bool
CastOptions = in_data_type:TensorType out_data_type:TensorType
ArgMaxOptions = output_type:TensorType
ArgMinOptions = output_type:TensorType
SparseToDenseOptions = validate_indices:bool
ShapeOptions = out_type:TensorType
FakeQuantOptions = min:float max:float num_bits:int narrow_range:bool
PackOptions = values_count:int axis:int
OneHotOptions = axis:int
UnpackOptions = num:int axis:int
LeakyReluOptions = alpha:float
MirrorPadOptions = mode:MirrorPadMode
UniqueOptions = idx_out_type:TensorType=INT32
ReverseSequenceOptions = seq_dim:int batch_dim:int
IfOptions = then_subgraph_index:int else_subgraph_index:int
CallOnceOptions = init_subgraph_index:int
WhileOptions = cond_subgraph_index:int body_subgraph_index:int
BatchMatMulOptions = adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool
CumsumOptions = exclusive:bool reverse:bool
HashtableOptions = table_id:int key_dtype:TensorType value_dtype:TensorType
VarHandleOptions = container:string shared_name:string
RandomOptions = seed:long seed2:long
BucketizeOptions = boundaries:[float]
GeluOptions = approximate:bool
ReduceWindowOptions = reduce_function:ReduceWindowFunction
StablehloConcatenateOptions = dimension:long
StablehloBroadcastInDimOptions = broadcast_dimensions:[long]
StablehloSliceOptions = start_indices:[long] limit_indices:[long] strides:[long]
StablehloConvolutionOptions = window_strides:[long] padding:[long] lhs_dilation:[long]
    rhs_dilation:[long] window_reversal:[bool] input_batch_dimension:long
    input_feature_dimension:long input_spatial_dimensions:[long] kernel_input_feature_dimension:long
    kernel_output_feature_dimension:long kernel_spatial_dimensions:[long]
    output_batch_dimension:long output_feature_dimension:long output_spatial_dimensions:[long]
    feature_group_count:long batch_group_count:long precision_config:[StablehloPrecisionConfig]
StablehloCustomCallOptions = call_target_name:string has_side_effect:bool backend_config:string
    api_version:int called_computations:[int] custom_attributes:[ubyte]
StablehloReduceOptions = dimensions:[long] body_subgraph_index:int
StablehloScatterOptions = indices_are_sorted:bool update_window_dims:[long]
    inserted_window_dims:[long] scatter_dims_to_operand_dims:[long] index_vector_dim:long
    unique_indices:bool update_computation_subgraph_index:int
StablehloCompareOptions = comparison_direction:StablehloComparisonDirection
    compare_type:StablehloComparisonType
StablehloDynamicSliceOptions = slice_sizes:[long]
StablehloPadOptions = edge_padding_low:[long] edge_padding_high:[long] interior_padding:[long]
StablehloIotaOptions = iota_dimension:long
StablehloDotGeneralOptions = lhs_batching_dimensions:[long] rhs_batching_dimensions:[long]
    lhs_contracting_dimensions:[long] rhs_contracting_dimensions:[long]
    precision_config:[StablehloPrecisionConfig]
StablehloReduceWindowOptions = window_dimensions:[long] window_strides:[long] base_dilations:[long]
    window_dilations:[long] padding:[long] body_subgraph_index:int
StablehloSortOptions = dimension:long is_stable:bool comparator_subgraph_index:int
StablehloWhileOptions = cond_subgraph_index:int body_subgraph_index:int
StablehloGatherOptions = offset_dims:[long] collapsed_slice_dims:[long] start_index_map:[long]
    index_vector_dim:long slice_sizes:[long] indices_are_sorted:bool
StablehloTransposeOptions = permutation:[long]
StablehloRngBitGeneratorOptions = algorithm:RngAlgorithm
StableHLOCompositeOptions = name:string decomposition_subgraph_index:int
    composite_attributes:[ubyte] composite_attributes_format:CustomOptionsFormat version:int
StablehloCaseOptions = branch_subgraph_indices:[int]
"""

# The members of the two unions of options, in order of their tags from 1. One that is not in TABLES
# has no fields.
OPTIONS = """
    Conv2DOptions DepthwiseConv2DOptions ConcatEmbeddingsOptions LSHProjectionOptions Pool2DOptions
    SVDFOptions RNNOptions FullyConnectedOptions SoftmaxOptions ConcatenationOptions AddOptions
    L2NormOptions LocalResponseNormalizationOptions LSTMOptions ResizeBilinearOptions CallOptions
    ReshapeOptions SkipGramOptions SpaceToDepthOptions EmbeddingLookupSparseOptions MulOptions
    PadOptions GatherOptions BatchToSpaceNDOptions SpaceToBatchNDOptions TransposeOptions
    ReducerOptions SubOptions DivOptions SqueezeOptions SequenceRNNOptions StridedSliceOptions
    ExpOptions TopKV2Options SplitOptions LogSoftmaxOptions CastOptions DequantizeOptions
    MaximumMinimumOptions ArgMaxOptions LessOptions NegOptions PadV2Options GreaterOptions
    GreaterEqualOptions LessEqualOptions SelectOptions SliceOptions TransposeConvOptions
    SparseToDenseOptions TileOptions ExpandDimsOptions EqualOptions NotEqualOptions ShapeOptions
    PowOptions ArgMinOptions FakeQuantOptions PackOptions LogicalOrOptions OneHotOptions
    LogicalAndOptions LogicalNotOptions UnpackOptions FloorDivOptions SquareOptions ZerosLikeOptions
    FillOptions BidirectionalSequenceLSTMOptions BidirectionalSequenceRNNOptions
    UnidirectionalSequenceLSTMOptions FloorModOptions RangeOptions ResizeNearestNeighborOptions
    LeakyReluOptions SquaredDifferenceOptions MirrorPadOptions AbsOptions SplitVOptions
    UniqueOptions ReverseV2Options AddNOptions GatherNdOptions CosOptions WhereOptions RankOptions
    ReverseSequenceOptions MatrixDiagOptions QuantizeOptions MatrixSetDiagOptions HardSwishOptions
    IfOptions WhileOptions DepthToSpaceOptions NonMaxSuppressionV4Options NonMaxSuppressionV5Options
    ScatterNdOptions SelectV2Options DensifyOptions SegmentSumOptions BatchMatMulOptions
    CumsumOptions CallOnceOptions BroadcastToOptions Rfft2dOptions Conv3DOptions HashtableOptions
    HashtableFindOptions HashtableImportOptions HashtableSizeOptions VarHandleOptions
    ReadVariableOptions AssignVariableOptions RandomOptions BucketizeOptions GeluOptions
    DynamicUpdateSliceOptions UnsortedSegmentProdOptions UnsortedSegmentMaxOptions
    UnsortedSegmentMinOptions UnsortedSegmentSumOptions ATan2Options SignOptions BitcastOptions
    BitwiseXorOptions RightShiftOptions
"""
OPTIONS_2 = """
    StablehloConcatenateOptions StablehloBroadcastInDimOptions StablehloSliceOptions
    StablehloConvolutionOptions StablehloCustomCallOptions StablehloReduceOptions
    StablehloScatterOptions StablehloCompareOptions StablehloDynamicSliceOptions StablehloPadOptions
    StablehloIotaOptions StablehloDotGeneralOptions StablehloReduceWindowOptions
    StablehloSortOptions StablehloWhileOptions StablehloGatherOptions StablehloTransposeOptions
    DilateOptions StablehloRngBitGeneratorOptions ReduceWindowOptions StableHLOCompositeOptions
    StablehloShiftLeftOptions StablehloCaseOptions
"""

TABLES: dict[str, str] = dict.fromkeys((OPTIONS + OPTIONS_2).split(), "")
for _line in _TABLES.strip().replace("\n    ", " ").split("\n"):
    _name, _, _fields = _line.partition(" = ")
    TABLES[_name] = _fields

# Options tables that are not called as their operator.
OPTIONS_OF: dict[str, str] = {
    op: name
    for name, ops in {
        "Pool2DOptions": "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D",
        "L2NormOptions": "L2_NORMALIZATION",
        "SequenceRNNOptions": "UNIDIRECTIONAL_SEQUENCE_RNN",
        "ReducerOptions": "MEAN SUM REDUCE_PROD REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL",
        "MaximumMinimumOptions": "MAXIMUM MINIMUM",
        "Conv3DOptions": "CONV_3D_TRANSPOSE",
        "RandomOptions": "RANDOM_STANDARD_NORMAL RANDOM_UNIFORM MULTINOMIAL",
    }.items()
    for op in ops.split()
}
