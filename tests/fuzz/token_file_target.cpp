// Fuzz target of what reads token files: opening one, its tokenizer, and verify(). The input: a byte that says how hostile it is
// (0: as it is; 1: HDF5's checksums are made right), then the file.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "data/prepare.hpp"
#include "data/token_file.hpp"
#include "hdf5_repair.hpp"
#include "target.hpp"

namespace cohort::fuzz {
namespace {

namespace fs = std::filesystem;

void read_whole(const fs::path& path) {
  const TokenFile tokens(path.string());
  tokens.verify();
}

}  // namespace

std::vector<std::string> make_seeds(const fs::path& scratch_folder, bool forged) {
  const fs::path text = scratch_folder / "text.txt", path = scratch_folder / "tokens.h5";
  std::ofstream file(text);
  for (int i = 0; i < 60; ++i) file << "Once there was a fox. ";
  file.close();
  const char hostilities = forged ? 2 : 1;
  std::vector<std::string> seeds;
  for (const char* tokenizer : {"char", "byte"}) {
    prepare_tokens({.inputs = {text.string()}, .output = path.string(), .tokenizer = tokenizer});
    std::ifstream written(path, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(written), {});
    for (char hostility = 0; hostility < hostilities; ++hostility) seeds.push_back(hostility + bytes);
  }
  return seeds;
}

}  // namespace cohort::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fs = std::filesystem;
  const fs::path path = fs::temp_directory_path() / fmt::format("cohort_fuzz_input_{}.h5", ::getpid());
  std::string input(reinterpret_cast<const char*>(data), size);
  const bool hostile = !input.empty() && input.front() % 2 == 1;
  input.erase(0, 1);
  if (hostile) cohort::fuzz::repair_hdf5_checksums(input);
  std::ofstream(path, std::ios::binary).write(input.data(), static_cast<std::streamsize>(input.size()));
  cohort::fuzz::expect_no_surprise(cohort::ExitCode::data, [&] { cohort::fuzz::read_whole(path); });
  fs::remove(path);
  return 0;
}
