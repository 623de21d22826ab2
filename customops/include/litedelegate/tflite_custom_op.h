/* Custom operators for TensorFlow Lite models, in C99 or C++11, without a library to link.
 *
 *     #include "litedelegate/tflite_custom_op.h"
 *     ... init, free, prepare and invoke, as TensorFlow Lite's guide to custom operators has them
 *     static const TfLiteOperator* Atan(void) { ... TfLiteOperatorCreate ... }
 *     LITEDELEGATE_OP_LIBRARY(Atan);
 *
 * `litedelegate op build atan.c` compiles it, litedelegate.load_op_library("atan.so") loads it.
 * Names and signatures are those of TensorFlow Lite's C API. What a function does is written down
 * only where it differs from, or is not told by, its name.
 *
 * Contexts, nodes and tensors are handles that are good until the init, free, prepare or invoke
 * that they were given to returns. Later they are refused with an error, not followed.
 */
#ifndef LITEDELEGATE_TFLITE_CUSTOM_OP_H_
#define LITEDELEGATE_TFLITE_CUSTOM_OP_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tflite_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- operators ---- */

static inline TfLiteOperator* LiteDelegateOperatorCreate(TfLiteBuiltinOperator code,
                                                         const char* name, int version,
                                                         void* user_data) {
  TfLiteOperator* made = (TfLiteOperator*)calloc(1, sizeof(TfLiteOperator));
  size_t length = name ? strlen(name) : 0;
  char* copy = (char*)malloc(length + 1);
  if (!made || !copy) {
    free(made);
    free(copy);
    return NULL;
  }
  if (length) memcpy(copy, name, length);
  copy[length] = 0;
  made->size = (uint32_t)sizeof(TfLiteOperator);
  made->builtin_code = (int32_t)code;
  made->custom_name = copy;
  made->version = version;
  made->user_data = user_data;
  return made;
}

static inline void TfLiteOperatorDelete(TfLiteOperator* op) {
  if (!op) return;
  free((void*)op->custom_name);
  free(op);
}
static inline TfLiteBuiltinOperator TfLiteOperatorGetBuiltInCode(const TfLiteOperator* op) {
  return (TfLiteBuiltinOperator)op->builtin_code;
}
static inline const char* TfLiteOperatorGetCustomName(const TfLiteOperator* op) {
  return op->custom_name;
}
static inline int TfLiteOperatorGetVersion(const TfLiteOperator* op) { return op->version; }
static inline void* TfLiteOperatorGetUserData(const TfLiteOperator* op) { return op->user_data; }

static inline void TfLiteOperatorSetInit(TfLiteOperator* op, LiteDelegateInit init) {
  op->init = init;
}
static inline void TfLiteOperatorSetFree(TfLiteOperator* op, LiteDelegateFree free_) {
  op->free = free_;
}
static inline void TfLiteOperatorSetPrepare(TfLiteOperator* op, LiteDelegateStep prepare) {
  op->prepare = prepare;
}
static inline void TfLiteOperatorSetInvoke(TfLiteOperator* op, LiteDelegateStep invoke) {
  op->invoke = invoke;
}
/* The forms "WithData" are handed the user data of TfLiteOperatorCreate first. */
static inline TfLiteStatus TfLiteOperatorSetInitWithData(TfLiteOperator* op,
                                                         LiteDelegateInitWithData init) {
  op->init_with_data = init;
  return kTfLiteOk;
}
static inline TfLiteStatus TfLiteOperatorSetFreeWithData(TfLiteOperator* op,
                                                         LiteDelegateFreeWithData free_) {
  op->free_with_data = free_;
  return kTfLiteOk;
}
static inline TfLiteStatus TfLiteOperatorSetPrepareWithData(TfLiteOperator* op,
                                                            LiteDelegateStepWithData prepare) {
  op->prepare_with_data = prepare;
  return kTfLiteOk;
}
static inline TfLiteStatus TfLiteOperatorSetInvokeWithData(TfLiteOperator* op,
                                                           LiteDelegateStepWithData invoke) {
  op->invoke_with_data = invoke;
  return kTfLiteOk;
}
/* Called once for each node, when it is first run so. An operator with an asynchronous kernel needs
 * no invoke; where it has both, only asynchronous invokes use the kernel. See tflite_async.h. */
static inline void TfLiteOperatorSetAsyncKernel(TfLiteOperator* op, LiteDelegateAsync make) {
  op->async_kernel = make;
}
static inline TfLiteStatus TfLiteOperatorSetAsyncKernelWithData(TfLiteOperator* op,
                                                                LiteDelegateAsyncWithData make) {
  op->async_kernel_with_data = make;
  return kTfLiteOk;
}
static inline void TfLiteOperatorSetInplaceOperator(TfLiteOperator* op, uint64_t inputs) {
  op->inplace_operator = inputs;
}

/* A C++ caller may leave the user data out, and so may C: the guide does, the API does not. */
#ifdef __cplusplus
}
static inline TfLiteOperator* TfLiteOperatorCreate(TfLiteBuiltinOperator code, const char* name,
                                                   int version, void* user_data = NULL) {
  return LiteDelegateOperatorCreate(code, name, version, user_data);
}
extern "C" {
#else
#define LITEDELEGATE_CREATE_(code, name, version, data, ...) \
  LiteDelegateOperatorCreate(code, name, version, data)
#define TfLiteOperatorCreate(...) LITEDELEGATE_CREATE_(__VA_ARGS__, NULL, NULL)
#endif

/* The names before they became TfLiteOperator. */
typedef TfLiteOperator TfLiteRegistrationExternal;
#define TfLiteRegistrationExternalCreate TfLiteOperatorCreate
#define TfLiteRegistrationExternalDelete TfLiteOperatorDelete
#define TfLiteRegistrationExternalGetBuiltInCode TfLiteOperatorGetBuiltInCode
#define TfLiteRegistrationExternalGetCustomName TfLiteOperatorGetCustomName
#define TfLiteRegistrationExternalGetVersion TfLiteOperatorGetVersion
#define TfLiteRegistrationExternalSetInit TfLiteOperatorSetInit
#define TfLiteRegistrationExternalSetFree TfLiteOperatorSetFree
#define TfLiteRegistrationExternalSetPrepare TfLiteOperatorSetPrepare
#define TfLiteRegistrationExternalSetInvoke TfLiteOperatorSetInvoke
#define TfLiteRegistrationExternalSetAsyncKernel TfLiteOperatorSetAsyncKernel

/* What init returns where it fails: the model is then refused. */
static inline void* TfLiteKernelInitFailed(void) { return (void*)(intptr_t)-1; }

/* ---- the context ---- */

static inline void TfLiteOpaqueContextReportErrorVa(TfLiteOpaqueContext* context,
                                                    const char* format, va_list arguments) {
  char room[512];
  va_list again;
  int length;
  if (!format) format = "(a NULL format was given)";
  va_copy(again, arguments);
  length = vsnprintf(room, sizeof room, format, arguments);
  if (length < 0 || (size_t)length < sizeof room) {
    litedelegate_host->report(context, length < 0 ? format : room);
  } else {
    char* text = (char*)malloc((size_t)length + 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    litedelegate_host->report(context, text ? text : room);
    free(text);
  }
  va_end(again);
}
/* The text becomes that of the Python exception, if the function then returns an error. */
static inline void TfLiteOpaqueContextReportError(TfLiteOpaqueContext* context,
                                                  const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  TfLiteOpaqueContextReportErrorVa(context, format, arguments);
  va_end(arguments);
}
/* Takes `size` over, whatever comes of it. In invoke only for a dynamic tensor. */
static inline TfLiteStatus TfLiteOpaqueContextResizeTensor(TfLiteOpaqueContext* context,
                                                           TfLiteOpaqueTensor* tensor,
                                                           TfLiteIntArray* size) {
  TfLiteStatus status = (TfLiteStatus)litedelegate_host->resize(
      context, tensor, size ? size->data : NULL, size ? size->size : -1);
  TfLiteIntArrayFree(size);
  return status;
}
static inline TfLiteOpaqueTensor* TfLiteOpaqueContextGetOpaqueTensor(
    const TfLiteOpaqueContext* context, int index) {
  return (TfLiteOpaqueTensor*)litedelegate_host->tensor_at(context, index);
}
static inline TfLiteStatus TfLiteOpaqueContextGetInputs(const TfLiteOpaqueContext* context,
                                                        const int** inputs, int* count) {
  return (TfLiteStatus)litedelegate_host->context_list(context, 0, inputs, count);
}
static inline TfLiteStatus TfLiteOpaqueContextGetOutputs(const TfLiteOpaqueContext* context,
                                                         const int** outputs, int* count) {
  return (TfLiteStatus)litedelegate_host->context_list(context, 1, outputs, count);
}
static inline TfLiteStatus TfLiteOpaqueContextGetVariables(const TfLiteOpaqueContext* context,
                                                           const int** variables, int* count) {
  return (TfLiteStatus)litedelegate_host->context_list(context, 2, variables, count);
}
static inline size_t TfLiteOpaqueContextGetNumTensors(const TfLiteOpaqueContext* context) {
  return (size_t)litedelegate_host->context_count(context, 0);
}
static inline size_t TfLiteOpaqueContextGetNumNodes(const TfLiteOpaqueContext* context) {
  return (size_t)litedelegate_host->context_count(context, 1);
}
static inline const char* TfLiteOpaqueContextGetName(const TfLiteOpaqueContext* context) {
  return litedelegate_host->context_name(context);
}
/* Bytes of one element; an error for strings and the like, which have no fixed size. */
static inline TfLiteStatus TfLiteOpaqueContextGetSizeOfType(TfLiteOpaqueContext* context,
                                                            TfLiteType type, size_t* bytes) {
  uint64_t found = 0;
  int32_t status = litedelegate_host->type_size(context, (int32_t)type, &found);
  *bytes = (size_t)found;
  return (TfLiteStatus)status;
}
static inline TfLiteStatus TfLiteOpaqueContextGetMetadata(TfLiteOpaqueContext* context,
                                                          const char* name, const char** data,
                                                          size_t* bytes) {
  uint64_t found = 0;
  int32_t status = litedelegate_host->metadata(context, name, data, &found);
  *bytes = (size_t)found;
  return (TfLiteStatus)status;
}

/* ---- the node ---- */

static inline int LiteDelegateNodeCount(const TfLiteOpaqueNode* node, int32_t which) {
  const int* items;
  int count = 0;
  return litedelegate_host->node_list(node, which, &items, &count) ? -1 : count;
}
static inline int TfLiteOpaqueNodeNumberOfInputs(const TfLiteOpaqueNode* node) {
  return LiteDelegateNodeCount(node, 0);
}
static inline int TfLiteOpaqueNodeNumberOfOutputs(const TfLiteOpaqueNode* node) {
  return LiteDelegateNodeCount(node, 1);
}
/* As the guide calls them. */
#define TfLiteOpaqueNodeNumInputs TfLiteOpaqueNodeNumberOfInputs
#define TfLiteOpaqueNodeNumOutputs TfLiteOpaqueNodeNumberOfOutputs

/* NULL for an optional input that is absent. */
static inline const TfLiteOpaqueTensor* TfLiteOpaqueNodeGetInput(
    const TfLiteOpaqueContext* context, const TfLiteOpaqueNode* node, int index) {
  return (const TfLiteOpaqueTensor*)litedelegate_host->node_tensor(context, node, 0, index);
}
static inline TfLiteOpaqueTensor* TfLiteOpaqueNodeGetOutput(TfLiteOpaqueContext* context,
                                                            const TfLiteOpaqueNode* node,
                                                            int index) {
  return (TfLiteOpaqueTensor*)litedelegate_host->node_tensor(context, node, 1, index);
}
/* Beyond TensorFlow Lite's API: temporary `index` of those that were set. */
static inline TfLiteOpaqueTensor* LiteDelegateNodeGetTemporary(TfLiteOpaqueContext* context,
                                                               const TfLiteOpaqueNode* node,
                                                               int index) {
  return (TfLiteOpaqueTensor*)litedelegate_host->node_tensor(context, node, 2, index);
}
static inline void* TfLiteOpaqueNodeGetUserData(const TfLiteOpaqueNode* node) {
  return litedelegate_host->user_data(node);
}
static inline void* TfLiteOpaqueNodeGetBuiltinData(const TfLiteOpaqueNode* node) {
  (void)node; /* a custom op has none */
  return NULL;
}
static inline TfLiteStatus TfLiteOpaqueNodeGetCustomInitialData(const TfLiteOpaqueNode* node,
                                                                const void** data, int* size) {
  return (TfLiteStatus)litedelegate_host->initial_data(node, data, size);
}
static inline TfLiteStatus TfLiteOpaqueNodeInputs(const TfLiteOpaqueNode* node,
                                                  const int** inputs, int* count) {
  return (TfLiteStatus)litedelegate_host->node_list(node, 0, inputs, count);
}
static inline TfLiteStatus TfLiteOpaqueNodeOutputs(const TfLiteOpaqueNode* node,
                                                   const int** outputs, int* count) {
  return (TfLiteStatus)litedelegate_host->node_list(node, 1, outputs, count);
}
static inline TfLiteStatus TfLiteOpaqueNodeTemporaries(const TfLiteOpaqueNode* node,
                                                       const int** temporaries, int* count) {
  return (TfLiteStatus)litedelegate_host->node_list(node, 2, temporaries, count);
}
/* In prepare; the indices are those that TfLiteOpaqueContextAddTensor gave for this node. */
static inline TfLiteStatus TfLiteOpaqueNodeSetTemporaries(TfLiteOpaqueNode* node,
                                                          const int* temporaries, int count) {
  return (TfLiteStatus)litedelegate_host->set_temporaries(node, temporaries, count);
}
static inline int LiteDelegateNodeIndex(const TfLiteOpaqueNode* node, int32_t which, int index) {
  const int* items;
  int count = 0;
  int32_t status = litedelegate_host->node_list(node, which, &items, &count);
  return status || index < 0 || index >= count ? -1 : items[index];
}
static inline int TfLiteOpaqueNodeGetInputTensorIndex(const TfLiteOpaqueNode* node, int index) {
  return LiteDelegateNodeIndex(node, 0, index);
}
static inline int TfLiteOpaqueNodeGetOutputTensorIndex(const TfLiteOpaqueNode* node, int index) {
  return LiteDelegateNodeIndex(node, 1, index);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#include "tflite_async.h"
#include "tflite_tensor.h"

/* ---- the library ---- */

/* LITEDELEGATE_OP_LIBRARY(first, second, ...); once in a library, at file scope: functions without
 * arguments that return `const TfLiteOperator*`, one for each operator. It defines what the loader
 * looks for: the ABI that the library was built for, and the function that hands over its
 * operators, or says in `why` what is wrong and gives -1.
 */
#ifdef __cplusplus
#define LITEDELEGATE_C_ extern "C"
#define LITEDELEGATE_C_DATA_ extern "C"
#else
#define LITEDELEGATE_C_
#define LITEDELEGATE_C_DATA_
#endif

#define LITEDELEGATE_OP_LIBRARY(...)                                                             \
  LITEDELEGATE_C_ LITEDELEGATE_EXPORT const uint32_t litedelegate_op_abi[3];                     \
  LITEDELEGATE_C_ LITEDELEGATE_EXPORT int32_t litedelegate_op_library(                           \
      const LiteDelegateHost* host, const TfLiteOperator** ops, int32_t room, char* why,         \
      int32_t why_room);                                                                         \
  const LiteDelegateHost* litedelegate_host;                                                     \
  const uint32_t litedelegate_op_abi[3] = {LITEDELEGATE_ABI, (uint32_t)sizeof(LiteDelegateHost), \
                                           (uint32_t)sizeof(TfLiteOperator)};                    \
  int32_t litedelegate_op_library(const LiteDelegateHost* host, const TfLiteOperator** ops,      \
                                  int32_t room, char* why, int32_t why_room) {                   \
    const TfLiteOperator* (*const made[])(void) = {__VA_ARGS__};                                 \
    int32_t count = (int32_t)(sizeof made / sizeof made[0]);                                     \
    return LiteDelegateHandOver(host, made, count, ops, room, why, why_room);                    \
  }                                                                                              \
  typedef int litedelegate_a_semicolon_follows

static inline int32_t LiteDelegateHandOver(const LiteDelegateHost* host,
                                           const TfLiteOperator* (*const* made)(void),
                                           int32_t count, const TfLiteOperator** ops, int32_t room,
                                           char* why, int32_t why_room) {
  int32_t i;
  if (host->abi != LITEDELEGATE_ABI || host->size < sizeof(LiteDelegateHost)) {
    snprintf(why, (size_t)why_room,
             "the library was built for ABI %d with a table of %d bytes, the runtime has ABI %d "
             "with %d bytes",
             (int)LITEDELEGATE_ABI, (int)sizeof(LiteDelegateHost), (int)host->abi,
             (int)host->size);
    return -1;
  }
  if (count > room) {
    snprintf(why, (size_t)why_room, "it has %d operators, at most %d are taken", (int)count,
             (int)room);
    return -1;
  }
  litedelegate_host = host;
  for (i = 0; i < count; ++i) ops[i] = made[i]();
  return count;
}

#endif /* LITEDELEGATE_TFLITE_CUSTOM_OP_H_ */
