// Which algorithm does a product: timing the candidates, and the tables of choices that runs can share. ops/cuda/gemm/gemm.hpp
// says when that matters.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/cuda/gemm/cublaslt_plan.hpp"

namespace cohort::ops::cuda {

struct Choice {
  cublasLtMatmulAlgo_t algorithm{};
  double microseconds = 0.0;        // 0: not timed
  double first_microseconds = 0.0;  // of the heuristic's first choice, timed beside it
};

/// By text_of(ProductKey).
using ChoiceTable = std::map<std::string, Choice>;

/// The heuristic's first choice; nothing if cuBLASLt cannot do the product.
std::optional<Choice> choose_first(Plan& plan);

/// The quickest of the heuristic's candidates on these operands, or its first if none is clearly quicker. Of large products those
/// that are nearly the quickest in turns run once more, each alone for a tenth of a second. All that writes c, aux and bias as
/// the call itself will; where the call reads c, a copy of it is written instead. Nothing if there is no device memory for that
/// copy. The host waits.
std::optional<Choice> choose_by_time(Plan& plan, const Operands& operands);

/// See save_gemm_tuning() and load_gemm_tuning().
void save_choices(const std::filesystem::path& path, const ChoiceTable& choices);
ChoiceTable load_choices(const std::filesystem::path& path);

}  // namespace cohort::ops::cuda
