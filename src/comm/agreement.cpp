#include "comm/agreement.hpp"

#include <unistd.h>

#include <array>
#include <exception>
#include <optional>
#include <span>
#include <string>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/exception.hpp"

namespace cohort {
namespace {

struct Failure {
  ExitCode code;
  std::string message;
};

std::optional<Failure> attempt(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return Failure{error.code(), error.what()};
  } catch (const std::exception& error) {
    const Error meant = as_error(error);
    return Failure{meant.code(), meant.what()};
  } catch (...) {
    return Failure{ExitCode::internal, "an exception that is not a std::exception"};
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

}  // namespace

void agree(Communicator& comm, std::string_view what, const std::function<void()>& work, std::source_location site) {
  const std::optional<Failure> own = attempt(work);

  // The maximum of (size - rank) over the ranks that failed names the lowest of them; 0 means that none did.
  const std::int32_t ballot = own ? comm.size() - comm.rank() : 0;
  const std::int32_t first = all_reduce_value(comm, ballot, ReduceOp::max, site);
  if (first == 0) return;

  const int root = comm.size() - first;
  auto code = own ? static_cast<std::int32_t>(own->code) : 0;
  comm.broadcast(&code, 1, DType::i32, root);
  const std::string message = broadcast_text(comm, own ? own->message : "", root);
  const std::string host = broadcast_text(comm, host_name(), root);

  const std::int32_t differs = own && own->message == message ? 0 : 1;
  const bool all_alike = all_reduce_value(comm, differs, ReduceOp::max) == 0;
  const std::string who = all_alike ? "" : fmt::format("{} rank {} on {}, ", comm.name(), root, host);
  throw SharedError(static_cast<ExitCode>(code), fmt::format("{}{}: {}", who, what, message));
}

std::string broadcast_text(Communicator& comm, std::string text, int root, std::source_location site) {
  auto length = static_cast<std::int64_t>(text.size());
  comm.broadcast(&length, 1, DType::i64, root, site);
  text.resize(static_cast<std::size_t>(length));
  comm.broadcast(text.data(), length, DType::u8, root, site);
  return text;
}

std::vector<std::string> gather_texts(Communicator& comm, std::string text, int root, std::source_location site) {
  std::vector<std::string> texts;
  if (comm.rank() != root) {
    const auto length = static_cast<std::int64_t>(text.size());
    comm.send(&length, 1, DType::i64, root, 0, site);
    comm.send(text.data(), length, DType::u8, root, 0, site);
    return texts;
  }
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank == root) {
      texts.push_back(std::move(text));
      continue;
    }
    std::int64_t length = 0;
    comm.recv(&length, 1, DType::i64, rank, 0, site);
    std::string& received = texts.emplace_back(static_cast<std::size_t>(length), ' ');
    comm.recv(received.data(), length, DType::u8, rank, 0, site);
  }
  return texts;
}

bool same_on_all_ranks(Communicator& comm, std::string_view text, std::source_location site) {
  const auto crc = static_cast<std::int64_t>(crc32_of(text.data(), static_cast<Bytes>(text.size())));
  return all_reduce_value(comm, crc, ReduceOp::max, site) == -all_reduce_value(comm, -crc, ReduceOp::max, site);
}

}  // namespace cohort
