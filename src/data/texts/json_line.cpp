#include "data/texts/json_line.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace cohort {
namespace {

// Keeps the one field and builds nothing else.
class FieldFinder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit FieldFinder(const std::string& field) : field_(field) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("true or false"); }
  bool number_integer(number_integer_t) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("binary"); }
  bool start_object(std::size_t) override {
    if (depth_ > 0) other("an object");
    is_object_ = is_object_ || depth_ == 0;
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    other("a list");
    ++depth_;
    return true;
  }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    here_ = depth_ == 1 && name == field_;
    if (depth_ == 1 && !here_) others_.push_back(name);
    return true;
  }
  bool string(string_t& text) override {
    if (here_) found_ = std::move(text);
    here_ = false;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string_view message = error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 5: ..."
    fail(ExitCode::data, "broken JSON: {}", message.substr(std::min(message.find("] ") + 2, message.size())));
  }

  std::string take() {
    if (!is_object_) fail(ExitCode::data, "it is not an object such as {{\"{}\": \"...\"}}", field_);
    if (!wrong_.empty()) fail(ExitCode::data, "the field '{}' is {}, not a text", field_, wrong_);
    if (found_) return std::move(*found_);
    fail(ExitCode::data, "it has no field '{}'{}; name the one with the text by --field", field_,
         others_.empty() ? "" : ", but " + first_few(others_));
  }

 private:
  bool other(const char* what) {
    if (here_) wrong_ = what;
    here_ = false;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  const std::string& field_;
  int depth_ = 0;
  bool is_object_ = false;
  bool here_ = false;  // the next value is that of the field
  std::optional<std::string> found_;
  std::string wrong_;
  std::vector<std::string> others_;
};

}  // namespace

std::string text_in_json_line(std::string_view line, const std::string& field) {
  FieldFinder finder(field);
  nlohmann::json::sax_parse(line.begin(), line.end(), &finder);
  return finder.take();
}

}  // namespace cohort
