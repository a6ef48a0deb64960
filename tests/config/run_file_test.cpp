// Reading run files: what is accepted, and what each kind of mistake is told.
#include "config/run_file.hpp"

#include <gtest/gtest.h>

#include "base/file.hpp"
#include "config/schema.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace cohort {
namespace {

RunConfig parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_run_file(text, "run.toml", overrides);
}

// A file with `line` as its third line, in section [section].
std::string with_line(const std::string& section, const std::string& line) { return "# test\n[" + section + "]\n" + line + "\n"; }

TEST(RunFile, ReadsEveryTypeOfValue) {
  const RunConfig config = parse(R"(
    [run]
    name = "first"       # a string
    seed = 9007199254740993
    [model]
    kind = "llama"
    width = 96
    tied_head = false
    dropout = 0          # an integer where a number is wanted
    [optimizer]
    learning_rate = 3e-4
  )");
  EXPECT_EQ(config.run.name, "first");
  EXPECT_EQ(config.run.seed, 9007199254740993u);  // not a double
  EXPECT_EQ(config.model.kind, "llama");
  EXPECT_EQ(config.model.width, 96);
  EXPECT_FALSE(config.model.tied_head);
  EXPECT_EQ(config.model.dropout, 0.0);
  EXPECT_EQ(config.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(config.train.steps, RunConfig{}.train.steps);  // not named: the default
  EXPECT_EQ(config.origins.at("model.width"), "run.toml:7");
  EXPECT_FALSE(config.origins.contains("train.steps"));
}

// It was a boolean: older run files, and those in checkpoints, still say so.
TEST(RunFile, ActivationCheckpointingIsAChoiceOrABoolean) {
  const auto read = [](const std::string& value) {
    return parse(with_line("model", "activation_checkpointing = " + value)).model.activation_checkpointing;
  };
  const auto set = [](const std::string& value) {
    return parse(with_line("model", "width = 64"), {"model.activation_checkpointing=" + value}).model.activation_checkpointing;
  };
  EXPECT_EQ(RunConfig{}.model.activation_checkpointing, "none");
  for (const char* choice : {"none", "selective", "full"}) {
    EXPECT_EQ(read(std::string("\"") + choice + '"'), choice);
    EXPECT_EQ(set(choice), choice);
  }
  EXPECT_EQ(read("true"), "full");
  EXPECT_EQ(read("false"), "none");
  EXPECT_EQ(set("true"), "full");
  EXPECT_EQ(set("false"), "none");
  EXPECT_ERROR(read("\"selectiv\""), ExitCode::config,
               "run.toml:3:", "must be one of none, selective, full (true = full, false = none)", "did you mean \"selective\"?");
  EXPECT_ERROR(read("1"), ExitCode::config, "run.toml:3:", "must be one of none, selective, full", "the integer 1");
  EXPECT_ERROR(set("yes"), ExitCode::config, "must be one of none, selective, full");
  EXPECT_ERROR(parse(with_line("model", "kind = true")), ExitCode::config, "must be one of gpt2", "is true");
}

TEST(RunFile, AcceptsDottedKeysWindowsLineEndsAndAByteOrderMark) {
  EXPECT_EQ(parse("model.width = 64\r\ntrain.steps = 5\r\n").train.steps, 5);
  EXPECT_EQ(parse("\xef\xbb\xbf[train]\nsteps = 5\n").train.steps, 5);
}

TEST(RunFile, UnknownNamesGetLineAndNearest) {
  EXPECT_ERROR(parse(with_line("model", "widht = 64")), ExitCode::config, "run.toml:3:", "model.widht",
               "did you mean model.width?");
  EXPECT_ERROR(parse("[modle]\nwidth = 64\n"), ExitCode::config, "run.toml:1:", "[modle]", "did you mean [model]?");
  EXPECT_ERROR(parse(with_line("run", "learning_rate = 1")), ExitCode::config, "run.toml:3:", "optimizer.learning_rate");
  EXPECT_ERROR(parse(with_line("run", "zzzzzz = 1")), ExitCode::config, "the keys of [run] are name, directory, seed");
  EXPECT_ERROR(parse("[zzzzzzzz]\na = 1\n"), ExitCode::config, "known sections: run, model");
  EXPECT_ERROR(parse("\nwidth = 64\n"), ExitCode::config, "run.toml:2:", "'width' belongs in the section [model]");
  EXPECT_ERROR(parse(with_line("model", "Width = 64")), ExitCode::config, "did you mean model.width?");
}

TEST(RunFile, WrongTypesSayWhatWasExpectedAndFound) {
  EXPECT_ERROR(parse(with_line("train", "steps = \"many\"")), ExitCode::config,
               "run.toml:3:", "train.steps must be an integer from 1 to", "is the string \"many\"");
  EXPECT_ERROR(parse(with_line("train", "steps = 1.5")), ExitCode::config, "run.toml:3:", "must be an integer", "the number 1.5");
  EXPECT_ERROR(parse(with_line("train", "steps = true")), ExitCode::config, "must be an integer", "is true");
  EXPECT_ERROR(parse(with_line("model", "tied_head = 1")), ExitCode::config, "must be true or false", "the integer 1");
  EXPECT_ERROR(parse(with_line("run", "name = 5")), ExitCode::config, "must be a string", "the integer 5");
  EXPECT_ERROR(parse(with_line("optimizer", "beta1 = \"0.9\"")), ExitCode::config, "must be a number", "the string \"0.9\"");
  EXPECT_ERROR(parse(with_line("train", "steps = [1, 2]")), ExitCode::config, "an array");
  EXPECT_ERROR(parse(with_line("train", "steps = 2024-01-01")), ExitCode::config, "a date");
  EXPECT_ERROR(parse("[train.steps]\na = 1\n"), ExitCode::config, "train.steps must be an integer", "a table");
  EXPECT_ERROR(parse("model = 5\n"), ExitCode::config, "run.toml:1:", "[model] must be a section");
  EXPECT_ERROR(parse("[[model]]\nwidth = 64\n"), ExitCode::config, "run.toml:1:", "[model] must be a section", "an array");
}

TEST(RunFile, ValuesOutOfRangeShowTheRange) {
  EXPECT_ERROR(parse(with_line("train", "steps = 0")), ExitCode::config, "run.toml:3:", "train.steps is out of range",
               "from 1 to 2147483647", "the integer 0");
  EXPECT_ERROR(parse(with_line("train", "steps = 2147483648")), ExitCode::config, "out of range");
  EXPECT_ERROR(parse(with_line("run", "seed = -1")), ExitCode::config, "out of range");
  EXPECT_ERROR(parse(with_line("model", "dropout = 1.0")), ExitCode::config, "at least 0 and below 1");
  EXPECT_ERROR(parse(with_line("optimizer", "learning_rate = 0.0")), ExitCode::config, "above 0");
  EXPECT_ERROR(parse(with_line("optimizer", "epsilon = 0")), ExitCode::config, "epsilon");
  EXPECT_ERROR(parse(with_line("schedule", "final_fraction = 1.01")), ExitCode::config, "at most 1");
  for (const char* value : {"nan", "inf", "-inf", "+nan"}) {
    EXPECT_ERROR(parse(with_line("optimizer", std::string("learning_rate = ") + value)), ExitCode::config,
                 "run.toml:3:", "out of range");
    EXPECT_ERROR(parse(with_line("train", std::string("clip_norm = ") + value)), ExitCode::config, "run.toml:3:", "out of range");
  }
  EXPECT_EQ(parse(with_line("schedule", "final_fraction = 1")).schedule.final_fraction, 1.0);
  EXPECT_EQ(parse(with_line("model", "dropout = 0.0")).model.dropout, 0.0);
}

TEST(RunFile, UnknownChoicesListTheChoices) {
  EXPECT_ERROR(parse(with_line("model", "kind = \"gtp2\"")), ExitCode::config, "run.toml:3:", "one of gpt2, llama, mlp",
               "did you mean \"gpt2\"?");
  EXPECT_ERROR(parse(with_line("parallel", "data = \"zero9\"")), ExitCode::config, "monolith, manual, naive, hooks, bucketed");
}

TEST(RunFile, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_ERROR(parse("[train]\nsteps = \n"), ExitCode::config, "run.toml:2:", "column 9");
  EXPECT_ERROR(parse("[train\nsteps = 1\n"), ExitCode::config, "run.toml:1:", "column");
  EXPECT_ERROR(parse("[train]\nsteps = 99999999999999999999\n"), ExitCode::config, "run.toml:2:");
  EXPECT_ERROR(parse("[run]\nname = \"\xff\"\n"), ExitCode::config, "run.toml:2:");
}

TEST(RunFile, DuplicatesAreRefused) {
  EXPECT_ERROR(parse("[train]\nsteps = 1\nsteps = 2\n"), ExitCode::config, "run.toml:3:", "steps");
  EXPECT_ERROR(parse("[train]\nsteps = 1\n[train]\nmicro_batch = 2\n"), ExitCode::config, "run.toml:3:", "train");
}

TEST(RunFile, FilesThatCannotBeReadAreNamed) {
  const test::TemporaryFolder folder;
  EXPECT_ERROR(load_run_file(folder / "none.toml"), ExitCode::io, "run file", "none.toml", "No such file");
  EXPECT_ERROR(load_run_file(folder.path()), ExitCode::io, "is a directory");
  for (const char* text : {"", " \n\n", "# only a comment\n"}) {
    write_file_atomically(folder / "run.toml", text);
    EXPECT_ERROR(load_run_file(folder / "run.toml"), ExitCode::config, "run.toml", "empty");
  }
  write_file_atomically(folder / "run.toml", "[train]\nsteps = 7\n");
  EXPECT_EQ(load_run_file(folder / "run.toml", {"train.micro_batch=3"}).train.steps, 7);
  write_file_atomically(folder / "run.toml", "[train]\nsteps = x\n");
  EXPECT_ERROR(load_run_file(folder / "run.toml"), ExitCode::config, (folder / "run.toml:2").c_str());
}

TEST(Overrides, ReplaceValuesOfTheFileInOrder) {
  const RunConfig config =
      parse("[train]\nsteps = 7\n", {"train.steps=8", "train.steps=9", "optimizer.learning_rate=1e-2", " model.width = 64 "});
  EXPECT_EQ(config.train.steps, 9);
  EXPECT_EQ(config.optimizer.learning_rate, 1e-2);
  EXPECT_EQ(config.model.width, 64);
  EXPECT_EQ(config.origins.at("train.steps"), "--set train.steps=9");
}

TEST(Overrides, StringsNeedNoQuotes) {
  const auto prompt = [](const std::string& value) { return parse("run.seed = 1", {"sample.prompt=" + value}).sample.prompt; };
  EXPECT_EQ(prompt("Once upon a time"), "Once upon a time");
  EXPECT_EQ(prompt("\"Once\\nupon\""), "Once\nupon");
  EXPECT_EQ(prompt("'literal \\n'"), "literal \\n");
  EXPECT_EQ(prompt("42"), "42");
  EXPECT_EQ(prompt("a=b # c"), "a=b # c");
  EXPECT_EQ(prompt("back\\slash \"quoted\""), "back\\slash \"quoted\"");
  EXPECT_EQ(prompt(""), "");
  EXPECT_EQ(parse("run.seed = 1", {"model.kind=mlp"}).model.kind, "mlp");
}

TEST(Overrides, MistakesNameTheOverride) {
  const auto set = [](const std::string& text) { parse("run.seed = 1", {text}); };
  EXPECT_ERROR(set("train.steps"), ExitCode::config, "--set train.steps:", "section.key=value");
  EXPECT_ERROR(set("steps=1"), ExitCode::config, "--set steps=1:", "section.key=value");
  EXPECT_ERROR(set("steps=1.5"), ExitCode::config, "section.key=value");
  EXPECT_ERROR(set("train.step=1"), ExitCode::config, "--set train.step=1:", "did you mean train.steps?");
  EXPECT_ERROR(set("trian.steps=1"), ExitCode::config, "did you mean [train]?");
  EXPECT_ERROR(set("train.steps=1.5"), ExitCode::config, "--set train.steps=1.5:", "must be an integer", "the number 1.5");
  EXPECT_ERROR(set("train.steps=0"), ExitCode::config, "--set train.steps=0:", "out of range");
  EXPECT_ERROR(set("train.steps="), ExitCode::config, "the value is missing");
  EXPECT_ERROR(set("train.steps=many"), ExitCode::config, "must be an integer", "not valid TOML");
  EXPECT_ERROR(set("train.steps=1\nseed=2"), ExitCode::config, "not valid TOML");
  EXPECT_ERROR(set("run.name=\"open"), ExitCode::config, "not valid TOML");
  EXPECT_ERROR(set("run.name=\xff"), ExitCode::config, "not valid TOML");
  EXPECT_ERROR(set("model.kind=gtp2"), ExitCode::config, "--set model.kind=gtp2:", "did you mean \"gpt2\"?");
  EXPECT_ERROR(set(""), ExitCode::config, "section.key=value");
}

// TOML makes floats of 1e3 and 1_000.0; where an integer is wanted, a number without a fraction is one.
TEST(RunFile, IntegersMayBeWrittenAsFloats) {
  EXPECT_EQ(parse(with_line("train", "steps = 1e3")).train.steps, 1000);
  EXPECT_EQ(parse("[data]\n", {"train.steps=2.5e3"}).train.steps, 2500);
  EXPECT_EQ(parse("[data]\n", {"run.seed=1e15"}).run.seed, 1000000000000000u);
  EXPECT_ERROR(parse("[data]\n", {"train.steps=1.5"}), ExitCode::config, "train.steps must be an integer", "the number 1.5");
  EXPECT_ERROR(parse("[data]\n", {"train.steps=1e10"}), ExitCode::config, "out of range");
  EXPECT_ERROR(parse("[data]\n", {"run.seed=1e17"}), ExitCode::config, "must be an integer");  // beyond 2^53, not exact
  for (const char* text : {"nan", "-nan", "inf", "-inf"})
    EXPECT_ERROR(parse("[data]\n", {fmt::format("train.steps={}", text)}), ExitCode::config, "must be an integer");
}

TEST(RunFile, NoNumberIsNanOrInfinite) {
  for (const KeySpec& key : all_keys()) {
    if (!std::holds_alternative<NumberRange>(key.allowed)) continue;
    for (const char* value : {"nan", "+nan", "-nan", "inf", "-inf"}) {
      EXPECT_ERROR(parse("[data]\n", {key.full_name() + "=" + value}), ExitCode::config, key.full_name().c_str(), "out of range");
      EXPECT_ERROR(parse(with_line(key.section, key.name + " = " + value)), ExitCode::config, "run.toml:3:", "out of range");
    }
  }
}

TEST(RunFile, UnsetGivesAKeyItsDefault) {
  const std::string file =
      "[model]\nwidth = 96\nkind = \"llama\"\n[optimizer]\nlearning_rate = 1.0\n[checkpoint]\nat_end = false\n";
  const RunConfig config =
      parse(file, {"unset model.width", "unset model.kind", "unset optimizer.learning_rate", "unset checkpoint.at_end"});
  EXPECT_EQ(config, RunConfig{});
  EXPECT_TRUE(config.origins.empty()) << "as if it had never been there";
  EXPECT_EQ(parse(file, {"unset model.width", "model.width=64"}).model.width, 64);
  EXPECT_EQ(parse(file, {"unset train.steps"}).train.steps, RunConfig{}.train.steps) << "it need not be in the file";
  EXPECT_ERROR(parse(file, {"unset model.widht"}), ExitCode::config, "--unset model.widht", "did you mean model.width?");
  EXPECT_ERROR(parse(file, {"unset width"}), ExitCode::config, "--unset width", "section.key");
  EXPECT_ERROR(parse(file, {"unset model.width=3"}), ExitCode::config, "only the key");
}

TEST(RunFile, ValidationBatchesNamesItsSuccessor) {
  const std::string old = with_line("train", "validation_batches = 8");
  EXPECT_ERROR(parse(old), ExitCode::config, "run.toml:3:", "train.validation_samples", "train.micro_batch");
  EXPECT_ERROR(parse("[data]\n", {"train.validation_batches=8"}), ExitCode::config, "--set train.validation_batches=8",
               "train.validation_samples");
  // A checkpoint's run file is read whichever version wrote it.
  EXPECT_EQ(parse_saved_run_file(old + "micro_batch = 16\n", "saved").train.validation_samples, 128);
  EXPECT_EQ(
      parse_saved_run_file(with_line("train", "validation_batches = 0\nmicro_batch = 16"), "saved").train.validation_samples, 0);
  EXPECT_EQ(
      parse_saved_run_file(with_line("train", "validation_samples = 5\nmicro_batch = 16"), "saved").train.validation_samples, 5);
  const RunConfig most =
      parse_saved_run_file(with_line("train", "validation_batches = 2147483647\nmicro_batch = 1048576"), "saved");
  EXPECT_EQ(most.train.validation_samples, 2147483647) << "more samples than any split has";
}

}  // namespace
}  // namespace cohort
