#include "watch/rendezvous.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/error.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;

std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", device());
  return token;
}

// Takes the same time wherever the texts differ, so that a token cannot be found letter by letter.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

std::string to_line(const Hello& hello, std::string_view token) {
  return Json{{"hello", token}, {"rank", hello.rank}, {"host", hello.host}, {"process", hello.process}}.dump();
}

std::optional<Hello> hello_from(const std::string& line, std::string_view token, int size) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto is = [&](const char* key, auto right) {
    const auto found = json.find(key);
    return found != json.end() && ((*found).*right)();
  };
  if (!is("hello", &Json::is_string) || !is("rank", &Json::is_number_integer) || !is("host", &Json::is_string) ||
      !is("process", &Json::is_number_integer))
    return std::nullopt;
  if (!equal_in_constant_time(json["hello"].get_ref<const std::string&>(), token)) return std::nullopt;
  const auto rank = json["rank"].get<std::int64_t>();
  if (rank <= 0 || rank >= size) return std::nullopt;
  return Hello{static_cast<int>(rank), json["host"].get<std::string>(), json["process"].get<std::int64_t>()};
}

Rendezvous::Rendezvous(const std::vector<std::string>& addresses, int size) : token_(random_token()), size_(size) {
  std::string problem = "no network interface is up";
  for (const std::string& address : addresses) {
    try {
      listeners_.emplace_back(address);
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  if (listeners_.empty()) fail(ExitCode::launch, "{}", problem);
}

std::vector<Endpoint> Rendezvous::endpoints() const {
  std::vector<Endpoint> all;
  for (const LineListener& listener : listeners_) all.push_back(listener.endpoint());
  return all;
}

std::vector<Rendezvous::Guest> Rendezvous::admit(double now, const std::function<bool(int)>& wanted) {
  for (LineListener& listener : listeners_) {
    for (std::size_t i = 0; i < kMostPending; ++i) {
      std::optional<LineSocket> socket = listener.accept();
      if (!socket) break;
      socket->limit_line(kLongestHello);
      if (pending_.size() == kMostPending) pending_.pop_front();
      pending_.push_back({std::move(*socket), now});
    }
  }
  std::vector<Guest> guests;
  const auto is_in = [&](int rank) {
    for (const Guest& guest : guests) {
      if (guest.hello.rank == rank) return true;
    }
    return !wanted(rank);
  };
  for (auto one = pending_.begin(); one != pending_.end();) {
    const std::vector<std::string> lines = one->socket.receive();
    if (lines.empty() && one->socket.is_open() && now - one->since <= kPatience) {
      ++one;
      continue;
    }
    const std::optional<Hello> hello = lines.empty() ? std::nullopt : hello_from(lines.front(), token_, size_);
    if (hello && !is_in(hello->rank) && one->socket.send(kWelcome)) {
      one->socket.limit_line(LineSocket::kMostKept);
      guests.push_back({*hello, std::move(one->socket)});
    }
    one = pending_.erase(one);
  }
  return guests;
}

std::vector<int> Rendezvous::descriptors() const {
  std::vector<int> all;
  for (const LineListener& listener : listeners_) all.push_back(listener.descriptor());
  for (const Pending& one : pending_) all.push_back(one.socket.descriptor());
  return all;
}

}  // namespace cohort
