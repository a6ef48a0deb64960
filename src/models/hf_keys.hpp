// The keys of a config.json, asked for one after the other: what nobody asked for, and what is not known to be harmless, is
// refused in the end, so that no key changes what a model computes in silence.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/units.hpp"

namespace cohort {

/// A key whose value is null counts as left out. Errors (checkpoint) name the file, the key and its value.
class HfKeys {
 public:
  using Json = nlohmann::json;

  /// Reads the file. Errors: io; checkpoint if it is no JSON object.
  explicit HfKeys(std::string file);

  const std::string& file() const { return file_; }
  bool has(const std::string& key) const;
  const Json& at(const std::string& key) const { return json_.at(key); }

  std::string text(const std::string& key, const char* otherwise) const;
  bool flag(const std::string& key, bool otherwise) const;
  /// Sets a size of the model, which must be there, within the range that a run file allows for the key model.OURS.
  void read(const std::string& key, Count& size, const std::string& ours) const;
  /// The same of a number; `value` is the key's, or a part of it.
  void read(const Json& value, const std::string& key, double& number, const std::string& ours) const;
  void read(const Json& value, const std::string& key, Count& size, const std::string& ours) const;
  /// The key may be left out, or have one of these values; anything else computes something that the models here do not.
  void require(const std::string& key, std::initializer_list<Json> allowed) const;
  /// Refuses the first key that none of the functions above was asked for, unless it is known to change no result: how to
  /// generate, names, token ids, versions.
  void refuse_others() const;

  [[noreturn]] void refuse(const std::string& key, const std::string& why) const;

 private:
  std::string file_;
  Json json_;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace cohort
