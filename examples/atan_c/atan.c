/* The Atan operator of TensorFlow Lite's custom-op guide: y = atan(x + offset), in C.
 * The offset comes from the options of the node, a FlexBuffer map; without one it is 0.
 *
 *     litedelegate op build examples/atan_c/atan.c -o atan.so
 */
#include <math.h>

#include "litedelegate/flexbuffer_options.h"
#include "litedelegate/tflite_custom_op.h"

static void* AtanInit(TfLiteOpaqueContext* context, const char* buffer, size_t length) {
  float* offset = (float*)malloc(sizeof(float));
  double value = 0.0;
  if (!offset) return TfLiteKernelInitFailed();
  if (length && LiteDelegateOptionFind(buffer, length, "offset") &&
      !LiteDelegateOptionNumber(buffer, length, "offset", &value)) {
    TfLiteOpaqueContextReportError(context, "the option offset is no number");
    free(offset);
    return TfLiteKernelInitFailed();
  }
  *offset = (float)value;
  return offset;
}

static void AtanFree(TfLiteOpaqueContext* context, void* data) {
  (void)context;
  free(data);
}

static TfLiteStatus AtanPrepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* input;
  TfLiteOpaqueTensor* output;
  TfLiteIntArray* output_size;
  int num_dims, i;
  TF_LITE_OPAQUE_ENSURE_EQ(context, TfLiteOpaqueNodeNumInputs(node), 1);
  TF_LITE_OPAQUE_ENSURE_EQ(context, TfLiteOpaqueNodeNumOutputs(node), 1);
  input = TfLiteOpaqueNodeGetInput(context, node, 0);
  output = TfLiteOpaqueNodeGetOutput(context, node, 0);
  TF_LITE_OPAQUE_ENSURE_TYPES_EQ(context, TfLiteOpaqueTensorType(input), kTfLiteFloat32);
  TF_LITE_OPAQUE_ENSURE_TYPES_EQ(context, TfLiteOpaqueTensorType(output), kTfLiteFloat32);
  num_dims = TfLiteOpaqueTensorNumDimensions(input);
  output_size = TfLiteIntArrayCreate(num_dims);
  for (i = 0; i < num_dims; ++i) output_size->data[i] = TfLiteOpaqueTensorDim(input, i);
  return TfLiteOpaqueContextResizeTensor(context, output, output_size);
}

static TfLiteStatus AtanEval(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* input = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* output = TfLiteOpaqueNodeGetOutput(context, node, 0);
  const float* input_data = (const float*)TfLiteOpaqueTensorData(input);
  float* output_data = (float*)TfLiteOpaqueTensorData(output);
  const float offset = *(const float*)TfLiteOpaqueNodeGetUserData(node);
  size_t count = TfLiteOpaqueTensorByteSize(input) / sizeof(float), i;
  for (i = 0; i < count; ++i) output_data[i] = atanf(input_data[i] + offset);
  return kTfLiteOk;
}

static const TfLiteOperator* AtanOpRegistrationExternal(void) {
  /* One for the life of the library, never deleted. */
  static TfLiteOperator* op;
  if (!op) {
    op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Atan", /*version=*/1);
    TfLiteOperatorSetInit(op, AtanInit);
    TfLiteOperatorSetFree(op, AtanFree);
    TfLiteOperatorSetPrepare(op, AtanPrepare);
    TfLiteOperatorSetInvoke(op, AtanEval);
  }
  return op;
}

LITEDELEGATE_OP_LIBRARY(AtanOpRegistrationExternal);
