// The Atan operator of TensorFlow Lite's custom-op guide: y = atan(x + offset), in C++11.
//
//     litedelegate op build examples/atan_c/atan.cc -o atan.so
#include <cmath>
#include <memory>

#include "litedelegate/flexbuffer_options.h"
#include "litedelegate/tflite_custom_op.h"

namespace atan_op {
namespace {

struct Options {
  float offset;
};

void* Init(TfLiteOpaqueContext* /*context*/, const char* buffer, size_t length) {
  double offset = 0.0;
  LiteDelegateOptionNumber(buffer, length, "offset", &offset);
  return new Options{static_cast<float>(offset)};
}

void Free(TfLiteOpaqueContext* /*context*/, void* data) { delete static_cast<Options*>(data); }

TfLiteStatus Prepare(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  TF_LITE_OPAQUE_ENSURE_EQ(context, TfLiteOpaqueNodeNumInputs(node), 1);
  TF_LITE_OPAQUE_ENSURE_EQ(context, TfLiteOpaqueNodeNumOutputs(node), 1);
  const TfLiteOpaqueTensor* input = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* output = TfLiteOpaqueNodeGetOutput(context, node, 0);
  TF_LITE_OPAQUE_ENSURE_TYPES_EQ(context, TfLiteOpaqueTensorType(input), kTfLiteFloat32);
  const int num_dims = TfLiteOpaqueTensorNumDimensions(input);
  TfLiteIntArray* output_size = TfLiteIntArrayCreate(num_dims);
  for (int i = 0; i < num_dims; ++i) output_size->data[i] = TfLiteOpaqueTensorDim(input, i);
  return TfLiteOpaqueContextResizeTensor(context, output, output_size);
}

TfLiteStatus Eval(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node) {
  const TfLiteOpaqueTensor* input = TfLiteOpaqueNodeGetInput(context, node, 0);
  TfLiteOpaqueTensor* output = TfLiteOpaqueNodeGetOutput(context, node, 0);
  const float* input_data = static_cast<const float*>(TfLiteOpaqueTensorData(input));
  float* output_data = static_cast<float*>(TfLiteOpaqueTensorData(output));
  const Options* options = static_cast<const Options*>(TfLiteOpaqueNodeGetUserData(node));
  const size_t count = TfLiteOpaqueTensorByteSize(input) / sizeof(float);
  for (size_t i = 0; i < count; ++i) output_data[i] = std::atan(input_data[i] + options->offset);
  return kTfLiteOk;
}

}  // namespace

const TfLiteOperator* AtanOpRegistrationExternal() {
  // One for the life of the library, never deleted.
  static const TfLiteOperator* const atan_op = []() {
    TfLiteOperator* op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Atan", /*version=*/1);
    TfLiteOperatorSetInit(op, Init);
    TfLiteOperatorSetFree(op, Free);
    TfLiteOperatorSetPrepare(op, Prepare);
    TfLiteOperatorSetInvoke(op, Eval);
    return op;
  }();
  return atan_op;
}

}  // namespace atan_op

LITEDELEGATE_OP_LIBRARY(atan_op::AtanOpRegistrationExternal);
