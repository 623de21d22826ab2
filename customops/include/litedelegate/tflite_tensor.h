/* The tensor calls of tflite_custom_op.h, which includes this. */
#ifndef LITEDELEGATE_TFLITE_TENSOR_H_
#define LITEDELEGATE_TFLITE_TENSOR_H_

#include "tflite_types.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline TfLiteType TfLiteOpaqueTensorType(const TfLiteOpaqueTensor* tensor) {
  return (TfLiteType)litedelegate_host->tensor_type(tensor);
}
/* -1 for a handle that is none. */
static inline int32_t TfLiteOpaqueTensorNumDims(const TfLiteOpaqueTensor* tensor) {
  const int* dims;
  return litedelegate_host->tensor_shape(tensor, 0, &dims);
}
#define TfLiteOpaqueTensorNumDimensions TfLiteOpaqueTensorNumDims /* as the guide calls it */
static inline int32_t TfLiteOpaqueTensorDim(const TfLiteOpaqueTensor* tensor, int32_t index) {
  const int* dims;
  int32_t rank = litedelegate_host->tensor_shape(tensor, 0, &dims);
  return index < 0 || index >= rank ? -1 : dims[index];
}
/* The signature has -1 for what the model leaves open; a rank of -1 where there is none. */
static inline TfLiteStatus TfLiteOpaqueTensorGetNumDimsSignature(const TfLiteOpaqueTensor* tensor,
                                                                 int32_t* rank) {
  const int* dims;
  *rank = litedelegate_host->tensor_shape(tensor, 1, &dims);
  return kTfLiteOk;
}
static inline TfLiteStatus TfLiteOpaqueTensorGetDimSignature(const TfLiteOpaqueTensor* tensor,
                                                             int32_t index, int32_t* length) {
  const int* dims;
  int32_t rank = litedelegate_host->tensor_shape(tensor, 1, &dims);
  *length = index < 0 || index >= rank ? -1 : dims[index];
  return rank < 0 || (index >= 0 && index < rank) ? kTfLiteOk : kTfLiteError;
}
static inline int TfLiteOpaqueTensorIsVariable(const TfLiteOpaqueTensor* tensor) {
  return litedelegate_host->tensor_is_variable(tensor);
}
static inline size_t TfLiteOpaqueTensorByteSize(const TfLiteOpaqueTensor* tensor) {
  return (size_t)litedelegate_host->tensor_bytes(tensor);
}
/* The tensor's own memory; NULL where it has none (yet): in prepare only constants, variables and
 * dynamic inputs have any. Ask again after a resize. What a string tensor gives is a copy in
 * TensorFlow Lite's layout, to be read: the number n, n + 1 offsets (int32), the bytes.
 * A constant must not be written. */
static inline void* TfLiteOpaqueTensorData(const TfLiteOpaqueTensor* tensor) {
  return litedelegate_host->tensor_data(tensor);
}
static inline const char* TfLiteOpaqueTensorName(const TfLiteOpaqueTensor* tensor) {
  return litedelegate_host->tensor_name(tensor);
}
static inline TfLiteAllocationType TfLiteOpaqueTensorGetAllocationType(
    const TfLiteOpaqueTensor* tensor) {
  return (TfLiteAllocationType)litedelegate_host->tensor_allocation(tensor);
}
/* Zeros for a tensor that is not quantised as a whole. */
static inline TfLiteQuantizationParams TfLiteOpaqueTensorGetQuantizationParams(
    const TfLiteOpaqueTensor* tensor) {
  TfLiteQuantizationParams found = {0.0f, 0};
  litedelegate_host->tensor_quantization(tensor, &found.scale, &found.zero_point);
  return found;
}
#define TfLiteOpaqueTensorQuantizationParams TfLiteOpaqueTensorGetQuantizationParams
static inline TfLiteQuantization TfLiteOpaqueTensorGetQuantization(
    const TfLiteOpaqueTensor* tensor) {
  TfLiteQuantization found;
  found.params = litedelegate_host->tensor_channels(tensor);
  found.type = found.params ? kTfLiteAffineQuantization : kTfLiteNoQuantization;
  return found;
}
/* The size must be the tensor's; for strings the data are in the layout above. */
static inline TfLiteStatus TfLiteOpaqueTensorCopyFromBuffer(TfLiteOpaqueTensor* tensor,
                                                            const void* data, size_t size) {
  return (TfLiteStatus)litedelegate_host->write_buffer(tensor, data, size);
}
static inline TfLiteStatus TfLiteOpaqueTensorCopyToBuffer(const TfLiteOpaqueTensor* tensor,
                                                          void* data, size_t size) {
  void* from = TfLiteOpaqueTensorData(tensor);
  if (!from || size != TfLiteOpaqueTensorByteSize(tensor)) return kTfLiteError;
  memcpy(data, from, size);
  return kTfLiteOk;
}
/* In prepare: the shape is given in invoke. */
static inline void TfLiteOpaqueTensorSetAllocationTypeToDynamic(TfLiteOpaqueTensor* tensor) {
  litedelegate_host->set_dynamic(tensor);
}

/* ---- strings ---- */

static inline int TfLiteOpaqueTensorGetStringCount(const TfLiteOpaqueTensor* tensor) {
  const int32_t* head;
  if (TfLiteOpaqueTensorType(tensor) != kTfLiteString) return -1;
  head = (const int32_t*)TfLiteOpaqueTensorData(tensor);
  return head ? head[0] : -1;
}
/* No NUL ends a string. It stays until invoke returns, or the tensor is written. */
static inline TfLiteStatus TfLiteOpaqueTensorGetString(const TfLiteOpaqueTensor* tensor, int index,
                                                       const char** string, int* length) {
  int count = TfLiteOpaqueTensorGetStringCount(tensor);
  const int32_t* head;
  if (index < 0 || index >= count) return kTfLiteError;
  head = (const int32_t*)TfLiteOpaqueTensorData(tensor);
  *string = (const char*)head + head[1 + index];
  *length = head[2 + index] - head[1 + index];
  return kTfLiteOk;
}
/* As many as the tensor has elements; another number only for a dynamic one, which becomes a
 * vector. */
static inline TfLiteStatus TfLiteOpaqueTensorWriteStrings(TfLiteOpaqueTensor* tensor,
                                                          const char* const* strings, int count,
                                                          const int* lengths) {
  return (TfLiteStatus)litedelegate_host->write_strings(tensor, strings, count, lengths);
}
static inline TfLiteStatus TfLiteOpaqueTensorWriteString(TfLiteOpaqueTensor* tensor,
                                                         const char* string, int length) {
  return TfLiteOpaqueTensorWriteStrings(tensor, &string, 1, &length);
}

/* ---- temporaries ---- */

typedef struct TfLiteOpaqueTensorBuilder {
  TfLiteType type;
  TfLiteAllocationType allocation;
  TfLiteQuantizationParams params;
  void* data;
} TfLiteOpaqueTensorBuilder;

static inline TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderCreate(void) {
  return (TfLiteOpaqueTensorBuilder*)calloc(1, sizeof(TfLiteOpaqueTensorBuilder));
}
static inline void TfLiteOpaqueTensorBuilderDelete(TfLiteOpaqueTensorBuilder* builder) {
  free(builder);
}
static inline TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetType(
    TfLiteOpaqueTensorBuilder* builder, TfLiteType type) {
  builder->type = type;
  return builder;
}
/* Memory from malloc that goes over to the runtime. It is freed and its content not taken: the
 * tensor's memory comes with the first resize. */
static inline TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetData(
    TfLiteOpaqueTensorBuilder* builder, void* data) {
  builder->data = data;
  return builder;
}
static inline TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetAllocationType(
    TfLiteOpaqueTensorBuilder* builder, TfLiteAllocationType allocation) {
  builder->allocation = allocation;
  return builder;
}
static inline TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetQuantizationParams(
    TfLiteOpaqueTensorBuilder* builder, TfLiteQuantizationParams params) {
  builder->params = params;
  return builder;
}
/* A tensor of this node alone, in init or prepare: kTfLiteArenaRw (lost after invoke),
 * kTfLiteArenaRwPersistent (kept, zero at first) or kTfLiteDynamic (resized in invoke). It gets
 * memory once it is among the node's temporaries and has been resized. */
static inline TfLiteStatus TfLiteOpaqueContextAddTensor(TfLiteOpaqueContext* context,
                                                        TfLiteOpaqueTensorBuilder* builder,
                                                        int* index) {
  int32_t status;
  int made = -1;
  if (builder->data && builder->allocation != kTfLiteDynamic) {
    litedelegate_host->report(context, "data are taken for kTfLiteDynamic alone");
    return kTfLiteError;
  }
  status = litedelegate_host->add_tensor(context, (int32_t)builder->type,
                                         (int32_t)builder->allocation, builder->params.scale,
                                         builder->params.zero_point, &made);
  if (status == kTfLiteOk) {
    free(builder->data);
    builder->data = NULL;
    if (index) *index = made;
  }
  return (TfLiteStatus)status;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LITEDELEGATE_TFLITE_TENSOR_H_ */
