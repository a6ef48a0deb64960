// gemm() on the GPU: finds or makes the plan of a call and launches it, and does in two steps what cuBLASLt does not fuse.
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "base/error.hpp"
#include "base/text.hpp"
#include "gpu/device.hpp"
#include "ops/cuda/gemm/cublaslt_tuning.hpp"
#include "ops/cuda/pointwise/pointwise.hpp"

namespace cohort::ops::cuda {
namespace {

struct Kind {
  Plan plan;
  std::optional<Choice> choice;  // none: cuBLASLt does not do it
};

// What this process has learned. Kinds are few (tens): nothing is ever thrown out.
struct Learned {
  std::unordered_map<ProductKey, Kind, ProductKeyHash> kinds;
  ChoiceTable table;  // loaded or timed
  bool tuning = false;
};
Learned& learned() {
  static Learned all;
  return all;
}

Matrix residual_of(const GemmCall& call) { return call.residual.data != nullptr ? call.residual : call.c; }

std::string text_of(const Matrix& x, bool transposed) {
  return fmt::format("{} [{}, {}]{} stride {}", name_of(x.dtype), x.rows, x.columns, transposed ? " transposed" : "", x.stride);
}

// Whether cuBLASLt takes the operands of a product in 8 bits.
bool fits_8_bits(const GemmCall& call) {
  const auto fits = [](const Matrix& x) {
    return x.scale != nullptr && x.columns % kFp8Multiple == 0 && x.stride % kFp8Multiple == 0 &&
           reinterpret_cast<std::uintptr_t>(x.data) % kFp8Multiple == 0;
  };
  return fits(call.a) && fits(call.b) && call.b.rows % kFp8Multiple == 0 && !call.transpose_a && call.transpose_b &&
         !(call.a.format == Fp8::e5m2 && call.b.format == Fp8::e5m2);
}

// k of the call, after checking that its parts fit each other.
Count checked_inner_size(const GemmCall& call) {
  const Count m = call.transpose_a ? call.a.columns : call.a.rows;
  const Count n = call.transpose_b ? call.b.rows : call.b.columns;
  const Count k = call.transpose_a ? call.a.rows : call.a.columns;
  const Matrix r = residual_of(call);
  const bool sizes = call.c.rows == m && call.c.columns == n && (call.transpose_b ? call.b.columns : call.b.rows) == k &&
                     r.rows == m && r.columns == n;
  const bool strides = call.a.stride >= call.a.columns && call.b.stride >= call.b.columns && call.c.stride >= n && r.stride >= n;
  const bool bits8 = call.a.dtype == DType::u8;
  const bool output = call.c.dtype == DType::f32 || call.c.dtype == (bits8 ? DType::bf16 : call.a.dtype);
  const bool types = call.a.dtype == call.b.dtype && r.dtype == call.c.dtype && output && (!bits8 || fits_8_bits(call));
  COHORT_CHECK(sizes && strides && types, "gemm: c {}, residual {}, a {}, b {}", text_of(call.c, false), text_of(r, false),
               text_of(call.a, call.transpose_a), text_of(call.b, call.transpose_b));
  return k;
}

int alignment_of(const void* address) {
  constexpr std::uintptr_t kMost = 16;
  return static_cast<int>(std::uintptr_t{1} << std::countr_zero(reinterpret_cast<std::uintptr_t>(address) | kMost));
}

bool has_bias(Epilogue epilogue) { return epilogue == Epilogue::bias || epilogue == Epilogue::gelu_aux_bias; }
bool has_aux(Epilogue epilogue) { return epilogue == Epilogue::gelu_aux_bias || epilogue == Epilogue::dgelu; }

// The part of the workspace that products leave alone holds a vector: the sums of the BGRADB epilogue before they are added to
// the gradient, or ones.
void* spare_vector() { return static_cast<char*>(gpu::workspace()) + kTuningWorkspace; }
constexpr Count kLongestSpareVector = (gpu::kWorkspaceBytes - kTuningWorkspace) / Bytes{sizeof(float)};

ProductKey key_of(const GemmCall& call, Count k, bool allow_tf32) {
  const Matrix r = residual_of(call);
  ProductKey key;
  key.m = call.c.rows;
  key.n = call.c.columns;
  key.k = k;
  key.a_stride = call.a.stride;
  key.b_stride = call.b.stride;
  key.c_stride = call.c.stride;
  key.residual_stride = r.stride;
  key.input = call.a.dtype;
  key.output = call.c.dtype;
  key.transpose_a = call.transpose_a;
  key.transpose_b = call.transpose_b;
  key.tf32 = allow_tf32 && call.a.dtype == DType::f32;
  if (call.a.dtype == DType::u8) {
    key.a_format = call.a.format;
    key.b_format = call.b.format;
    key.fast_sums = call.fast_sums;
  }
  key.reads_c = call.beta != 0.0f;
  key.epilogue = call.epilogue;
  key.a_alignment = alignment_of(call.a.data);
  key.b_alignment = alignment_of(call.b.data);
  key.c_alignment = alignment_of(call.c.data);
  key.residual_alignment = alignment_of(r.data);
  if (has_bias(call.epilogue)) key.bias_alignment = alignment_of(call.bias);
  if (has_aux(call.epilogue)) {
    key.aux_stride = call.aux_stride;
    key.aux_alignment = alignment_of(call.aux);
  }
  return key;
}

// What is ruled out beforehand.
bool may_fuse(const GemmCall& call) {
  // cuBLASLt wants the stride of aux to be a multiple of 8. How exact its tanh is, it does not say: the rounding of a 16-bit
  // result hides that, fp32 would show it.
  if (has_aux(call.epilogue)) return call.aux_stride % 8 == 0 && call.c.dtype != DType::f32;
  if (call.epilogue != Epilogue::bias_gradient) return true;
  // The sums have c's type, and a bias gradient is fp32; nothing is said about what alpha does to them.
  return call.c.dtype == DType::f32 && call.alpha == 1.0f && call.c.rows <= kLongestSpareVector;
}

std::optional<Choice> choose(Plan& plan, const Operands& operands) {
  const std::string name = text_of(plan.key());
  if (const auto known = learned().table.find(name); known != learned().table.end()) {
    if (!plan.accepts(known->second.algorithm)) {
      fail(ExitCode::config, "the table of matrix products names an algorithm for {} that {} does not support: delete the table",
           name, gemm_library());
    }
    return known->second;
  }
  if (learned().tuning) {
    const std::optional<Choice> timed = choose_by_time(plan, operands);
    if (timed) return learned().table[name] = *timed;
  }
  return choose_first(plan);
}

// Does the call in one launch, and says whether it did.
bool launch(const GemmCall& call, Count k, bool allow_tf32) {
  const ProductKey key = key_of(call, k, allow_tf32);
  void* const bias = call.epilogue == Epilogue::bias_gradient ? spare_vector() : const_cast<void*>(call.bias);
  const Operands operands{call.a.data, call.b.data, residual_of(call).data, call.c.data, bias, call.aux,
                          call.alpha,  call.beta,   call.a.scale,           call.b.scale};
  auto found = learned().kinds.find(key);
  if (found == learned().kinds.end()) {
    Kind fresh{Plan(key), std::nullopt};
    if (may_fuse(call)) fresh.choice = choose(fresh.plan, operands);
    found = learned().kinds.emplace(key, fresh).first;
  }
  Kind& kind = found->second;
  if (!kind.choice) return false;
  const cublasStatus_t status = kind.plan.launch(operands, kind.choice->algorithm);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED && call.epilogue != Epilogue::none) {
    kind.choice.reset();  // the heuristic named an algorithm that does not do it after all: product, then epilogue, from now on
    return false;
  }
  if (status != CUBLAS_STATUS_SUCCESS) {
    fail(ExitCode::internal, "cuBLASLt: {} failed: {} ({})", text_of(key), cublasLtGetStatusString(status),
         cublasLtGetStatusName(status));
  }
  return true;
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail(ExitCode::internal, "{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

// c = beta r.
void multiply_nothing(const GemmCall& call) {
  COHORT_CHECK(call.beta == 0.0f || call.beta == 1.0f, "gemm: k = 0 with beta = {}", call.beta);
  const Matrix r = residual_of(call);
  const auto bytes = [&](Count elements) { return static_cast<std::size_t>(elements * size_of(call.c.dtype)); };
  const auto rows = static_cast<std::size_t>(call.c.rows);
  if (call.beta == 0.0f) {
    check(cudaMemset2DAsync(call.c.data, bytes(call.c.stride), 0, bytes(call.c.columns), rows, gpu::compute_stream()),
          "zeroing a matrix");
  } else if (r.data != call.c.data) {
    check(cudaMemcpy2DAsync(call.c.data, bytes(call.c.stride), r.data, bytes(r.stride), bytes(call.c.columns), rows,
                            cudaMemcpyDeviceToDevice, gpu::compute_stream()),
          "copying a matrix");
  }
}

// The product alone.
void multiply(GemmCall call, Count k, bool allow_tf32) {
  call.epilogue = Epilogue::none;
  if (k == 0) return multiply_nothing(call);
  if (launch(call, k, allow_tf32)) return;
  fail(ExitCode::internal, "{} has no algorithm for {}", gemm_library(), text_of(key_of(call, k, allow_tf32)));
}

// x + bias, as x + ones bias: rare enough for no kernel of its own.
void add_bias(const Matrix& x, const void* bias) {
  COHORT_CHECK(x.rows <= kLongestSpareVector, "gemm: an unfused bias for {} rows", x.rows);
  fill(gpu::compute_stream(), x.dtype, spare_vector(), 1.0f, x.rows);
  gpu::check_launch("filling a vector with ones");
  const Matrix ones{spare_vector(), x.dtype, 1, x.rows, x.rows};  // transposed: rows of one element would be badly aligned
  const Matrix row{const_cast<void*>(bias), x.dtype, 1, x.columns, x.columns};
  multiply({.c = x, .a = ones, .transpose_a = true, .b = row, .beta = 1.0f}, 1, false);
}

void* row_of(const Matrix& x, Count row) { return static_cast<char*>(x.data) + row * x.stride * size_of(x.dtype); }

// The pointwise kernels take rows without gaps. Where there are gaps, each row is a matrix of its own: slow, for odd cases.
template <class Kernel>
void over_rows(bool contiguous, Count rows, const Kernel& kernel) {
  if (rows == 0) return;
  if (contiguous) {
    kernel(Count{0}, rows);
  } else {
    for (Count row = 0; row < rows; ++row) kernel(row, Count{1});
  }
  gpu::check_launch("the epilogue of a matrix product");
}

// bias_gradient += the row sums of op(a), which are column sums of what is stored.
void add_row_sums(const GemmCall& call, Count k) {
  COHORT_CHECK(call.transpose_a, "gemm: an unfused bias gradient needs a transposed a, since it sums columns");
  over_rows(call.a.stride == call.a.columns, k, [&](Count row, Count rows) {
    column_sums(gpu::compute_stream(), call.a.dtype, call.bias_gradient, row_of(call.a, row), rows, call.a.columns,
                gpu::workspace());
  });
}

// The product and then its epilogue.
void run_unfused(const GemmCall& call, Count k, bool allow_tf32) {
  const Matrix aux{call.aux, call.c.dtype, call.c.rows, call.c.columns, call.aux_stride};
  const bool contiguous = aux.stride == aux.columns && call.c.stride == call.c.columns;
  switch (call.epilogue) {
    case Epilogue::none:
      return multiply(call, k, allow_tf32);
    case Epilogue::bias:
      multiply(call, k, allow_tf32);
      return add_bias(call.c, call.bias);
    case Epilogue::gelu_aux_bias: {
      GemmCall before = call;
      before.c = aux;
      before.residual = residual_of(call);
      before.epilogue = Epilogue::bias;
      gemm(before, allow_tf32);
      return over_rows(contiguous, aux.rows, [&](Count row, Count rows) {
        gelu_forward(gpu::compute_stream(), aux.dtype, row_of(call.c, row), row_of(aux, row), nullptr, rows, aux.columns);
      });
    }
    case Epilogue::dgelu:
      multiply(call, k, allow_tf32);
      return over_rows(contiguous, aux.rows, [&](Count row, Count rows) {
        void* const c = row_of(call.c, row);
        gelu_backward(gpu::compute_stream(), aux.dtype, c, nullptr, c, row_of(aux, row), nullptr, rows, aux.columns, nullptr);
      });
    case Epilogue::bias_gradient:
      multiply(call, k, allow_tf32);
      return add_row_sums(call, k);
  }
}

}  // namespace

void gemm(const GemmCall& call, bool allow_tf32) {
  const Count k = checked_inner_size(call);
  if (call.c.rows == 0 || call.c.columns == 0) return;
  if (k == 0 || !launch(call, k, allow_tf32)) return run_unfused(call, k, allow_tf32);
  if (call.epilogue != Epilogue::bias_gradient) return;
  column_sums(gpu::compute_stream(), DType::f32, call.bias_gradient, spare_vector(), 1, call.c.rows, gpu::workspace());
  gpu::check_launch("adding a bias gradient");
}

std::string gemm_library() {
  const std::size_t version = cublasLtGetVersion();
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void set_gemm_tuning(bool on) { learned().tuning = on; }

void save_gemm_tuning(const std::filesystem::path& path) { save_choices(path, learned().table); }

Count load_gemm_tuning(const std::filesystem::path& path) {
  const ChoiceTable loaded = load_choices(path);
  for (const auto& [product, choice] : loaded) learned().table[product] = choice;
  return static_cast<Count>(loaded.size());
}

std::string gemm_report() {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, kind] : learned().kinds) {
    const bool timed = kind.choice && kind.choice->microseconds > 0.0;
    const std::string how = kind.choice ? algorithm_text(kind.choice->algorithm) : "not fused: product, then epilogue";
    rows.push_back({text_of(key), how, timed ? fmt::format("{:.1f}", kind.choice->microseconds) : "",
                    timed ? fmt::format("{:.1f}", kind.choice->first_microseconds) : ""});
  }
  std::sort(rows.begin(), rows.end());  // the map has no order of its own
  Table table({"product", "algorithm", "us", "us of the first"});
  for (std::vector<std::string>& row : rows) table.add(std::move(row));
  return table.str(2);
}

void reset_gemm() { learned() = {}; }

}  // namespace cohort::ops::cuda
