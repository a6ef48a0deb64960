// Runs a fuzz target without libFuzzer, on inputs that are the same in every run. Each input runs in a process of its own, with
// limits of time and memory, so that a crash is a finding, not the end.
//
//   TARGET [--seconds N] [--seed N] [--forged] [--findings FOLDER] [--write-seeds FOLDER] [FILE ...]
//   --seconds      how long to go on (10); --seed: which inputs (1)
//   --forged       also inputs whose HDF5 checksums are made right again, on which HDF5 1.10 itself crashes (hdf5/hdf5.hpp)
//   --findings     where inputs go that crash, hang or surprise (the working folder)
//   --write-seeds  writes the good inputs there, as a corpus for libFuzzer, and ends
//   FILE ...       runs these inputs instead, such as a finding
// The exit code is 0 without findings.
#include <fmt/format.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>
#include <vector>

#include "base/checksum.hpp"
#include "mutations.hpp"
#include "target.hpp"

namespace cohort::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr rlim_t kSecondsOfAnInput = 10;  // of a processor: whatever else the machine does
constexpr rlim_t kMemoryOfAnInput = rlim_t{2} << 30;
constexpr int kRefused = 3;  // exit code of a child whose input was refused

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLimitsMemory = false;  // the address sanitizer reserves terabytes of addresses
#else
constexpr bool kLimitsMemory = true;
#endif

struct Options {
  double seconds = 10.0;
  std::uint64_t seed = 1;
  bool forged = false;
  fs::path findings = ".";
  fs::path seeds_folder;
  std::vector<std::string> files;
};

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--seconds" && has_value) {
      options.seconds = std::stod(argv[++i]);
    } else if (word == "--seed" && has_value) {
      options.seed = std::stoull(argv[++i]);
    } else if (word == "--forged") {
      options.forged = true;
    } else if (word == "--findings" && has_value) {
      options.findings = argv[++i];
    } else if (word == "--write-seeds" && has_value) {
      options.seeds_folder = argv[++i];
    } else if (word.starts_with("--")) {
      fail(ExitCode::usage, "unknown argument '{}', or its value is missing", word);
    } else {
      options.files.push_back(word);
    }
  }
  return options;
}

/// What the process of one input came to: its wait status.
int run_apart(const std::string& input) {
  const pid_t child = ::fork();
  if (child < 0) fail(ExitCode::io, "cannot fork: {}", std::strerror(errno));
  if (child == 0) {
    const rlimit time{kSecondsOfAnInput, kSecondsOfAnInput + 1};
    ::setrlimit(RLIMIT_CPU, &time);
    ::alarm(static_cast<unsigned>(30 * kSecondsOfAnInput));  // if it waits for something
    const rlimit memory{kMemoryOfAnInput, kMemoryOfAnInput};
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    if (kLimitsMemory) ::setrlimit(RLIMIT_AS, &memory);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    ::_exit(was_taken ? 0 : kRefused);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) fail(ExitCode::io, "cannot wait: {}", std::strerror(errno));
  }
  // What a process that crashed has left of its input.
  std::error_code ignored;
  fs::remove_all(fs::temp_directory_path() / fmt::format("cohort_fuzz_input_{}", child), ignored);
  fs::remove(fs::temp_directory_path() / fmt::format("cohort_fuzz_input_{}.h5", child), ignored);
  return status;
}

bool is_finding(int status) { return !WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != kRefused); }

std::string describe(int status) {
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGALRM
               ? fmt::format("hangs: {} s were not enough", kSecondsOfAnInput)
               : fmt::format("is ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }
  return fmt::format("ends with exit code {}", WEXITSTATUS(status));
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

int run_files(const std::vector<std::string>& files) {
  int findings = 0;
  for (const std::string& name : files) {
    std::ifstream file(name, std::ios::binary);
    const int status = run_apart({std::istreambuf_iterator<char>(file), {}});
    findings += is_finding(status);
    fmt::print("{} {}\n", name, is_finding(status) ? describe(status) : WEXITSTATUS(status) == 0 ? "is taken" : "is refused");
  }
  return findings;
}

int run_mutations(const Options& options, const std::vector<std::string>& seeds) {
  std::map<std::string, int> findings;
  std::uint64_t executions = 0, taken = 0;
  for (const std::string& seed : seeds) {
    const int status = run_apart(seed);
    if (is_finding(status) || WEXITSTATUS(status) != 0) fail(ExitCode::internal, "a good input is not taken");
  }
  Mutations mutations(options.seed, seeds);
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  for (; elapsed() < options.seconds; ++executions) {
    const std::string input = mutations.input(executions);
    const int status = run_apart(input);
    taken += !is_finding(status) && WEXITSTATUS(status) == 0;
    if (!is_finding(status)) continue;
    const fs::path path =
        options.findings / fmt::format("finding_{:08x}", crc32_of(input.data(), static_cast<Bytes>(input.size())));
    write_file(path, input);
    fmt::print("input {}, kept as {}, {}\n", executions, path.string(), describe(status));
    ++findings[describe(status)];
  }
  fmt::print("{} inputs in {:.0f} s, {} of them taken\n", executions, elapsed(), taken);
  int all = 0;
  for (const auto& [kind, count] : findings) {
    fmt::print("{} times: {}\n", count, kind);
    all += count;
  }
  return all;
}

int run(const Options& options) {
  if (!options.files.empty()) return run_files(options.files);
  const fs::path scratch = fs::temp_directory_path() / fmt::format("cohort_fuzz_seeds_{}", ::getpid());
  fs::create_directories(scratch);
  const std::vector<std::string> seeds = make_seeds(scratch, options.forged);
  fs::remove_all(scratch);
  if (options.seeds_folder.empty()) return run_mutations(options, seeds);
  fs::create_directories(options.seeds_folder);
  for (std::size_t i = 0; i < seeds.size(); ++i) write_file(options.seeds_folder / fmt::format("seed_{}", i), seeds[i]);
  return 0;
}

}  // namespace
}  // namespace cohort::fuzz

int main(int argc, char** argv) {
  try {
    return cohort::fuzz::run(cohort::fuzz::read_options(argc, argv)) == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
