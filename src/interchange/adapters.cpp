#include "interchange/adapters.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "interchange/hf_config.hpp"
#include "interchange/hf_layout.hpp"
#include "interchange/peft_modules.hpp"

namespace cohort {
namespace {

// The parameters of a model, by name, of a source that has exactly these.
class Parameters {
 public:
  Parameters(const TensorSource& source, const ModelSection& model, const std::string& where) : source_(source) {
    require_tensors(where, parameters_of(model), source.tensors());
    for (std::size_t i = 0; i < source.tensors().size(); ++i) positions_[source.tensors()[i].name] = i;
  }

  bool has(const std::string& name) const { return positions_.contains(name); }
  const Shape& shape(const std::string& name) const { return source_.tensors()[positions_.at(name)].shape; }
  void read(const std::string& name, std::vector<float>& into) const { source_.read(positions_.at(name), into); }

 private:
  const TensorSource& source_;
  std::map<std::string, std::size_t> positions_;
};

class Merged : public TensorSource {
 public:
  Merged(const TensorSource& source, const ModelSection& model, const std::string& where)
      : parameters_(source, model, where), scale_(model.lora.alpha / static_cast<double>(model.lora.rank)) {
    ModelSection base = model;
    base.lora = {};
    tensors_ = parameters_of(base);
  }

  const std::vector<TensorInfo>& tensors() const override { return tensors_; }

  void read(std::size_t index, std::vector<float>& into) const override {
    const std::string& name = tensors_.at(index).name;
    parameters_.read(name, into);
    const std::string a = adapter_of(name, kLoraA), b = adapter_of(name, kLoraB);
    if (!parameters_.has(a)) return;
    parameters_.read(a, a_);
    parameters_.read(b, b_);
    const auto rank = static_cast<std::size_t>(parameters_.shape(a)[0]);
    const auto outputs = static_cast<std::size_t>(tensors_[index].shape[0]);
    const auto inputs = static_cast<std::size_t>(tensors_[index].shape[1]);
    std::vector<double> row(inputs);
    for (std::size_t o = 0; o < outputs; ++o) {
      std::fill(row.begin(), row.end(), 0.0);
      for (std::size_t r = 0; r < rank; ++r) {
        const double factor = b_[o * rank + r];
        for (std::size_t i = 0; i < inputs; ++i) row[i] += factor * a_[r * inputs + i];
      }
      for (std::size_t i = 0; i < inputs; ++i) into[o * inputs + i] = static_cast<float>(into[o * inputs + i] + scale_ * row[i]);
    }
  }

 private:
  Parameters parameters_;
  double scale_;
  std::vector<TensorInfo> tensors_;
  mutable std::vector<float> a_, b_;  // of the tensor at work
};

class PeftView : public TensorSource {
 public:
  PeftView(const TensorSource& source, const ModelSection& model, const std::string& where)
      : parameters_(source, model, where), modules_(adapted_modules(model)), rank_(model.lora.rank) {
    for (const PeftModule& module : modules_) {
      const Count rank = rank_ * module.adapters();
      tensors_.push_back({module.tensor(kPeftA), {rank, module.inputs}});
      tensors_.push_back({module.tensor(kPeftB), {module.outputs(), rank}});
    }
  }

  const std::vector<TensorInfo>& tensors() const override { return tensors_; }

  void read(std::size_t index, std::vector<float>& into) const override {
    const PeftModule& module = modules_.at(index / 2);
    if (index % 2 == 0) {
      read_a(module, into);
    } else {
      read_b(module, into);
    }
  }

 private:
  void read_a(const PeftModule& module, std::vector<float>& into) const {
    into.clear();
    std::vector<float> part;
    for (const PeftModule::Part& one : module.parts) {
      if (!one.adapted) continue;
      parameters_.read(adapter_of(one.weight, kLoraA), part);
      into.insert(into.end(), part.begin(), part.end());
    }
  }

  void read_b(const PeftModule& module, std::vector<float>& into) const {
    const auto rank = static_cast<std::size_t>(rank_), columns = rank * static_cast<std::size_t>(module.adapters());
    into.assign(static_cast<std::size_t>(module.outputs()) * columns, 0.0f);
    std::size_t row = 0, column = 0;
    std::vector<float> part;
    for (const PeftModule::Part& one : module.parts) {
      const auto rows = static_cast<std::size_t>(one.outputs);
      if (one.adapted) {
        parameters_.read(adapter_of(one.weight, kLoraB), part);
        for (std::size_t r = 0; r < rows; ++r)
          std::copy_n(part.begin() + static_cast<std::ptrdiff_t>(r * rank), rank,
                      into.begin() + static_cast<std::ptrdiff_t>((row + r) * columns + column));
        column += rank;
      }
      row += rows;
    }
  }

  Parameters parameters_;
  std::vector<PeftModule> modules_;
  Count rank_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace

std::unique_ptr<TensorSource> merged(const TensorSource& source, const ModelSection& model, const std::string& where) {
  return std::make_unique<Merged>(source, model, where);
}

std::unique_ptr<TensorSource> as_peft(const TensorSource& source, const ModelSection& model, const std::string& where) {
  return std::make_unique<PeftView>(source, model, where);
}

std::string peft_config_json(const ModelSection& model) {
  using Json = nlohmann::ordered_json;
  const Count rank = model.lora.rank;
  Json targets = Json::array(), ranks = Json::object(), alphas = Json::object();
  bool transposed = false;
  for (const PeftModule& module : adapted_modules(model)) {
    targets.push_back(module.name);
    transposed = transposed || module.transposed;
    if (module.adapters() == 1) continue;
    ranks[module.name] = rank * module.adapters();
    alphas[module.name] = model.lora.alpha * static_cast<double>(module.adapters());
  }
  const Json json{{"peft_type", "LORA"},
                  {"task_type", "CAUSAL_LM"},
                  {"base_model_name_or_path", nullptr},
                  {"r", rank},
                  {"lora_alpha", model.lora.alpha},
                  {"lora_dropout", 0.0},
                  {"target_modules", targets},
                  {"rank_pattern", ranks},
                  {"alpha_pattern", alphas},
                  {"fan_in_fan_out", transposed},
                  {"bias", "none"},
                  {"inference_mode", true},
                  {"init_lora_weights", true},
                  {"modules_to_save", nullptr},
                  {"use_rslora", false},
                  {"use_dora", false}};
  return json.dump(2) + "\n";
}

}  // namespace cohort
