// Fuzz target of what reads the folders of Hugging Face's transformers: safetensors, their index and config.json. The input: a
// byte that says how hostile it is, then the files of kFiles (packed_files.hpp).
//   0  as it is, like damage by chance
//   1  the length of each safetensors header is made right again: by somebody who wants it to be read
#include <unistd.h>

#include <array>
#include <cstddef>

#include "interchange/exchange.hpp"
#include "interchange/hf_config.hpp"
#include "interchange/hf_layout.hpp"
#include "interchange/safetensors.hpp"
#include "interchange/safetensors_writer.hpp"
#include "packed_files.hpp"
#include "target.hpp"

namespace cohort::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 5> kFiles{"config.json", kIndexFile, kSingleFile, "model-00001-of-00002.safetensors",
                                            "model-00002-of-00002.safetensors"};

// The header ends where the braces that it opens are closed; what fills it up with spaces is left to the data. An attacker would
// make data_offsets right, too: mutations of the header's text do at times.
void repair_header_length(std::string& file) {
  constexpr std::size_t kLengthBytes = 8;
  int depth = 0;
  for (std::size_t i = kLengthBytes; i < file.size(); ++i) {
    depth += (file[i] == '{') - (file[i] == '}');
    if (depth > 0) continue;
    std::size_t end = i + 1;
    while (end < file.size() && file[end] == ' ') ++end;
    for (std::size_t byte = 0; byte < kLengthBytes; ++byte)
      file[byte] = static_cast<char>((end - kLengthBytes) >> (8 * byte) & 0xffu);
    return;
  }
}

void write_input(const fs::path& folder, std::string_view input) {
  const bool hostile = !input.empty() && input.front() % 2 == 1;
  input.remove_prefix(std::min<std::size_t>(1, input.size()));
  for (const char* name : kFiles) {
    std::string file = take_file(input);
    if (hostile && fs::path(name).extension() == ".safetensors") repair_header_length(file);
    if (!file.empty()) write_bytes(folder / name, file);
  }
}

void read_all(const TensorSource& source) {
  std::vector<float> values;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) source.read(i, values);
}

/// Small numbers as the parameters of a model.
class SomeWeights : public TensorSource {
 public:
  explicit SomeWeights(const ModelSection& model) : tensors_(parameters_of(model)) {}
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  void read(std::size_t index, std::vector<float>& into) const override {
    into.assign(static_cast<std::size_t>(tensors_[index].shape.elements()), 0.25f * static_cast<float>(index));
  }

 private:
  std::vector<TensorInfo> tensors_;
};

ModelSection small_model(const char* kind) {
  ModelSection model;
  model.kind = kind;
  model.layers = 1;
  model.width = 4;
  model.heads = 2;
  model.ffn_width = 6;
  model.context = 3;
  model.vocabulary = 5;
  model.tied_head = false;
  return resolved_model(model, "fuzz");
}

/// A folder of this model, as `cohort ckpt export` writes it.
std::string packed(const fs::path& folder, char hostility, const ModelSection& model, const SafetensorsOptions& options) {
  fs::create_directories(folder);
  const SomeWeights ours(model);
  write_safetensors(folder, *as_hugging_face(ours, model, "fuzz"), options);
  write_bytes(folder / "config.json", hf_config_json(model, options.dtype));
  std::string input(1, hostility);
  for (const char* name : kFiles) append_file(input, read_bytes(folder / name));
  return input;
}

}  // namespace

std::vector<std::string> make_seeds(const fs::path& scratch_folder, bool /*forged*/) {
  ModelSection llama = small_model("llama");
  llama.dropout = 0.0;
  const SafetensorsOptions one_file{DType::f32, 1'000'000, {{"format", "pt"}}}, two_files{DType::bf16, 400, {}};
  std::vector<std::string> seeds;
  for (const char hostility : {'\0', '\1'}) {
    seeds.push_back(packed(scratch_folder / "one", hostility, small_model("gpt2"), one_file));
    seeds.push_back(packed(scratch_folder / "two", hostility, llama, two_files));
  }
  return seeds;
}

}  // namespace cohort::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fs = std::filesystem;
  using namespace cohort;
  const fs::path folder = fs::temp_directory_path() / fmt::format("cohort_fuzz_input_{}", ::getpid());
  fs::create_directories(folder);
  fuzz::write_input(folder, {reinterpret_cast<const char*>(data), size});
  // By itself first: behind a configuration that does not fit, the files would not be read.
  fuzz::expect_no_surprise(ExitCode::checkpoint, [&] { fuzz::read_all(SafetensorsFolder(folder)); });
  fuzz::expect_no_surprise(ExitCode::checkpoint, [&] { fuzz::read_all(ImportFolder(folder).weights()); });
  fs::remove_all(folder);
  return 0;
}
