/* External delegates for tests: they add, and fail where their options say so. Options, as text:
 *   mode     "plain", "opaque" or "operator" (a plain one whose kernel is a registration_external)
 *   op       the builtin operator to take, 0 (ADD) by default
 *   dynamic  "1": allows dynamic tensors
 *   buffers  "1": has buffer handles
 *   fail     "create", "prepare", "init", "kernel prepare", "invoke", "plan in invoke", "replace twice"
 *            or "bad calls"
 *   log      a file that what happens is written to, a letter each
 */
#include "litedelegate/tflite_common.h"

#include <stdio.h>

typedef struct {
  TfLiteDelegate delegate; /* first: the pointers are the same */
  TfLiteOpaqueDelegateBuilder builder;
  TfLiteOperator* dummy;
  char mode[16], fail[32], log[256];
  int op, buffers, invokes;
  float room[4][64]; /* the buffers that handles 0 to 3 stand for */
} State;

/* As TensorFlow Lite's C API lays a TfLiteOperator out; here it has another form. */
typedef struct {
  const char* custom_name;
  int version;
  void* (*init)(TfLiteContext*, const char*, size_t);
  void (*free)(TfLiteContext*, void*);
  TfLiteStatus (*prepare)(TfLiteContext*, TfLiteNode*);
  TfLiteStatus (*invoke)(TfLiteContext*, TfLiteNode*);
  void* async_kernel;
  int32_t builtin_code;
  int node_index;
  uint64_t inplace_operator;
  void* user_data;
  void* (*init_with_data)(void*, TfLiteContext*, const char*, size_t);
  void (*free_with_data)(void*, TfLiteContext*, void*);
  TfLiteStatus (*prepare_with_data)(void*, TfLiteContext*, TfLiteNode*);
  TfLiteStatus (*invoke_with_data)(void*, TfLiteContext*, TfLiteNode*);
  void* async_kernel_with_data;
} Operator;

static void note(State* state, char what) {
  FILE* file = state->log[0] ? fopen(state->log, "a") : NULL;
  if (!file) return;
  fputc(what, file);
  fclose(file);
}

static int is(const char* a, const char* b) { return strcmp(a, b) == 0; }

/* ---- the kernel: nodes of its partition in turn, ADD or (for others) a copy of input 0 ---- */

typedef struct {
  int inputs[2], output;
} Step;

typedef struct {
  State* state;
  int count, scratch;
  Step steps[32];
  float values[64][64]; /* of tensors that are the partition's own, by number */
} Kernel;

static void* Init(TfLiteContext* context, const char* buffer, size_t length) {
  TfLiteIntArray* nodes;
  State* state;
  Kernel* kernel = (Kernel*)calloc(1, sizeof(Kernel));
  int i;
  (void)length;
  state = (State*)((const TfLiteDelegateParams*)(const void*)buffer)->delegate;
  if (state->delegate.opaque_delegate_builder) {
    const TfLiteOpaqueDelegateParams* params = (const TfLiteOpaqueDelegateParams*)(const void*)buffer;
    if (params->delegate_data != state->builder.data) return (void*)(intptr_t)-1;
    nodes = params->nodes_to_replace;
  } else {
    nodes = ((const TfLiteDelegateParams*)(const void*)buffer)->nodes_to_replace;
  }
  note(state, 'i');
  if (is(state->fail, "init")) {
    context->ReportError(context, "init of a partition of %d nodes fails", nodes->size);
    free(kernel);
    return (void*)(intptr_t)-1;
  }
  kernel->state = state;
  kernel->scratch = -1;
  kernel->count = nodes->size;
  for (i = 0; i < nodes->size && i < 32; ++i) {
    TfLiteNode* node;
    TfLiteRegistration* registration;
    if (context->GetNodeAndRegistration(context, nodes->data[i], &node, &registration)) return NULL;
    kernel->steps[i].inputs[0] = node->inputs->data[0];
    kernel->steps[i].inputs[1] = node->inputs->size > 1 ? node->inputs->data[1] : -1;
    kernel->steps[i].output = node->outputs->data[0];
  }
  return kernel;
}

static void Free(TfLiteContext* context, void* data) {
  Kernel* kernel = (Kernel*)data;
  (void)context;
  note(kernel->state, 'f');
  free(kernel);
}

static TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  Kernel* kernel = (Kernel*)node->user_data;
  TfLiteTensor* temporary;
  TfLiteIntArray* size;
  TfLiteIntArray* plan;
  note(kernel->state, 'p');
  if (is(kernel->state->fail, "kernel prepare")) {
    context->ReportError(context, "prepare fails: %s %5.2f %-3d| %lld %c%%", "because", 1.5, -7,
                         123456789012LL, 'x');
    return kTfLiteError;
  }
  /* a temporary of a shape of its own */
  if (kernel->scratch < 0 && context->AddTensors(context, 1, &kernel->scratch)) return kTfLiteError;
  TfLiteIntArrayFree(node->temporaries);
  node->temporaries = TfLiteIntArrayCreate(1);
  node->temporaries->data[0] = kernel->scratch;
  temporary = &context->tensors[kernel->scratch];
  temporary->type = kTfLiteFloat32;
  temporary->allocation_type = kTfLiteArenaRw;
  size = TfLiteIntArrayCreate(2);
  size->data[0] = 3;
  size->data[1] = 5;
  if (context->ResizeTensor(context, temporary, size)) return kTfLiteError;
  if (temporary->bytes != 60) return kTfLiteError;
  (void)plan;
  return kTfLiteOk;
}

static int count(const TfLiteTensor* tensor) {
  int i, n = 1;
  for (i = 0; i < tensor->dims->size; ++i) n *= tensor->dims->data[i];
  return n;
}

/* Where a tensor is: in a buffer, in memory, or in the kernel. */
static float* place(Kernel* kernel, TfLiteTensor* tensor, int index) {
  if (tensor->buffer_handle != kTfLiteNullBufferHandle && tensor->delegate == &kernel->state->delegate)
    return kernel->state->room[tensor->buffer_handle];
  return tensor->data.f ? tensor->data.f : kernel->values[index];
}

static TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode* node) {
  Kernel* kernel = (Kernel*)node->user_data;
  TfLiteTensor* temporary = &context->tensors[node->temporaries->data[0]];
  TfLiteIntArray* plan;
  int i, j;
  note(kernel->state, 'v');
  if (context->GetTensor && /* which Google's runtime leaves out */
      context->GetTensor(context, node->temporaries->data[0]) != temporary)
    return kTfLiteError;
  if (is(kernel->state->fail, "invoke") && ++kernel->state->invokes > 1) {
    context->ReportError(context, "invoke number %d fails", kernel->state->invokes);
    return kTfLiteError;
  }
  if (is(kernel->state->fail, "plan in invoke") && context->GetExecutionPlan(context, &plan))
    return kTfLiteDelegateError;
  for (i = 0; i < 15; ++i) temporary->data.f[i] = (float)i;
  for (i = 0; i < kernel->count; ++i) {
    const Step* step = &kernel->steps[i];
    TfLiteTensor* a = &context->tensors[step->inputs[0]];
    TfLiteTensor* b = step->inputs[1] < 0 ? NULL : &context->tensors[step->inputs[1]];
    TfLiteTensor* y = &context->tensors[step->output];
    float *from, *with, *to;
    if (y->allocation_type == kTfLiteDynamic &&
        context->ResizeTensor(context, y, TfLiteIntArrayCopy(a->dims)))
      return kTfLiteError;
    from = place(kernel, a, step->inputs[0]);
    with = b ? place(kernel, b, step->inputs[1]) : NULL;
    to = place(kernel, y, step->output);
    for (j = 0; j < count(a); ++j) to[j] = from[j] + (with ? with[count(b) == 1 ? 0 : j] : 0.0f);
    if (y->buffer_handle != kTfLiteNullBufferHandle) y->data_is_stale = true;
  }
  return kTfLiteOk;
}

/* ---- the delegate ---- */

/* Calls that make no sense: how many were taken for good ones. */
static int bad_calls(TfLiteContext* context, TfLiteDelegate* delegate) {
  TfLiteTensor stray;
  TfLiteNode* node;
  TfLiteRegistration* registration;
  TfLiteRegistration empty;
  TfLiteContext* other;
  TfLiteDelegateParams* partitions;
  TfLiteIntArray* nodes = TfLiteIntArrayCreate(1);
  TfLiteIntArray* huge = TfLiteIntArrayCreate(1);
  const char* data;
  size_t bytes;
  int taken = 0, n = 0, minus = -1, more = 5;
  memset(&stray, 0, sizeof stray);
  memset(&empty, 0, sizeof empty);
  nodes->data[0] = 9999;
  huge->data[0] = -3;
  taken += !context->GetNodeAndRegistration(context, 9999, &node, &registration);
  taken += !context->GetNodeAndRegistration(context, -1, &node, &registration);
  taken += context->GetTensor && context->GetTensor(context, -5) != NULL;
  taken += context->GetTensor && context->GetTensor(context, 1 << 20) != NULL;
  taken += !context->PreviewDelegatePartitioning(context, nodes, &partitions, &n);
  taken += !context->ReplaceNodeSubsetsWithDelegateKernels(context, empty, nodes, delegate);
  empty.invoke = Invoke;
  taken += !context->ReplaceNodeSubsetsWithDelegateKernels(context, empty, nodes, delegate);
  taken += !context->ResizeTensor(context, &context->tensors[0], TfLiteIntArrayCopy(nodes));
  taken += !context->ResizeTensor(context, &context->tensors[0], NULL);
  taken += !context->ResizeTensor(context, &context->tensors[0], huge);
  taken += !context->ResizeTensor(context, &stray, TfLiteIntArrayCopy(nodes));
  taken += !context->ResizeTensorExplicit(context, &context->tensors[0], 1, &more);
  taken += !context->ResizeTensorExplicit(context, &context->tensors[0], 1, &minus);
  taken += !context->AddTensors(context, -1, &n);
  taken += !context->AcquireSubgraphContext(context, 9, &other);
  taken += !context->AcquireSubgraphContext(context, -1, &other);
  taken += !context->ReleaseSubgraphContext(context, 1);
  taken += !context->GetModelMetadata(context, "nobody", &data, &bytes);
  taken += context->GetExternalContext(context, 3) != NULL;
  context->SetExternalContext(context, 3, (struct TfLiteExternalContext*)(void*)nodes);
  taken += context->GetExternalContext(context, 3) != (struct TfLiteExternalContext*)(void*)nodes;
  context->ReportError(context, "%d bad calls are taken", taken);
  TfLiteIntArrayFree(nodes);
  return taken;
}

/* Looks at all other subgraphs, and says what is there. */
static TfLiteStatus look_around(TfLiteContext* context, TfLiteDelegate* delegate) {
  State* state = (State*)delegate;
  TfLiteContext *other, *again;
  int i, j;
  for (i = 0; i < 3; ++i) {
    TfLiteIntArray* plan;
    int mine = 0;
    if (context->AcquireSubgraphContext(context, i, &other) ||
        context->AcquireSubgraphContext(context, i, &again) || other != again ||
        context->ReleaseSubgraphContext(context, i) || other->GetExecutionPlan(other, &plan))
      return kTfLiteError;
    for (j = 0; j < plan->size; ++j) {
      TfLiteNode* node;
      TfLiteRegistration* of;
      if (other->GetNodeAndRegistration(other, plan->data[j], &node, &of)) return kTfLiteError;
      if (of->builtin_code == state->op &&
          other->tensors[node->inputs->data[0]].dims->data[0] == 4)
        ++mine;
    }
    context->ReportError(context, "subgraph %d: %d of %d nodes, %d tensors", i, mine, plan->size,
                         (int)other->tensors_size);
    if (i && is(state->fail, "takes around")) {
      TfLiteRegistration registration;
      memset(&registration, 0, sizeof registration);
      registration.invoke = Invoke;
      if (other->ReplaceNodeSubsetsWithDelegateKernels(other, registration, plan, delegate))
        return kTfLiteError;
    }
    if (context->ReleaseSubgraphContext(context, i)) return kTfLiteError;
  }
  return kTfLiteOk;
}

static TfLiteStatus PrepareDelegate(TfLiteContext* context, TfLiteDelegate* delegate) {
  static Operator operators[1];
  State* state = (State*)delegate;
  TfLiteRegistration registration;
  TfLiteDelegateParams* partitions;
  TfLiteIntArray *plan, *taken;
  int i, parts = 0;
  note(state, 'P');
  if (context->GetExecutionPlan(context, &plan)) return kTfLiteError;
  if (is(state->fail, "looks around") || is(state->fail, "takes around"))
    return look_around(context, delegate);
  if (is(state->fail, "bad calls")) return bad_calls(context, delegate) ? kTfLiteError : kTfLiteOk;
  taken = TfLiteIntArrayCreate(plan->size);
  taken->size = 0;
  for (i = 0; i < plan->size; ++i) {
    TfLiteNode* node;
    TfLiteRegistration* of;
    if (context->GetNodeAndRegistration(context, plan->data[i], &node, &of)) return kTfLiteError;
    if (of->builtin_code == state->op) taken->data[taken->size++] = plan->data[i];
  }
  if (is(state->fail, "prepare")) {
    context->ReportError(context, "%d of %d nodes, and then nothing: %s", taken->size, plan->size,
                         "it was told to fail");
    TfLiteIntArrayFree(taken);
    return kTfLiteDelegateError;
  }
  if (context->PreviewDelegatePartitioning(context, taken, &partitions, &parts))
    return kTfLiteError;
  for (i = 0; i < parts; ++i)
    if (partitions[i].nodes_to_replace->size < 1 || partitions[i].output_tensors->size < 1)
      return kTfLiteError;
  memset(&registration, 0, sizeof registration);
  registration.custom_name = "AddingKernel";
  registration.version = 1;
  if (is(state->mode, "plain")) {
    registration.init = Init;
    registration.free = Free;
    registration.prepare = Prepare;
    registration.invoke = Invoke;
  } else {
    memset(operators, 0, sizeof operators);
    operators[0].custom_name = "OpaqueAddingKernel";
    operators[0].version = 1;
    operators[0].init = Init;
    operators[0].free = Free;
    operators[0].prepare = Prepare;
    operators[0].invoke = Invoke;
    operators[0].builtin_code = 51;
    operators[0].node_index = -1;
    registration.registration_external = (TfLiteOperator*)(void*)operators;
  }
  i = (int)context->ReplaceNodeSubsetsWithDelegateKernels(context, registration, taken, delegate);
  if (i == kTfLiteOk && is(state->fail, "replace twice"))
    i = (int)context->ReplaceNodeSubsetsWithDelegateKernels(context, registration, taken, delegate);
  TfLiteIntArrayFree(taken);
  return (TfLiteStatus)i;
}

static TfLiteStatus OpaquePrepare(TfLiteOpaqueContext* context, TfLiteDelegate* delegate,
                                  void* data) {
  if (data != (void*)delegate) return kTfLiteError;
  return PrepareDelegate((TfLiteContext*)(void*)context, delegate);
}

static TfLiteStatus CopyFrom(TfLiteContext* context, TfLiteDelegate* delegate,
                             TfLiteBufferHandle handle, TfLiteTensor* tensor) {
  State* state = (State*)delegate;
  note(state, '<');
  if (handle < 0 || handle > 3) {
    context->ReportError(context, "there is no buffer %d", handle);
    return kTfLiteError;
  }
  memcpy(tensor->data.raw, state->room[handle], tensor->bytes);
  return kTfLiteOk;
}

static TfLiteStatus CopyTo(TfLiteContext* context, TfLiteDelegate* delegate,
                           TfLiteBufferHandle handle, TfLiteTensor* tensor) {
  (void)context;
  note((State*)delegate, '>');
  memcpy(((State*)delegate)->room[handle], tensor->data.raw, tensor->bytes);
  return kTfLiteOk;
}

static void FreeHandle(TfLiteContext* context, TfLiteDelegate* delegate,
                       TfLiteBufferHandle* handle) {
  (void)context;
  note((State*)delegate, '-');
  *handle = kTfLiteNullBufferHandle;
}

static void set(char* to, size_t room, const char* from) {
  strncpy(to, from, room - 1);
  to[room - 1] = 0;
}

LITEDELEGATE_EXPORT TfLiteDelegate* tflite_plugin_create_delegate(
    const char* const* keys, const char* const* values, size_t n, void (*report)(const char*));
LITEDELEGATE_EXPORT void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate);

TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values,
                                              size_t n, void (*report)(const char*)) {
  State* state = (State*)calloc(1, sizeof(State));
  size_t i;
  set(state->mode, sizeof state->mode, "plain");
  for (i = 0; i < n; ++i) {
    if (is(keys[i], "mode")) set(state->mode, sizeof state->mode, values[i]);
    else if (is(keys[i], "fail")) set(state->fail, sizeof state->fail, values[i]);
    else if (is(keys[i], "log")) set(state->log, sizeof state->log, values[i]);
    else if (is(keys[i], "op")) state->op = atoi(values[i]);
    else if (is(keys[i], "dynamic")) state->delegate.flags |= atoi(values[i]);
    else if (is(keys[i], "buffers")) state->buffers = atoi(values[i]);
    else {
      char text[128];
      snprintf(text, sizeof text, "there is no option %.40s (with the value %.40s)", keys[i],
               values[i]);
      if (report) report(text);
      free(state);
      return NULL;
    }
  }
  if (is(state->fail, "create")) {
    free(state);
    return NULL;
  }
  note(state, 'c');
  if (is(state->mode, "opaque")) {
    state->builder.data = state;
    state->builder.Prepare = OpaquePrepare;
    state->builder.flags = state->delegate.flags;
    state->delegate.opaque_delegate_builder = &state->builder;
  } else {
    state->delegate.data_ = state;
    state->delegate.Prepare = PrepareDelegate;
    if (state->buffers) {
      state->delegate.CopyFromBufferHandle = CopyFrom;
      state->delegate.CopyToBufferHandle = CopyTo;
      state->delegate.FreeBufferHandle = FreeHandle;
    }
  }
  return &state->delegate;
}

void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) {
  note((State*)delegate, 'd');
  free(delegate);
}
