// Fuzz target of what reads checkpoints: CheckpointReader, verify(), every tensor. The input: a byte that says how hostile it is,
// then manifest.json, model.h5 and rank_00000.h5, each after its length in four bytes.
//   0  as it is, like damage by chance
//   1  the manifest is sealed again, with the sizes that the files have: by somebody who wants it to be read
//   2  besides, HDF5's checksums are made right
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "checkpoint/format/format.hpp"
#include "checkpoint/read/reader.hpp"
#include "checkpoint/write/save.hpp"
#include "comm/self_communicator.hpp"
#include "hdf5_repair.hpp"
#include "target.hpp"

namespace cohort::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 3> kFiles{"manifest.json", "model.h5", "rank_00000.h5"};

std::string take(std::string_view& input) {
  std::uint32_t length = 0;
  if (input.size() < sizeof(length)) return {};
  std::memcpy(&length, input.data(), sizeof(length));
  input.remove_prefix(sizeof(length));
  const std::string taken(input.substr(0, length));
  input.remove_prefix(taken.size());
  return taken;
}

std::string sealed(std::string manifest) {
  const std::size_t key = manifest.rfind("\"manifest_crc32\": \"");
  if (key == std::string::npos || key + 27 > manifest.size()) return manifest;
  manifest.replace(key + 19, 8, "00000000");
  return manifest.replace(key + 19, 8, fmt::format("{:08x}", crc32_of(manifest.data(), static_cast<Bytes>(manifest.size()))));
}

std::string with_sizes(const std::string& manifest, const std::array<std::string, 3>& files) {
  auto json = nlohmann::ordered_json::parse(manifest, nullptr, false);
  if (!json.is_object() || !json.contains("files") || !json["files"].is_array()) return manifest;
  for (auto& file : json["files"]) {
    if (!file.is_object() || !file.contains("name")) continue;
    for (std::size_t i = 1; i < kFiles.size(); ++i) {
      if (file["name"] == kFiles[i]) file["bytes"] = files[i].size();
    }
  }
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void write_input(const fs::path& folder, std::string_view input) {
  const int hostility = input.empty() ? 0 : input.front() % 3;
  input.remove_prefix(std::min<std::size_t>(1, input.size()));
  std::array<std::string, 3> files;
  for (std::string& file : files) file = take(input);
  if (hostility == 2) {
    for (std::size_t i = 1; i < files.size(); ++i) repair_hdf5_checksums(files[i]);
  }
  if (hostility > 0) files[0] = sealed(with_sizes(files[0], files));
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].empty()) continue;  // is not there
    std::ofstream(folder / kFiles[i], std::ios::binary).write(files[i].data(), static_cast<std::streamsize>(files[i].size()));
  }
}

void read_whole(const fs::path& folder) {
  const CheckpointReader reader(folder);
  reader.verify();
  for (const ManifestTensor& tensor : reader.manifest().tensors()) reader.read(tensor);
}

/// Two tensors and a scalar as ranks have them that cut both dims, the last box in two runs; the values stored as `dtype`.
std::vector<WriteItem> make_parts(DType dtype) {
  static std::vector<float> values(54);  // the parts read them later
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.25f * static_cast<float>(i);
  std::vector<WriteItem> parts;
  const auto add = [&](const std::string& name, const TensorPart& part) {
    parts.push_back({name, 0, dtype, part, [](Count from, Count elements) {
                       return Tensor::wrap(values.data() + from, {elements}, DType::f32);  // needs no running Kokkos
                     }});
  };
  add("/model/scale", TensorPart(Shape({})));
  for (const std::string name : {"/model/block/weight", "/optim/m/block/weight"}) {
    const Shape shape{6, 9};
    add(name, TensorPart(shape, Box{{0, 0}, {2, 4}}));
    add(name, TensorPart(shape, Box{{0, 4}, {2, 5}}));
    add(name, TensorPart(shape, Box{{2, 0}, {4, 4}}));
    add(name, TensorPart(shape, Box{{2, 4}, {4, 5}}, 0, 7));
    add(name, TensorPart(shape, Box{{2, 4}, {4, 5}}, 7, 13));
  }
  return parts;
}

std::string packed(const fs::path& folder, char hostility) {
  std::string input(1, hostility);
  for (const char* name : kFiles) {
    std::ifstream file(folder / name, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    const auto length = static_cast<std::uint32_t>(bytes.size());
    input.append(reinterpret_cast<const char*>(&length), sizeof(length));
    input += bytes;
  }
  return input;
}

}  // namespace

std::vector<std::string> make_seeds(const fs::path& scratch_folder, bool forged) {
  const std::array<SaveOptions, 3> ways{
      SaveOptions{.form = CheckpointForm::consolidated}, SaveOptions{.form = CheckpointForm::per_rank},
      SaveOptions{.form = CheckpointForm::consolidated, .storage = {.chunk = 64, .compression = 4}}};
  const std::unique_ptr<Communicator> self = make_self_communicator("fuzz");
  TrainingState state;
  state.model = "fuzz";
  state.run_file = "[run]\n";
  const char hostilities = forged ? 3 : 2;
  std::vector<std::string> seeds;
  for (const SaveOptions& options : ways) {
    ++state.step;
    const DType dtype = options.storage.chunk > 0 ? DType::bf16 : DType::f32;
    const fs::path folder = save_parts(*self, scratch_folder, make_parts(dtype), state, options).folder;
    for (char hostility = 0; hostility < hostilities; ++hostility) seeds.push_back(packed(folder, hostility));
  }
  return seeds;
}

}  // namespace cohort::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("cohort_fuzz_input_{}", ::getpid());
  fs::create_directories(folder);
  cohort::fuzz::write_input(folder, {reinterpret_cast<const char*>(data), size});
  cohort::fuzz::expect_no_surprise(cohort::ExitCode::checkpoint, [&] { cohort::fuzz::read_whole(folder); });
  fs::remove_all(folder);
  return 0;
}
