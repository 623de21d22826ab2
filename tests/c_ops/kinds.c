/* Operators that try what the API has: several in one library. */
#include "litedelegate/flexbuffer_options.h"
#include "litedelegate/tflite_custom_op.h"

static int inits, frees;

static TfLiteStatus Same(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* input = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* output = TfLiteOpaqueNodeGetOutput(context, node, 0);
  int i, rank = TfLiteOpaqueTensorNumDims(input);
  TfLiteIntArray* size = TfLiteIntArrayCreate(rank);
  TF_LITE_OPAQUE_ENSURE_TYPES_EQ(context, TfLiteOpaqueTensorType(input),
                                 TfLiteOpaqueTensorType(output));
  for (i = 0; i < rank; ++i) size->data[i] = TfLiteOpaqueTensorDim(input, i);
  return TfLiteOpaqueContextResizeTensor(context, output, size);
}

/* ZeroOut of TensorFlow's op guide: all but the first element become zero. */
static TfLiteStatus ZeroOutEval(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* input = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* output = TfLiteOpaqueNodeGetOutput(context, node, 0);
  const int32_t* from = (const int32_t*)TfLiteOpaqueTensorData(input);
  int32_t* to = (int32_t*)TfLiteOpaqueTensorData(output);
  size_t i, count = TfLiteOpaqueTensorByteSize(input) / sizeof(int32_t);
  TF_LITE_OPAQUE_ENSURE_TYPES_EQ(context, TfLiteOpaqueTensorType(input), kTfLiteInt32);
  for (i = 1; i < count; ++i) to[i] = 0;
  if (count) to[0] = from[0];
  return kTfLiteOk;
}

/* Half: float64. */
static TfLiteStatus HalfEval(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* input = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* output = TfLiteOpaqueNodeGetOutput(context, node, 0);
  const double* from = (const double*)TfLiteOpaqueTensorData(input);
  double* to = (double*)TfLiteOpaqueTensorData(output);
  size_t i, count = TfLiteOpaqueTensorByteSize(input) / sizeof(double);
  for (i = 0; i < count; ++i) to[i] = from[i] / 2;
  return kTfLiteOk;
}

/* Quant: int8, gives scale, zero point, and the scales and zero points for each channel. */
static TfLiteStatus QuantPrepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  TfLiteIntArray* size = TfLiteIntArrayCreate(1);
  size->data[0] = 6;
  return TfLiteOpaqueContextResizeTensor(context, TfLiteOpaqueNodeGetOutput(context, node, 0),
                                         size);
}
static TfLiteStatus QuantEval(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* input = TfLiteOpaqueNodeGetInput(context, node, 0);
  const TfLiteOpaqueTensor* filter = TfLiteOpaqueNodeGetInput(context, node, 1);
  float* to = (float*)TfLiteOpaqueTensorData(TfLiteOpaqueNodeGetOutput(context, node, 0));
  const int8_t* values = (const int8_t*)TfLiteOpaqueTensorData(input);
  TfLiteQuantizationParams whole = TfLiteOpaqueTensorQuantizationParams(input);
  TfLiteQuantization each = TfLiteOpaqueTensorGetQuantization(filter);
  const TfLiteAffineQuantization* affine = (const TfLiteAffineQuantization*)each.params;
  TF_LITE_OPAQUE_ENSURE_EQ(context, each.type, kTfLiteAffineQuantization);
  TF_LITE_OPAQUE_ENSURE_EQ(context, affine->scale->size, 2);
  to[0] = whole.scale * (float)(values[0] - whole.zero_point);
  to[1] = (float)whole.zero_point;
  to[2] = affine->scale->data[0];
  to[3] = affine->scale->data[1];
  to[4] = (float)affine->zero_point->data[1];
  to[5] = (float)affine->quantized_dimension;
  return kTfLiteOk;
}

/* Moving: a state in user data (calls), a temporary kept between invokes (the sum), one that is
 * not, and one whose size invoke gives. */
typedef struct Moving {
  int sum, square, sized, calls;
} Moving;

static int Add(TfLiteOpaqueContext* context, TfLiteAllocationType kind) {
  int index = -1;
  TfLiteOpaqueTensorBuilder* builder = TfLiteOpaqueTensorBuilderCreate();
  TfLiteOpaqueTensorBuilderSetType(builder, kTfLiteFloat32);
  TfLiteOpaqueTensorBuilderSetAllocationType(builder, kind);
  if (kind == kTfLiteDynamic) TfLiteOpaqueTensorBuilderSetData(builder, malloc(4));
  TfLiteOpaqueContextAddTensor(context, builder, &index);
  TfLiteOpaqueTensorBuilderDelete(builder);
  return index;
}
static void* MovingInit(TfLiteOpaqueContext* context, const char* buffer, size_t length) {
  Moving* made = (Moving*)calloc(1, sizeof(Moving));
  (void)buffer;
  (void)length;
  made->sum = Add(context, kTfLiteArenaRwPersistent);
  made->square = Add(context, kTfLiteArenaRw);
  made->sized = Add(context, kTfLiteDynamic);
  ++inits;
  return made;
}
static void MovingFree(TfLiteOpaqueContext* context, void* data) {
  (void)context;
  free(data);
  ++frees;
}
static TfLiteStatus MovingPrepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  Moving* state = (Moving*)TfLiteOpaqueNodeGetUserData(node);
  const TfLiteOpaqueTensor* input = TfLiteOpaqueNodeGetInput(context, node, 0);
  int temporaries[3], i;
  temporaries[0] = state->sum;
  temporaries[1] = state->square;
  temporaries[2] = state->sized;
  TF_LITE_OPAQUE_ENSURE_STATUS(TfLiteOpaqueNodeSetTemporaries(node, temporaries, 3));
  for (i = 0; i < 2; ++i) {
    TfLiteIntArray* size = TfLiteIntArrayCreate(1);
    size->data[0] = TfLiteOpaqueTensorDim(input, 0);
    TF_LITE_OPAQUE_ENSURE_STATUS(TfLiteOpaqueContextResizeTensor(
        context, TfLiteOpaqueContextGetOpaqueTensor(context, temporaries[i]), size));
  }
  return Same(context, node);
}
static TfLiteStatus MovingEval(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  Moving* state = (Moving*)TfLiteOpaqueNodeGetUserData(node);
  const TfLiteOpaqueTensor* input = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* sized = TfLiteOpaqueContextGetOpaqueTensor(context, state->sized);
  const float* x = (const float*)TfLiteOpaqueTensorData(input);
  float* y = (float*)TfLiteOpaqueTensorData(TfLiteOpaqueNodeGetOutput(context, node, 0));
  float *sum, *square, *one;
  const int* listed;
  int i, count, n = TfLiteOpaqueTensorDim(input, 0);
  TfLiteIntArray* size = TfLiteIntArrayCreate(1);
  size->data[0] = n + 1;
  TF_LITE_OPAQUE_ENSURE_STATUS(TfLiteOpaqueContextResizeTensor(context, sized, size));
  TF_LITE_OPAQUE_ENSURE_STATUS(TfLiteOpaqueNodeTemporaries(node, &listed, &count));
  TF_LITE_OPAQUE_ENSURE_EQ(context, count, 3);
  TF_LITE_OPAQUE_ENSURE_EQ(context, listed[0], state->sum);
  sum = (float*)TfLiteOpaqueTensorData(TfLiteOpaqueContextGetOpaqueTensor(context, listed[0]));
  square = (float*)TfLiteOpaqueTensorData(TfLiteOpaqueContextGetOpaqueTensor(context, listed[1]));
  one = (float*)TfLiteOpaqueTensorData(sized);
  TF_LITE_OPAQUE_ENSURE(context, sum && square && one);
  TF_LITE_OPAQUE_ENSURE_EQ(context, TfLiteOpaqueTensorByteSize(sized), (n + 1) * sizeof(float));
  one[n] = (float)++state->calls;
  for (i = 0; i < n; ++i) square[i] = x[i] * x[i];
  for (i = 0; i < n; ++i) sum[i] += square[i];
  for (i = 0; i < n; ++i) y[i] = sum[i] / one[n];
  return kTfLiteOk;
}

/* Join: every string of the first input, with the option `between` and the index behind it. */
static TfLiteStatus JoinPrepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  TfLiteOpaqueTensor* output = TfLiteOpaqueNodeGetOutput(context, node, 0);
  TF_LITE_OPAQUE_ENSURE_TYPES_EQ(
      context, TfLiteOpaqueTensorType(TfLiteOpaqueNodeGetInput(context, node, 0)), kTfLiteString);
  TfLiteOpaqueTensorSetAllocationTypeToDynamic(output);
  return kTfLiteOk;
}
static TfLiteStatus JoinEval(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* input = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* output = TfLiteOpaqueNodeGetOutput(context, node, 0);
  const void* options;
  const char* between = "";
  size_t between_length = 0;
  int size, i, count = TfLiteOpaqueTensorGetStringCount(input);
  char** made = (char**)malloc((size_t)(count + 1) * sizeof(char*));
  int* lengths = (int*)malloc((size_t)(count + 1) * sizeof(int));
  TfLiteStatus status;
  TF_LITE_OPAQUE_ENSURE_STATUS(TfLiteOpaqueNodeGetCustomInitialData(node, &options, &size));
  LiteDelegateOptionText((const char*)options, (size_t)size, "between", &between,
                         &between_length);
  for (i = 0; i < count; ++i) {
    const char* text;
    int length;
    TF_LITE_OPAQUE_ENSURE_STATUS(TfLiteOpaqueTensorGetString(input, i, &text, &length));
    made[i] = (char*)malloc((size_t)length + between_length + 16);
    memcpy(made[i], text, (size_t)length);
    memcpy(made[i] + length, between, between_length);
    lengths[i] = length + (int)between_length +
                 snprintf(made[i] + length + between_length, 16, "%d", i);
  }
  status = TfLiteOpaqueTensorWriteStrings(output, (const char* const*)made, count, lengths);
  for (i = 0; i < count; ++i) free(made[i]);
  free(made);
  free(lengths);
  return status;
}

/* Positive: the elements above zero, as many as there are. */
static TfLiteStatus PositiveEval(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* input = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* output = TfLiteOpaqueNodeGetOutput(context, node, 0);
  const float* x = (const float*)TfLiteOpaqueTensorData(input);
  int i, found = 0, n = TfLiteOpaqueTensorDim(input, 0);
  TfLiteIntArray* size = TfLiteIntArrayCreate(1);
  float* y;
  for (i = 0; i < n; ++i) found += x[i] > 0;
  size->data[0] = found;
  TF_LITE_OPAQUE_ENSURE_STATUS(TfLiteOpaqueContextResizeTensor(context, output, size));
  y = (float*)TfLiteOpaqueTensorData(output);
  for (i = found = 0; i < n; ++i)
    if (x[i] > 0) y[found++] = x[i];
  return kTfLiteOk;
}
static TfLiteStatus PositivePrepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  TfLiteOpaqueTensorSetAllocationTypeToDynamic(TfLiteOpaqueNodeGetOutput(context, node, 0));
  return kTfLiteOk;
}

/* Facts: what the API says of the model, into int32[12]; the user data come first. */
static TfLiteStatus FactsPrepare(void* user_data, TfLiteOpaqueContext* context,
                                 TfLiteOpaqueNode* node) {
  TfLiteIntArray* size = TfLiteIntArrayCreate(1);
  (void)user_data;
  size->data[0] = 12;
  return TfLiteOpaqueContextResizeTensor(context, TfLiteOpaqueNodeGetOutput(context, node, 0),
                                         size);
}
static TfLiteStatus FactsEval(void* user_data, TfLiteOpaqueContext* context,
                              TfLiteOpaqueNode* node) {
  int32_t* y = (int32_t*)TfLiteOpaqueTensorData(TfLiteOpaqueNodeGetOutput(context, node, 0));
  const int *inputs, *outputs, *variables;
  int count;
  size_t bytes;
  const char* data;
  y[0] = *(int*)user_data;
  y[1] = TfLiteOpaqueNodeGetInput(context, node, 1) == NULL;
  TF_LITE_OPAQUE_ENSURE_STATUS(TfLiteOpaqueNodeInputs(node, &inputs, &count));
  y[2] = inputs[1];
  TF_LITE_OPAQUE_ENSURE_STATUS(TfLiteOpaqueContextGetOutputs(context, &outputs, &count));
  y[3] = count && outputs[0] == TfLiteOpaqueNodeGetOutputTensorIndex(node, 0);
  y[4] = (int32_t)TfLiteOpaqueContextGetNumTensors(context);
  y[5] = !strcmp(TfLiteOpaqueContextGetName(context), "main");
  TF_LITE_OPAQUE_ENSURE_STATUS(TfLiteOpaqueContextGetSizeOfType(context, kTfLiteInt16, &bytes));
  y[6] = (int32_t)bytes;
  TF_LITE_OPAQUE_ENSURE_STATUS(TfLiteOpaqueContextGetMetadata(context, "note", &data, &bytes));
  y[7] = bytes == 2 && data[0] == 'h' && data[1] == 'i';
  TF_LITE_OPAQUE_ENSURE_STATUS(TfLiteOpaqueContextGetVariables(context, &variables, &count));
  y[8] = count;
  y[9] = !strcmp(TfLiteOpaqueTensorName(TfLiteOpaqueNodeGetInput(context, node, 0)), "x");
  y[10] = TfLiteOpaqueTensorGetAllocationType(TfLiteOpaqueNodeGetInput(context, node, 0));
  y[11] = (int32_t)TfLiteOpaqueContextGetNumNodes(context);
  return kTfLiteOk;
}

/* Wrong: fails in the way that the option `how` says. */
static const TfLiteOpaqueTensor* stale;
static void* WrongInit(TfLiteOpaqueContext* context, const char* buffer, size_t length) {
  int64_t how = 0;
  LiteDelegateOptionInteger(buffer, length, "how", &how);
  if (how == 1) {
    TfLiteOpaqueContextReportError(context, "init says %s, %d of %d", "no", 1, 2);
    return TfLiteKernelInitFailed();
  }
  return (void*)(intptr_t)(how + 1);
}
static int How(const TfLiteOpaqueNode* node) {
  return (int)(intptr_t)TfLiteOpaqueNodeGetUserData(node) - 1;
}
static TfLiteStatus WrongPrepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  char longer[2000];
  switch (How(node)) {
    case 2:
      TF_LITE_OPAQUE_ENSURE_EQ(context, TfLiteOpaqueNodeNumInputs(node), 7);
      break;
    case 3:
      return kTfLiteApplicationError;
    case 4:
      memset(longer, 'a', sizeof longer);
      longer[sizeof longer - 1] = 0;
      TfLiteOpaqueContextReportError(context, "%s!", longer);
      return kTfLiteError;
    case 5:
      stale = TfLiteOpaqueNodeGetInput(context, node, 0);
      break;
    case 6:
      TF_LITE_OPAQUE_ENSURE(context, TfLiteOpaqueNodeGetInput(context, node, 9));
      break;
    case 7:
      TF_LITE_OPAQUE_ENSURE_STATUS(TfLiteOpaqueNodeSetTemporaries(node, (int[]){3}, 1));
      break;
    case 8:
      if (TfLiteOpaqueTensorNumDims((const TfLiteOpaqueTensor*)node) < 0) return kTfLiteError;
      break;
    case 9:
      if (TfLiteOpaqueTensorNumDims((const TfLiteOpaqueTensor*)(intptr_t)0x12345) < 0)
        return kTfLiteError;
      break;
    case 10:
      return TfLiteOpaqueContextResizeTensor(context, TfLiteOpaqueNodeGetOutput(context, node, 0),
                                             NULL);
    case 16: {
      const char* nothing = NULL;
      TfLiteOpaqueContextReportError(context, nothing);
      return kTfLiteError;
    }
  }
  return Same(context, node);
}
static TfLiteStatus WrongEval(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  TfLiteOpaqueTensor* output = TfLiteOpaqueNodeGetOutput(context, node, 0);
  TfLiteIntArray* size;
  switch (How(node)) {
    case 5:
      if (TfLiteOpaqueTensorData(stale)) abort();
      return kTfLiteError;
    case 11:
      TfLiteOpaqueContextReportError(context, "not in invoke, says %s", "it");
      return kTfLiteError;
    case 12:
      size = TfLiteIntArrayCreate(1);
      size->data[0] = 77;
      return TfLiteOpaqueContextResizeTensor(context, output, size);
    case 13:
      return TfLiteOpaqueTensorWriteString(output, "text", 4);
    case 14:
      return TfLiteOpaqueTensorCopyFromBuffer(output, "text", 3);
    case 15:
      TfLiteOpaqueContextReportError(context, "only a warning");
      break;
  }
  return kTfLiteOk;
}

static TfLiteOperator* Make(const char* name, LiteDelegateStep prepare, LiteDelegateStep invoke) {
  TfLiteOperator* op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, name, 1, NULL);
  TfLiteOperatorSetPrepare(op, prepare);
  TfLiteOperatorSetInvoke(op, invoke);
  return op;
}
static const TfLiteOperator* ZeroOut(void) { return Make("ZeroOut", Same, ZeroOutEval); }
static const TfLiteOperator* Half(void) { return Make("Half", Same, HalfEval); }
static const TfLiteOperator* Quant(void) { return Make("Quant", QuantPrepare, QuantEval); }
static const TfLiteOperator* Join(void) { return Make("Join", JoinPrepare, JoinEval); }
static const TfLiteOperator* Positive(void) {
  return Make("Positive", PositivePrepare, PositiveEval);
}
static const TfLiteOperator* MovingOp(void) {
  TfLiteOperator* op = Make("Moving", MovingPrepare, MovingEval);
  TfLiteOperatorSetInit(op, MovingInit);
  TfLiteOperatorSetFree(op, MovingFree);
  return op;
}
static const TfLiteOperator* Wrong(void) {
  /* under its older name */
  TfLiteRegistrationExternal* op =
      TfLiteRegistrationExternalCreate(kTfLiteBuiltinCustom, "Wrong", 1);
  TfLiteRegistrationExternalSetInit(op, WrongInit);
  TfLiteRegistrationExternalSetPrepare(op, WrongPrepare);
  TfLiteRegistrationExternalSetInvoke(op, WrongEval);
  return op;
}
static const TfLiteOperator* Facts(void) {
  static int number = 42;
  TfLiteOperator* op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Facts", 1, &number);
  TfLiteOperatorSetPrepareWithData(op, FactsPrepare);
  TfLiteOperatorSetInvokeWithData(op, FactsEval);
  return op;
}

LITEDELEGATE_OP_LIBRARY(ZeroOut, Half, Quant, Join, Positive, MovingOp, Wrong, Facts);

/* How often Moving was initialised and freed. */
LITEDELEGATE_EXPORT int CountInits(void);
LITEDELEGATE_EXPORT int CountFrees(void);
int CountInits(void) { return inits; }
int CountFrees(void) { return frees; }
