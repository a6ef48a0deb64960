// The matrix products of a step: forward, gradient of the input and gradient of the weight of each linear layer and of the head.
#include "commands/bench/kernels_meter.hpp"
#include "ops/cuda/gemm/gemm.hpp"

namespace cohort {
namespace {

using ops::cuda::Epilogue;
using ops::cuda::GemmCall;
using ops::cuda::Matrix;

// y [R, N] = x [R, K] W [N, K]^T.
struct Layer {
  std::string name;
  Count runs;
  Count rows, outputs, inputs;
  Epilogue forward = Epilogue::none;
  bool residual = false;                     // forward adds the residual stream
  Epilogue input_gradient = Epilogue::none;  // of the layer after a GELU: its derivative
  bool bias = false;
  Count output_stride = 0;  // 0 = outputs
};

class Products {
 public:
  Products(Meter& meter, const StepShape& shape) : meter_(meter) {
    const Count r = shape.rows();
    const Count widest = std::max({shape.up_width(), shape.attention().packed_width(), shape.width()});
    const Bytes activation = size_of(DType::bf16) * std::max(r * widest, shape.logit_rows() * shape.logit_columns());
    const Bytes weight = std::max(shape.logit_columns(), widest) * std::max(shape.ffn_width(), shape.width());
    x_ = meter.normals(activation);
    y_ = meter.normals(activation);
    aux_ = meter.normals(activation);
    residual_ = meter.normals(activation);
    weight_ = meter.normals(weight * size_of(DType::bf16));
    gradient_ = meter.normals<float>(weight * size_of(DType::f32));
    vector_ = meter.normals<float>(std::max(shape.logit_columns(), widest) * size_of(DType::f32));
  }

  void measure(const Layer& layer) const {
    const Count stride = layer.output_stride == 0 ? layer.outputs : layer.output_stride;
    const Matrix x{x_, DType::bf16, layer.rows, layer.inputs, layer.inputs};
    const Matrix y{y_, DType::bf16, layer.rows, layer.outputs, stride};
    const Matrix w{weight_, DType::bf16, layer.outputs, layer.inputs, layer.inputs};
    const Matrix dw{gradient_, DType::f32, layer.outputs, layer.inputs, layer.inputs};

    GemmCall forward{.c = y, .a = x, .b = w, .transpose_b = true, .epilogue = layer.forward};
    if (layer.residual) forward.beta = 1.0f;
    if (layer.residual) forward.residual = {residual_, DType::bf16, layer.rows, layer.outputs, layer.outputs};
    run(layer.name + " forward" + (layer.residual ? ", residual" : "") + epilogue_text(layer.forward), layer.runs, forward);
    run(layer.name + " dx" + epilogue_text(layer.input_gradient), layer.runs,
        {.c = x, .a = y, .b = w, .epilogue = layer.input_gradient});
    const GemmCall weight{.c = dw, .a = y, .transpose_a = true, .b = x, .beta = 1.0f};
    run(layer.name + " dW", layer.runs, weight);
    if (!layer.bias) return;
    GemmCall both = weight;
    both.epilogue = Epilogue::bias_gradient;
    run(layer.name + " dW, bias_gradient", 0, both);  // against dW and a pass of column sums
  }

 private:
  static std::string epilogue_text(Epilogue epilogue) {
    switch (epilogue) {
      case Epilogue::bias:
        return ", bias";
      case Epilogue::gelu_aux_bias:
        return ", bias, GELU";
      case Epilogue::dgelu:
        return ", GELU'";
      default:
        return "";
    }
  }

  void run(const std::string& name, Count runs, GemmCall call) const {
    call.bias = vector_;
    call.bias_gradient = vector_;
    call.aux = aux_;
    call.aux_stride = call.c.stride;
    const Count k = call.transpose_a ? call.a.rows : call.a.columns;
    const double flops = 2.0 * static_cast<double>(call.c.rows) * static_cast<double>(call.c.columns) * static_cast<double>(k);
    meter_.product(name, runs, flops, [&call] { ops::cuda::gemm(call, false); });
  }

  Meter& meter_;
  void *x_, *y_, *aux_, *residual_, *weight_;
  float *gradient_, *vector_;
};

}  // namespace

void measure_products(Meter& meter, const StepShape& shape) {
  const Products products(meter, shape);
  const Count r = shape.rows();
  const bool gelu = !shape.swiglu(), biased = shape.decoder.block.attention.bias;
  const Epilogue bias = biased ? Epilogue::bias : Epilogue::none;
  products.measure({.name = "qkv",
                    .runs = shape.layers(),
                    .rows = r,
                    .outputs = shape.attention().packed_width(),
                    .inputs = shape.width(),
                    .forward = bias,
                    .bias = biased});
  products.measure({.name = "attention out",
                    .runs = shape.layers(),
                    .rows = r,
                    .outputs = shape.width(),
                    .inputs = shape.attention().width(),
                    .forward = bias,
                    .residual = true,
                    .bias = biased});
  products.measure({.name = "up",
                    .runs = shape.layers(),
                    .rows = r,
                    .outputs = shape.up_width(),
                    .inputs = shape.width(),
                    .forward = gelu ? Epilogue::gelu_aux_bias : Epilogue::none,
                    .bias = gelu});
  products.measure({.name = "down",
                    .runs = shape.layers(),
                    .rows = r,
                    .outputs = shape.width(),
                    .inputs = shape.ffn_width(),
                    .forward = bias,
                    .residual = true,
                    .input_gradient = gelu ? Epilogue::dgelu : Epilogue::none,
                    .bias = gelu});
  products.measure({.name = "head",
                    .runs = shape.logit_chunks(),
                    .rows = shape.logit_rows(),
                    .outputs = shape.logit_columns(),
                    .inputs = shape.width(),
                    .output_stride = shape.logit_columns()});
}

}  // namespace cohort
