// Weights on their way from one format to another. Every format, and every change of names and layout, is a source of named
// tensors that is read one tensor at a time; a writer pulls from a source, in its order. So a model of any size passes through
// the memory of its largest tensor.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/shape.hpp"

namespace cohort {

struct TensorInfo {
  std::string name;
  Shape shape;
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  /// Known without reading any tensor, and in the order in which reading is cheapest.
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  /// The elements of tensors()[index], row-major, as fp32; what `into` held is lost. Errors name the file and the tensor.
  virtual void read(std::size_t index, std::vector<float>& into) const = 0;
};

/// Throws Error(checkpoint) unless `found` are the tensors `wanted`, in any order: names those that are missing, those that are
/// too many, and those of another shape. `where` says what `found` is, in words: "out/model.safetensors".
void require_tensors(const std::string& where, const std::vector<TensorInfo>& wanted, const std::vector<TensorInfo>& found);

}  // namespace cohort
