/* The structs that TensorFlow Lite hands to operators and delegates of the classic kind, in the
 * layout that it publishes in `c/common.h`: for libraries with
 *
 *     TfLiteRegistration* Register_X(void);                 an operator: load_op_library
 *     TfLiteDelegate* tflite_plugin_create_delegate(...);   a delegate: load_delegate
 *
 * Sources that include TensorFlow Lite's own header compile to the same. New operators are better
 * off with tflite_custom_op.h: there handles are checked, and nothing depends on a layout.
 *
 * What is reached through a TfLiteContext is good until the function that was given it returns.
 */
#ifndef LITEDELEGATE_TFLITE_COMMON_H_
#define LITEDELEGATE_TFLITE_COMMON_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tflite_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define kTfLiteOptionalTensor (-1)

struct TfLiteContext;
struct TfLiteDelegate;
struct TfLiteRegistration;
struct TfLiteExternalContext;

typedef union TfLitePtrUnion {
  int32_t* i32;
  uint32_t* u32;
  int64_t* i64;
  uint64_t* u64;
  float* f;
  double* f64;
  char* raw;
  const char* raw_const;
  uint8_t* uint8;
  bool* b;
  int16_t* i16;
  uint16_t* ui16;
  int8_t* int8;
  void* data;
} TfLitePtrUnion;

typedef enum TfLiteDimensionType {
  kTfLiteDimDense = 0,
  kTfLiteDimSparseCSR = 1
} TfLiteDimensionType;

typedef struct TfLiteDimensionMetadata {
  TfLiteDimensionType format;
  int dense_size;
  TfLiteIntArray* array_segments;
  TfLiteIntArray* array_indices;
} TfLiteDimensionMetadata;

typedef struct TfLiteSparsity {
  TfLiteIntArray* traversal_order;
  TfLiteIntArray* block_map;
  TfLiteDimensionMetadata* dim_metadata;
  int dim_metadata_size;
} TfLiteSparsity;

/* `data` is NULL where the tensor has no memory (yet). Types below 8 bits are packed. */
typedef struct TfLiteTensor {
  TfLiteType type;
  TfLitePtrUnion data;
  TfLiteIntArray* dims;
  TfLiteQuantizationParams params;
  TfLiteAllocationType allocation_type;
  size_t bytes;
  const void* allocation;
  const char* name;
  struct TfLiteDelegate* delegate;
  TfLiteBufferHandle buffer_handle;
  bool data_is_stale;
  bool is_variable;
  TfLiteQuantization quantization;
  TfLiteSparsity* sparsity;
  const TfLiteIntArray* dims_signature;
} TfLiteTensor;

typedef struct TfLiteNode {
  TfLiteIntArray* inputs;
  TfLiteIntArray* outputs;
  TfLiteIntArray* intermediates;
  TfLiteIntArray* temporaries;
  void* user_data;
  void* builtin_data;
  const void* custom_initial_data;
  int custom_initial_data_size;
  struct TfLiteDelegate* delegate;
  bool might_have_side_effect;
} TfLiteNode;

/* What the init of a delegate's kernel is given for a buffer. */
typedef struct TfLiteDelegateParams {
  struct TfLiteDelegate* delegate;
  TfLiteIntArray* nodes_to_replace;
  TfLiteIntArray* input_tensors;
  TfLiteIntArray* output_tensors;
} TfLiteDelegateParams;

typedef struct TfLiteOpaqueDelegateParams {
  struct TfLiteDelegate* delegate;
  void* delegate_data;
  TfLiteIntArray* nodes_to_replace;
  TfLiteIntArray* input_tensors;
  TfLiteIntArray* output_tensors;
} TfLiteOpaqueDelegateParams;

/* Numbers of builtin operators are those of the schema's BuiltinOperator: 0 is ADD, 32 a custom
 * one, 51 the kernel of a delegate. */
typedef struct TfLiteRegistration {
  void* (*init)(struct TfLiteContext* context, const char* buffer, size_t length);
  void (*free)(struct TfLiteContext* context, void* buffer);
  TfLiteStatus (*prepare)(struct TfLiteContext* context, TfLiteNode* node);
  TfLiteStatus (*invoke)(struct TfLiteContext* context, TfLiteNode* node);
  const char* (*profiling_string)(const struct TfLiteContext* context, const TfLiteNode* node);
  int32_t builtin_code;
  const char* custom_name;
  int version;
  TfLiteOperator* registration_external;
  struct TfLiteAsyncKernel* (*async_kernel)(struct TfLiteContext* context, TfLiteNode* node);
  uint64_t inplace_operator;
} TfLiteRegistration;

typedef struct TfLiteContext {
  size_t tensors_size;
  TfLiteStatus (*GetExecutionPlan)(struct TfLiteContext* context, TfLiteIntArray** plan);
  TfLiteTensor* tensors;
  void* impl_;
  /* Takes `size` over. */
  TfLiteStatus (*ResizeTensor)(struct TfLiteContext* context, TfLiteTensor* tensor,
                               TfLiteIntArray* size);
  void (*ReportError)(struct TfLiteContext* context, const char* format, ...);
  TfLiteStatus (*AddTensors)(struct TfLiteContext* context, int count, int* first);
  TfLiteStatus (*GetNodeAndRegistration)(struct TfLiteContext* context, int index,
                                         TfLiteNode** node,
                                         struct TfLiteRegistration** registration);
  TfLiteStatus (*ReplaceNodeSubsetsWithDelegateKernels)(struct TfLiteContext* context,
                                                        struct TfLiteRegistration registration,
                                                        const TfLiteIntArray* nodes,
                                                        struct TfLiteDelegate* delegate);
  int recommended_num_threads;
  struct TfLiteExternalContext* (*GetExternalContext)(struct TfLiteContext* context, int type);
  void (*SetExternalContext)(struct TfLiteContext* context, int type,
                             struct TfLiteExternalContext* given);
  bool allow_fp32_relax_to_fp16;
  void* profiler;
  void* (*AllocatePersistentBuffer)(struct TfLiteContext* context, size_t bytes); /* NULL here */
  TfLiteStatus (*AllocateBufferForEval)(struct TfLiteContext* context, size_t bytes,
                                        void** made); /* NULL here */
  TfLiteStatus (*RequestScratchBufferInArena)(struct TfLiteContext* context, size_t bytes,
                                              int* index); /* NULL here */
  void* (*GetScratchBuffer)(struct TfLiteContext* context, int index); /* NULL here */
  TfLiteStatus (*ResizeTensorExplicit)(struct TfLiteContext* context, TfLiteTensor* tensor,
                                       int rank, const int* dims);
  TfLiteStatus (*PreviewDelegatePartitioning)(struct TfLiteContext* context,
                                              const TfLiteIntArray* nodes,
                                              TfLiteDelegateParams** partitions, int* count);
  TfLiteTensor* (*GetTensor)(const struct TfLiteContext* context, int index);
  void* (*GetEvalTensor)(const struct TfLiteContext* context, int index); /* NULL here */
  TfLiteStatus (*GetModelMetadata)(const struct TfLiteContext* context, const char* name,
                                   const char** data, size_t* bytes);
  TfLiteStatus (*AcquireSubgraphContext)(struct TfLiteContext* context, int subgraph,
                                         struct TfLiteContext** acquired); /* refused here */
  TfLiteStatus (*ReleaseSubgraphContext)(struct TfLiteContext* context, int subgraph);
#if defined(_WIN32)
  TfLiteIntArray* (*TfLiteIntArrayCreate)(int size);
  void (*TfLiteIntArrayFree)(TfLiteIntArray* array);
#endif
} TfLiteContext;

typedef enum TfLiteDelegateFlags {
  kTfLiteDelegateFlagsNone = 0,
  kTfLiteDelegateFlagsAllowDynamicTensors = 1,
  kTfLiteDelegateFlagsRequirePropagatedShapes = 2, /* they always are, here */
  kTfLiteDelegateFlagsPerOperatorProfiling = 4,
  kTfLiteDelegateFlagsHintFullyDelegatedToSingleDelegate = 8
} TfLiteDelegateFlags;

/* The functions of a TfLiteDelegate, with `data` as one more argument. */
typedef struct TfLiteOpaqueDelegateBuilder {
  void* data;
  TfLiteStatus (*Prepare)(TfLiteOpaqueContext* context, struct TfLiteDelegate* delegate,
                          void* data);
  TfLiteStatus (*CopyFromBufferHandle)(TfLiteOpaqueContext* context,
                                       struct TfLiteDelegate* delegate, void* data,
                                       TfLiteBufferHandle handle, TfLiteOpaqueTensor* tensor);
  TfLiteStatus (*CopyToBufferHandle)(TfLiteOpaqueContext* context,
                                     struct TfLiteDelegate* delegate, void* data,
                                     TfLiteBufferHandle handle, TfLiteOpaqueTensor* tensor);
  void (*FreeBufferHandle)(TfLiteOpaqueContext* context, struct TfLiteDelegate* delegate,
                           void* data, TfLiteBufferHandle* handle);
  int64_t flags;
} TfLiteOpaqueDelegateBuilder;

typedef struct TfLiteDelegate {
  void* data_;
  TfLiteStatus (*Prepare)(TfLiteContext* context, struct TfLiteDelegate* delegate);
  TfLiteStatus (*CopyFromBufferHandle)(TfLiteContext* context, struct TfLiteDelegate* delegate,
                                       TfLiteBufferHandle handle, TfLiteTensor* tensor);
  TfLiteStatus (*CopyToBufferHandle)(TfLiteContext* context, struct TfLiteDelegate* delegate,
                                     TfLiteBufferHandle handle, TfLiteTensor* tensor);
  void (*FreeBufferHandle)(TfLiteContext* context, struct TfLiteDelegate* delegate,
                           TfLiteBufferHandle* handle);
  int64_t flags;
  TfLiteOpaqueDelegateBuilder* opaque_delegate_builder; /* counts before the fields above */
} TfLiteDelegate;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LITEDELEGATE_TFLITE_COMMON_H_ */
