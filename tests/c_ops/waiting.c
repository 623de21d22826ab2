/* Operators with asynchronous kernels: a thread of their own does the work. */
#define _POSIX_C_SOURCE 200112L
#include "litedelegate/flexbuffer_options.h"
#include "litedelegate/tflite_custom_op.h"

#include <pthread.h>
#include <time.h>

/* Later: y = 2 * x, a while after eval has returned. The option "fail" names a step that fails:
 * 1 register, 2 prepare, 3 eval, 4 the thread (seen by wait), 5 reconcile, 6 finish; 7 keeps a map. */
typedef struct {
  int64_t fail, milliseconds;
  TfLiteAsyncKernel* kernel;
  float* memory[64]; /* by handle */
  int registered, ready;
  const TfLiteAttributeMap* kept;
} Later;

typedef struct {
  Later* op;
  TfLiteExecutionTask* task;
  const float* x;
  float* y;
  int64_t n;
  pthread_t thread;
} Work;

static TfLiteStatus Register(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                             TfLiteIoType io_type, const TfLiteBackendBuffer* buffer,
                             const TfLiteAttributeMap* attributes, TfLiteBufferHandle handle) {
  Later* op = (Later*)TfLiteAsyncKernelGetKernelData(kernel);
  const char* type = NULL;
  size_t size = 0;
  int missing = 0;
  if (op->fail == 1) {
    TfLiteOpaqueContextReportError(context, "no room for buffer %d", handle);
    return kTfLiteError;
  }
  TF_LITE_OPAQUE_ENSURE(context, TfLiteAttributeMapIsBufferAttributeMap(attributes));
  TF_LITE_OPAQUE_ENSURE(context, TfLiteAttributeMapGetStringBufferAttr(
                                     attributes, kTfLiteBufferAttrKeyResourceTypeName, &type));
  TF_LITE_OPAQUE_ENSURE(context, !strcmp(type, LITEDELEGATE_HOST_MEMORY));
  TF_LITE_OPAQUE_ENSURE(context, TfLiteAttributeMapGetSizeTBufferAttr(
                                     attributes, kTfLiteBufferAttrKeySize, &size));
  TF_LITE_OPAQUE_ENSURE(context, !TfLiteAttributeMapGetCustomIntAttr(attributes, "no", &missing));
  TF_LITE_OPAQUE_ENSURE(context, size > 0 && handle > 0 && handle < 64);
  TF_LITE_OPAQUE_ENSURE(context, io_type == kTfLiteIoTypeInput || io_type == kTfLiteIoTypeOutput);
  op->memory[handle] = (float*)TfLiteBackendBufferGetPtr(buffer);
  op->kept = attributes;
  op->registered++;
  return kTfLiteOk;
}

static TfLiteStatus Unregister(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                               TfLiteBufferHandle handle) {
  Later* op = (Later*)TfLiteAsyncKernelGetKernelData(kernel);
  TF_LITE_OPAQUE_ENSURE(context, op->memory[handle] != NULL);
  op->memory[handle] = NULL;
  op->registered--;
  return kTfLiteOk;
}

static void BufferTypes(const TfLiteAsyncKernel* kernel, TfLiteIoType io_type,
                        const char* const** types, size_t* count) {
  static const char* const all[] = {"something_else", LITEDELEGATE_HOST_MEMORY};
  (void)kernel;
  (void)io_type;
  *types = all;
  *count = 2;
}

static void Synchronizations(const TfLiteAsyncKernel* kernel, TfLiteIoType io_type,
                             const char* const** types, size_t* count) {
  static const char* const all[] = {kTfLiteSyncTypeNoSyncObj};
  (void)kernel;
  (void)io_type;
  *types = all;
  *count = 1;
}

static bool Reconcile(const TfLiteAsyncKernel* kernel, const TfLiteOpaqueContext* context,
                      const TfLiteOpaqueNode* node, int tensor, const TfLiteAttributeMap* wanted,
                      TfLiteAttributeMap* merged, TfLiteAttributeMap* conflict) {
  const Later* op = (const Later*)TfLiteAsyncKernelGetKernelData(kernel);
  TfLiteAttributeMap* own = TfLiteAttributeMapCreate(kTfLiteAttrMapTypeBuffer);
  bool is_buffer = TfLiteAttributeMapIsBufferAttributeMap(wanted);
  (void)context;
  (void)node;
  (void)tensor;
  TfLiteAttributeMapCopy(wanted, own);
  TfLiteAttributeMapSetCustomIntAttr(own, "seen", 7);
  TfLiteAttributeMapCopy(own, merged);
  TfLiteAttributeMapDelete(own);
  if (op->fail == 5 && is_buffer)
    TfLiteAttributeMapSetSizeTBufferAttr(conflict, kTfLiteBufferAttrKeyAlignment, 4096);
  return op->fail != 5;
}

static TfLiteStatus SetAttributes(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                                  TfLiteOpaqueNode* node, int tensor,
                                  const TfLiteAttributeMap* attributes) {
  int seen = 0;
  (void)kernel;
  (void)node;
  (void)tensor;
  TF_LITE_OPAQUE_ENSURE(context, TfLiteAttributeMapGetCustomIntAttr(attributes, "seen", &seen));
  TF_LITE_OPAQUE_ENSURE_EQ(context, seen, 7);
  return kTfLiteOk;
}

static TfLiteStatus AsyncPrepare(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                                 TfLiteOpaqueNode* node) {
  Later* op = (Later*)TfLiteAsyncKernelGetKernelData(kernel);
  TF_LITE_OPAQUE_ENSURE_MSG(context, op->fail != 2, "the async prepare fails");
  TF_LITE_OPAQUE_ENSURE_EQ(context, op->registered, 2);
  TF_LITE_OPAQUE_ENSURE_EQ(context, TfLiteOpaqueNodeNumberOfInputs(node), 1);
  op->ready = 1;
  return kTfLiteOk;
}

static void* Run(void* data) {
  Work* work = (Work*)data;
  struct timespec pause = {0, 0};
  int64_t i;
  pause.tv_nsec = (long)(1000000 * work->op->milliseconds);
  nanosleep(&pause, NULL);
  for (i = 0; i < work->n; ++i) work->y[i] = 2 * work->x[i];
  if (work->op->fail == 4) TfLiteExecutionTaskSetStatus(work->task, kTfLiteDelegateError);
  return NULL;
}

static TfLiteStatus Eval(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                         TfLiteOpaqueNode* node, TfLiteExecutionTask* task) {
  Later* op = (Later*)TfLiteAsyncKernelGetKernelData(kernel);
  const TfLiteOpaqueTensor* x = TfLiteOpaqueNodeGetInput(context, node, 0);
  int in = TfLiteOpaqueNodeGetInputTensorIndex(node, 0);
  TfLiteBufferHandle out = TfLiteExecutionTaskGetBufferByName(
      task, kTfLiteIoTypeOutput, TfLiteOpaqueTensorName(TfLiteOpaqueNodeGetOutput(context, node, 0)));
  Work* work;
  TF_LITE_OPAQUE_ENSURE(context, op->ready);
  TF_LITE_OPAQUE_ENSURE_MSG(context, op->fail != 3, "eval fails");
  if (op->fail == 7)
    TF_LITE_OPAQUE_ENSURE(context, TfLiteAttributeMapIsBufferAttributeMap(op->kept));
  TF_LITE_OPAQUE_ENSURE(context, TfLiteExecutionTaskGetSyncByIndex(task, in) == NULL);
  work = (Work*)calloc(1, sizeof(Work));
  work->op = op;
  work->task = task;
  work->x = op->memory[TfLiteExecutionTaskGetBufferByIndex(task, in)];
  work->y = op->memory[out];
  work->n = (int64_t)(TfLiteOpaqueTensorByteSize(x) / sizeof(float));
  TfLiteExecutionTaskSetDelegateExecutionData(task, kernel, work);
  return pthread_create(&work->thread, NULL, Run, work) ? kTfLiteError : kTfLiteOk;
}

static TfLiteStatus Wait(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                         TfLiteExecutionTask* task) {
  Work* work = (Work*)TfLiteExecutionTaskGetDelegateExecutionData(task, kernel);
  pthread_join(work->thread, NULL);
  if (TfLiteExecutionTaskGetStatus(task) != kTfLiteOk) {
    TfLiteOpaqueContextReportError(context, "its thread has failed");
    return kTfLiteError;
  }
  return kTfLiteOk;
}

static TfLiteStatus Finish(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                           TfLiteExecutionTask* task) {
  Later* op = (Later*)TfLiteAsyncKernelGetKernelData(kernel);
  free(TfLiteExecutionTaskGetDelegateExecutionData(task, kernel));
  TF_LITE_OPAQUE_ENSURE_MSG(context, op->fail != 6, "finish fails");
  return kTfLiteOk;
}

static void* Init(TfLiteOpaqueContext* context, const char* buffer, size_t length) {
  Later* op = (Later*)calloc(1, sizeof(Later));
  (void)context;
  op->milliseconds = 30;
  LiteDelegateOptionInteger(buffer, length, "fail", &op->fail);
  LiteDelegateOptionInteger(buffer, length, "milliseconds", &op->milliseconds);
  return op;
}

static void Free(TfLiteOpaqueContext* context, void* data) {
  Later* op = (Later*)data;
  if (op->registered)
    TfLiteOpaqueContextReportError(context, "%d buffers are still registered", op->registered);
  TfLiteAsyncKernelDelete(op->kernel);
  free(op);
}

static TfLiteStatus Prepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* x = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteIntArray* size = TfLiteIntArrayCreate(TfLiteOpaqueTensorNumDims(x));
  int i;
  for (i = 0; i < size->size; ++i) size->data[i] = TfLiteOpaqueTensorDim(x, i);
  return TfLiteOpaqueContextResizeTensor(context, TfLiteOpaqueNodeGetOutput(context, node, 0), size);
}

static TfLiteAsyncKernel* Make(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  Later* op = (Later*)TfLiteOpaqueNodeGetUserData(node);
  TfLiteAsyncKernel* kernel = TfLiteAsyncKernelCreate(op);
  (void)context;
  TfLiteAsyncKernelSetRegisterBuffer(kernel, Register);
  TfLiteAsyncKernelSetUnregisterBuffer(kernel, Unregister);
  TfLiteAsyncKernelSetSupportedBufferTypes(kernel, BufferTypes);
  TfLiteAsyncKernelSetSupportedSynchronizations(kernel, Synchronizations);
  TfLiteAsyncKernelSetReconcileRestrictions(kernel, Reconcile);
  TfLiteAsyncKernelSetSetAttributes(kernel, SetAttributes);
  TfLiteAsyncKernelSetPrepare(kernel, AsyncPrepare);
  TfLiteAsyncKernelSetEval(kernel, Eval);
  TfLiteAsyncKernelSetWait(kernel, Wait);
  TfLiteAsyncKernelSetFinish(kernel, Finish);
  op->kernel = kernel;
  return kernel;
}

static const TfLiteOperator* LaterOp(void) {
  TfLiteRegistrationExternal* op =
      TfLiteRegistrationExternalCreate(kTfLiteBuiltinCustom, "Later", 1, NULL);
  TfLiteRegistrationExternalSetInit(op, Init);
  TfLiteRegistrationExternalSetFree(op, Free);
  TfLiteRegistrationExternalSetPrepare(op, Prepare);
  TfLiteRegistrationExternalSetAsyncKernel(op, Make);
  return op;
}

/* Both: an invoke as well, which gives 3 * x, so that one sees which was used. */
static TfLiteStatus Triple(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* x = TfLiteOpaqueNodeGetInput(context, node, 0);
  const float* from = (const float*)TfLiteOpaqueTensorData(x);
  float* to = (float*)TfLiteOpaqueTensorData(TfLiteOpaqueNodeGetOutput(context, node, 0));
  size_t i;
  for (i = 0; i < TfLiteOpaqueTensorByteSize(x) / sizeof(float); ++i) to[i] = 3 * from[i];
  return kTfLiteOk;
}

static TfLiteAsyncKernel* MakeWithData(void* data, TfLiteOpaqueContext* context,
                                       TfLiteOpaqueNode* node) {
  return *(int*)data == 5 ? Make(context, node) : NULL;
}

static const TfLiteOperator* BothOp(void) {
  static int five = 5;
  TfLiteOperator* op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Both", 1, &five);
  TfLiteOperatorSetInit(op, Init);
  TfLiteOperatorSetFree(op, Free);
  TfLiteOperatorSetPrepare(op, Prepare);
  TfLiteOperatorSetInvoke(op, Triple);
  TfLiteOperatorSetAsyncKernelWithData(op, MakeWithData);
  return op;
}

LITEDELEGATE_OP_LIBRARY(LaterOp, BothOp);
