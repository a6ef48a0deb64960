// A learner's file as a shared library: compiled, loaded, asked for its functions.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace cohort::labs {

struct Compiling {
  std::filesystem::path headers;   // the folder of the exercises' headers
  std::filesystem::path built_in;  // a folder for libraries, which is made
  bool sanitized = false;          // with the address and undefined-behaviour sanitizers
};

/// Compiles `source` by $CXX, or c++, unless a library of the same text, headers and flags is there. Throws Error(usage) with the
/// compiler's words, at most its first 30 lines; without a compiler, with what to install.
std::filesystem::path compile_exercise(const std::filesystem::path& source, const Compiling& how);

/// The libraries that a program must be started with (LD_PRELOAD) to load sanitized ones.
std::string sanitizer_library();

class Library {
 public:
  /// Throws Error(usage) if it cannot be loaded.
  explicit Library(const std::filesystem::path& file);

  /// The function of this name. Throws Rejected if the file does not define it.
  template <class Function>
  Function* function(const std::string& name) const {
    return reinterpret_cast<Function*>(address_of(name));
  }

 private:
  void* address_of(const std::string& name) const;

  std::shared_ptr<void> handle_;
};

}  // namespace cohort::labs
