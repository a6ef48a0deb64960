// Times the products of one training step of GPT-2 124M (64 samples of 1024 tokens, bf16, weight gradients in fp32), with the
// heuristic's first choice and with the quickest of its candidates.
#include <algorithm>
#include <random>
#include <vector>

#include "base/dtype.hpp"
#include "ops/cuda/gemm/gemm.hpp"
#include "ops/cuda/gemm_check.hpp"

namespace cohort::gemm_check {
namespace {

using ops::cuda::Epilogue;
using ops::cuda::GemmCall;
using ops::cuda::Matrix;

// Random numbers cost a card more power, and so more time, than constants do.
class RandomBits {
 public:
  RandomBits() : period_((Bytes{16} << 20) + 80), source_(period_) {
    std::mt19937 generator(7);
    std::normal_distribution<float> normal;
    std::vector<bf16> host(static_cast<std::size_t>(period_) / sizeof(bf16));
    for (bf16& x : host) x = to_bf16(normal(generator));
    gpu::copy(source_.data(), host.data(), period_);
  }
  // bf16 normals; read as fp32 they are normals too, with random low bits.
  Block block(Bytes bytes) const {
    Block block(bytes);
    for (Bytes at = 0; at < bytes; at += period_) {
      gpu::copy_async(static_cast<char*>(block.data()) + at, source_.data(), std::min(period_, bytes - at),
                      gpu::compute_stream());
    }
    return block;
  }

 private:
  Bytes period_;
  Block source_;
};

double median_milliseconds(const GemmCall& call) {
  constexpr int kRepeats = 15;
  for (int i = 0; i < 3; ++i) ops::cuda::gemm(call, false);
  std::vector<gpu::Event> events;
  for (int i = 0; i <= kRepeats; ++i) events.emplace_back(gpu::Event::Kind::timing);
  events[0].record(gpu::compute_stream());
  for (std::size_t i = 1; i < events.size(); ++i) {
    ops::cuda::gemm(call, false);
    events[i].record(gpu::compute_stream());
  }
  wait();
  std::vector<double> times;
  for (std::size_t i = 1; i < events.size(); ++i) times.push_back(gpu::milliseconds_between(events[i - 1], events[i]));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Product {
  std::string name;
  GemmCall call;
};

double tera_flops(const GemmCall& call) {
  const Count k = call.transpose_a ? call.a.rows : call.a.columns;
  return 2e-12 * static_cast<double>(call.c.rows) * static_cast<double>(call.c.columns) * static_cast<double>(k);
}

// Operands with room for the largest product: [R, V] logits, [R, 4C] and [R, C] activations, weights and their gradients.
class Operands {
 public:
  static constexpr Count R = 65536, C = 768, F = 3072, V = 50304;

  std::vector<Product> products() const {
    std::vector<Product> all;
    const Matrix cube = matrix(logits_, 8192, 8192);
    all.push_back({"8192^3", {.c = cube, .a = matrix(wide_, 8192, 8192), .b = matrix(wide2_, 8192, 8192), .transpose_b = true}});
    add_forward(all);
    add_input_gradients(all);
    add_weight_gradients(all);
    all.push_back(all.front());  // again, hot
    return all;
  }

 private:
  static Matrix matrix(const Block& block, Count rows, Count columns, DType dtype = DType::bf16, Count stride = 0) {
    return {block.data(), dtype, rows, columns, stride == 0 ? columns : stride};
  }

  // y [R, n] = x [R, k] W [n, k]^T, with every epilogue that a layer uses.
  GemmCall forward(const Block& y, Count n, const Block& x, Count k, Epilogue epilogue) const {
    GemmCall call{.c = matrix(y, R, n), .a = matrix(x, R, k), .b = matrix(weight_, n, k), .transpose_b = true};
    call.epilogue = epilogue;
    call.bias = bias_.data();
    call.aux = aux_.data();
    call.aux_stride = n;
    return call;
  }
  void add_forward(std::vector<Product>& all) const {
    all.push_back({"qkv forward, bias", forward(wide_out_, 3 * C, x_, C, Epilogue::bias)});
    for (bool residual : {false, true}) {
      GemmCall projection = forward(narrow_out_, C, x_, C, Epilogue::bias);
      GemmCall down = forward(narrow_out_, C, wide_, F, Epilogue::bias);
      if (residual) projection.beta = down.beta = 1.0f;
      if (residual) projection.residual = down.residual = matrix(residual_, R, C);
      const std::string name = residual ? ", bias and residual" : ", bias";
      all.push_back({"attention out forward" + name, projection});
      all.push_back({"fc2 forward" + name, down});
    }
    all.push_back({"fc1 forward, none", forward(wide_out_, F, x_, C, Epilogue::none)});
    all.push_back({"fc1 forward, bias", forward(wide_out_, F, x_, C, Epilogue::bias)});
    all.push_back({"fc1 forward, gelu_aux_bias", forward(wide_out_, F, x_, C, Epilogue::gelu_aux_bias)});
    all.push_back({"head forward, 50304", forward(logits_, V, x_, C, Epilogue::none)});
    GemmCall odd = forward(logits_, V, x_, C, Epilogue::none);
    odd.c.columns = odd.b.rows = 50257;
    all.push_back({"head forward, 50257 of 50304", odd});
  }

  // dx [R, k] = dy [R, n] W [n, k].
  GemmCall input_gradient(const Block& dx, Count k, const Block& dy, Count n, Epilogue epilogue) const {
    GemmCall call{.c = matrix(dx, R, k), .a = matrix(dy, R, n), .b = matrix(weight_, n, k)};
    call.epilogue = epilogue;
    call.aux = aux_.data();
    call.aux_stride = k;
    return call;
  }
  void add_input_gradients(std::vector<Product>& all) const {
    all.push_back({"qkv dx", input_gradient(narrow_out_, C, wide_, 3 * C, Epilogue::none)});
    all.push_back({"attention out dx", input_gradient(narrow_out_, C, y_, C, Epilogue::none)});
    all.push_back({"fc1 dx", input_gradient(narrow_out_, C, wide_, F, Epilogue::none)});
    all.push_back({"fc2 dx, none", input_gradient(wide_out_, F, y_, C, Epilogue::none)});
    all.push_back({"fc2 dx, dgelu", input_gradient(wide_out_, F, y_, C, Epilogue::dgelu)});
    all.push_back({"head dx, 50304", input_gradient(narrow_out_, C, logits_, V, Epilogue::none)});
    GemmCall odd = input_gradient(narrow_out_, C, logits_, V, Epilogue::none);
    odd.a.columns = odd.b.rows = 50257;
    all.push_back({"head dx, 50257 of 50304", odd});
  }

  // dW [n, k] (fp32) += dy [R, n]^T x [R, k].
  GemmCall weight_gradient(const Block& dy, Count n, const Block& x, Count k, Epilogue epilogue) const {
    GemmCall call{.c = matrix(dweight_, n, k, DType::f32), .a = matrix(dy, R, n), .transpose_a = true, .b = matrix(x, R, k)};
    call.beta = 1.0f;
    call.epilogue = epilogue;
    call.bias_gradient = static_cast<float*>(dbias_.data());
    return call;
  }
  void add_weight_gradients(std::vector<Product>& all) const {
    for (bool bias : {false, true}) {
      const Epilogue epilogue = bias ? Epilogue::bias_gradient : Epilogue::none;
      const std::string name = bias ? ", bias_gradient" : "";
      all.push_back({"qkv dW" + name, weight_gradient(wide_, 3 * C, x_, C, epilogue)});
      all.push_back({"attention out dW" + name, weight_gradient(y_, C, x_, C, epilogue)});
      all.push_back({"fc1 dW" + name, weight_gradient(wide_, F, x_, C, epilogue)});
      all.push_back({"fc2 dW" + name, weight_gradient(y_, C, wide_, F, epilogue)});
    }
    GemmCall overwriting = weight_gradient(wide_, F, x_, C, Epilogue::none);
    overwriting.beta = 0.0f;
    all.push_back({"fc1 dW, beta 0", overwriting});
    all.push_back({"head dW, 50304", weight_gradient(logits_, V, x_, C, Epilogue::none)});
    GemmCall odd = weight_gradient(logits_, V, x_, C, Epilogue::none);
    odd.a.columns = odd.c.rows = 50257;
    all.push_back({"head dW, 50257 of 50304", odd});
  }

  RandomBits random_;
  // Inputs stay as they are; the logits alone are both, the head's output and then its gradient.
  Block x_ = random_.block(2 * R * C), y_ = random_.block(2 * R * C), residual_ = random_.block(2 * R * C);
  Block wide_ = random_.block(2 * R * F), wide2_ = random_.block(2 * 8192 * 8192), aux_ = random_.block(2 * R * F);
  Block narrow_out_ = random_.block(2 * R * C), wide_out_ = random_.block(2 * R * F);
  Block logits_ = random_.block(2 * R * V);
  Block weight_ = random_.block(2 * V * C), dweight_ = random_.block(4 * V * C);
  Block bias_ = random_.block(2 * V), dbias_ = random_.block(4 * V);
};

}  // namespace

void time_products() {
  const Operands operands;
  const std::vector<Product> products = operands.products();
  std::vector<double> first;
  ops::cuda::reset_gemm();
  for (const Product& product : products) first.push_back(median_milliseconds(product.call));
  ops::cuda::reset_gemm();
  ops::cuda::set_gemm_tuning(true);
  fmt::print("\n{:<38} {:>9} {:>9} {:>9} {:>9} {:>7}\n", "product", "first ms", "TFLOP/s", "tuned ms", "TFLOP/s", "gain");
  for (std::size_t i = 0; i < products.size(); ++i) {
    const double tuned = median_milliseconds(products[i].call);
    const double work = tera_flops(products[i].call);
    fmt::print("{:<38} {:>9.3f} {:>9.0f} {:>9.3f} {:>9.0f} {:>6.1f}%\n", products[i].name, first[i], work / (1e-3 * first[i]),
               tuned, work / (1e-3 * tuned), 100.0 * (first[i] / tuned - 1.0));
  }
  fmt::print("\nTuned:\n{}", ops::cuda::gemm_report());
  ops::cuda::reset_gemm();
}

}  // namespace cohort::gemm_check
