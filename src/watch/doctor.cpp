#include "watch/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "observe/log.hpp"
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
    if (!rank_of(entry.path()) || entry.path().extension() != ".json") continue;
    Json dump = read_json(entry.path());
    dumps.emplace(dump.at("rank").get<int>(), std::move(dump));
  }
  return dumps;
}

/// What the recorders kept of ranks that have no dump.
std::vector<RankReport> read_kept(const fs::path& folder, const std::map<int, Json>& dumps) {
  std::map<int, RankReport> kept;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::optional<int> rank = rank_of(entry.path());
    if (!rank || entry.path().extension() != ".last" || dumps.contains(*rank)) continue;
    const std::optional<KeptState> state = read_kept_state(entry.path());
    if (!state) continue;
    kept[*rank] = {.rank = *rank, .host = "", .process = state->process, .step = state->step, .activity = state->activity};
  }
  std::vector<RankReport> reports;
  for (auto& [rank, report] : kept) reports.push_back(std::move(report));
  return reports;
}

std::string what_it_does(const RankReport& report) {
  if (report.waiting.empty() && report.seconds_in_activity == 0.0) return report.activity;  // nobody knows for how long
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
  if (reports.size() > kMostRanks)
    text += fmt::format("... and {}\n", counted(static_cast<std::int64_t>(reports.size() - kMostRanks), "more rank"));
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

/// How a rank's log ends.
struct LogEnd {
  std::string line;   // the last one
  std::string error;  // the error that ended this start of the run, as log_error() wrote it; "" if none did
};

// The level of a line of RankLog, "2025-03-01T12:00:00.250Z info rank 3: message"; "" of one that goes on with a message.
std::string_view level_of(std::string_view line) {
  const std::size_t time = line.find(' ');
  if (time == std::string_view::npos || !line.substr(0, time).ends_with('Z')) return "";
  line.remove_prefix(time + 1);
  const std::size_t level = line.find(" rank ");
  return level == std::string_view::npos ? "" : line.substr(0, level);
}

LogEnd end_of(const fs::path& path) {
  std::istringstream text(read_file(path));
  LogEnd end;
  for (std::string line; std::getline(text, line);) {
    if (line.empty()) continue;
    end.line = line;
    const std::string_view level = level_of(line);
    const std::string message = level.empty() ? line : line.substr(line.find(": ") + 2);
    if (level == name_of(LogLevel::error) || (level.empty() && !end.error.empty())) {
      end.error += (end.error.empty() ? "" : "\n") + message;
    } else {
      end.error.clear();  // of an earlier start
    }
  }
  return end;
}

std::map<int, LogEnd> ends_of_logs(const fs::path& run_folder) {
  std::map<int, LogEnd> ends;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_folder / "logs", error)) {
    const std::string name = entry.path().filename();
    const std::string number = name.starts_with("rank_") ? name.substr(5) : "";
    if (number.empty() || number.size() > 9 || number.find_first_not_of("0123456789") != std::string::npos) continue;
    if (fs::exists(entry.path() / "train.log", error)) ends.emplace(std::stoi(number), end_of(entry.path() / "train.log"));
  }
  return ends;
}

/// What the ranks said themselves when they ended, the same of several ranks once; without the verdict, which is shown elsewhere.
std::string errors_in(const std::map<int, LogEnd>& ends, const std::string& verdict = "") {
  std::vector<std::pair<std::string, std::vector<int>>> errors;
  for (const auto& [rank, end] : ends) {
    if (end.error.empty() || end.error == verdict) continue;
    const auto same = std::find_if(errors.begin(), errors.end(), [&](const auto& known) { return known.first == end.error; });
    if (same == errors.end()) {
      errors.push_back({end.error, {rank}});
    } else {
      same->second.push_back(rank);
    }
  }
  if (errors.empty()) return "";
  std::string text = "Errors in the logs:\n";
  for (std::size_t i = 0; i < std::min(errors.size(), kMostRanks); ++i)
    text += fmt::format("{}: {}\n", name_ranks(errors[i].second), errors[i].first);
  return text + "\n";
}

/// Where there is no verdict: where each rank was, and where its log ends.
std::string page_of_logs(const fs::path& run_folder, const std::map<int, LogEnd>& ends, const std::vector<RankReport>& kept) {
  if (ends.empty()) {
    fail(ExitCode::io, "{}: no flight/verdict.json and no logs/rank_N/train.log: is it a run folder?", run_folder.string());
  }
  std::string text = errors_in(ends);
  text += text.empty() ? "No verdict: the job ended normally, is still running, or was killed from outside, such as out of "
                         "memory or time (Slurm: scontrol show job, sacct).\n"
                       : "No verdict: the job ended with the error above.\n";
  if (!kept.empty()) text += fmt::format("\nLast position of each rank:\n{}", table_of(kept, {}));
  text += "\nThe ends of the logs:\n";
  std::size_t shown = 0;
  for (const auto& [rank, end] : ends) {
    if (shown++ == kMostRanks) break;
    text += end.line + "\n";
  }
  if (ends.size() > kMostRanks)
    text += fmt::format("... and {}\n", counted(static_cast<std::int64_t>(ends.size() - kMostRanks), "more rank"));
  return text;
}

}  // namespace

std::string examine(const fs::path& run_folder) {
  std::error_code error;
  if (!fs::is_directory(run_folder, error)) fail(ExitCode::io, "{}: no such folder", run_folder.string());
  const fs::path folder = flight_folder(run_folder);
  std::map<int, Json> dumps;
  if (fs::is_directory(folder, error)) dumps = read_dumps(folder);
  const bool judged = fs::exists(folder / "verdict.json", error);
  const std::vector<RankReport> kept = read_kept(folder, dumps);
  const std::map<int, LogEnd> ends = ends_of_logs(run_folder);
  if (!judged && dumps.empty()) return page_of_logs(run_folder, ends, kept);

  std::string text;
  std::vector<RankReport> reports;
  std::vector<int> culprits;
  std::map<int, std::string> links;
  try {
    if (judged) {
      const Json verdict = read_json(folder / "verdict.json");
      const auto said = verdict.at("text").get<std::string>();
      text = fmt::format("Verdict of {}:\n{}\n\n", verdict.at("time").get<std::string>(), said) + errors_in(ends, said);
      culprits = verdict.at("culprits").get<std::vector<int>>();
      for (const Json& rank : verdict.at("ranks")) {
        reports.push_back(report_from(rank));
        links.emplace(reports.back().rank, rank.at("link").get<std::string>());
      }
    } else {
      text = errors_in(ends) + "No verdict from rank 0, which was lost itself. The dumps of the others:\n\n";
      for (const auto& [rank, dump] : dumps) reports.push_back(report_from(dump));
      for (const RankReport& report : kept) {
        reports.push_back(report);
        links.emplace(report.rank, "no dump");
      }
      std::sort(reports.begin(), reports.end(), [](const RankReport& a, const RankReport& b) { return a.rank < b.rank; });
    }
    text += table_of(reports, links);
    for (const int rank : worth_listing(culprits, dumps)) text += history_of(dumps.at(rank));
  } catch (const Json::exception& problem) {
    fail(ExitCode::io, "{}: not in Cohort's format: {}", folder.string(), problem.what());
  }
  return text;
}

}  // namespace cohort
