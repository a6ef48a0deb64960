#include "interchange/hf_layout.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "interchange/hf_config.hpp"
#include "models/model.hpp"

namespace cohort {
namespace {

using Positions = std::map<std::string, std::size_t>;

Positions positions_of(const std::vector<TensorInfo>& tensors) {
  Positions positions;
  for (std::size_t i = 0; i < tensors.size(); ++i) positions[tensors[i].name] = i;
  return positions;
}

Count rows_of(const TensorInfo& tensor) { return tensor.shape[0]; }
Count columns_of(const TensorInfo& tensor) { return tensor.shape.dims() > 1 ? tensor.shape[1] : 1; }

// to [columns, rows] = from [rows, columns], transposed.
void transpose(const std::vector<float>& from, Count rows, Count columns, std::vector<float>& to) {
  to.resize(from.size());
  for (Count row = 0; row < rows; ++row) {
    for (Count column = 0; column < columns; ++column) {
      to[static_cast<std::size_t>(column * rows + row)] = from[static_cast<std::size_t>(row * columns + column)];
    }
  }
}

// The shapes of transformers' tensors, from those here.
std::vector<TensorInfo> tensors_of(const std::vector<Correspondence>& all, const std::vector<TensorInfo>& parameters) {
  const Positions positions = positions_of(parameters);
  std::vector<TensorInfo> tensors;
  for (const Correspondence& one : all) {
    std::vector<Count> dims = parameters[positions.at(one.ours.front())].shape.vector();
    dims.at(0) = 0;
    for (const std::string& name : one.ours) dims[0] += rows_of(parameters[positions.at(name)]);
    if (one.transposed) std::swap(dims.at(0), dims.at(1));
    tensors.push_back({one.theirs, Shape(dims)});
  }
  return tensors;
}

class HuggingFaceView : public TensorSource {
 public:
  HuggingFaceView(const TensorSource& ours, const ModelSection& model)
      : ours_(ours),
        positions_(positions_of(ours.tensors())),
        correspondences_(hugging_face_form_of(model).correspondences(model)),
        tensors_(tensors_of(correspondences_, ours.tensors())) {}

  const std::vector<TensorInfo>& tensors() const override { return tensors_; }

  void read(std::size_t index, std::vector<float>& into) const override {
    const Correspondence& one = correspondences_.at(index);
    std::vector<float> rows, part;
    for (const std::string& name : one.ours) {
      ours_.read(positions_.at(name), part);
      rows.insert(rows.end(), part.begin(), part.end());
    }
    const TensorInfo& tensor = tensors_[index];
    if (!one.transposed) return into.swap(rows);
    transpose(rows, columns_of(tensor), rows_of(tensor), into);
  }

 private:
  const TensorSource& ours_;
  Positions positions_;
  std::vector<Correspondence> correspondences_;
  std::vector<TensorInfo> tensors_;
};

class CohortView : public TensorSource {
 public:
  // `positions` are those of the tensors in `theirs`, by the names of the correspondences.
  CohortView(const TensorSource& theirs, const ModelSection& model, const Positions& positions)
      : theirs_(theirs), tensors_(parameters_of(model)), pieces_(tensors_.size()) {
    const Positions parameters = positions_of(tensors_);
    for (const Correspondence& one : hugging_face_form_of(model).correspondences(model)) {
      Count first_row = 0;
      for (const std::string& name : one.ours) {
        const std::size_t parameter = parameters.at(name);
        pieces_[parameter] = {positions.at(one.theirs), first_row, one.transposed};
        first_row += rows_of(tensors_[parameter]);
      }
    }
  }

  const std::vector<TensorInfo>& tensors() const override { return tensors_; }

  void read(std::size_t index, std::vector<float>& into) const override {
    const Piece& piece = pieces_.at(index);
    if (held_ != piece.tensor) {
      held_ = kNone;  // should the read fail
      std::vector<float>& target = piece.transposed ? scratch_ : values_;
      theirs_.read(piece.tensor, target);
      const TensorInfo& tensor = theirs_.tensors()[piece.tensor];
      if (piece.transposed) transpose(scratch_, rows_of(tensor), columns_of(tensor), values_);
      held_ = piece.tensor;
    }
    const auto begin = values_.begin() + piece.first_row * columns_of(tensors_[index]);
    into.assign(begin, begin + tensors_[index].shape.elements());
  }

 private:
  struct Piece {
    std::size_t tensor = 0;
    Count first_row = 0;
    bool transposed = false;
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  const TensorSource& theirs_;
  std::vector<TensorInfo> tensors_;
  std::vector<Piece> pieces_;
  // The tensor that was read last, in rows: query, key and value are neighbours and come from one.
  mutable std::size_t held_ = kNone;
  mutable std::vector<float> values_, scratch_;
};

bool is_derived(const std::string& name, const HuggingFaceForm& form) {
  return std::any_of(form.derived.begin(), form.derived.end(), [&](const std::string& end) { return name.ends_with(end); });
}

void require_equal(const TensorSource& source, std::size_t a, std::size_t b, const std::string& where) {
  std::vector<float> first, second;
  source.read(a, first);
  source.read(b, second);
  if (first == second) return;
  fail(ExitCode::checkpoint, "{}: {} differs from {}, but tie_word_embeddings says that they are one; set it to false", where,
       source.tensors()[b].name, source.tensors()[a].name);
}

}  // namespace

std::vector<TensorInfo> parameters_of(const ModelSection& model) {
  std::vector<TensorInfo> tensors;
  const auto declared = declare_model(model);
  for (const auto& parameter : declared->parameters().all()) {
    tensors.push_back({parameter->name, parameter->global_shape});
  }
  return tensors;
}

std::unique_ptr<TensorSource> as_hugging_face(const TensorSource& ours, const ModelSection& model, const std::string& where) {
  require_tensors(where, parameters_of(model), ours.tensors());
  return std::make_unique<HuggingFaceView>(ours, model);
}

std::unique_ptr<TensorSource> as_cohort(const TensorSource& theirs, const ModelSection& model, const std::string& where) {
  const HuggingFaceForm& form = hugging_face_form_of(model);
  const std::vector<TensorInfo> wanted = tensors_of(form.correspondences(model), parameters_of(model));
  const std::string& prefix = form.prefix;
  const bool prefixed = std::any_of(theirs.tensors().begin(), theirs.tensors().end(),
                                    [&](const TensorInfo& tensor) { return tensor.name.starts_with(prefix); });
  std::vector<TensorInfo> found;
  Positions positions;
  std::size_t tied_head = theirs.tensors().size();
  for (std::size_t i = 0; i < theirs.tensors().size(); ++i) {
    TensorInfo tensor = theirs.tensors()[i];
    if (is_derived(tensor.name, form)) continue;
    if (model.tied_head && tensor.name == "lm_head.weight") {
      tied_head = i;
      continue;
    }
    if (!prefixed && tensor.name != "lm_head.weight") tensor.name = prefix + tensor.name;
    positions[tensor.name] = i;
    found.push_back(std::move(tensor));
  }
  require_tensors(where, wanted, found);
  if (tied_head < theirs.tensors().size()) require_equal(theirs, positions.at(wanted.front().name), tied_head, where);
  return std::make_unique<CohortView>(theirs, model, positions);
}

}  // namespace cohort
