// ZeroOut as an operator of TensorFlow, as its guide on adding operators has it: all elements but
// the first become zero. zero_out.py builds and loads it.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("ZeroOut")
    .Input("to_zero: int32")
    .Output("zeroed: int32")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->input(0));
      return absl::OkStatus();
    });

class ZeroOutOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& input = context->input(0);
    tensorflow::Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, input.shape(), &output));
    const int32_t* from = input.flat<int32_t>().data();
    int32_t* to = output->flat<int32_t>().data();
    for (int64_t i = 0; i < input.NumElements(); ++i) to[i] = i ? 0 : from[0];
  }
};

REGISTER_KERNEL_BUILDER(Name("ZeroOut").Device(tensorflow::DEVICE_CPU), ZeroOutOp);
