#include "train/text_stream.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace cohort {
namespace {

// Bytes at the end of `text` that begin a UTF-8 character whose other bytes are missing.
std::size_t unfinished_character(std::string_view text) {
  for (std::size_t count = 1; count <= std::min<std::size_t>(3, text.size()); ++count) {
    const auto byte = static_cast<unsigned char>(text[text.size() - count]);
    if ((byte & 0xc0) == 0x80) continue;  // not its first
    const std::size_t whole = byte >= 0xf5 || byte < 0xc2 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return whole > count ? count : 0;
  }
  return 0;
}

// Bytes at the end of `text` that `stop` begins with, but not all of it.
std::size_t begun(std::string_view text, std::string_view stop) {
  for (std::size_t count = std::min(text.size(), stop.size() - 1); count > 0; --count) {
    if (text.ends_with(stop.substr(0, count))) return count;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::string> stops)
    : tokenizer_(&tokenizer), stops_(std::move(stops)) {
  for (const std::string& stop : stops_) COHORT_CHECK(!stop.empty(), "an empty stop string");
}

std::string TextStream::put(std::int32_t token) {
  if (stopped_) return "";
  const std::size_t before = text_.size();
  text_ += tokenizer_->text_of(token);
  std::size_t end = std::string::npos, held_back = 0;
  for (const std::string& stop : stops_) {
    end = std::min(end, text_.find(stop, before - std::min(before, stop.size() - 1)));
    held_back = std::max(held_back, begun(text_, stop));
  }
  if (end != std::string::npos) {
    stopped_ = true;
    text_.resize(end);
    return show_up_to(end);
  }
  end = text_.size() - held_back;
  return show_up_to(end - unfinished_character(std::string_view(text_).substr(0, end)));
}

std::string TextStream::finish() { return show_up_to(text_.size()); }

std::string TextStream::show_up_to(std::size_t end) {
  if (end <= shown_) return "";
  const std::string text = text_.substr(shown_, end - shown_);
  shown_ = end;
  return text;
}

}  // namespace cohort
