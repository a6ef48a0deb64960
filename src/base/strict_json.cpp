#include "base/strict_json.hpp"

#include <vector>

#include "base/error.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;

// Builds the value as the library's own parser does, and refuses on the way what strict_json.hpp names. Its parser with a
// callback, which could refuse too, takes time with the square of an object's size. Errors are thrown: every handler returns
// true.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  StrictBuilder(const std::string& where, int depth, ExitCode code)
      : where_(where), depth_(static_cast<std::size_t>(depth)), code_(code) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(Json::binary(std::move(value))); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto& object = open_.back()->get_ref<Json::object_t&>();
    const auto [place, is_new] = object.emplace(std::move(name), nullptr);
    if (!is_new) fail(code_, "{} has the key '{}' twice", where_, place->first);
    member_ = &place->second;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    fail(code_, "{} is not valid JSON: {}", where_, error.what());
  }

 private:
  Json* place(Json&& value) {
    if (++values_ > kMostJsonValues) fail(code_, "{} has more than {} values", where_, kMostJsonValues);
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_object()) {
      *member_ = std::move(value);
      return member_;
    }
    open_.back()->push_back(std::move(value));
    return &open_.back()->back();
  }
  bool add(Json&& value) {
    place(std::move(value));
    return true;
  }
  // An array that grows moves its elements, but never while one of them is open.
  bool open(Json&& value) {
    if (open_.size() >= depth_) fail(code_, "{} is nested deeper than {} levels", where_, depth_);
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& where_;
  std::size_t depth_;
  ExitCode code_;  // of the errors: whose file it is
  Count values_ = 0;
  Json root_;
  std::vector<Json*> open_;  // the objects and arrays around the current place, the innermost last
  Json* member_ = nullptr;   // the value of the key that came last
};

}  // namespace

Json parse_strict_json(std::string_view text, const std::string& where, int depth, ExitCode code) {
  StrictBuilder builder(where, depth, code);
  Json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace cohort
