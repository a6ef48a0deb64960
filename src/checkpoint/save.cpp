#include <chrono>
#include <ctime>
#include <set>
#include <type_traits>

#include "base/error.hpp"
#include "base/file.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/manifest.hpp"
#include "hdf5/hdf5.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// Names become paths: "a" beside "a.b" would be a dataset and a group of one name.
void check_names(const std::vector<StoredTensor>& tensors) {
  std::set<std::string> paths;
  for (const StoredTensor& tensor : tensors) {
    COHORT_CHECK(paths.insert(tensor.dataset).second, "{} is stored twice", tensor.dataset);
  }
  for (const std::string& path : paths) {
    COHORT_CHECK(path.find("//") == std::string::npos && !path.ends_with('/'),
                 "the parameter stored as {} has an empty part in its name", path);
    for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      COHORT_CHECK(!paths.contains(path.substr(0, slash)), "parameter {} is also the beginning of {}", path.substr(0, slash),
                   path);
    }
  }
}

void write_tensor(hdf5::File& file, const StoredTensor& stored, Manifest& manifest) {
  const hdf5::Element element = hdf5::element_of(stored.dtype);
  const std::vector<Count> shape = stored.shape.vector();
  const Tensor host = stored.read();
  COHORT_CHECK(host.on_host() && host.shape() == stored.shape && host.dtype() == stored.dtype, "{}: {} {} instead of {} {}",
               stored.dataset, name_of(host.dtype()), host.shape().str(), name_of(stored.dtype), stored.shape.str());
  file.create_dataset(stored.dataset.substr(1), element, shape).write_raw(host.raw(), host.elements(), element);
  manifest.datasets.push_back({stored.dataset, std::string(name_of(stored.dtype)), shape, crc32_of(host.raw(), host.bytes())});
}

void write_state(hdf5::File& file, const TrainingState& state, Manifest& manifest) {
  file.set_attribute("format", std::string(kFormatName));
  file.set_attribute("version", std::int64_t{kFormatVersion});
  for_each_field(state, [&](const char* name, const auto& field) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field)>, std::string>) {
      file.set_attribute(name, field);
    } else {
      file.set_attribute(name, static_cast<std::int64_t>(field));
    }
  });
  file.write_text(std::string(kRunFileDataset.substr(1)), state.run_file);
  manifest.datasets.push_back({std::string(kRunFileDataset),
                               std::string(kTextDType),
                               {},
                               crc32_of(state.run_file.data(), static_cast<Bytes>(state.run_file.size()))});
}

/// Writes and flushes FOLDER/model.h5; returns what it holds.
Manifest write_model_file(const fs::path& folder, const std::vector<StoredTensor>& tensors, const TrainingState& state) {
  Manifest manifest;
  manifest.step = state.step;
  manifest.file = kModelFile;
  const fs::path path = folder / kModelFile;
  fs::path temporary = path;
  temporary += ".tmp";
  hdf5::File file = hdf5::File::create(temporary.string(), ExitCode::io);
  for (const StoredTensor& tensor : tensors) write_tensor(file, tensor, manifest);
  write_state(file, state, manifest);
  file.close();
  commit_file(temporary, path);
  manifest.file_bytes = static_cast<Bytes>(fs::file_size(path));
  return manifest;
}

}  // namespace

fs::path save_checkpoint(const fs::path& run_folder, const std::vector<StoredTensor>& tensors, TrainingState state,
                         const SaveOptions& options) {
  check_names(tensors);
  if (state.created.empty()) state.created = now_utc();
  const fs::path folder = checkpoints_folder(run_folder);
  const fs::path temporary = folder / temporary_name(state.step);
  make_folders(folder);
  tidy_checkpoints(run_folder);
  make_folders(temporary);
  try {
    const Manifest manifest = write_model_file(temporary, tensors, state);
    write_file_atomically(temporary / kManifestFile, to_json_text(manifest));
    if (options.verify) CheckpointReader(temporary).verify();
    publish_checkpoint(run_folder, temporary, state.step);
  } catch (...) {
    // Give the space back, which may be what was lacking. Nothing counts on it: the name is not that of a checkpoint.
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
  prune_checkpoints(run_folder, state.step, options.keep);
  return folder / step_name(state.step);
}

}  // namespace cohort
