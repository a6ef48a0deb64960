#include "config/fp8_rules.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "config/model_rules.hpp"
#include "config/nearest.hpp"
#include "config/where_set.hpp"

namespace cohort {
namespace {

// cuBLASLt wants the rows of matrices in 8 bits, and of their transposes, to be multiples of 16 bytes.
constexpr Count kMultiple = 16;

void need_multiple(const RunConfig& config, const char* key, const std::string& what, Count value, Count multiple = kMultiple) {
  if (value % multiple == 0) return;
  fail(ExitCode::config,
       "{}precision.policy = \"fp8\" needs matrices with sides of a multiple of {}, but {} is {} ({} would fit); change it, or "
       "set precision.policy = \"bf16\"",
       where_set(config, {key, "precision.policy"}), multiple, what, value, nearest_multiples(value, multiple));
}

}  // namespace

void check_fp8(const RunConfig& config) {
  if (config.precision.policy != "fp8") return;
  if (config.device.kind == "cpu") {
    fail(ExitCode::config,
         "{}precision.policy = \"fp8\" is for NVIDIA's GPUs of compute capability 8.9 and newer; on a CPU choose fp32, bf16 or "
         "fp16",
         where_set(config, {"precision.policy", "device.kind"}));
  }
  if (config.device.kernels == "portable") {
    fail(ExitCode::config,
         "{}precision.policy = \"fp8\" is a mode of NVIDIA's matrix products, which device.kernels = \"portable\" leaves out; "
         "choose fp32, bf16 or fp16",
         where_set(config, {"device.kernels", "precision.policy"}));
  }
  if (config.parallel.tensor_overlap) {
    fail(
        ExitCode::config,
        "{}precision.policy = \"fp8\" rounds all rows of a product with one scale, but parallel.tensor_overlap = true multiplies "
        "rows as they arrive; set it to false, or precision.policy = \"bf16\"",
        where_set(config, {"parallel.tensor_overlap", "precision.policy"}));
  }
  const ModelSection& model = config.model;
  const std::optional<AttentionSizes> attention = attention_of(model);
  if (!attention) {
    fail(ExitCode::config, "{}precision.policy = \"fp8\" is for the blocks of a transformer, of which an {} has none",
         where_set(config, {"precision.policy", "model.kind"}), model.kind);
  }
  const Count tp = config.parallel.tp;
  const std::string of_rank = tp > 1 ? fmt::format(" / parallel.tp {}", tp) : "";
  const Count kv_heads = std::max<Count>(1, attention->kv_heads / tp);
  need_multiple(config, "model.width", "model.width", model.width);
  need_multiple(config, "model.ffn_width", "model.ffn_width" + of_rank, model.ffn_width / tp);
  need_multiple(config, "model.heads", fmt::format("model.heads x head size {}{}", attention->head_size, of_rank),
                attention->heads / tp * attention->head_size);
  need_multiple(config, "model.kv_heads", fmt::format("the width of query, key and value{}", of_rank),
                (attention->heads / tp + 2 * kv_heads) * attention->head_size);
  // Weights lie one behind the other, also behind norms of one head: in bf16 each is to begin at a multiple of 16 bytes.
  need_multiple(config, "model.heads", "the head size", attention->head_size, kMultiple / 2);
  const Count cp = config.parallel.cp;
  // "manual" makes two of a micro-batch.
  const Count micro_batch = config.parallel.data == "manual" ? config.train.micro_batch / 2 : config.train.micro_batch;
  need_multiple(config, "train.micro_batch",
                fmt::format("the tokens of a micro-batch on a rank, {} x model.context {}{},", micro_batch, model.context,
                            cp > 1 ? fmt::format(" / parallel.cp {}", cp) : ""),
                micro_batch * (model.context / cp));
}

std::string why_without_fp8(Count compute_capability) {
  constexpr Count kWithFp8 = 89;
  if (compute_capability >= kWithFp8) return "";
  return fmt::format("needs GPUs of compute capability 8.9 or newer, and one of this job has {}.{}", compute_capability / 10,
                     compute_capability % 10);
}

}  // namespace cohort
