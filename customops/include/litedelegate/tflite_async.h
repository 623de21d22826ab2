/* The asynchronous kernel of tflite_custom_op.h, which includes this: an operator that starts its
 * work in eval, and is waited for. `Interpreter.invoke_async` drives it.
 *
 * The order of calls: for each input and output the types that are supported, the attributes of its
 * buffer and of its synchronisation (reconcile, then set), and register_buffer; then prepare. For
 * each run eval, wait and finish with one task. At last unregister_buffer. The runtime registers
 * host memory (LITEDELEGATE_HOST_MEMORY) and synchronises by wait (kTfLiteSyncTypeNoSyncObj): what
 * takes neither is refused. Buffers, attribute maps and contexts that a function is given are good
 * until it returns; the memory that a buffer points to until it is unregistered, and a task until
 * finish returns. A task can be used from the operator's own threads.
 */
#ifndef LITEDELEGATE_TFLITE_ASYNC_H_
#define LITEDELEGATE_TFLITE_ASYNC_H_

#include <stdbool.h>

#include "tflite_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LITEDELEGATE_HOST_MEMORY "host_memory"
#define kTfLiteSyncTypeNoSyncObj "no_sync_obj"

typedef enum TfLiteAttrMapType {
  kTfLiteAttrMapTypeUnknown = 0,
  kTfLiteAttrMapTypeBuffer = 1,
  kTfLiteAttrMapTypeSync = 2
} TfLiteAttrMapType;

typedef enum TfLiteBufferAttrKey {
  kTfLiteBufferAttrKeyUnknown = 0,
  kTfLiteBufferAttrKeyResourceTypeName = 1,
  kTfLiteBufferAttrKeyAlignment = 2,
  kTfLiteBufferAttrKeyPadding = 3,
  kTfLiteBufferAttrKeyOffset = 4,
  kTfLiteBufferAttrKeySize = 5,
  kTfLiteBufferAttrKeyCurrentHostCoherencyState = 6,
  kTfLiteBufferAttrKeyPreferredHostCoherencyState = 7,
  kTfLiteBufferAttrKeyCurrentHostCacheState = 8,
  kTfLiteBufferAttrKeyPreferredHostCacheState = 9
} TfLiteBufferAttrKey;

typedef enum TfLiteSynchronizationAttrKey {
  kTfLiteSynchronizationAttrKeyUnknown = 0,
  kTfLiteSynchronizationAttrKeyObjectTypeName = 1
} TfLiteSynchronizationAttrKey;

/* ---- the kernel: TfLiteAsyncKernelDelete is the operator's to call, in its free ---- */

static inline TfLiteAsyncKernel* TfLiteAsyncKernelCreate(void* kernel_data) {
  TfLiteAsyncKernel* made = (TfLiteAsyncKernel*)calloc(1, sizeof(TfLiteAsyncKernel));
  if (!made) return NULL;
  made->size = (uint32_t)sizeof(TfLiteAsyncKernel);
  made->kernel_data = kernel_data;
  return made;
}
static inline void TfLiteAsyncKernelDelete(TfLiteAsyncKernel* kernel) { free(kernel); }
static inline void* TfLiteAsyncKernelGetKernelData(const TfLiteAsyncKernel* kernel) {
  return kernel->kernel_data;
}

static inline void TfLiteAsyncKernelSetRegisterBuffer(
    TfLiteAsyncKernel* kernel,
    TfLiteStatus (*register_buffer)(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                                    TfLiteIoType io_type, const TfLiteBackendBuffer* buffer,
                                    const TfLiteAttributeMap* attributes,
                                    TfLiteBufferHandle handle)) {
  kernel->register_buffer = register_buffer;
}
/* Kept, but not called: the runtime registers whole buffers. */
static inline void TfLiteAsyncKernelSetRegisterBufferSlice(
    TfLiteAsyncKernel* kernel,
    TfLiteStatus (*register_slice)(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                                   TfLiteBufferHandle pool, const TfLiteAttributeMap* attributes,
                                   TfLiteBufferHandle handle)) {
  kernel->register_buffer_slice = register_slice;
}
static inline void TfLiteAsyncKernelSetUnregisterBuffer(
    TfLiteAsyncKernel* kernel,
    TfLiteStatus (*unregister_buffer)(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                                      TfLiteBufferHandle handle)) {
  kernel->unregister_buffer = unregister_buffer;
}
static inline void TfLiteAsyncKernelSetSupportedBufferTypes(
    TfLiteAsyncKernel* kernel,
    void (*supported)(const TfLiteAsyncKernel* kernel, TfLiteIoType io_type,
                      const char* const** types, size_t* count)) {
  kernel->supported_buffer_types = supported;
}
static inline void TfLiteAsyncKernelSetSupportedSynchronizations(
    TfLiteAsyncKernel* kernel,
    void (*supported)(const TfLiteAsyncKernel* kernel, TfLiteIoType io_type,
                      const char* const** types, size_t* count)) {
  kernel->supported_synchronizations = supported;
}
static inline void TfLiteAsyncKernelSetReconcileRestrictions(
    TfLiteAsyncKernel* kernel,
    bool (*reconcile)(const TfLiteAsyncKernel* kernel, const TfLiteOpaqueContext* context,
                      const TfLiteOpaqueNode* node, int tensor_index,
                      const TfLiteAttributeMap* wanted, TfLiteAttributeMap* merged,
                      TfLiteAttributeMap* conflict)) {
  kernel->reconcile_restrictions = reconcile;
}
static inline void TfLiteAsyncKernelSetSetAttributes(
    TfLiteAsyncKernel* kernel,
    TfLiteStatus (*set_attributes)(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                                   TfLiteOpaqueNode* node, int tensor_index,
                                   const TfLiteAttributeMap* attributes)) {
  kernel->set_attributes = set_attributes;
}
/* These two are kept, but not called. */
static inline void TfLiteAsyncKernelSetSetBufferAttributes(
    TfLiteAsyncKernel* kernel,
    TfLiteStatus (*set)(TfLiteAsyncKernel* kernel, const TfLiteBackendBuffer* buffer,
                        const TfLiteAttributeMap* attributes)) {
  kernel->set_buffer_attributes = set;
}
static inline void TfLiteAsyncKernelSetGetBufferAttributes(
    TfLiteAsyncKernel* kernel,
    TfLiteStatus (*get)(TfLiteAsyncKernel* kernel, const TfLiteBackendBuffer* buffer,
                        TfLiteAttributeMap* attributes)) {
  kernel->get_buffer_attributes = get;
}
static inline void TfLiteAsyncKernelSetPrepare(
    TfLiteAsyncKernel* kernel,
    TfLiteStatus (*prepare)(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                            TfLiteOpaqueNode* node)) {
  kernel->prepare = prepare;
}
static inline void TfLiteAsyncKernelSetEval(
    TfLiteAsyncKernel* kernel,
    TfLiteStatus (*eval)(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                         TfLiteOpaqueNode* node, TfLiteExecutionTask* task)) {
  kernel->eval = eval;
}
static inline void TfLiteAsyncKernelSetWait(
    TfLiteAsyncKernel* kernel,
    TfLiteStatus (*wait)(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                         TfLiteExecutionTask* task)) {
  kernel->wait = wait;
}
static inline void TfLiteAsyncKernelSetFinish(
    TfLiteAsyncKernel* kernel,
    TfLiteStatus (*finish)(TfLiteAsyncKernel* kernel, TfLiteOpaqueContext* context,
                           TfLiteExecutionTask* task)) {
  kernel->finish = finish;
}

/* ---- buffers and synchronisation objects: a pointer in a box ---- */

static inline TfLiteBackendBuffer* TfLiteBackendBufferCreate(void) {
  return (TfLiteBackendBuffer*)calloc(1, sizeof(TfLiteBackendBuffer));
}
static inline void TfLiteBackendBufferDelete(TfLiteBackendBuffer* buffer) { free(buffer); }
static inline void TfLiteBackendBufferSetPtr(TfLiteBackendBuffer* buffer, void* ptr) {
  buffer->ptr = ptr;
}
static inline void* TfLiteBackendBufferGetPtr(const TfLiteBackendBuffer* buffer) {
  return buffer->ptr;
}
static inline TfLiteSynchronization* TfLiteSynchronizationCreate(void) {
  return (TfLiteSynchronization*)calloc(1, sizeof(TfLiteSynchronization));
}
static inline void TfLiteSynchronizationDelete(TfLiteSynchronization* sync) { free(sync); }
static inline void TfLiteSynchronizationSetPtr(TfLiteSynchronization* sync, void* ptr) {
  sync->ptr = ptr;
}
static inline void* TfLiteSynchronizationGetPtr(const TfLiteSynchronization* sync) {
  return sync->ptr;
}

/* ---- tasks ---- */

static inline TfLiteStatus TfLiteExecutionTaskSetBuffer(TfLiteExecutionTask* task,
                                                        TfLiteIoType io_type, const char* name,
                                                        TfLiteBufferHandle handle) {
  return (TfLiteStatus)litedelegate_host->task_set_buffer(task, (int32_t)io_type, name, -1,
                                                          handle);
}
static inline TfLiteStatus TfLiteExecutionTaskSetBufferByIndex(TfLiteExecutionTask* task,
                                                               int tensor_index,
                                                               TfLiteBufferHandle handle) {
  return (TfLiteStatus)litedelegate_host->task_set_buffer(task, 0, NULL, tensor_index, handle);
}
/* kTfLiteNullBufferHandle where there is none. Names are the tensors'. */
static inline TfLiteBufferHandle TfLiteExecutionTaskGetBufferByName(
    const TfLiteExecutionTask* task, TfLiteIoType io_type, const char* name) {
  return (TfLiteBufferHandle)litedelegate_host->task_buffer(task, (int32_t)io_type, name, -1);
}
static inline TfLiteBufferHandle TfLiteExecutionTaskGetBufferByIndex(
    const TfLiteExecutionTask* task, int tensor_index) {
  return (TfLiteBufferHandle)litedelegate_host->task_buffer(task, 0, NULL, tensor_index);
}
static inline TfLiteStatus TfLiteExecutionTaskSetSync(TfLiteExecutionTask* task,
                                                      TfLiteIoType io_type, const char* name,
                                                      TfLiteSynchronization* sync) {
  return (TfLiteStatus)litedelegate_host->task_set_sync(task, (int32_t)io_type, name, -1, sync);
}
static inline TfLiteStatus TfLiteExecutionTaskSetSyncByIndex(TfLiteExecutionTask* task,
                                                             int tensor_index,
                                                             TfLiteSynchronization* sync) {
  return (TfLiteStatus)litedelegate_host->task_set_sync(task, 0, NULL, tensor_index, sync);
}
static inline TfLiteSynchronization* TfLiteExecutionTaskGetSyncByName(
    const TfLiteExecutionTask* task, TfLiteIoType io_type, const char* name) {
  return (TfLiteSynchronization*)litedelegate_host->task_sync(task, (int32_t)io_type, name, -1);
}
static inline TfLiteSynchronization* TfLiteExecutionTaskGetSyncByIndex(
    const TfLiteExecutionTask* task, int tensor_index) {
  return (TfLiteSynchronization*)litedelegate_host->task_sync(task, 0, NULL, tensor_index);
}
/* The kernel's own, for this task. */
static inline void* TfLiteExecutionTaskGetDelegateExecutionData(const TfLiteExecutionTask* task,
                                                                TfLiteAsyncKernel* kernel) {
  (void)kernel;
  return litedelegate_host->task_data(task);
}
static inline void TfLiteExecutionTaskSetDelegateExecutionData(TfLiteExecutionTask* task,
                                                               TfLiteAsyncKernel* kernel,
                                                               void* data) {
  (void)kernel;
  litedelegate_host->task_set_data(task, data);
}
static inline TfLiteStatus TfLiteExecutionTaskGetStatus(const TfLiteExecutionTask* task) {
  return (TfLiteStatus)litedelegate_host->task_status(task);
}
static inline void TfLiteExecutionTaskSetStatus(TfLiteExecutionTask* task, TfLiteStatus status) {
  litedelegate_host->task_set_status(task, (int32_t)status);
}

/* ---- attributes. What Get gives for a string stays until the map is changed or gone ---- */

static inline TfLiteAttributeMap* TfLiteAttributeMapCreate(TfLiteAttrMapType type) {
  return (TfLiteAttributeMap*)litedelegate_host->map_create((int32_t)type);
}
static inline void TfLiteAttributeMapDelete(TfLiteAttributeMap* map) {
  litedelegate_host->map_delete(map);
}
static inline bool TfLiteAttributeMapIsBufferAttributeMap(const TfLiteAttributeMap* map) {
  return litedelegate_host->map_type(map) == kTfLiteAttrMapTypeBuffer;
}
static inline bool TfLiteAttributeMapIsSyncAttributeMap(const TfLiteAttributeMap* map) {
  return litedelegate_host->map_type(map) == kTfLiteAttrMapTypeSync;
}
static inline void TfLiteAttributeMapCopy(const TfLiteAttributeMap* from, TfLiteAttributeMap* to) {
  litedelegate_host->map_copy(from, to);
}

/* `kind` in the table: 0 int, 1 size_t, 2 const char*, 3 bool; `custom` is NULL for a key. */
#define LITEDELEGATE_ATTRIBUTE_(type, Name, kind)                                                  \
  static inline bool TfLiteAttributeMapGet##Name##Attr(const TfLiteAttributeMap* map,              \
                                                       uint32_t key, type* value) {                \
    return litedelegate_host->map_get(map, kind, key, NULL, value) != 0;                           \
  }                                                                                                \
  static inline void TfLiteAttributeMapSet##Name##Attr(TfLiteAttributeMap* map, uint32_t key,      \
                                                       type value) {                               \
    litedelegate_host->map_set(map, kind, key, NULL, &value);                                      \
  }                                                                                                \
  static inline bool TfLiteAttributeMapGetCustom##Name##Attr(const TfLiteAttributeMap* map,        \
                                                             const char* key, type* value) {       \
    return litedelegate_host->map_get(map, kind, 0, key, value) != 0;                              \
  }                                                                                                \
  static inline void TfLiteAttributeMapSetCustom##Name##Attr(TfLiteAttributeMap* map,              \
                                                             const char* key, type value) {        \
    litedelegate_host->map_set(map, kind, 0, key, &value);                                         \
  }
LITEDELEGATE_ATTRIBUTE_(int, Int, 0)
LITEDELEGATE_ATTRIBUTE_(size_t, SizeT, 1)
LITEDELEGATE_ATTRIBUTE_(const char*, String, 2)
LITEDELEGATE_ATTRIBUTE_(bool, Bool, 3)

/* The same for maps of one type alone: false for a map of the other. */
#define LITEDELEGATE_TYPED_ATTRIBUTE_(type, Name, Kind, Key)                                       \
  static inline bool TfLiteAttributeMapGet##Name##Kind##Attr(const TfLiteAttributeMap* map,        \
                                                             Key key, type* value) {               \
    return TfLiteAttributeMapGet##Name##Attr(map, (uint32_t)key, value);                           \
  }                                                                                                \
  static inline bool TfLiteAttributeMapSet##Name##Kind##Attr(TfLiteAttributeMap* map, Key key,     \
                                                             type value) {                         \
    if (litedelegate_host->map_type(map) != (int32_t)kTfLiteAttrMapType##Kind) return false;       \
    TfLiteAttributeMapSet##Name##Attr(map, (uint32_t)key, value);                                  \
    return true;                                                                                   \
  }
LITEDELEGATE_TYPED_ATTRIBUTE_(size_t, SizeT, Buffer, TfLiteBufferAttrKey)
LITEDELEGATE_TYPED_ATTRIBUTE_(const char*, String, Buffer, TfLiteBufferAttrKey)
LITEDELEGATE_TYPED_ATTRIBUTE_(bool, Bool, Buffer, TfLiteBufferAttrKey)
LITEDELEGATE_TYPED_ATTRIBUTE_(const char*, String, Sync, TfLiteSynchronizationAttrKey)

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LITEDELEGATE_TFLITE_ASYNC_H_ */
