// Which files of a checkpoint are not there: for people who copied a part of one, or look at what is left of one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.hpp"

namespace cohort {

/// The files of the manifest that are missing from the folder or have another size than was written: "rank_00001.h5 (missing)",
/// "rank_00002.h5 (10 bytes of 2048)". No file is opened.
std::vector<std::string> missing_files(const std::filesystem::path& folder, const Manifest& manifest);

/// A sentence with the first few of them: "2 of its 5 files are not as they were written: ...; copy the whole folder again".
std::string missing_files_text(const std::vector<std::string>& missing, const Manifest& manifest);

/// For a folder without a manifest: "; its model.h5 is the index of rank_00000.h5, ..., which are missing: copy the whole
/// folder", or "" if model.h5 is not there, cannot be read or needs no file that is missing.
std::string missing_sources_text(const std::filesystem::path& folder);

}  // namespace cohort
