// What the commands of `cohort ckpt` share in how they print.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/read/verify.hpp"
#include "observe/clock.hpp"

namespace cohort {

/// Prints JSON to stdout, indented. Bytes that are not UTF-8 (paths can have them) are replaced; infinities and NaN are null.
void print_json(const nlohmann::ordered_json& json);

/// "0" or "1.234e-05": short, four significant digits.
std::string short_number(double value);

/// While much is read: on a terminal, a line on stderr that updates itself and goes when this object does. Silent elsewhere, and
/// in the first second.
class ReadingLine {
 public:
  explicit ReadingLine(std::string what);
  ~ReadingLine();
  ReadingLine(const ReadingLine&) = delete;
  ReadingLine& operator=(const ReadingLine&) = delete;

  void update(Bytes done, Bytes all);
  /// A function that calls update(), valid as long as this object.
  ReadingProgress progress() {
    return [this](Bytes done, Bytes all) { update(done, all); };
  }

 private:
  std::string what_;
  bool terminal_;
  double begin_;
  double last_drawn_;
  bool drawn_ = false;
};

}  // namespace cohort
