#include "checkpoint/write/model_file.hpp"

#include <algorithm>
#include <type_traits>

#include "base/file.hpp"
#include "checkpoint/format/format.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {

void write_state(hdf5::File& file, const TrainingState& state) {
  file.set_attribute("format", std::string(kFormatName));
  file.set_attribute("version", std::int64_t{kFormatVersion});
  for_each_attribute(state, [&](const char* name, const auto& field) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field)>, std::string>) {
      file.set_attribute(name, field);
    } else {
      file.set_attribute(name, static_cast<std::int64_t>(field));
    }
  });
  for_each_text(state, [&](const char* name, const std::string& text) { file.write_text(name, text); });
}

hdf5::FileOptions file_options(const StorageOptions& storage) {
  return {.alignment = storage.alignment,
          .locking = storage.locking,
          .stripe_count = storage.stripe_count,
          .stripe_size = storage.stripe_size};
}

hdf5::DatasetLayout dataset_layout(const StorageOptions& storage) {
  return {.chunk = storage.chunk, .compression = storage.compression};
}

std::vector<std::uint32_t> block_sums(const std::byte* data, Count elements, DType dtype) {
  FlightRecorder::of_process().beat();
  std::vector<std::uint32_t> sums;
  for (Count at = 0; at < elements; at += kBlockElements) {
    const Count n = std::min(kBlockElements, elements - at);
    sums.push_back(crc32_of(data + static_cast<std::size_t>(at * size_of(dtype)), n * size_of(dtype)));
  }
  return sums;
}

ManifestFile finished_file(const std::filesystem::path& folder, const std::string& name) {
  const FlightRecorder::LongCall flushing("flushing a checkpoint to disk");
  flush_to_disk(folder / name);
  return {name, static_cast<Bytes>(std::filesystem::file_size(folder / name))};
}

}  // namespace cohort
