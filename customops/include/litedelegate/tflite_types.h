/* Types, numbers and macros of tflite_custom_op.h, and the table that its functions call through.
 * Include that header, not this one.
 */
#ifndef LITEDELEGATE_TFLITE_TYPES_H_
#define LITEDELEGATE_TFLITE_TYPES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Changes whenever a library built before would misread what the runtime hands it. What is added
 * at the end of a struct leaves it as it is: sizes tell. */
#define LITEDELEGATE_ABI 1

#if defined(_WIN32)
#define LITEDELEGATE_EXPORT __declspec(dllexport)
#define LITEDELEGATE_HIDDEN
#else
#define LITEDELEGATE_EXPORT __attribute__((visibility("default")))
#define LITEDELEGATE_HIDDEN __attribute__((visibility("hidden")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum TfLiteStatus {
  kTfLiteOk = 0,
  kTfLiteError = 1,
  kTfLiteDelegateError = 2,
  kTfLiteApplicationError = 3,
  kTfLiteDelegateDataNotFound = 4,
  kTfLiteDelegateDataWriteError = 5,
  kTfLiteDelegateDataReadError = 6,
  kTfLiteUnresolvedOps = 7,
  kTfLiteCancelled = 8,
  kTfLiteOutputShapeNotKnown = 9
} TfLiteStatus;

typedef enum {
  kTfLiteNoType = 0,
  kTfLiteFloat32 = 1,
  kTfLiteInt32 = 2,
  kTfLiteUInt8 = 3,
  kTfLiteInt64 = 4,
  kTfLiteString = 5,
  kTfLiteBool = 6,
  kTfLiteInt16 = 7,
  kTfLiteComplex64 = 8,
  kTfLiteInt8 = 9,
  kTfLiteFloat16 = 10,
  kTfLiteFloat64 = 11,
  kTfLiteComplex128 = 12,
  kTfLiteUInt64 = 13,
  kTfLiteResource = 14,
  kTfLiteVariant = 15,
  kTfLiteUInt32 = 16,
  kTfLiteUInt16 = 17,
  kTfLiteInt4 = 18, /* here in one byte for each element, as all types below 8 bits */
  kTfLiteBFloat16 = 19,
  kTfLiteInt2 = 20,
  kTfLiteUInt4 = 21,
  kTfLiteFloat8E4M3FN = 22,
  kTfLiteFloat8E5M2 = 23
} TfLiteType;

static inline const char* TfLiteTypeGetName(TfLiteType type) {
  static const char* const names[] = {
      "NOTYPE",     "FLOAT32",  "INT32",   "UINT8",    "INT64",         "STRING",
      "BOOL",       "INT16",    "COMPLEX64", "INT8",   "FLOAT16",       "FLOAT64",
      "COMPLEX128", "UINT64",   "RESOURCE", "VARIANT", "UINT32",        "UINT16",
      "INT4",       "BFLOAT16", "INT2",    "UINT4",    "FLOAT8_E4M3FN", "FLOAT8_E5M2"};
  return (size_t)type < sizeof names / sizeof names[0] ? names[type] : "Unknown type";
}

typedef enum TfLiteAllocationType {
  kTfLiteMemNone = 0,
  kTfLiteMmapRo = 1,
  kTfLiteArenaRw = 2,
  kTfLiteArenaRwPersistent = 3,
  kTfLiteDynamic = 4,
  kTfLitePersistentRo = 5,
  kTfLiteCustom = 6,
  kTfLiteVariantObject = 7,
  kTfLiteNonCpu = 8
} TfLiteAllocationType;

typedef enum { kTfLiteBuiltinCustom = 32 } TfLiteBuiltinOperator;

typedef struct TfLiteQuantizationParams {
  float scale;
  int32_t zero_point;
} TfLiteQuantizationParams;

typedef enum TfLiteQuantizationType {
  kTfLiteNoQuantization = 0,
  kTfLiteAffineQuantization = 1
} TfLiteQuantizationType;

typedef struct TfLiteQuantization {
  TfLiteQuantizationType type;
  void* params; /* a TfLiteAffineQuantization, or NULL */
} TfLiteQuantization;

/* `data` goes on behind the struct, `size` elements in all. */
typedef struct TfLiteIntArray {
  int size;
  int data[1];
} TfLiteIntArray;
typedef struct TfLiteFloatArray {
  int size;
  float data[1];
} TfLiteFloatArray;

typedef struct TfLiteAffineQuantization {
  TfLiteFloatArray* scale;
  TfLiteIntArray* zero_point;
  int32_t quantized_dimension;
} TfLiteAffineQuantization;

static inline TfLiteIntArray* TfLiteIntArrayCreate(int size) {
  size_t bytes = sizeof(TfLiteIntArray) + (size < 0 ? 0 : (size_t)size) * sizeof(int);
  TfLiteIntArray* made = size < 0 ? NULL : (TfLiteIntArray*)calloc(1, bytes);
  if (made) made->size = size;
  return made;
}
static inline void TfLiteIntArrayFree(TfLiteIntArray* array) { free(array); }
static inline int TfLiteIntArrayEqualsArray(const TfLiteIntArray* a, int size, const int* data) {
  if (!a) return size == 0;
  return a->size == size && (!size || !memcmp(a->data, data, (size_t)size * sizeof(int)));
}
static inline int TfLiteIntArrayEqual(const TfLiteIntArray* a, const TfLiteIntArray* b) {
  return b ? TfLiteIntArrayEqualsArray(a, b->size, b->data) : !a || a->size == 0;
}
static inline TfLiteIntArray* TfLiteIntArrayCopy(const TfLiteIntArray* from) {
  TfLiteIntArray* made = from ? TfLiteIntArrayCreate(from->size) : NULL;
  if (made) memcpy(made->data, from->data, (size_t)from->size * sizeof(int));
  return made;
}

typedef struct TfLiteOpaqueContext TfLiteOpaqueContext;
typedef struct TfLiteOpaqueNode TfLiteOpaqueNode;
typedef struct TfLiteOpaqueTensor TfLiteOpaqueTensor;

/* Of asynchronous kernels: tflite_async.h. Tasks and attribute maps are handles. */
typedef enum TfLiteIoType {
  kTfLiteIoTypeUnknown = 0,
  kTfLiteIoTypeInput = 1,
  kTfLiteIoTypeOutput = 2
} TfLiteIoType;
enum { kTfLiteNullBufferHandle = -1 };
typedef int TfLiteBufferHandle;
typedef struct TfLiteExecutionTask TfLiteExecutionTask;
typedef struct TfLiteAttributeMap TfLiteAttributeMap;
typedef struct TfLiteBackendBuffer {
  void* ptr;
} TfLiteBackendBuffer;
typedef struct TfLiteSynchronization {
  void* ptr;
} TfLiteSynchronization;

/* Made by TfLiteAsyncKernelCreate, read by the loader. */
typedef struct TfLiteAsyncKernel {
  uint32_t size;
  int32_t reserved;
  void* kernel_data;
  TfLiteStatus (*register_buffer)(struct TfLiteAsyncKernel*, TfLiteOpaqueContext*, TfLiteIoType,
                                  const TfLiteBackendBuffer*, const TfLiteAttributeMap*,
                                  TfLiteBufferHandle);
  TfLiteStatus (*register_buffer_slice)(struct TfLiteAsyncKernel*, TfLiteOpaqueContext*,
                                        TfLiteBufferHandle, const TfLiteAttributeMap*,
                                        TfLiteBufferHandle);
  TfLiteStatus (*unregister_buffer)(struct TfLiteAsyncKernel*, TfLiteOpaqueContext*,
                                    TfLiteBufferHandle);
  void (*supported_buffer_types)(const struct TfLiteAsyncKernel*, TfLiteIoType,
                                 const char* const**, size_t*);
  void (*supported_synchronizations)(const struct TfLiteAsyncKernel*, TfLiteIoType,
                                     const char* const**, size_t*);
  bool (*reconcile_restrictions)(const struct TfLiteAsyncKernel*, const TfLiteOpaqueContext*,
                                 const TfLiteOpaqueNode*, int, const TfLiteAttributeMap*,
                                 TfLiteAttributeMap*, TfLiteAttributeMap*);
  TfLiteStatus (*set_attributes)(struct TfLiteAsyncKernel*, TfLiteOpaqueContext*,
                                 TfLiteOpaqueNode*, int, const TfLiteAttributeMap*);
  TfLiteStatus (*set_buffer_attributes)(struct TfLiteAsyncKernel*, const TfLiteBackendBuffer*,
                                        const TfLiteAttributeMap*);
  TfLiteStatus (*get_buffer_attributes)(struct TfLiteAsyncKernel*, const TfLiteBackendBuffer*,
                                        TfLiteAttributeMap*);
  TfLiteStatus (*prepare)(struct TfLiteAsyncKernel*, TfLiteOpaqueContext*, TfLiteOpaqueNode*);
  TfLiteStatus (*eval)(struct TfLiteAsyncKernel*, TfLiteOpaqueContext*, TfLiteOpaqueNode*,
                       TfLiteExecutionTask*);
  TfLiteStatus (*wait)(struct TfLiteAsyncKernel*, TfLiteOpaqueContext*, TfLiteExecutionTask*);
  TfLiteStatus (*finish)(struct TfLiteAsyncKernel*, TfLiteOpaqueContext*, TfLiteExecutionTask*);
} TfLiteAsyncKernel;

typedef void* (*LiteDelegateInit)(TfLiteOpaqueContext* context, const char* buffer, size_t length);
typedef void (*LiteDelegateFree)(TfLiteOpaqueContext* context, void* data);
typedef TfLiteStatus (*LiteDelegateStep)(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node);
typedef void* (*LiteDelegateInitWithData)(void* user_data, TfLiteOpaqueContext* context,
                                          const char* buffer, size_t length);
typedef void (*LiteDelegateFreeWithData)(void* user_data, TfLiteOpaqueContext* context,
                                         void* data);
typedef TfLiteStatus (*LiteDelegateStepWithData)(void* user_data, TfLiteOpaqueContext* context,
                                                 TfLiteOpaqueNode* node);
typedef struct TfLiteAsyncKernel* (*LiteDelegateAsync)(TfLiteOpaqueContext* context,
                                                       TfLiteOpaqueNode* node);
typedef struct TfLiteAsyncKernel* (*LiteDelegateAsyncWithData)(void* user_data,
                                                               TfLiteOpaqueContext* context,
                                                               TfLiteOpaqueNode* node);

/* Made by TfLiteOperatorCreate, read by the loader. */
typedef struct TfLiteOperator {
  uint32_t size;
  int32_t builtin_code;
  const char* custom_name;
  int32_t version;
  int32_t reserved;
  void* user_data;
  LiteDelegateInit init;
  LiteDelegateFree free;
  LiteDelegateStep prepare;
  LiteDelegateStep invoke;
  LiteDelegateInitWithData init_with_data;
  LiteDelegateFreeWithData free_with_data;
  LiteDelegateStepWithData prepare_with_data;
  LiteDelegateStepWithData invoke_with_data;
  LiteDelegateAsync async_kernel;
  uint64_t inplace_operator;
  LiteDelegateAsyncWithData async_kernel_with_data;
} TfLiteOperator;

/* What the runtime offers. Statuses are those of TfLiteStatus; lists stay in place until the
 * function of the operator that asked for them returns. */
typedef struct LiteDelegateHost {
  uint32_t size;
  uint32_t abi;
  void (*report)(const void* context, const char* text);
  int32_t (*resize)(const void* context, const void* tensor, const int* dims, int32_t rank);
  int32_t (*add_tensor)(const void* context, int32_t type, int32_t allocation, float scale,
                        int32_t zero_point, int* index);
  void* (*tensor_at)(const void* context, int32_t index);
  int32_t (*context_list)(const void* context, int32_t which, const int** items, int* count);
  int64_t (*context_count)(const void* context, int32_t which);
  const char* (*context_name)(const void* context);
  int32_t (*type_size)(const void* context, int32_t type, uint64_t* bytes);
  int32_t (*metadata)(const void* context, const char* name, const char** data, uint64_t* bytes);
  void* (*node_tensor)(const void* context, const void* node, int32_t which, int32_t index);
  int32_t (*node_list)(const void* node, int32_t which, const int** items, int* count);
  int32_t (*set_temporaries)(const void* node, const int* items, int32_t count);
  void* (*user_data)(const void* node);
  int32_t (*initial_data)(const void* node, const void** data, int* size);
  int32_t (*tensor_type)(const void* tensor);
  int32_t (*tensor_shape)(const void* tensor, int32_t which, const int** dims);
  int32_t (*tensor_allocation)(const void* tensor);
  int32_t (*tensor_is_variable)(const void* tensor);
  uint64_t (*tensor_bytes)(const void* tensor);
  void* (*tensor_data)(const void* tensor);
  const char* (*tensor_name)(const void* tensor);
  int32_t (*tensor_quantization)(const void* tensor, float* scale, int32_t* zero_point);
  void* (*tensor_channels)(const void* tensor);
  int32_t (*write_strings)(const void* tensor, const char* const* strings, int32_t count,
                           const int* lengths);
  int32_t (*write_buffer)(const void* tensor, const void* data, uint64_t bytes);
  int32_t (*set_dynamic)(const void* tensor);
  /* asynchronous kernels: a tensor of a task by its index, or (-1) by its name */
  int32_t (*task_buffer)(const void* task, int32_t io, const char* name, int32_t index);
  int32_t (*task_set_buffer)(const void* task, int32_t io, const char* name, int32_t index,
                             int32_t handle);
  void* (*task_sync)(const void* task, int32_t io, const char* name, int32_t index);
  int32_t (*task_set_sync)(const void* task, int32_t io, const char* name, int32_t index,
                           void* sync);
  void* (*task_data)(const void* task);
  void (*task_set_data)(const void* task, void* data);
  int32_t (*task_status)(const void* task);
  void (*task_set_status)(const void* task, int32_t status);
  void* (*map_create)(int32_t type);
  void (*map_delete)(const void* map);
  int32_t (*map_type)(const void* map);
  int32_t (*map_copy)(const void* from, const void* to);
  int32_t (*map_get)(const void* map, int32_t kind, uint32_t key, const char* custom, void* value);
  int32_t (*map_set)(const void* map, int32_t kind, uint32_t key, const char* custom,
                     const void* value);
} LiteDelegateHost;

/* Defined by LITEDELEGATE_OP_LIBRARY, set when the library is loaded. */
extern LITEDELEGATE_HIDDEN const LiteDelegateHost* litedelegate_host;

#ifdef __cplusplus
} /* extern "C" */
#endif

/* ---- checks that report and return kTfLiteError ---- */

#ifndef TF_LITE_OPAQUE_KERNEL_LOG
#define TF_LITE_OPAQUE_KERNEL_LOG(context, ...) \
  do {                                          \
    TfLiteOpaqueContextReportError((context), __VA_ARGS__); \
  } while (0)
#endif
#ifndef TF_LITE_OPAQUE_MAYBE_KERNEL_LOG
#define TF_LITE_OPAQUE_MAYBE_KERNEL_LOG(context, ...) \
  do {                                                \
    if (context) TfLiteOpaqueContextReportError((context), __VA_ARGS__); \
  } while (0)
#endif
#define TF_LITE_OPAQUE_ENSURE_MSG(context, value, msg)                           \
  do {                                                                           \
    if (!(value)) {                                                              \
      TF_LITE_OPAQUE_KERNEL_LOG((context), "%s %s", __FILE__, (msg));            \
      return kTfLiteError;                                                       \
    }                                                                            \
  } while (0)
#define TF_LITE_OPAQUE_ENSURE(context, a)                                                    \
  do {                                                                                       \
    if (!(a)) {                                                                              \
      TF_LITE_OPAQUE_KERNEL_LOG((context), "%s:%d: %s was not true.", __FILE__, __LINE__, #a); \
      return kTfLiteError;                                                                   \
    }                                                                                        \
  } while (0)
#define TF_LITE_OPAQUE_ENSURE_EQ(context, a, b)                                                 \
  do {                                                                                          \
    if ((a) != (b)) {                                                                           \
      TF_LITE_OPAQUE_KERNEL_LOG((context), "%s:%d: %s != %s (%d != %d)", __FILE__, __LINE__, #a, \
                                #b, (int)(a), (int)(b));                                        \
      return kTfLiteError;                                                                      \
    }                                                                                           \
  } while (0)
#define TF_LITE_OPAQUE_ENSURE_TYPES_EQ(context, a, b)                                           \
  do {                                                                                          \
    if ((a) != (b)) {                                                                           \
      TF_LITE_OPAQUE_KERNEL_LOG((context), "%s:%d: %s != %s (%s != %s)", __FILE__, __LINE__, #a, \
                                #b, TfLiteTypeGetName(a), TfLiteTypeGetName(b));                \
      return kTfLiteError;                                                                      \
    }                                                                                           \
  } while (0)
#define TF_LITE_OPAQUE_ENSURE_NEAR(context, a, b, epsilon)                                       \
  do {                                                                                           \
    double litedelegate_gap = (double)(a) - (double)(b);                                         \
    if (!(litedelegate_gap <= (epsilon) && -litedelegate_gap <= (epsilon))) {                    \
      TF_LITE_OPAQUE_KERNEL_LOG((context), "%s:%d: %s not near %s (%f != %f)", __FILE__, __LINE__, \
                                #a, #b, (double)(a), (double)(b));                               \
      return kTfLiteError;                                                                       \
    }                                                                                            \
  } while (0)
#define TF_LITE_OPAQUE_ENSURE_STATUS(a)                       \
  do {                                                        \
    const TfLiteStatus litedelegate_status = (a);             \
    if (litedelegate_status != kTfLiteOk) return litedelegate_status; \
  } while (0)

#endif /* LITEDELEGATE_TFLITE_TYPES_H_ */
