#include "plan/graph/size_names.hpp"

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "config/model_rules.hpp"

namespace cohort {
namespace {

// Factors that have none in common with each other, so that two sizes whose values are equal in the run are not here. Multiples
// of sizes divide wherever these do. Layers stay as many.
RunConfig with_other_sizes(const RunConfig& config) {
  RunConfig other = config;
  ModelSection& model = other.model;
  other.train.micro_batch *= 5;
  model.context *= 3;
  model.width *= 7;
  if (model.kv_heads == model.heads) model.kv_heads *= 7;
  model.heads *= 7;  // the size of a head stays
  model.ffn_width *= 11;
  model.vocabulary *= 13;
  model.inputs *= 17;
  model.classes *= 19;
  return other;
}

// An expression and what divides it: "BT" and {"BT/cp", "BT/tp", "BT/(cp tp)"}, as far as there are such axes.
class Names {
 public:
  Names(const ParallelSection& parallel, std::vector<SizeName>& names) : parallel_(parallel), names_(names) {}

  void add(const std::string& symbols, Count value) {
    if (value > 0) names_.push_back({symbols, value});
  }
  void add_over_tp(const std::string& symbols, Count value) {
    add(symbols, value);
    if (parallel_.tp > 1) add(symbols + "/tp", (value + parallel_.tp - 1) / parallel_.tp);
  }
  void add_rows(const std::string& symbols, Count value) {
    add_over_tp(symbols, value);
    if (parallel_.cp == 1) return;
    add(symbols + "/cp", value / parallel_.cp);
    if (parallel_.tp > 1) add(symbols + "/(cp tp)", value / parallel_.cp / parallel_.tp);
  }

 private:
  const ParallelSection& parallel_;
  std::vector<SizeName>& names_;
};

std::optional<std::string> symbol_of(Count value, Count other, const std::vector<SizeName>& names,
                                     const std::vector<SizeName>& others) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].value == value && others[i].value == other) return names[i].symbols;
  }
  return std::nullopt;
}

std::string in_symbols(const Shape& shape, const Shape& other, const std::vector<SizeName>& names,
                       const std::vector<SizeName>& others) {
  std::vector<std::string> dims;
  for (int dim = 0; dim < shape.dims(); ++dim) {
    const auto symbol = dim < other.dims() ? symbol_of(shape[dim], other[dim], names, others) : std::nullopt;
    dims.push_back(symbol ? *symbol : fmt::format("{}", shape[dim]));
  }
  return fmt::format("[{}]", join(dims));
}

}  // namespace

std::vector<SizeName> size_names(const RunConfig& config, bool expressions) {
  const ModelSection& model = config.model;
  std::vector<SizeName> list;
  Names names(config.parallel, list);
  const Count b = config.train.micro_batch;
  const auto attention = attention_of(model);
  if (!attention) {
    names.add("B", b);
    names.add("C", model.width);
    names.add("I", model.inputs);
    names.add("K", model.classes);
    return list;
  }
  const Count t = model.context, h = attention->heads, kv = attention->kv_heads, d = attention->head_size;
  names.add("B", b);
  names.add("T", t);
  names.add("C", model.width);
  names.add("H", h);
  names.add("KV", kv);
  names.add("D", d);
  names.add("F", model.ffn_width);
  names.add("V", model.vocabulary);
  if (model.lora.rank > 0) names.add("r", model.lora.rank);
  if (!expressions) return list;
  names.add_rows("BT", b * t);
  names.add_rows("T", t);
  names.add_over_tp("C", model.width);
  if (kv == h && h * d == model.width) names.add_over_tp("3C", 3 * model.width);
  names.add_over_tp("HD", h * d);
  names.add_over_tp("(H+2KV)D", (h + 2 * kv) * d);
  names.add("(H/tp+2)D", config.parallel.tp > kv ? (h / config.parallel.tp + 2) * d : 0);  // of one shared head
  names.add_over_tp("KV D", kv * d);
  names.add_over_tp("2F", 2 * model.ffn_width);
  names.add_over_tp("F", model.ffn_width);
  names.add_over_tp("H", h);
  names.add_over_tp("KV", kv);
  names.add_over_tp("V", model.vocabulary);
  names.add_rows("BTH", b * t * h);
  names.add_rows("BT KV", b * t * kv);
  return list;
}

void name_sizes(const RunConfig& config, GraphStage& stage) {
  const RunConfig other_config = with_other_sizes(config);
  const GraphStage other = record_graph(other_config, stage.stage);
  const std::vector<SizeName> names = size_names(config, true), others = size_names(other_config, true);
  const auto name_ops = [&](std::vector<GraphOp>& ops, const std::vector<GraphOp>& other_ops) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      // A loss in pieces may have another number of them.
      const bool known =
          i < other_ops.size() && other_ops[i].name == ops[i].name && other_ops[i].results.size() == ops[i].results.size();
      for (std::size_t r = 0; r < ops[i].results.size(); ++r) {
        GraphTensor& tensor = ops[i].results[r];
        tensor.symbols = known ? in_symbols(tensor.shape, other_ops[i].results[r].shape, names, others) : tensor.shape.str();
      }
    }
  };
  for (std::size_t u = 0; u < stage.units.size() && u < other.units.size(); ++u) {
    name_ops(stage.units[u].forward, other.units[u].forward);
    name_ops(stage.units[u].backward, other.units[u].backward);
  }
}

}  // namespace cohort
