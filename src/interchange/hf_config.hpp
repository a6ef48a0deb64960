// config.json of Hugging Face's transformers, for the families that have a form there (models/hugging_face.hpp) and equal it
// number for number.
#pragma once

#include <filesystem>
#include <string>

#include "base/dtype.hpp"
#include "config/run_config.hpp"
#include "models/hugging_face.hpp"

namespace cohort {

/// Error (config) if the family has none.
const HuggingFaceForm& hugging_face_form_of(const ModelSection& model);

/// The text of config.json for weights of this type. Our tokenizers have no special tokens, so none is named. Throws
/// as above.
std::string hf_config_json(const ModelSection& model, DType dtype);

/// Reads a config.json. Every key is understood, known to change no result, or refused with its value; keys that are left out
/// have the meaning that transformers gives them. Error (checkpoint) names the file and the key; (io) if it
/// cannot be read. The sizes fit each other, as after resolved_model().
ModelSection read_hf_config(const std::filesystem::path& file);

/// The section with derived values filled in (kv_heads, ffn_width) and all sizes checked against each other, as in a run file.
/// Error (checkpoint) begins with `where`.
ModelSection resolved_model(const ModelSection& model, const std::string& where);

}  // namespace cohort
