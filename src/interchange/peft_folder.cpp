// Reading PEFT's folders.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/strict_json.hpp"
#include "base/text.hpp"
#include "interchange/adapters.hpp"
#include "interchange/hf_layout.hpp"
#include "interchange/peft_modules.hpp"
#include "interchange/safetensors.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;

constexpr int kConfigDepth = 16;

// What adapter_config.json says that changes what is computed.
struct PeftConfig {
  double alpha = 8.0;
  bool root_of_rank = false;  // rsLoRA: the factor is alpha / sqrt(r)
  std::map<std::string, double> alpha_of;

  double factor(const std::string& module, Count rank) const {
    double own = alpha;
    for (const auto& [name, value] : alpha_of) {
      if (module == name || module.ends_with("." + name)) own = value;
    }
    return own / (root_of_rank ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank));
  }
};

[[noreturn]] void refuse(const std::string& file, const std::string& key, const Json& value, const std::string& why) {
  fail(ExitCode::checkpoint, "{}: {} is {}: {}", file, key, value.dump(), why);
}

double number(const Json& json, const std::string& key, const std::string& file) {
  if (!json.is_number()) refuse(file, key, json, "not a number");
  return json.get<double>();
}

PeftConfig read_config(const std::filesystem::path& path) {
  const std::string file = path.string();
  const Json json = parse_strict_json(read_file(path, "adapter configuration"), file, kConfigDepth);
  const auto given = [&](const char* key) -> std::optional<Json> {
    if (!json.is_object() || !json.contains(key) || json[key].is_null()) return std::nullopt;
    return json[key];
  };
  if (const auto type = given("peft_type"); !type || *type != "LORA")
    refuse(file, "peft_type", type.value_or(Json()), "only LoRA is known here");
  for (const char* key :
       {"use_dora", "lora_bias", "layer_replication", "modules_to_save", "trainable_token_indices", "target_parameters"}) {
    const auto value = given(key);
    if (value && *value != false && !(value->is_structured() && value->empty())) refuse(file, key, *value, "it is not supported");
  }
  if (const auto bias = given("bias"); bias && *bias != "none") refuse(file, "bias", *bias, "only none is supported");
  PeftConfig config;
  if (const auto alpha = given("lora_alpha")) config.alpha = number(*alpha, "lora_alpha", file);
  if (!(config.alpha > 0.0)) fail(ExitCode::checkpoint, "{}: lora_alpha is {} and must be above 0", file, config.alpha);
  config.root_of_rank = given("use_rslora").value_or(false) == true;
  const Json patterns = given("alpha_pattern").value_or(Json::object());
  for (const auto& [module, alpha] : patterns.items()) {
    if (module.find_first_of("*+?()[]^$|\\") != std::string::npos)
      refuse(file, "alpha_pattern", module, "a regular expression is not supported; name the modules");
    config.alpha_of[module] = number(alpha, "alpha_pattern", file);
    if (!(config.alpha_of[module] > 0.0))
      fail(ExitCode::checkpoint, "{}: alpha_pattern: {} has {} and must be above 0", file, module, config.alpha_of[module]);
  }
  return config;
}

// "blocks.*.attention.query.weight" where all layers have it, else their names.
std::string targets_of(const std::vector<std::string>& weights, Count layers) {
  std::map<std::string, std::vector<std::string>> by_place;
  for (const std::string& weight : weights)
    by_place[weight.substr(weight.find('.', std::string("blocks.").size()))].push_back(weight);
  std::vector<std::string> targets;
  for (const auto& [place, names] : by_place) {
    if (static_cast<Count>(names.size()) == layers) {
      targets.push_back("blocks.*" + place);
    } else {
      targets.insert(targets.end(), names.begin(), names.end());
    }
  }
  return join(targets, ",");
}

}  // namespace

struct PeftFolder::Source {
  std::size_t a = 0, b = 0;  // entries of the file
  Count rank = 0;            // there
  Count first_row = 0;       // of its rows of B
  double factor = 0.0;       // of B, besides that of all
};

struct PeftFolder::Contents {
  SafetensorsFile file;
  ModelSection model;
  std::map<std::string, Source> adapters;  // by weight

  explicit Contents(const std::filesystem::path& path) : file(path) {}

  void find(const PeftModule& module, std::map<std::string, std::size_t>& entries, const PeftConfig& config) {
    const auto a = entries.find(module.tensor(kPeftA)), b = entries.find(module.tensor(kPeftB));
    if (a == entries.end() && b == entries.end()) return;
    if (a == entries.end() || b == entries.end())
      fail(ExitCode::checkpoint, "{}: {} has only one of lora_A and lora_B", file.name(), module.name);
    const Shape &shape_a = file.entries()[a->second].shape, &shape_b = file.entries()[b->second].shape;
    const bool fits = shape_a.dims() == 2 && shape_b.dims() == 2 && shape_a[0] == shape_b[1] && shape_a[0] > 0 &&
                      shape_a[1] == module.inputs && shape_b[0] == module.outputs();
    if (!fits) {
      fail(ExitCode::checkpoint, "{}: lora_A {} and lora_B {} of {} do not fit a weight of {} outputs and {} inputs", file.name(),
           shape_a.str(), shape_b.str(), module.name, module.outputs(), module.inputs);
    }
    Count row = 0;
    for (const PeftModule::Part& part : module.parts) {
      adapters[part.weight] = {a->second, b->second, shape_a[0], row, config.factor(module.name, shape_a[0])};
      row += part.outputs;
    }
    entries.erase(a);
    entries.erase(b);
  }
};

PeftFolder::PeftFolder(const std::filesystem::path& folder, const ModelSection& base)
    : contents_(std::make_unique<Contents>(folder / kPeftWeightsFile)) {
  Contents& contents = *contents_;
  const PeftConfig config = read_config(folder / kPeftConfigFile);
  std::map<std::string, std::size_t> entries;
  for (std::size_t i = 0; i < contents.file.entries().size(); ++i) entries[contents.file.entries()[i].name] = i;
  for (const PeftModule& module : linear_modules(base)) contents.find(module, entries, config);
  if (!entries.empty()) {
    fail(ExitCode::checkpoint, "{}: {} is of no linear layer in a block of the {} that it is to join", contents.file.name(),
         entries.begin()->first, base.kind);
  }
  if (contents.adapters.empty()) fail(ExitCode::checkpoint, "{}: no adapters", contents.file.name());
  contents.model = base;
  LoraSection& lora = contents.model.lora;
  std::vector<std::string> weights;
  for (const auto& [weight, source] : contents.adapters) {
    weights.push_back(weight);
    lora.rank = std::max(lora.rank, source.rank);
  }
  const double factor = contents.adapters.begin()->second.factor;
  lora.alpha = factor * static_cast<double>(lora.rank);
  lora.targets = targets_of(weights, base.layers);
  for (auto& [weight, source] : contents.adapters) source.factor /= factor;
}

PeftFolder::~PeftFolder() = default;

const ModelSection& PeftFolder::model() const { return contents_->model; }

// The base's weights, and adapters of one rank: those of a lower one are filled up with zeros.
class PeftFolder::Joined : public TensorSource {
 public:
  Joined(const TensorSource& base, const ModelSection& model, const SafetensorsFile& file,
         const std::map<std::string, Source>& adapters, const std::string& where)
      : base_(base), tensors_(parameters_of(model)), file_(file) {
    ModelSection without = model;
    without.lora = {};
    require_tensors(where, parameters_of(without), base.tensors());
    for (std::size_t i = 0; i < base.tensors().size(); ++i) positions_[base.tensors()[i].name] = i;
    for (const auto& [weight, source] : adapters) {
      a_[adapter_of(weight, kLoraA)] = source;
      b_[adapter_of(weight, kLoraB)] = source;
    }
  }

  const std::vector<TensorInfo>& tensors() const override { return tensors_; }

  void read(std::size_t index, std::vector<float>& into) const override {
    const TensorInfo& tensor = tensors_.at(index);
    if (const auto a = a_.find(tensor.name); a != a_.end()) {
      file_.read(file_.entries()[a->second.a], into);
      into.resize(static_cast<std::size_t>(tensor.shape.elements()), 0.0f);
    } else if (const auto b = b_.find(tensor.name); b != b_.end()) {
      read_b(b->second, tensor.shape, into);
    } else {
      base_.read(positions_.at(tensor.name), into);
    }
  }

 private:
  void read_b(const Source& source, const Shape& shape, std::vector<float>& into) const {
    std::vector<float> all;
    file_.read(file_.entries()[source.b], all);
    const auto rank = static_cast<std::size_t>(source.rank), columns = static_cast<std::size_t>(shape[1]);
    into.assign(static_cast<std::size_t>(shape.elements()), 0.0f);
    for (std::size_t row = 0; row < static_cast<std::size_t>(shape[0]); ++row) {
      for (std::size_t r = 0; r < rank; ++r) {
        const double value = all[(static_cast<std::size_t>(source.first_row) + row) * rank + r];
        into[row * columns + r] = static_cast<float>(value * source.factor);
      }
    }
  }

  const TensorSource& base_;
  std::vector<TensorInfo> tensors_;
  const SafetensorsFile& file_;
  std::map<std::string, std::size_t> positions_;
  std::map<std::string, Source> a_, b_;
};

std::unique_ptr<TensorSource> PeftFolder::joined(const TensorSource& base, const std::string& where) const {
  return std::make_unique<Joined>(base, contents_->model, contents_->file, contents_->adapters, where);
}

}  // namespace cohort
