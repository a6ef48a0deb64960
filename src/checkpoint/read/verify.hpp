// All that is wrong with a checkpoint: every byte that counts is read, and damage in one place does not end the search.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/read/tensor_reader.hpp"

namespace cohort {

/// One thing that is wrong.
struct Damage {
  std::string file;     // its path
  std::string dataset;  // in that file; "" if the file as a whole is meant
  std::string what;     // a sentence that names both
};

/// How far the reading is; called after every block.
using ReadingProgress = std::function<void(Bytes done, Bytes all)>;

/// Reads everything and compares every checksum. Each damaged dataset is one item, and so is each file that is missing, of
/// another size or unreadable (its datasets are then not listed one by one), each file of another checkpoint that does not belong
/// here, and, where rank files hold the elements, each dataset of model.h5 that does not show its tensor whole.
std::vector<Damage> find_damage(const TensorReader& reader, const ReadingProgress& progress = {});

/// The same of the checkpoint in `folder`, its manifest and training state included. A manifest that cannot be read is the one
/// item then, since nothing says what the rest should be.
std::vector<Damage> find_damage(const std::filesystem::path& folder, const ReadingProgress& progress = {});

}  // namespace cohort
