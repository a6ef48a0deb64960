#include "comm/consensus.hpp"

#include <unistd.h>

#include <array>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/exception.hpp"
#include "base/text.hpp"
#include "watch/diagnosis.hpp"

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

// The first line in which two texts differ, of each; "nothing" where one has ended.
std::pair<std::string, std::string> first_differing_lines(const std::string& a, const std::string& b) {
  const std::vector<std::string> lines_a = split(a, '\n'), lines_b = split(b, '\n');
  const auto line = [](const std::vector<std::string>& lines, std::size_t i) {
    return i < lines.size() ? fmt::format("'{}'", lines[i]) : std::string("nothing");
  };
  std::size_t i = 0;
  while (i < lines_a.size() && i < lines_b.size() && lines_a[i] == lines_b[i]) ++i;
  return {line(lines_a, i), line(lines_b, i)};
}

// Of the texts of all ranks, each with its host, those that are not rank 0's.
std::string describe_differences(const std::vector<std::string>& texts, const std::vector<std::string>& hosts) {
  constexpr std::size_t kNamed = 3;
  std::map<std::string, std::vector<int>> ranks_of;  // by text
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank] != texts[0]) ranks_of[texts[rank]].push_back(static_cast<int>(rank));
  }
  std::vector<std::string> named;
  for (const auto& [text, ranks] : ranks_of) {
    if (named.size() == kNamed) {
      named.push_back("and others");
      break;
    }
    const auto [theirs, own] = first_differing_lines(text, texts[0]);
    named.push_back(fmt::format("{} on {} {} {} where rank 0 on {} has {}", name_ranks(ranks),
                                hosts[static_cast<std::size_t>(ranks.front())], ranks.size() == 1 ? "has" : "have", theirs,
                                hosts[0], own));
  }
  return join(named, "; ");
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

}  // namespace

void fail_together(Communicator& comm, std::string_view what, const std::function<void()>& work, std::source_location site) {
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

std::string made_by_rank_0(Communicator& comm, std::string_view what, const std::function<std::string()>& make) {
  std::string text;
  fail_together(comm, what, [&] {
    if (comm.rank() == 0) text = make();
  });
  return broadcast_text(comm, std::move(text), 0);
}

std::string broadcast_text(Communicator& comm, std::string text, int root, std::source_location site) {
  auto length = static_cast<std::int64_t>(text.size());
  comm.broadcast(&length, 1, DType::i64, root, site);
  text.resize(static_cast<std::size_t>(length));
  comm.broadcast(text.data(), length, DType::u8, root, site);
  return text;
}

std::vector<std::string> gather_texts(Communicator& comm, const std::string& text, int root, std::source_location site) {
  std::vector<std::string> texts;
  if (comm.rank() != root) {
    const auto length = static_cast<std::int64_t>(text.size());
    comm.send(&length, 1, DType::i64, root, 0, site);
    comm.send(text.data(), length, DType::u8, root, 0, site);
    return texts;
  }
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank == root) {
      texts.push_back(text);
      continue;
    }
    std::int64_t length = 0;
    comm.recv(&length, 1, DType::i64, rank, 0, site);
    std::string& received = texts.emplace_back(static_cast<std::size_t>(length), ' ');
    comm.recv(received.data(), length, DType::u8, rank, 0, site);
  }
  return texts;
}

std::string difference_between_ranks(Communicator& comm, const std::string& text, std::source_location site) {
  if (same_on_all_ranks(comm, text, site)) return "";
  const std::vector<std::string> texts = gather_texts(comm, text, 0, site);
  const std::vector<std::string> hosts = gather_texts(comm, host_name(), 0, site);
  return broadcast_text(comm, comm.rank() == 0 ? describe_differences(texts, hosts) : "", 0, site);
}

bool same_on_all_ranks(Communicator& comm, std::string_view text, std::source_location site) {
  const auto crc = static_cast<std::int64_t>(crc32_of(text.data(), static_cast<Bytes>(text.size())));
  return all_reduce_value(comm, crc, ReduceOp::max, site) == -all_reduce_value(comm, -crc, ReduceOp::max, site);
}

}  // namespace cohort
