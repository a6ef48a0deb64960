// How --help lays out options and commands: descriptions are broken where a terminal of 100 columns ends.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/text.hpp"

namespace cohort {

class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat() { column_width(kDescriptionColumn); }
  std::string make_option_desc(const CLI::Option* option) const override { return broken(option->get_description(), ""); }
  std::string make_subcommand(const CLI::App* command) const override {
    std::string name = "  " + command->get_name();
    name.resize(kDescriptionColumn, ' ');  // longer than any name
    return name + broken(command->get_description(), std::string(kDescriptionColumn, ' ')) + "\n";
  }

 private:
  static constexpr std::size_t kColumns = 100, kDescriptionColumn = 30;

  // CLI11 indents an option's lines, not a command's.
  static std::string broken(const std::string& description, const std::string& indent) {
    return join(wrapped(description, kColumns - kDescriptionColumn), "\n" + indent);
  }
};

}  // namespace cohort
