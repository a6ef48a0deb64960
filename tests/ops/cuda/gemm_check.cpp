// Checks gemm() of ops/cuda/gemm/gemm.hpp against a product in double precision: every type, transposition and epilogue at odd
// and even sizes, with rows that have gaps, outputs poisoned with NaN beforehand and gaps that must stay as they were. Then what
// it promises beyond numbers: the same bits again, choices that survive a file, calls that cost the host little. Then timings.
#include "ops/cuda/gemm_check_case.hpp"

#include <chrono>
#include <filesystem>
#include <numbers>
#include <span>

namespace cohort::gemm_check {
namespace {

const Types kTypes[] = {{"bf16", DType::bf16, DType::bf16, false},        {"fp16", DType::f16, DType::f16, false},
                        {"bf16 to fp32", DType::bf16, DType::f32, false}, {"fp16 to fp32", DType::f16, DType::f32, false},
                        {"fp32", DType::f32, DType::f32, false},          {"tf32", DType::f32, DType::f32, true}};
const Form kForms[] = {{"none", Epilogue::none, 1.0f, 0.0f, false},
                       {"none, alpha 0.75", Epilogue::none, 0.75f, 0.0f, false},
                       {"none, beta 1", Epilogue::none, 1.0f, 1.0f, false},
                       {"none, alpha 0.5, beta 0.25, residual", Epilogue::none, 0.5f, 0.25f, true},
                       {"bias", Epilogue::bias, 1.0f, 0.0f, false},
                       {"bias, beta 1, residual", Epilogue::bias, 1.0f, 1.0f, true},
                       {"gelu_aux_bias", Epilogue::gelu_aux_bias, 1.0f, 0.0f, false},
                       {"dgelu", Epilogue::dgelu, 1.0f, 0.0f, false},
                       {"bias_gradient, beta 1", Epilogue::bias_gradient, 1.0f, 1.0f, false}};
const Sizes kSizes[] = {{1, 1, 1},     {65, 1, 64},    {1, 65, 33},  {65, 65, 65},
                        {64, 128, 96}, {128, 64, 256}, {33, 72, 40}, {130, 264, 200}};

// An error of the call is a failed check, not the end of all.
double share_of_tolerance(const Types& types, const Form& form, const Sizes& s, Count gap, const Array& a, bool ta,
                          const Array& b, bool tb, const Exact& exact) {
  try {
    return Case(types, form, s, gap, a, ta, b, tb).judge(exact).share;
  } catch (const Error& error) {
    fmt::print("     {}\n", error.what());
    return INFINITY;
  }
}

void check_numbers(std::span<const Types> all_types, std::initializer_list<Count> gaps, const char* how) {
  for (Count gap : gaps) {
    for (const Types& types : all_types) {
      std::vector<Worst> worst(std::size(kForms));
      for (const Sizes& s : kSizes) {
        for (int transposed = 0; transposed < 4; ++transposed) {
          const bool ta = transposed & 1;
          const bool tb = transposed & 2;
          const Array a(types.in, ta ? s.k : s.m, ta ? s.m : s.k, gap, 1.0f);
          const Array b(types.in, tb ? s.n : s.k, tb ? s.k : s.n, gap, 1.0f);
          const Exact exact = product(a, ta, b, tb, s);
          for (std::size_t f = 0; f < std::size(kForms); ++f) {
            if (kForms[f].epilogue == Epilogue::bias_gradient && !ta) continue;  // its contract where it is not fused
            const double share = share_of_tolerance(types, kForms[f], s, gap, a, ta, b, tb, exact);
            worst[f].share = std::max(worst[f].share, share);
            if (!(share <= 1.0)) {
              fmt::print("     m {} n {} k {}, transposed {} {}: {:.3g} of the tolerance\n", s.m, s.n, s.k, ta, tb, share);
            }
          }
        }
      }
      for (std::size_t f = 0; f < std::size(kForms); ++f) {
        report(fmt::format("{}, {}, gap {}{}", types.name, kForms[f].name, gap, how), worst[f].share <= 1.0,
               fmt::format("error / tolerance {:.3f}", worst[f].share));
      }
    }
  }
}

void check_empty() {
  const Types& types = kTypes[0];
  for (const Sizes& s : {Sizes{5, 8, 0}, Sizes{0, 8, 3}, Sizes{5, 0, 3}}) {
    const Array a(types.in, s.m, s.k, 0, 1.0f);
    const Array b(types.in, s.k, s.n, 0, 1.0f);
    const Exact exact = product(a, false, b, false, s);
    for (const Form& form : kForms) {
      if (form.epilogue == Epilogue::bias_gradient || (form.beta != 0.0f && form.beta != 1.0f)) continue;
      const double share = share_of_tolerance(types, form, s, 0, a, false, b, false, exact);
      report(fmt::format("m {} n {} k {}, {}", s.m, s.n, s.k, form.name), share <= 1.0,
             fmt::format("error / tolerance {:.3f}", share));
    }
  }
}

// The tanh and the erf form differ by less than a tolerance of 16 bits allows; their mean error tells them apart.
void check_form_of_gelu() {
  const Sizes s{256, 256, 64};
  const Types& types = kTypes[1];
  const Array a(types.in, s.m, s.k, 0, 1.0f);
  const Array b(types.in, s.k, s.n, 0, 1.0f);
  Array c(types.out, s.m, s.n, 0, 0.0f);
  Array aux(types.out, s.m, s.n, 0, 0.0f);
  const Array bias(types.out, 1, s.n, 0, 1.0f);
  GemmCall call{.c = c.matrix(), .a = a.matrix(), .b = b.matrix(), .epilogue = Epilogue::gelu_aux_bias, .bias = bias.data()};
  call.aux = aux.data();
  call.aux_stride = aux.stride;
  ops::cuda::gemm(call, false);
  wait();
  c.fetch();
  aux.fetch();
  double tanh_error = 0.0;
  double erf_error = 0.0;
  for (Count i = 0; i < s.m; ++i) {
    for (Count j = 0; j < s.n; ++j) {
      const double z = aux.at(i, j);
      if (z > -1.5 || z < -3.5) continue;  // where the forms differ most, relative to the result
      tanh_error += std::abs(c.at(i, j) - gelu(z));
      erf_error += std::abs(c.at(i, j) - 0.5 * z * (1.0 + std::erf(z / std::numbers::sqrt2)));
    }
  }
  report("GELU is the tanh form (fp16)", tanh_error < 0.7 * erf_error,
         fmt::format("sum of errors {:.3g} against the tanh form, {:.3g} against erf", tanh_error, erf_error));
}

// Products large enough to be split over k or to use every multiprocessor, of random bits that need not be right.
struct Large {
  explicit Large(bool weight_gradient)
      : s(weight_gradient ? Sizes{768, 3072, 16384} : Sizes{4096, 2304, 768}),
        a(DType::bf16, weight_gradient ? s.k : s.m, weight_gradient ? s.m : s.k, 0, 1.0f),
        b(DType::bf16, s.k, s.n, 0, 1.0f),
        c(weight_gradient ? DType::f32 : DType::bf16, s.m, s.n, 0, 0.0f),
        transposed(weight_gradient) {}
  std::vector<unsigned char> run() {
    ops::cuda::gemm({.c = c.matrix(), .a = a.matrix(), .transpose_a = transposed, .b = b.matrix()}, false);
    wait();
    c.fetch();
    return c.host;
  }
  Sizes s;
  Array a, b, c;
  bool transposed;
};

void check_repeatable() {
  for (bool weight_gradient : {false, true}) {
    const std::string name = weight_gradient ? "k 16384 to fp32" : "k 768 bf16";
    Large large(weight_gradient);
    ops::cuda::reset_gemm();
    const auto first = large.run();
    bool equal = true;
    for (int i = 0; i < 5; ++i) equal = equal && large.run() == first;
    report(name + ": same bits at every call", equal, "");
    ops::cuda::reset_gemm();
    report(name + ": same bits after choosing anew", large.run() == first, "");

    const std::string path = (std::filesystem::temp_directory_path() / "gemm_check_tuning.json").string();
    std::filesystem::remove(path);
    ops::cuda::reset_gemm();
    ops::cuda::set_gemm_tuning(true);
    const auto tuned = large.run();
    ops::cuda::save_gemm_tuning(path);
    ops::cuda::reset_gemm();
    const Count loaded = ops::cuda::load_gemm_tuning(path);
    report(
        name + ": same bits from a saved table", loaded == 1 && large.run() == tuned,
        fmt::format("{} loaded; tuned and first choice are {}", loaded, tuned == first ? "bitwise equal" : "not bitwise equal"));
    std::filesystem::remove(path);
    ops::cuda::reset_gemm();
  }
}

void check_host_time() {
  constexpr int kCalls = 300;  // fewer than the driver queues before it makes the host wait
  const Array a(DType::bf16, 64, 64, 0, 1.0f), b(DType::bf16, 64, 64, 0, 1.0f), bias(DType::bf16, 1, 64, 0, 1.0f);
  const Array c(DType::bf16, 64, 64, 0, 0.0f);
  const GemmCall call{.c = c.matrix(), .a = a.matrix(), .b = b.matrix(), .epilogue = Epilogue::bias, .bias = bias.data()};
  ops::cuda::gemm(call, false);
  double best = INFINITY;
  for (int repeat = 0; repeat < 5; ++repeat) {
    wait();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) ops::cuda::gemm(call, false);
    const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
    best = std::min(best, spent.count() / kCalls);
  }
  wait();
  fmt::print("time host of a call made before: {:.2f} us\n", best);
}

}  // namespace
}  // namespace cohort::gemm_check

int main(int argc, char**) {
  using namespace cohort;
  try {
    gpu::open(0);
    fmt::print("{}, {}\n", gpu::facts().name, ops::cuda::gemm_library());
    gemm_check::cuda(
        cudaMemsetAsync(gpu::workspace(), 0xFF, static_cast<std::size_t>(gpu::kWorkspaceBytes), gpu::compute_stream()),
        "poisoning the workspace");
    gemm_check::check_numbers(gemm_check::kTypes, {0, 8}, "");
    ops::cuda::reset_gemm();
    ops::cuda::set_gemm_tuning(true);
    gemm_check::check_numbers(std::span(gemm_check::kTypes).first(3), {0}, ", tuned");
    ops::cuda::reset_gemm();
    gemm_check::check_empty();
    gemm_check::check_form_of_gelu();
    gemm_check::check_repeatable();
    gemm_check::check_host_time();
    if (argc == 1) gemm_check::time_products();              // any argument: checks only
    gemm_check::check_numbers(gemm_check::kTypes, {3}, "");  // badly aligned: last, since a fault there would end the program
    gpu::close();
  } catch (const std::exception& error) {
    fmt::print("FAIL {}\n", error.what());
    return 1;
  }
  fmt::print("{} checks failed\n", gemm_check::failures);
  return gemm_check::failures == 0 ? 0 : 1;
}
