// Whole files: reading them with errors that say what to do, and replacing them so that no reader ever sees half a file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace cohort {

/// The bytes of a file. `what` names it in errors ("run file"). Throws Error(io): missing, a directory, no permission, read
/// error.
std::string read_file(const std::filesystem::path& path, std::string_view what = "file");

/// Replaces `path` by `text`: after a crash there is either the old file or the new one. Writes `path`.tmp, then commit_file().
/// The folder must exist. A link stays one: the file that it names is replaced. Throws Error(io). One process at a time may write
/// one path.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// fsync of a file or a folder. Throws Error(io).
void flush_to_disk(const std::filesystem::path& path);

/// Lets the system begin to write to disk what its cache has of a file, so that a later flush_to_disk() has less left to do. A
/// hint: where the system does not take it, nothing happens, and what cannot be written is flush_to_disk()'s error. May wait
/// until the disk's queue has room.
void begin_flush(const std::filesystem::path& path);

/// Makes a finished temporary file (or folder) the real one, for good: fsync of it, rename over `path`, fsync of the folder that
/// holds it. Both names must lie in one file system. Throws Error(io).
void commit_file(const std::filesystem::path& temporary, const std::filesystem::path& path);

/// Creates a folder and those above it; no error if it exists, or if another rank creates it at the same moment. Throws
/// Error(io).
void make_folders(const std::filesystem::path& path);

}  // namespace cohort
