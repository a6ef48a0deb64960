// Standard output. What a command prints is its answer, so one that could not be written (a full disk behind `>`, a reader that
// went away) must not end with success: main asks at the end, commands that print for long also in between.
#pragma once

#include <cstdio>
#include <string_view>

namespace cohort {

/// Flushes what was printed. Throws Error(io) with the reason if any of it, since the program began, could not be written.
void flush_console();

/// Prints and flushes, whatever comes of it: for training, which a full console must not end. flush_console() tells later.
void print_to_console(std::string_view text, std::FILE* out = stdout) noexcept;

}  // namespace cohort
