// Messages in the wire format of protobuf, field by field, for who writes a few small ones. The library is not used:
// SentencePiece's carries a copy of it, whose symbols take the place of the library's, and a program with both ends when it is
// loaded.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace cohort {

/// A number as it lies in files of these formats.
template <class Number>
std::string little_endian(Number number) {
  static_assert(std::endian::native == std::endian::little, "this code copies numbers as they are");
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

/// A message under construction: each call appends a field, which its number and the message's definition tell apart.
class WireMessage {
 public:
  WireMessage& integer(int field, std::int64_t value) {
    key(field, kVarint);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  WireMessage& number(int field, double value) {
    key(field, kFixed64);
    bytes_ += little_endian(value);
    return *this;
  }
  WireMessage& number(int field, float value) {
    key(field, kFixed32);
    bytes_ += little_endian(value);
    return *this;
  }
  /// `repeated double`, packed.
  WireMessage& numbers(int field, std::span<const double> values) {
    std::string packed;
    for (const double value : values) packed += little_endian(value);
    return bytes(field, packed);
  }
  WireMessage& bytes(int field, std::string_view value) {
    key(field, kLengthDelimited);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  WireMessage& message(int field, const WireMessage& value) { return bytes(field, value.str()); }

  const std::string& str() const { return bytes_; }

 private:
  static constexpr std::uint64_t kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5;

  void key(int field, std::uint64_t type) { varint(static_cast<std::uint64_t>(field) << 3 | type); }
  void varint(std::uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>((value & 127) | 128);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace cohort
