#include "data/foreign/llmc_header.hpp"

#include <array>
#include <cstring>

#include "base/error.hpp"

namespace cohort {
namespace {

struct LlmcKind {
  std::int32_t magic, version;
  Bytes id_bytes;
};
constexpr std::array<LlmcKind, 2> kLlmcKinds{{{20240520, 1, 2}, {20240801, 7, 4}}};  // of GPT-2's tokenizer, and of Llama 3's

}  // namespace

bool is_llmc(std::string_view start) {
  std::int32_t magic = 0;
  if (start.size() < sizeof(magic)) return false;
  std::memcpy(&magic, start.data(), sizeof(magic));
  return magic == kLlmcKinds[0].magic || magic == kLlmcKinds[1].magic;
}

LlmcHeader read_llmc_header(const StoredBytes& file) {
  std::array<char, kLlmcHeaderBytes> bytes{};
  if (file.read_at(0, bytes) < bytes.size())
    fail(ExitCode::data, "{}: truncated within its header of {} bytes", file.path(), kLlmcHeaderBytes);
  std::array<std::int32_t, 3> numbers{};
  std::memcpy(numbers.data(), bytes.data(), sizeof(numbers));
  for (const LlmcKind& kind : kLlmcKinds) {
    if (numbers[0] != kind.magic) continue;
    if (numbers[1] != kind.version)
      fail(ExitCode::data, "{}: version {} of llm.c's format {}; this program reads {}", file.path(), numbers[1], kind.magic,
           kind.version);
    return {kind.id_bytes, Count{static_cast<std::uint32_t>(numbers[2])}};
  }
  fail(ExitCode::data, "{}: it begins with {}, not with a magic number of llm.c ({} or {})", file.path(), numbers[0],
       kLlmcKinds[0].magic, kLlmcKinds[1].magic);
}

std::string llmc_header(const LlmcHeader& header, std::string_view file) {
  const LlmcKind& kind = kLlmcKinds[header.id_bytes == 2 ? 0 : 1];
  if (header.tokens > 0x7FFFFFFF)
    fail(ExitCode::data, "{}: llm.c's header has no room for {} tokens; its most are 2147483647", file, header.tokens);
  const std::array<std::int32_t, 3> numbers{kind.magic, kind.version, static_cast<std::int32_t>(header.tokens)};
  std::string bytes(kLlmcHeaderBytes, '\0');
  std::memcpy(bytes.data(), numbers.data(), sizeof(numbers));
  return bytes;
}

}  // namespace cohort
