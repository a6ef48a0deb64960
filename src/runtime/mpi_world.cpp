#include "runtime/mpi_world.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>

namespace cohort {
namespace {

class SharedMemoryGroup {
 public:
  SharedMemoryGroup() {
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm_), "MPI_Comm_split_type");
  }
  ~SharedMemoryGroup() { MPI_Comm_free(&comm_); }
  SharedMemoryGroup(const SharedMemoryGroup&) = delete;
  SharedMemoryGroup& operator=(const SharedMemoryGroup&) = delete;
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace

void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  fail(ExitCode::launch, "{} failed: {}", call,
       length > 0 ? std::string_view(text, static_cast<std::size_t>(length)) : "unknown MPI error");
}

bool init_mpi() {
  int already = 0;
  check_mpi(MPI_Initialized(&already), "MPI_Initialized");
  int provided = MPI_THREAD_SINGLE;
  if (already) {
    check_mpi(MPI_Query_thread(&provided), "MPI_Query_thread");
  } else {
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  }
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_SERIALIZED) {
    // The same on all ranks: it is a property of how the library was built.
    throw SharedError(
        ExitCode::launch,
        fmt::format("this MPI ({}) lets only one thread call it, and Cohort needs MPI_THREAD_SERIALIZED or more: use an MPI "
                    "built with thread support",
                    mpi_library_version()));
  }
  return already == 0;
}

void finalize_mpi() {
  // Ranks wait for the slowest here, not inside MPI_Finalize: if that one calls MPI_Abort while others are in MPI_Finalize,
  // mpirun of Open MPI 4.1 with PMIx 4.2 crashes or hangs in every tenth case, and its exit code is lost.
  check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  check_mpi(MPI_Finalize(), "MPI_Finalize");
}

bool mpi_is_live() noexcept {
  int started = 0;
  int ended = 0;
  return MPI_Initialized(&started) == MPI_SUCCESS && started && MPI_Finalized(&ended) == MPI_SUCCESS && !ended;
}

void abort_mpi(ExitCode code) noexcept {
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));  // in case MPI_Abort comes back
}

MpiFacts mpi_facts() {
  MpiFacts facts;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &facts.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &facts.size), "MPI_Comm_size");
  const SharedMemoryGroup node;
  check_mpi(MPI_Comm_rank(node.get(), &facts.local_rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(node.get(), &facts.local_size), "MPI_Comm_size");
  // A node is known by its lowest rank; its number is the place of that rank among all such.
  int leader = facts.rank;
  check_mpi(MPI_Bcast(&leader, 1, MPI_INT, 0, node.get()), "MPI_Bcast");
  std::vector<int> leaders(static_cast<std::size_t>(facts.size));
  check_mpi(MPI_Allgather(&leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
  std::sort(leaders.begin(), leaders.end());
  leaders.erase(std::unique(leaders.begin(), leaders.end()), leaders.end());
  facts.node_count = static_cast<int>(leaders.size());
  facts.node_rank = static_cast<int>(std::lower_bound(leaders.begin(), leaders.end(), leader) - leaders.begin());
  return facts;
}

void agree_on_problem(const std::optional<Error>& own) {
  int rank = 0;
  int size = 1;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  int first = own ? rank : size;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
  if (first == size) return;
  std::string text = rank == first ? own->what() : "";
  int header[2] = {rank == first ? static_cast<int>(own->code()) : 0, static_cast<int>(text.size())};
  check_mpi(MPI_Bcast(header, 2, MPI_INT, first, MPI_COMM_WORLD), "MPI_Bcast");
  text.resize(static_cast<std::size_t>(header[1]));
  check_mpi(MPI_Bcast(text.data(), header[1], MPI_CHAR, first, MPI_COMM_WORLD), "MPI_Bcast");
  throw SharedError(static_cast<ExitCode>(header[0]), text);
}

std::vector<std::string> gather_text(const std::string& text) {
  int rank = 0;
  int size = 1;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  const int length = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(size));
  check_mpi(MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Gather");
  std::vector<int> offsets(lengths.size());
  for (std::size_t i = 1; i < offsets.size(); ++i) offsets[i] = offsets[i - 1] + lengths[i - 1];
  std::string all(rank == 0 ? static_cast<std::size_t>(offsets.back() + lengths.back()) : 0, '\0');
  check_mpi(MPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR, 0, MPI_COMM_WORLD),
            "MPI_Gatherv");
  std::vector<std::string> texts;
  if (rank != 0) return texts;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    texts.push_back(all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

std::string broadcast_text_of_rank_0(std::string text) {
  int length = static_cast<int>(text.size());
  check_mpi(MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
  text.resize(static_cast<std::size_t>(length));
  check_mpi(MPI_Bcast(text.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return text;
}

std::string mpi_library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  check_mpi(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  const std::string_view all(text, static_cast<std::size_t>(length));
  return std::string(all.substr(0, all.find_first_of(std::string_view("\n\0", 2))));
}

bool mpi_is_open_mpi() noexcept {
#ifdef OPEN_MPI
  return true;
#else
  return false;
#endif
}

}  // namespace cohort
