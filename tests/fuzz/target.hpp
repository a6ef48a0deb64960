// What a fuzz target offers: LLVMFuzzerTestOneInput, the entry that libFuzzer calls too, and for driver.cpp its seeds. A target
// must survive any input: it either takes it or throws Error with a code that blames the input, and anything else is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace cohort::fuzz {

/// Good inputs, from which the bad ones are made; `forged`: also those that the target reads with HDF5's checksums made right.
std::vector<std::string> make_seeds(const std::filesystem::path& scratch_folder, bool forged);

/// Whether the last input was taken.
inline bool was_taken = false;

/// Calls read(); what it throws must be an Error that blames the input with `code`, or the file system.
inline void expect_no_surprise(ExitCode code, const std::function<void()>& read) {
  was_taken = false;
  try {
    read();
    was_taken = true;
  } catch (const Error& error) {
    if (error.code() == code || error.code() == ExitCode::io) return;
    fmt::print(stderr, "an error with exit code {}: {}\n", static_cast<int>(error.code()), error.what());
    std::abort();
  } catch (const std::exception& error) {
    fmt::print(stderr, "an exception that is no Error: {}\n", error.what());
    std::abort();
  }
}

}  // namespace cohort::fuzz
