#include "data/prepare/part_texts.hpp"

#include <sys/stat.h>

#include "base/error.hpp"
#include "data/texts/json_line.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {
namespace {

// Line ends of other systems, and a byte order mark: kept as they are.
void note_oddities(std::string_view text, bool starts, PieceFacts& facts) {
  for (std::size_t at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1))
    ++(text.substr(at + 1).starts_with('\n') ? facts.crlf : facts.bare_returns);
  if (starts && text.starts_with("\xEF\xBB\xBF")) ++facts.byte_order_marks;
}

// Size and time of modification.
std::pair<Bytes, std::int64_t> state_of(const InputFile& file) {
  struct stat status {};
  if (::stat(file.path.c_str(), &status) != 0) return {-1, 0};
  return {status.st_size, std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace

Framing DocumentRules::framing_of(const InputFile& file) const {
  if (file.json_lines) return {Framing::Kind::lines, {}};
  return separator ? Framing{Framing::Kind::separated, *separator} : Framing{};
}

PartTexts::PartTexts(const InputList& inputs, const WorkPlan& plan, const DocumentRules& rules)
    : inputs_(inputs), piece_bytes_(plan.piece_bytes), rules_(rules) {}

bool PartTexts::visit(const WorkItem& item, Count number, const Visit& visit,
                      const std::function<void(const PieceFacts&)>& done) {
  for (const PiecePlace& place : item.pieces) {
    const InputFile& file = inputs_.files[place.file];
    if (!reader_ || open_file_ != place.file) {
      reader_.emplace(file, rules_.framing_of(file), piece_bytes_);
      open_file_ = place.file;
      check_unchanged(file);
    }
    const bool there = reader_->read(place.number + number);
    if (!there && item.open_ended) return false;
    done(there ? visit_piece(visit) : PieceFacts{});
    check_unchanged(file);
    FlightRecorder::of_process().beat();
  }
  return true;
}

PieceFacts PartTexts::visit_piece(const Visit& visit) {
  PieceFacts facts;
  const InputFile& file = reader_->file();
  const std::string_view text = reader_->text();
  const Framing framing = rules_.framing_of(file);
  const bool starts = reader_->begin() == 0;
  if (starts && text.empty() && reader_->last() && file.named)
    fail(ExitCode::data, "the text '{}' is empty; leave it out, or check what should have written it", file.path);
  if (framing.kind != Framing::Kind::lines) note_oddities(text, starts, facts);
  const auto take = [&](std::string_view document, Bytes begin, bool first, bool last) {
    facts.text_bytes += static_cast<Bytes>(document.size());
    TextSource source(file.path, begin);
    source.starts = first;
    visit(document, source, first, last);
  };
  if (framing.kind == Framing::Kind::whole) {
    if (!text.empty()) take(text, reader_->begin(), starts, reader_->last());
    return facts;
  }
  const Count between_separators = for_each_record(text, framing, [&](std::string_view record, std::size_t begin) {
    if (framing.kind == Framing::Kind::lines) {
      visit_line(record, begin, visit, facts);
    } else {
      take(record, reader_->begin() + static_cast<Bytes>(begin), true, true);
    }
  });
  facts.empty += between_separators;
  return facts;
}

void PartTexts::visit_line(std::string_view line, std::size_t begin, const Visit& visit, PieceFacts& facts) {
  const Bytes offset = reader_->begin() + static_cast<Bytes>(begin);
  try {
    if (rules_.chat != nullptr) {
      facts.text_bytes += static_cast<Bytes>(line.size());
      visit(line, "its text", true, true);
      return;
    }
    const std::string text = text_in_json_line(line, rules_.field);
    if (text.empty()) {
      if (facts.empty++ == 0) facts.first_empty = offset;
      return;
    }
    facts.text_bytes += static_cast<Bytes>(text.size());
    visit(text, "its text", true, true);
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    fail(ExitCode::data, "{}: line {}, at byte {} of the text: {}", reader_->file().path, line_of_byte(reader_->file(), offset),
         offset, error.what());
  }
}

void PartTexts::check_unchanged(const InputFile& file) const {
  if (state_of(file) != std::pair(file.size, file.modified))
    fail(ExitCode::data, "{}: the text changed since it was looked for; start again", file.path);
}

}  // namespace cohort
