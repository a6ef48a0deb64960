#include "config/tensor_parallel_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/model_rules.hpp"
#include "config/nearest.hpp"

namespace cohort {
namespace {

bool divides_kv_heads(Count kv_heads, Count tp) { return kv_heads % tp == 0 || tp % kv_heads == 0; }

// The parts have ceil(V / tp) rows, the last what is left: nothing, if V is hardly larger than tp.
bool divides_vocabulary(Count vocabulary, Count tp) {
  return vocabulary == 0 || (vocabulary + tp - 1) / tp * (tp - 1) < vocabulary;
}

bool fits(const ModelSection& model, Count tp, bool sequence, Count cp) {
  return model.heads % tp == 0 && divides_kv_heads(attention_of(model)->kv_heads, tp) && model.ffn_width % tp == 0 &&
         (!sequence || tp == 1 || model.context % (tp * cp) == 0) && divides_vocabulary(model.vocabulary, tp);
}

// "3 or 6": the nearest degrees around tp that fit the whole model; 1 always does, none beyond the heads.
std::string nearest_degrees(const ModelSection& model, Count tp, bool sequence, Count cp) {
  std::vector<std::string> found;
  for (Count degree = std::min(tp - 1, model.heads); degree >= 1 && found.empty(); --degree)
    if (fits(model, degree, sequence, cp)) found.push_back(fmt::to_string(degree));
  const std::size_t below = found.size();
  for (Count degree = tp + 1; degree <= model.heads && found.size() == below; ++degree)
    if (fits(model, degree, sequence, cp)) found.push_back(fmt::to_string(degree));
  return join(found, " or ");
}

}  // namespace

void check_tensor_parallel(const ModelSection& model, Count tp, bool sequence, const std::string& where, Count cp) {
  if (tp == 1) return;
  if (!rules_of(model).is_decoder()) {
    fail(ExitCode::config, "{}parallel.tp = {}, but model.kind = \"{}\" has no tensor parallelism; set parallel.tp = 1", where,
         tp, model.kind);
  }
  const auto refuse = [&](const std::string& fault) {
    fail(ExitCode::config, "{}{}; values of parallel.tp that fit this model: {}", where, fault,
         nearest_degrees(model, tp, sequence, cp));
  };
  const auto need_multiple = [&](const char* key, Count value) {
    if (value % tp != 0)
      refuse(fmt::format("{} = {} is not a multiple of parallel.tp = {} (multiples: {})", key, value, tp,
                         nearest_multiples(value, tp)));
  };
  need_multiple("model.heads", model.heads);
  const Count kv_heads = attention_of(model)->kv_heads;
  if (!divides_kv_heads(kv_heads, tp)) {
    refuse(fmt::format("model.kv_heads = {} is neither a multiple nor a divisor of parallel.tp = {}", kv_heads, tp));
  }
  need_multiple("model.ffn_width", model.ffn_width);
  if (sequence && model.context % (tp * cp) != 0) {
    refuse(fmt::format(
        "parallel.sequence divides the tokens of a sample among the ranks, but model.context = {} is not a multiple of "
        "parallel.tp = {}{} (multiples: {})",
        model.context, tp, cp > 1 ? fmt::format(" x parallel.cp = {}", cp) : "", nearest_multiples(model.context, tp * cp)));
  }
  if (!divides_vocabulary(model.vocabulary, tp)) {
    refuse(fmt::format("model.vocabulary = {} in parts of {} leaves none for the last of parallel.tp = {} ranks",
                       model.vocabulary, (model.vocabulary + tp - 1) / tp, tp));
  }
}

}  // namespace cohort
