/* ZeroOut as an operator of TensorFlow Lite: int32, all elements but the first become zero.
 *
 *     litedelegate op build examples/zero_out/zero_out.c -o zero_out.so
 */
#include <string.h>

#include "litedelegate/tflite_custom_op.h"

static TfLiteStatus Prepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* input;
  TfLiteIntArray* shape;
  int i;
  TF_LITE_OPAQUE_ENSURE_EQ(context, TfLiteOpaqueNodeNumInputs(node), 1);
  TF_LITE_OPAQUE_ENSURE_EQ(context, TfLiteOpaqueNodeNumOutputs(node), 1);
  input = TfLiteOpaqueNodeGetInput(context, node, 0);
  TF_LITE_OPAQUE_ENSURE_TYPES_EQ(context, TfLiteOpaqueTensorType(input), kTfLiteInt32);
  shape = TfLiteIntArrayCreate(TfLiteOpaqueTensorNumDims(input));
  for (i = 0; i < shape->size; ++i) shape->data[i] = TfLiteOpaqueTensorDim(input, i);
  return TfLiteOpaqueContextResizeTensor(context, TfLiteOpaqueNodeGetOutput(context, node, 0),
                                         shape);
}

static TfLiteStatus Invoke(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* input = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* output = TfLiteOpaqueNodeGetOutput(context, node, 0);
  const int32_t* from = (const int32_t*)TfLiteOpaqueTensorData(input);
  int32_t* to = (int32_t*)TfLiteOpaqueTensorData(output);
  const size_t size = TfLiteOpaqueTensorByteSize(input);
  if (size) {
    memset(to, 0, size);
    to[0] = from[0];
  }
  return kTfLiteOk;
}

static const TfLiteOperator* ZeroOut(void) {
  static TfLiteOperator* op;
  if (!op) {
    op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "ZeroOut", /*version=*/1);
    TfLiteOperatorSetPrepare(op, Prepare);
    TfLiteOperatorSetInvoke(op, Invoke);
  }
  return op;
}

LITEDELEGATE_OP_LIBRARY(ZeroOut);
