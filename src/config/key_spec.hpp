// The description of one key of the run file.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "config/run_config.hpp"

namespace cohort {

/// A key's value inside a RunConfig; which pointer it is says the key's type.
using Field = std::variant<std::string*, Count*, double*, bool*, std::uint64_t*, std::vector<OptimizerGroup>*,
                           std::vector<DataSource>*, std::vector<DataStage>*>;

/// Both ends are allowed.
struct IntegerRange {
  Count low;
  Count high;
};
/// Both ends are allowed unless open. NaN and infinities never are.
struct NumberRange {
  double low;
  double high;
  bool low_open = false;
  bool high_open = false;
};
struct Choices {
  std::vector<std::string> names;
  // Of a key that was a boolean before it had names: what true and false stand for. Empty: they are refused.
  std::string if_true = {}, if_false = {};
};
/// monostate: every string, or true and false.
using Allowed = std::variant<std::monostate, IntegerRange, NumberRange, Choices>;

/// No size in a run file is larger: products of sizes do not overflow 64 bits.
inline constexpr Count kMaxSize = 1 << 20;

/// A key of which the schema knows nothing: own to one family of models, or to one optimizer. Those that have a key of one name
/// describe it alike.
struct OwnKey {
  std::string name;
  KeyValue standard;  // the default; its type is the key's
  Allowed allowed;
  std::string help;
};

struct KeySpec {
  std::string section;
  std::string name;
  std::function<Field(RunConfig&)> field;
  Allowed allowed;
  std::string help;

  /// The key has an effect only if `key`, of Choices or boolean, has one of `values`; without values, if it is above 1.
  /// No key: it always has. Of optimizer.kind it is enough that one of the optimizers at work has (config/optimizer_rules.hpp).
  struct OnlyWith {
    std::string key;
    std::vector<std::string> values;
    /// "naive or hooks", "2 or more".
    std::string values_in_words() const;
  } only_with;

  /// "model.width"
  std::string full_name() const { return section + "." + name; }
};

}  // namespace cohort
