// The parameters of a model here, and the tensors of transformers that hold the same numbers: each family says which are which
// (models/hugging_face.hpp).
#pragma once

#include <memory>
#include <vector>

#include "config/run_config.hpp"
#include "interchange/tensor_source.hpp"

namespace cohort {

/// The parameters of the model, in its order.
std::vector<TensorInfo> parameters_of(const ModelSection& model);

/// Views of a source, which must outlive them, under the names and in the layouts of the other side. `where` names the source in
/// errors. Both throw Error(checkpoint) if its tensors are not exactly those of the model.

/// From Cohort's parameters to transformers' tensors.
std::unique_ptr<TensorSource> as_hugging_face(const TensorSource& ours, const ModelSection& model, const std::string& where);

/// From transformers' tensors to Cohort's parameters. Names may lack their prefix, as those of a model without a head do. Left
/// out are what older versions stored beside weights (causal masks, rotary frequencies), and the lm_head of a tied model, which
/// must equal the embedding.
std::unique_ptr<TensorSource> as_cohort(const TensorSource& theirs, const ModelSection& model, const std::string& where);

}  // namespace cohort
