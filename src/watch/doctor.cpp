#include "watch/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "watch/diagnosis.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kMostRanks = 24;      // that fit a page
constexpr std::size_t kLastOperations = 5;  // of a rank
constexpr std::size_t kMostHistories = 3;   // ranks whose operations are listed

Json read_json(const fs::path& path) {
  try {
    return Json::parse(read_file(path));
  } catch (const Json::exception& error) {
    fail(ExitCode::io, "{}: not a dump of a job: {}", path.string(), error.what());
  }
}

/// The dumps, by rank.
std::map<int, Json> read_dumps(const fs::path& folder) {
  std::map<int, Json> dumps;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("rank_") || !name.ends_with(".json")) continue;
    Json dump = read_json(entry.path());
    dumps.emplace(dump.at("rank").get<int>(), std::move(dump));
  }
  return dumps;
}

std::string what_it_does(const RankReport& report) {
  if (report.waiting.empty()) return fmt::format("{} for {:.0f} s", report.activity, report.seconds_in_activity);
  return fmt::format("waits {:.0f} s in {}", report.waiting.front().seconds, report.waiting.front().text);
}

std::string table_of(const std::vector<RankReport>& reports, const std::map<int, std::string>& links) {
  Table table({"rank", "host", "process", "step", "", "what it did"});
  std::size_t shown = 0;
  for (const RankReport& report : reports) {
    if (shown++ == kMostRanks) break;
    const auto link = links.find(report.rank);
    table.add({fmt::to_string(report.rank), report.host, fmt::to_string(report.process), fmt::to_string(report.step),
               link == links.end() ? "" : link->second, what_it_does(report)});
  }
  std::string text = table.str(5);
  if (reports.size() > kMostRanks) text += fmt::format("... and {} more ranks\n", reports.size() - kMostRanks);
  return text;
}

std::string ago(const Json& seconds) { return seconds.is_null() ? "not" : fmt::format("{:.1f} s ago", seconds.get<double>()); }

std::string history_of(const Json& dump) {
  const auto& operations = dump.at("operations");
  std::string text =
      fmt::format("\nThe last operations of rank {} (its dump has {}):\n", dump.at("rank").get<int>(), operations.size());
  const std::size_t first = operations.size() - std::min(operations.size(), kLastOperations);
  for (std::size_t i = first; i < operations.size(); ++i) {
    const Json& operation = operations[i];
    text +=
        fmt::format("  step {}: {}; started {}, finished {}\n", operation.at("step").get<Count>(),
                    operation.at("text").get<std::string>(), ago(operation.at("started_ago")), ago(operation.at("finished_ago")));
  }
  return text;
}

/// Those to blame, and one that is not, to compare them with.
std::vector<int> worth_listing(const std::vector<int>& culprits, const std::map<int, Json>& dumps) {
  std::vector<int> ranks;
  for (const int rank : culprits) {
    if (dumps.contains(rank) && ranks.size() + 1 < kMostHistories) ranks.push_back(rank);
  }
  for (const auto& [rank, dump] : dumps) {
    if (std::find(culprits.begin(), culprits.end(), rank) == culprits.end()) {
      ranks.push_back(rank);
      break;
    }
  }
  return ranks;
}

std::string last_line_of(const fs::path& path) {
  std::string text = read_file(path);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

/// Where there is no verdict: where each rank's log ends.
std::string ends_of_logs(const fs::path& run_folder) {
  std::map<int, std::string> ends;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_folder / "logs", error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("rank_") || !fs::exists(entry.path() / "train.log", error)) continue;
    ends.emplace(std::stoi(name.substr(5)), last_line_of(entry.path() / "train.log"));
  }
  if (ends.empty()) {
    fail(ExitCode::io, "{}: no flight/verdict.json and no logs/rank_N/train.log: is it the folder of a run?",
         run_folder.string());
  }
  std::string text =
      "No verdict: the job ended in order or goes on; or a rank failed with a message of its own; or it was killed from outside, "
      "as "
      "when memory or time run out (Slurm: scontrol show job, sacct). The ends of the logs:\n";
  std::size_t shown = 0;
  for (const auto& [rank, line] : ends) {
    if (shown++ == kMostRanks) break;
    text += line + "\n";
  }
  if (ends.size() > kMostRanks) text += fmt::format("... and {} more ranks\n", ends.size() - kMostRanks);
  return text;
}

}  // namespace

std::string examine(const fs::path& run_folder) {
  std::error_code error;
  if (!fs::is_directory(run_folder, error)) fail(ExitCode::io, "{}: there is no such folder", run_folder.string());
  const fs::path folder = flight_folder(run_folder);
  std::map<int, Json> dumps;
  if (fs::is_directory(folder, error)) dumps = read_dumps(folder);
  const bool judged = fs::exists(folder / "verdict.json", error);
  if (!judged && dumps.empty()) return ends_of_logs(run_folder);

  std::string text;
  std::vector<RankReport> reports;
  std::vector<int> culprits;
  std::map<int, std::string> links;
  try {
    if (judged) {
      const Json verdict = read_json(folder / "verdict.json");
      text = fmt::format("Verdict of {}:\n{}\n\n", verdict.at("time").get<std::string>(), verdict.at("text").get<std::string>());
      culprits = verdict.at("culprits").get<std::vector<int>>();
      for (const Json& rank : verdict.at("ranks")) {
        reports.push_back(report_from(rank));
        links.emplace(reports.back().rank, rank.at("link").get<std::string>());
      }
    } else {
      text = "No verdict of rank 0: it was lost itself. Those who left a dump:\n\n";
      for (const auto& [rank, dump] : dumps) reports.push_back(report_from(dump));
    }
    text += table_of(reports, links);
    for (const int rank : worth_listing(culprits, dumps)) text += history_of(dumps.at(rank));
  } catch (const Json::exception& problem) {
    fail(ExitCode::io, "{}: not as Cohort writes it: {}", folder.string(), problem.what());
  }
  return text;
}

}  // namespace cohort
