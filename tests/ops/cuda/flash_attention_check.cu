// Tests the flash attention kernels against attention in double precision, then times them. Prints one line per check; exits with
// 1 if one failed. Build, with -DWITH_HOPPER and the sources of that rung to test it too:
//   nvcc -std=c++20 -O3 -Isrc -Itests --expt-relaxed-constexpr -gencode=arch=compute_80,code=sm_80
//     -gencode=arch=compute_90a,code=sm_90a tests/ops/cuda/flash_attention_check.cu
//     src/ops/cuda/attention/flash_attention{,_forward,_backward,_fp32}.cu
//
// The error of out and of lse is ||x - r|| / ||r|| over all elements. The errors of dq, dk and dv are taken relative to ||r|| of
// all of dqkv: the three are of one size, but for the first tokens of a sample, where dq and dk vanish and only rounding is left
// of them.
//
// Tolerances. With u = 2^-8 (bf16) or 2^-11 (fp16), the largest relative error of rounding once (its root mean square is 0.4 u):
// out sees the rounding of the weights, whose errors are independent, and its own: 0.6 u expected, 1.5 u allowed. A gradient sees
// in addition the rounding of out in delta, which weighs most where a row has few keys: up to 1 u expected, 2 u allowed. lse is
// never rounded below fp32, nor is anything in fp32 problems: there it is sums of up to 2048 terms, each off by some 2^-24.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "ops/cuda/flash_attention_problem.cuh"
#ifdef WITH_HOPPER
#include "ops/cuda/attention/flash_attention_hopper.hpp"
#include "ops/cuda/attention/flash_attention_hopper_joint.hpp"
#endif

namespace cohort::ops::cuda {
namespace {

int failures = 0;

const Rung kPortable{"portable",
                     true,
                     flash_attention_supports,
                     flash_attention_scratch_bytes,
                     [](DType dtype, const AttentionShape& s, void* out, float* lse, const void* qkv,
                        const FlashDropout& dropout) { flash_attention_forward(nullptr, dtype, s, out, lse, qkv, dropout); },
                     [](DType dtype, const AttentionShape& s, void* dqkv, const void* dout, const void* out, const float* lse,
                        const void* qkv, void* scratch, const FlashDropout& dropout) {
                       flash_attention_backward(nullptr, dtype, s, dqkv, dout, out, lse, qkv, scratch, dropout);
                     }};

#ifdef WITH_HOPPER
// Whose launcher takes the joint backward kernel for long samples alone: here for all.
const Rung kJoint{
    "joint",
    false,
    [](DType dtype, const AttentionShape& s) {
      return flash_attention_hopper_supports(dtype, s) && s.head_size == hopper::joint::kHeadSize;
    },
    [](const AttentionShape& s, DType) { return hopper::joint::scratch_bytes(s); },
    [](DType dtype, const AttentionShape& s, void* out, float* lse, const void* qkv, const FlashDropout&) {
      flash_attention_forward_hopper(nullptr, dtype, s, out, lse, qkv);
    },
    [](DType dtype, const AttentionShape& s, void* dqkv, const void* dout, const void* out, const float* lse, const void* qkv,
       void* scratch, const FlashDropout&) {
      auto* const dq = static_cast<std::uint16_t*>(dqkv);  // elements of either type
      auto* const dk = dq + s.width();
      hopper::joint::backward(nullptr, dtype, s, {dq, dk, dk + s.kv_heads * s.head_size, dout, out, lse, qkv, scratch});
    }};
#endif

std::vector<Rung> rungs() {
  std::vector<Rung> result{kPortable};
#ifdef WITH_HOPPER
  cudaDeviceProp device{};
  check_cuda(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  if (device.major == 9 && device.minor == 0) {
    result.push_back({"hopper", false, flash_attention_hopper_supports,
                      [](const AttentionShape& s, DType) { return flash_attention_hopper_scratch_bytes(s); },
                      [](DType dtype, const AttentionShape& s, void* out, float* lse, const void* qkv, const FlashDropout&) {
                        flash_attention_forward_hopper(nullptr, dtype, s, out, lse, qkv);
                      },
                      [](DType dtype, const AttentionShape& s, void* dqkv, const void* dout, const void* out, const float* lse,
                         const void* qkv, void* scratch, const FlashDropout&) {
                        flash_attention_backward_hopper(nullptr, dtype, s, dqkv, dout, out, lse, qkv, scratch);
                      }});
    result.push_back(kJoint);
  } else {
    std::printf("the device is of capability %d.%d: the Hopper rung is not tested\n", device.major, device.minor);
  }
#endif
  return result;
}

const char* type_name(DType dtype) { return dtype == DType::f32 ? "fp32" : dtype == DType::bf16 ? "bf16" : "fp16"; }

constexpr const char* kPartNames[kParts] = {"out", "lse", "dq", "dk", "dv"};

/// The tolerance of each part.
std::vector<double> tolerances(DType dtype) {
  if (dtype == DType::f32) return {1e-5, 1e-5, 2e-5, 2e-5, 2e-5};
  const double u = dtype == DType::bf16 ? 0x1.0p-8 : 0x1.0p-11;
  return {1.5 * u, 1e-5, 2.0 * u, 2.0 * u, 2.0 * u};
}

/// The worst of several problems that are reported as one check.
class Check {
 public:
  Check(std::string name, const Rung& rung, DType dtype) : name_(std::move(name)), rung_(rung), dtype_(dtype) {}

  void add(const AttentionShape& s, double dropout = 0.0) {
    if (!rung_.supports(dtype_, s) || (dropout > 0.0 && !rung_.dropout)) return;
    ++problems_;
    const Problem problem(dtype_, s, dropout);
    const Problem::Results first(problem, rung_);
    const Problem::Results second(problem, rung_);
    const std::vector<double> errors = problem.errors(first);
    const std::vector<double> allowed = tolerances(dtype_);
    std::string wrong;
    for (std::size_t i = 0; i < kParts; ++i) {
      if (!(errors[i] <= allowed[i])) {
        char text[32];
        std::snprintf(text, sizeof(text), " %s %.1e", kPartNames[i], errors[i]);
        wrong += text;
      }
      if (!(errors[i] <= worst_[i])) worst_[i] = errors[i];  // NaN too
    }
    if (!first.guards_intact()) wrong += " wrote outside its buffers";
    if (!first.same_bits(second)) wrong += " two runs differ";
    if (wrong.empty()) return;
    ++wrong_;
    if (wrong_ <= 5) {
      std::printf("  wrong: %s %s B %lld T %lld NH %lld NKV %lld HS %lld dropout %.2f:%s\n", rung_.name, type_name(dtype_),
                  static_cast<long long>(s.batch), static_cast<long long>(s.tokens), static_cast<long long>(s.heads),
                  static_cast<long long>(s.kv_heads), static_cast<long long>(s.head_size), dropout, wrong.c_str());
    }
  }

  void report() const {
    if (problems_ == 0) return;
    std::printf("%s %-8s %s %-12s %3d problems; error (allowed):", wrong_ == 0 ? "PASS" : "FAIL", rung_.name, type_name(dtype_),
                name_.c_str(), problems_);
    const std::vector<double> allowed = tolerances(dtype_);
    for (std::size_t i = 0; i < kParts; ++i) std::printf(" %s %.1e (%.1e)", kPartNames[i], worst_[i], allowed[i]);
    std::printf("\n");
    std::fflush(stdout);
    if (wrong_ != 0) ++failures;
  }

 private:
  std::string name_;
  Rung rung_;
  DType dtype_;
  int problems_ = 0;
  int wrong_ = 0;
  double worst_[kParts] = {};
};

/// Samples for so many tokens: with a few rows alone, chance makes large relative errors.
Count batch_of(Count tokens) { return tokens <= 2 ? 32 : 2; }

void check_rung(const Rung& rung) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const Count head_size : {7, 8, 16, 32, 48, 64, 96, 128, 200, 256}) {
      if (head_size % 8 != 0 && dtype != DType::f32) continue;
      Check check("HS " + std::to_string(head_size), rung, dtype);
      for (const Count tokens : {1, 2, 63, 64, 65, 127, 200}) {
        for (const Count kv_heads : {4, 2, 1}) check.add({batch_of(tokens), tokens, 4, kv_heads, head_size});
      }
      check.add({1, 1024, 4, 2, head_size});
      check.report();
    }
    Check large("large", rung, dtype);
    large.add({4, 1024, 12, 12, 64});
    large.add({1, 2048, 16, 4, 64});
    large.add({1, 2085, 6, 2, 64});
    large.add({1, 2048, 16, 4, 128});
    large.report();
    Check dropout("dropout", rung, dtype);
    for (const Count head_size : {16, 64, 128}) {
      for (const Count tokens : {1, 65, 200, 513}) {
        for (const double probability : {0.1, 0.5}) dropout.add({batch_of(tokens), tokens, 4, 2, head_size}, probability);
      }
    }
    dropout.report();
  }
}

/// Milliseconds of one call: the median of 20 after 5 to warm up.
template <class F>
double milliseconds(const F& call) {
  cudaEvent_t begin, end;
  check_cuda(cudaEventCreate(&begin), "cudaEventCreate");
  check_cuda(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> times;
  for (int i = 0; i < 25; ++i) {
    check_cuda(cudaEventRecord(begin), "cudaEventRecord");
    call();
    check_cuda(cudaEventRecord(end), "cudaEventRecord");
    finish("timed call");
    float time = 0.0f;
    check_cuda(cudaEventElapsedTime(&time, begin, end), "cudaEventElapsedTime");
    if (i >= 5) times.push_back(time);
  }
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  check_cuda(cudaEventDestroy(begin), "cudaEventDestroy");
  check_cuda(cudaEventDestroy(end), "cudaEventDestroy");
  return times[10];
}

/// Floating-point operations are counted as the causal half: 2 NH T^2 HS a sample forward, 2.5 times that backward.
void time_rung(const Rung& rung, DType dtype, const AttentionShape& s, double dropout_probability = 0.0) {
  if (!rung.supports(dtype, s) || (dropout_probability > 0.0 && !rung.dropout)) return;
  const Count rows = s.batch * s.tokens;
  const Bytes size = dtype == DType::f32 ? 4 : 2;
  const Buffer qkv(rows * s.packed_width() * size), dqkv(rows * s.packed_width() * size);
  const Buffer out(rows * s.width() * size), dout(rows * s.width() * size);
  const Buffer lse(rows * s.heads * 4), scratch(rung.scratch_bytes(s, dtype)), slots(s.batch * 8);
  check_cuda(cudaMemset(slots.as<Count>(), 0, static_cast<std::size_t>(s.batch) * 8), "cudaMemset");
  with_element(dtype, [&](auto element) {
    using Element = decltype(element);
    reference::fill<<<512, 256>>>(qkv.as<Element>(), rows * s.packed_width(), s.packed_width(), Count{0}, 1.7, 1u);
    reference::fill<<<512, 256>>>(dout.as<Element>(), rows * s.width(), s.width(), Count{0}, 1.7, 2u);
  });
  FlashDropout dropout;
  if (dropout_probability > 0.0) {
    dropout = {static_cast<std::uint64_t>(std::ceil(std::ldexp(dropout_probability, 53))),
               static_cast<float>(1.0 / (1.0 - dropout_probability)),
               1,
               1,
               1,
               slots.as<Count>()};
  }
  const double forward = milliseconds([&] { rung.forward(dtype, s, out.as<void>(), lse.as<float>(), qkv.as<void>(), dropout); });
  const double backward = milliseconds([&] {
    rung.backward(dtype, s, dqkv.as<void>(), dout.as<void>(), out.as<void>(), lse.as<float>(), qkv.as<void>(), scratch.as<void>(),
                  dropout);
  });
  const double operations = 2.0 * static_cast<double>(s.batch * s.heads * s.tokens * s.tokens * s.head_size);
  std::printf(
      "time %-8s %s B %2lld NH %lld NKV %lld T %lld HS %3lld dropout %.1f: forward %7.3f ms %6.1f TFLOP/s, backward %7.3f ms "
      "%6.1f TFLOP/s\n",
      rung.name, type_name(dtype), static_cast<long long>(s.batch), static_cast<long long>(s.heads),
      static_cast<long long>(s.kv_heads), static_cast<long long>(s.tokens), static_cast<long long>(s.head_size),
      dropout_probability, forward, operations / forward * 1e-9, backward, 2.5 * operations / backward * 1e-9);
  std::fflush(stdout);
}

int run() {
  cudaDeviceProp device{};
  check_cuda(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  std::printf("device %s\n", device.name);
  for (const Rung& rung : rungs()) check_rung(rung);
  for (const Rung& rung : rungs()) {
    time_rung(rung, DType::bf16, {64, 1024, 12, 12, 64});
    time_rung(rung, DType::bf16, {8, 2048, 32, 8, 64});
    time_rung(rung, DType::bf16, {8, 2048, 32, 8, 128});
    time_rung(rung, DType::bf16, {16, 2048, 32, 8, 64});
    time_rung(rung, DType::bf16, {1, 16384, 32, 8, 64});
    time_rung(rung, DType::bf16, {2, 16384, 12, 12, 64});
    time_rung(rung, DType::bf16, {1, 65536, 12, 12, 64});
  }
  time_rung(kPortable, DType::bf16, {64, 1024, 12, 12, 64}, 0.1);
  time_rung(kPortable, DType::f32, {8, 1024, 12, 12, 64});
  std::printf("%s\n", failures == 0 ? "all checks passed" : "SOME CHECKS FAILED");
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace cohort::ops::cuda

int main() { return cohort::ops::cuda::run(); }
