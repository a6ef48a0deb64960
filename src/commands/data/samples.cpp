// `cohort data samples`: which samples a training step takes, and what is in them. One process, no MPI: the order is a pure
// function of the run file and the step.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/common/numbers.hpp"
#include "commands/common/override_options.hpp"
#include "commands/data/data.hpp"
#include "config/model_rules.hpp"
#include "config/run_file.hpp"
#include "config/validate.hpp"
#include "data/token_documents.hpp"
#include "data/utf8.hpp"
#include "train/data_setup.hpp"

namespace cohort {
namespace {

constexpr std::size_t kExcerpt = 60;  // bytes of a sample's text that are shown

struct SamplesOptions {
  std::string run;
  Count step = 1;
  Count ranks = 1;
  std::vector<std::string> overrides;
  bool json = false;
};

// Of a run, whose run file says the layout that it has; or of a run file, for so many ranks.
RunConfig run_of(const SamplesOptions& options) {
  const std::filesystem::path path = options.run;
  const bool is_run = std::filesystem::is_directory(path);
  const std::filesystem::path file = is_run ? path / "run.toml" : path;
  RunConfig config = is_run ? parse_saved_run_file(read_file(file, "run file"), file.string(), options.overrides)
                            : load_run_file(file, options.overrides);
  const ParallelSection& p = config.parallel;
  const Count ranks = is_run ? std::max<Count>(1, p.dp) * p.pp * p.cp * p.tp : options.ranks;
  validate(config, ranks, {.cuda = true});
  return config;
}

struct SampleRow {
  Count slot, rank, micro_batch;
  Sampler::Draw draw;
};

// In the order of the stream, with the micro-batch (from 1) and the data-parallel rank that take it.
std::vector<SampleRow> rows_of(const Sampler& sampler, const RunConfig& config, Count step) {
  const Count dp = config.parallel.dp, micro = config.train.micro_batch;
  std::vector<SampleRow> rows;
  for (Count slot = 0; slot < sampler.global_batch(); ++slot) {
    const Count position = (step - 1) * sampler.global_batch() + slot;
    rows.push_back({slot, slot / micro % dp, slot / (micro * dp) + 1, sampler.draw_at(position)});
  }
  return rows;
}

struct SampleText {
  Count begin, end;  // tokens of /train that are its inputs
  std::optional<Count> document;
  std::string text;
};

SampleText text_of(const TokenFile& file, Count sample, Count context) {
  SampleText result{sample * context, (sample + 1) * context, document_at(file, Split::train, sample * context), ""};
  std::vector<std::int32_t> ids(static_cast<std::size_t>(context));
  file.read(Split::train, result.begin, ids);
  result.text = file.tokenizer().decode(ids);
  return result;
}

void print_table(const RunData& data, const std::vector<SampleRow>& rows, const std::vector<SampleText>& texts) {
  const bool documents = std::ranges::any_of(texts, [](const SampleText& text) { return text.document.has_value(); });
  std::vector<std::string> header{"slot", "dp rank", "micro-batch"};
  if (!data.sources.empty()) header.emplace_back("source");
  header.insert(header.end(), {"epoch", "sample"});
  if (!texts.empty()) header.emplace_back("tokens");
  if (documents) header.emplace_back("document");
  if (!texts.empty()) header.emplace_back("begins with");
  Table table(header);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SampleRow& row = rows[i];
    std::vector<std::string> cells;
    for (const Count number : {row.slot + 1, row.rank, row.micro_batch}) cells.push_back(std::to_string(number));
    if (!data.sources.empty()) cells.push_back(data.sources[row.draw.source].name);
    for (const Count number : {static_cast<Count>(row.draw.epoch) + 1, row.draw.sample}) cells.push_back(std::to_string(number));
    if (!texts.empty()) cells.push_back(fmt::format("{}-{}", texts[i].begin, texts[i].end - 1));
    if (documents) cells.push_back(texts[i].document ? std::to_string(*texts[i].document) : "-");
    if (!texts.empty()) cells.push_back(fmt::format("'{}'", printable(texts[i].text.substr(0, kExcerpt))));
    table.add(std::move(cells));
  }
  fmt::print("{}", table.str(header.size()));
}

void print_json(const SamplesOptions& options, const RunData& data, const std::vector<SampleRow>& rows,
                const std::vector<SampleText>& texts) {
  nlohmann::ordered_json json{{"run", options.run}, {"step", options.step}, {"samples", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    nlohmann::ordered_json item{{"slot", rows[i].slot + 1}, {"dp_rank", rows[i].rank}, {"micro_batch", rows[i].micro_batch}};
    if (!data.sources.empty()) item["source"] = data.sources[rows[i].draw.source].name;
    item["epoch"] = rows[i].draw.epoch + 1;
    item["sample"] = rows[i].draw.sample;
    if (!texts.empty()) {
      item["tokens"] = {texts[i].begin, texts[i].end};
      if (texts[i].document) item["document"] = *texts[i].document;
      item["text"] = texts[i].text;
    }
    json["samples"].push_back(std::move(item));
  }
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

int show_samples(const SamplesOptions& options) {
  RunConfig config = run_of(options);
  if (options.step > config.train.steps)
    fail(ExitCode::usage, "--step {}: the run has {}", options.step, counted(config.train.steps, "step"));
  const RunData data = open_data_here(config);
  const std::vector<SampleRow> rows = rows_of(sampler_of(config, *data.dataset), config, options.step);
  std::vector<SampleText> texts;
  for (const SampleRow& row : rows) {
    if (!data.tokens) break;
    const TokenFile& file = data.sources.empty() ? *data.tokens : *data.sources[row.draw.source].file;
    texts.push_back(text_of(file, row.draw.sample, config.model.context));
  }
  if (options.json) {
    print_json(options, data, rows, texts);
  } else {
    print_table(data, rows, texts);
  }
  return 0;
}

}  // namespace

void add_data_samples(CLI::App& data, Action& action) {
  auto* command = data.add_subcommand("samples", "Show which samples a training step takes");
  command->footer(
      "The samples of a step follow from data, seed and global batch alone; who takes them follows from the layout. A sample is\n"
      "`context` tokens of /train, of a mixture those of its source; its text, and the document that it begins in, are shown "
      "too.\n"
      "Examples:\n"
      "  cohort data samples runs/demo --step 100\n"
      "  cohort data samples inputs/demo.toml --step 100 --ranks 4 --json");
  const auto options = std::make_shared<SamplesOptions>();
  command->add_option("run", options->run, "A run folder, or a run file")->required();
  command->add_option("--step", options->step, "The step, from 1")->check(integer_from(1))->capture_default_str();
  command->add_option("--ranks", options->ranks, "Of a run file: the ranks of the job")
      ->check(integer_from(1, 1'000'000))
      ->capture_default_str();
  add_override_options(*command, options->overrides);
  command->add_flag("--json", options->json, "Print JSON, with the whole text of each sample");
  command->callback([&action, options] { action = [options] { return show_samples(*options); }; });
}

}  // namespace cohort
