/* Operators of the classic kind: TfLiteRegistration* Register_X(void), over TensorFlow Lite's own
 * structs, in the ways that its own operators are written. Builds as C99 and as C++11.
 */
#include "litedelegate/flexbuffer_options.h"
#include "litedelegate/tflite_common.h"

#ifdef __cplusplus
#define API extern "C" LITEDELEGATE_EXPORT
#else
#define API LITEDELEGATE_EXPORT
#endif

static TfLiteTensor* tensor(TfLiteContext* context, const TfLiteIntArray* list, int i) {
  return &context->tensors[list->data[i]];
}

static int64_t count(const TfLiteTensor* t) {
  int64_t n = 1;
  int i;
  for (i = 0; i < t->dims->size; ++i) n *= t->dims->data[i];
  return n;
}

/* Scale: y = x * factor, where the options have a factor; counts its calls in a temporary that is
 * kept, and fails at the count in the option "fail". */
typedef struct {
  double factor;
  int64_t fail;
  int first; /* of two temporaries */
} Scale;

static void* ScaleInit(TfLiteContext* context, const char* buffer, size_t length) {
  Scale* scale = (Scale*)calloc(1, sizeof(Scale));
  scale->factor = 1.0;
  LiteDelegateOptionNumber(buffer, length, "factor", &scale->factor);
  LiteDelegateOptionInteger(buffer, length, "fail", &scale->fail);
  if (scale->factor < 0.0) {
    context->ReportError(context, "a factor of %g", scale->factor);
    free(scale);
    return (void*)(intptr_t)-1;
  }
  context->AddTensors(context, 2, &scale->first);
  return scale;
}

static void ScaleFree(TfLiteContext* context, void* data) {
  (void)context;
  free(data);
}

static TfLiteStatus ScalePrepare(TfLiteContext* context, TfLiteNode* node) {
  Scale* scale = (Scale*)node->user_data;
  TfLiteTensor* x = tensor(context, node->inputs, 0);
  TfLiteTensor* calls;
  TfLiteTensor* room;
  TfLiteIntArray* one;
  if (x->type != kTfLiteFloat32) {
    context->ReportError(context, "%s:%d %s != %s", "input", 0, TfLiteTypeGetName(x->type),
                         TfLiteTypeGetName(kTfLiteFloat32));
    return kTfLiteError;
  }
  TfLiteIntArrayFree(node->temporaries);
  node->temporaries = TfLiteIntArrayCreate(2);
  node->temporaries->data[0] = scale->first;
  node->temporaries->data[1] = scale->first + 1;
  calls = tensor(context, node->temporaries, 0);
  calls->type = kTfLiteInt64;
  calls->allocation_type = kTfLiteArenaRwPersistent;
  one = TfLiteIntArrayCreate(1);
  one->data[0] = 1;
  if (context->ResizeTensor(context, calls, one)) return kTfLiteError;
  room = tensor(context, node->temporaries, 1);
  room->type = kTfLiteFloat32;
  room->allocation_type = kTfLiteArenaRw;
  if (context->ResizeTensorExplicit(context, room, x->dims->size, x->dims->data))
    return kTfLiteError;
  return context->ResizeTensor(context, tensor(context, node->outputs, 0),
                               TfLiteIntArrayCopy(x->dims));
}

static TfLiteStatus ScaleInvoke(TfLiteContext* context, TfLiteNode* node) {
  const Scale* scale = (const Scale*)node->user_data;
  const TfLiteTensor* x = tensor(context, node->inputs, 0);
  TfLiteTensor* y = tensor(context, node->outputs, 0);
  TfLiteTensor* room = tensor(context, node->temporaries, 1);
  int64_t* calls = tensor(context, node->temporaries, 0)->data.i64;
  int64_t i;
  if (y->bytes != x->bytes || room->bytes != x->bytes) return kTfLiteError;
  for (i = 0; i < count(x); ++i) room->data.f[i] = (float)(x->data.f[i] * scale->factor);
  memcpy(y->data.raw, room->data.raw, y->bytes);
  if (++*calls == scale->fail) {
    context->ReportError(context, "call %lld fails", (long long)*calls);
    return kTfLiteError;
  }
  return kTfLiteOk;
}

API TfLiteRegistration* Register_Scale(void) {
  static TfLiteRegistration made;
  made.init = ScaleInit;
  made.free = ScaleFree;
  made.prepare = ScalePrepare;
  made.invoke = ScaleInvoke;
  made.custom_name = "ClassicScale";
  made.version = 2;
  return &made;
}

/* Positive: the elements above 0, in a tensor whose shape invoke settles. */
static TfLiteStatus PositivePrepare(TfLiteContext* context, TfLiteNode* node) {
  TfLiteTensor* y = tensor(context, node->outputs, 0);
  y->data.raw = NULL;
  y->allocation_type = kTfLiteDynamic;
  return kTfLiteOk;
}

static TfLiteStatus PositiveInvoke(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* x = tensor(context, node->inputs, 0);
  TfLiteTensor* y = tensor(context, node->outputs, 0);
  TfLiteIntArray* size = TfLiteIntArrayCreate(1);
  int64_t i;
  int n = 0;
  for (i = 0; i < count(x); ++i) n += x->data.f[i] > 0;
  size->data[0] = n;
  if (context->ResizeTensor(context, y, size)) return kTfLiteError;
  for (i = 0, n = 0; i < count(x); ++i)
    if (x->data.f[i] > 0) y->data.f[n++] = x->data.f[i];
  return kTfLiteOk;
}

API TfLiteRegistration* Register_POSITIVE(void) {
  static TfLiteRegistration made; /* no name of its own: it is what follows Register_ */
  made.prepare = PositivePrepare;
  made.invoke = PositiveInvoke;
  return &made;
}

/* Doubled: strings, each twice. As TensorFlow Lite's string helpers do, it frees what the tensor
 * has and puts memory of its own there. */
static TfLiteStatus DoubledInvoke(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* x = tensor(context, node->inputs, 0);
  TfLiteTensor* y = tensor(context, node->outputs, 0);
  const int32_t* head = x->data.i32;
  int32_t n = head[0], at = 4 * (n + 2), i, bytes = at;
  char* made;
  for (i = 0; i < n; ++i) bytes += 2 * (head[i + 2] - head[i + 1]);
  made = (char*)malloc((size_t)bytes);
  memcpy(made, &n, 4);
  memcpy(made + 4, &at, 4);
  for (i = 0; i < n; ++i) {
    size_t length = (size_t)(head[i + 2] - head[i + 1]);
    memcpy(made + at, x->data.raw + head[i + 1], length);
    memcpy(made + at + length, x->data.raw + head[i + 1], length);
    at += (int32_t)(2 * length);
    memcpy(made + 4 * (i + 2), &at, 4);
  }
  free(y->data.raw);
  TfLiteIntArrayFree(y->dims);
  y->dims = TfLiteIntArrayCreate(1);
  y->dims->data[0] = n;
  y->data.raw = made;
  y->bytes = (size_t)bytes;
  y->allocation_type = kTfLiteDynamic;
  return kTfLiteOk;
}

API TfLiteRegistration* Register_DOUBLED(void) {
  static TfLiteRegistration made;
  made.prepare = PositivePrepare;
  made.invoke = DoubledInvoke;
  return &made;
}

/* Channels: the scales of its input, per channel; and (Rows) the value of a constant in prepare. */
static TfLiteStatus ChannelsPrepare(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* x = tensor(context, node->inputs, 0);
  const TfLiteTensor* rows = tensor(context, node->inputs, 1);
  TfLiteIntArray* size = TfLiteIntArrayCreate(2);
  const TfLiteAffineQuantization* affine = (const TfLiteAffineQuantization*)x->quantization.params;
  if (x->quantization.type != kTfLiteAffineQuantization || rows->allocation_type != kTfLiteMmapRo)
    return kTfLiteError;
  size->data[0] = rows->data.i32[0];
  size->data[1] = affine->scale->size;
  return context->ResizeTensor(context, tensor(context, node->outputs, 0), size);
}

static TfLiteStatus ChannelsInvoke(TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* x = tensor(context, node->inputs, 0);
  TfLiteTensor* y = tensor(context, node->outputs, 0);
  const TfLiteAffineQuantization* affine = (const TfLiteAffineQuantization*)x->quantization.params;
  int i, n = affine->scale->size;
  for (i = 0; i < count(y); ++i) y->data.f[i] = affine->scale->data[i % n];
  return kTfLiteOk;
}

API TfLiteRegistration* Register_CHANNELS(void) {
  static TfLiteRegistration made;
  made.prepare = ChannelsPrepare;
  made.invoke = ChannelsInvoke;
  return &made;
}

/* External: as TensorFlow Lite's C API lays a TfLiteOperator out; its functions are given the
 * operator's user data first. */
typedef struct {
  const char* custom_name;
  int version;
  void *init, *free, *prepare, *invoke, *async_kernel;
  int32_t builtin_code;
  int node_index;
  uint64_t inplace_operator;
  void* user_data;
  void* init_with_data;
  void* free_with_data;
  TfLiteStatus (*prepare_with_data)(void*, TfLiteContext*, TfLiteNode*);
  TfLiteStatus (*invoke_with_data)(void*, TfLiteContext*, TfLiteNode*);
  void* async_kernel_with_data;
} Operator;

static TfLiteStatus ExternalInvoke(void* data, TfLiteContext* context, TfLiteNode* node) {
  const TfLiteTensor* x = tensor(context, node->inputs, 0);
  TfLiteTensor* y = tensor(context, node->outputs, 0);
  int64_t i;
  for (i = 0; i < count(x); ++i) y->data.f[i] = x->data.f[i] + *(const float*)data;
  return kTfLiteOk;
}

API TfLiteRegistration* Register_EXTERNAL(void) {
  static TfLiteRegistration made;
  static Operator op;
  static float added = 0.5f;
  op.custom_name = "External";
  op.version = 1;
  op.builtin_code = 32;
  op.node_index = -1;
  op.user_data = &added;
  op.invoke_with_data = ExternalInvoke;
  made.builtin_code = 32;
  made.registration_external = (TfLiteOperator*)(void*)&op;
  return &made;
}

#ifdef __cplusplus
namespace tflite {
namespace ops {
namespace custom {
LITEDELEGATE_EXPORT TfLiteRegistration* Register_IN_A_NAMESPACE() { return Register_POSITIVE(); }
/* No operator's: it takes an argument. */
LITEDELEGATE_EXPORT TfLiteRegistration* Register_WITH(int) { abort(); }
}  // namespace custom
}  // namespace ops
}  // namespace tflite
#endif
