// Where the files are that come with the program: templates, handouts, run files.
#pragma once

#include <array>
#include <filesystem>

namespace cohort {

/// PREFIX/share/cohort/INSTALLED where the program is PREFIX/bin/NAME, and TREE/IN_TREE where it is TREE/build/PRESET/NAME: an
/// installed program has the first, one that was just built the second.
inline std::array<std::filesystem::path, 2> shared_places(const std::filesystem::path& program, const char* installed,
                                                          const char* in_tree) {
  const std::filesystem::path above = program.parent_path().parent_path();
  return {above / "share/cohort" / installed, above.parent_path() / in_tree};
}

}  // namespace cohort
