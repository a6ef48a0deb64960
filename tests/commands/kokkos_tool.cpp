// A tool of Kokkos (github.com/kokkos/kokkos-tools describes the interface) that writes down the names of all kernels and
// regions, one a line, into the file that COHORT_KOKKOS_NAMES names.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

std::FILE* file() {
  static std::FILE* const opened = std::fopen(std::getenv("COHORT_KOKKOS_NAMES"), "a");
  return opened;
}

void note(const char* what, const char* name) { std::fprintf(file(), "%s %s\n", what, name); }

}  // namespace

extern "C" {
void kokkosp_begin_parallel_for(const char* name, std::uint32_t, std::uint64_t*) { note("kernel", name); }
void kokkosp_begin_parallel_reduce(const char* name, std::uint32_t, std::uint64_t*) { note("kernel", name); }
void kokkosp_begin_parallel_scan(const char* name, std::uint32_t, std::uint64_t*) { note("kernel", name); }
void kokkosp_push_profile_region(const char* name) { note("push", name); }
void kokkosp_pop_profile_region() { note("pop", "-"); }
void kokkosp_finalize_library() { std::fclose(file()); }
}
