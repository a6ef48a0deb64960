#include "ops/cuda/gemm/cublaslt_plan.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "gpu/device.hpp"

namespace cohort::ops::cuda {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(ExitCode::internal, "cuBLASLt: {}: {} ({})", what, cublasLtGetStatusString(status), cublasLtGetStatusName(status));
}

cudaDataType_t data_type(DType dtype, Fp8 format) {
  switch (dtype) {
    case DType::u8:
      return format == Fp8::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      fail(ExitCode::internal, "cuBLASLt: matrices of {} are not supported", name_of(dtype));
  }
}

cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu_aux_bias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::dgelu:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::bias_gradient:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  fail(ExitCode::internal, "cuBLASLt: an epilogue without a name");
}

const char* name_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return "none";
    case Epilogue::bias:
      return "bias";
    case Epilogue::gelu_aux_bias:
      return "gelu_aux_bias";
    case Epilogue::dgelu:
      return "dgelu";
    case Epilogue::bias_gradient:
      return "bias_gradient";
  }
  return "?";
}

bool uses_aux(Epilogue epilogue) { return epilogue == Epilogue::gelu_aux_bias || epilogue == Epilogue::dgelu; }
bool uses_bias(Epilogue epilogue) { return epilogue != Epilogue::none && epilogue != Epilogue::dgelu; }

cublasComputeType_t compute_type(const ProductKey& key) { return key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F; }

void init_layout(cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t type, Count rows, Count columns, Count stride) {
  // Column-major: our columns are its rows.
  check(cublasLtMatrixLayoutInit(&layout, type, static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows), stride),
        "describing a matrix");
}

// An address of exactly this alignment: the heuristic reads no more of the pointers that a description holds.
void* address_aligned_to(int alignment) {
  return reinterpret_cast<void*>(std::uintptr_t{4096} + static_cast<unsigned>(alignment));
}

class Preference {
 public:
  explicit Preference(const ProductKey& key, Bytes workspace_bytes) {
    check(cublasLtMatmulPreferenceInit(&preference_), "creating a preference");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes));
    // Partial sums of a split k are added in fp32 and in a fixed order; the other schemes add them in c's type.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(key.b_alignment));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(key.a_alignment));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(key.residual_alignment));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(key.c_alignment));
  }
  cublasLtMatmulPreference_t get() { return &preference_; }

 private:
  template <class Value>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulPreferenceSetAttribute(&preference_, attribute, &value, sizeof value), "setting a preference");
  }
  cublasLtMatmulPreferenceOpaque_t preference_;
};

template <class Value>
Value config_of(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  Value value{};
  std::size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written), "reading an algorithm");
  return value;
}

// The library's state of this process, created at the first use. It is never destroyed: when static objects are, CUDA may have
// shut down already.
cublasLtHandle_t handle() {
  static const cublasLtHandle_t created = [] {
    cublasLtHandle_t fresh = nullptr;
    check(cublasLtCreate(&fresh), "starting the library");
    return fresh;
  }();
  return created;
}

// "bf16", "e5m2*e4m3", "e4m3*e4m3 fast".
std::string type_text(const ProductKey& key) {
  if (key.input != DType::u8) return std::string(name_of(key.input));
  return fmt::format("{}*{}{}", name_of(key.a_format), name_of(key.b_format), key.fast_sums ? " fast" : "");
}

}  // namespace

std::size_t ProductKeyHash::operator()(const ProductKey& key) const {
  std::uint64_t hash = 0;
  const auto mix = [&hash](std::int64_t value) { hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15u; };
  for (Count size : {key.m, key.n, key.k, key.a_stride, key.b_stride, key.c_stride, key.residual_stride, key.aux_stride})
    mix(size);
  mix(static_cast<int>(key.input) | static_cast<int>(key.output) << 8 | static_cast<int>(key.epilogue) << 16);
  mix(key.transpose_a | key.transpose_b << 1 | key.tf32 << 2 | key.reads_c << 3 | key.fast_sums << 4 |
      static_cast<int>(key.a_format) << 5 | static_cast<int>(key.b_format) << 6);
  return hash ^ hash >> 32;  // alignments are left out: they hardly ever differ
}

std::string text_of(const ProductKey& key) {
  std::string text = fmt::format("m{} n{} k{} {}", key.m, key.n, key.k, type_text(key));
  if (key.tf32) text += " tf32";
  if (key.output != key.input) text += fmt::format(" to {}", name_of(key.output));
  text += fmt::format(" A{}{} B{}{} C{}", key.a_stride, key.transpose_a ? "t" : "", key.b_stride, key.transpose_b ? "t" : "",
                      key.c_stride);
  if (key.reads_c) text += fmt::format(" R{}", key.residual_stride);
  if (key.epilogue != Epilogue::none) text += fmt::format(" {}", name_of(key.epilogue));
  if (key.aux_stride != 0) text += fmt::format(" X{}", key.aux_stride);
  const auto alignment = [&text](const char* name, int bytes) {
    if (bytes < 16) text += fmt::format(" {}@{}", name, bytes);
  };
  alignment("A", key.a_alignment);
  alignment("B", key.b_alignment);
  alignment("C", key.c_alignment);
  alignment("R", key.residual_alignment);
  alignment("bias", key.bias_alignment);
  alignment("X", key.aux_alignment);
  return text;
}

Plan::Plan(const ProductKey& key) : key_(key) {
  check(cublasLtMatmulDescInit(&operation_, compute_type(key), CUDA_R_32F), "describing a product");
  set(CUBLASLT_MATMUL_DESC_TRANSA, key.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, key.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(key.epilogue));
  if (uses_aux(key.epilogue)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.aux_stride);
  if (key.fast_sums) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  const auto [a_rows, a_columns] = key.transpose_a ? std::pair(key.k, key.m) : std::pair(key.m, key.k);
  const auto [b_rows, b_columns] = key.transpose_b ? std::pair(key.n, key.k) : std::pair(key.k, key.n);
  init_layout(a_, data_type(key.input, key.a_format), a_rows, a_columns, key.a_stride);
  init_layout(b_, data_type(key.input, key.b_format), b_rows, b_columns, key.b_stride);
  init_layout(c_, data_type(key.output, {}), key.m, key.n, key.c_stride);
  init_layout(residual_, data_type(key.output, {}), key.m, key.n, key.residual_stride);
}

template <class Value>
void Plan::set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(&operation_, attribute, &value, sizeof value), "describing a product");
}

void Plan::set_pointers(void* bias, void* aux, const float* a_scale, const float* b_scale) {
  if (uses_bias(key_.epilogue)) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (uses_aux(key_.epilogue)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
  if (key_.input != DType::u8) return;
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, b_scale);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, a_scale);
}

std::vector<cublasLtMatmulAlgo_t> Plan::algorithms(int count, Bytes workspace_bytes) {
  const auto* const scale = static_cast<const float*>(address_aligned_to(16));
  set_pointers(address_aligned_to(key_.bias_alignment), address_aligned_to(key_.aux_alignment), scale, scale);
  Preference preference(key_, workspace_bytes);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(count));
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle(), &operation_, &b_, &a_, &residual_, &c_, preference.get(),
                                                               count, results.data(), &found);
  // Some versions answer "invalid value", not "not supported", where an epilogue does not go with the types.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check(status, "choosing an algorithm");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

bool Plan::accepts(const cublasLtMatmulAlgo_t& algorithm) {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle(), &operation_, &b_, &a_, &residual_, &c_, &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= static_cast<std::size_t>(kTuningWorkspace);
}

cublasStatus_t Plan::launch(const Operands& operands, const cublasLtMatmulAlgo_t& algorithm) {
  set_pointers(operands.bias, operands.aux, operands.a_scale, operands.b_scale);
  return cublasLtMatmul(handle(), &operation_, &operands.alpha, operands.b, &b_, operands.a, &a_, &operands.beta,
                        operands.residual, &residual_, operands.c, &c_, &algorithm, gpu::workspace(),
                        static_cast<std::size_t>(kTuningWorkspace), gpu::compute_stream());
}

std::string algorithm_text(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text =
      fmt::format("algorithm {}, tile {}, stages {}, cluster {}", config_of<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID),
                  config_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
                  config_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                  config_of<std::uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
  const std::int32_t splits = config_of<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  if (splits != 1) text += fmt::format(", {} splits of k", splits);
  return text;
}

}  // namespace cohort::ops::cuda
