#include "commands/common/override_options.hpp"

#include <fmt/format.h>

namespace cohort {

CLI::Validator is_assignment() {
  return CLI::Validator(
      [](std::string& word) -> std::string {
        if (word.find('=') != std::string::npos) return "";
        return fmt::format("'{}' has no value; key and value are one word: --set {}=VALUE", word, word);
      },
      "");
}

void add_override_options(CLI::App& command, std::vector<std::string>& overrides) {
  command.add_option("--set", overrides, "Override a key: section.key=value (may be repeated)")
      ->type_name("KEY=VALUE")
      ->check(is_assignment())
      ->allow_extra_args(false);
  // CLI11 handles options in the order in which they are added: `overrides` has what --set gives by then.
  command
      .add_option_function<std::vector<std::string>>(
          "--unset",
          [&overrides](const std::vector<std::string>& keys) {
            for (const std::string& key : keys) overrides.insert(overrides.begin(), "unset " + key);
          },
          "Remove a key from the run file, so that its default applies: section.key (may be repeated)")
      ->type_name("KEY")
      ->allow_extra_args(false);
}

}  // namespace cohort
