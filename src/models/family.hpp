// A family of models in one object: all that Cohort knows of it. Each stands in its folder, src/models/FAMILY:
//   rules.cpp         FAMILY::rules(): its keys in run files (config/model_rules.hpp)
//   family.cpp        FAMILY::family(): how it is built
//   hugging_face.cpp  its form in Hugging Face's transformers, if there is one
// CMake makes the list of all families from the folders. A family that is a decoder (models/decoder.hpp) describes it and has
// everything else from it: all axes of parallelism, plans, checkpoints, generation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/model_rules.hpp"
#include "models/decoder.hpp"
#include "models/hugging_face.hpp"
#include "models/model.hpp"

namespace cohort {

/// A model of the family that people compare trainers with.
struct KnownModel {
  std::string name;  // "gpt2-124m"
  ModelSection section;
};

struct ModelFamily {
  const ModelRules& rules;
  /// The decoder that a resolved section describes. Null: the family is none, and declares its models itself.
  DecoderSpec (*decoder)(const ModelSection& model) = nullptr;
  /// The whole model, its parameters declared but without memory.
  std::unique_ptr<Model> (*declare)(const ModelSection& model, const ModelStorage& storage) = nullptr;
  const HuggingFaceForm* hugging_face = nullptr;  // null: transformers has no such model
  std::vector<KnownModel> known_models = {};
};

/// All families, in alphabetical order.
const std::vector<const ModelFamily*>& all_model_families();

/// Error (config) if there is no such family.
const ModelFamily& family_of(const ModelSection& model);

}  // namespace cohort
