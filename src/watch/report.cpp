#include "watch/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "base/file.hpp"
#include "observe/clock.hpp"

namespace cohort {
namespace {

using Json = nlohmann::json;

ReportedOperation report_of(const OperationRecord& record, double seconds) {
  return {.text = record.str(),
          .kind = fmt::format("{} of {} {}", record.operation, record.elements, name_of(record.dtype)),
          .group = record.group,
          .members = record.members ? *record.members : std::vector<int>{},
          .number = record.number,
          .peer = record.peer,
          .step = record.step,
          .seconds = seconds};
}

Json to_json(const ReportedOperation& operation) {
  return {{"text", operation.text},     {"kind", operation.kind}, {"group", operation.group}, {"members", operation.members},
          {"number", operation.number}, {"peer", operation.peer}, {"step", operation.step},   {"seconds", operation.seconds}};
}

ReportedOperation operation_from(const Json& json) {
  return {.text = json.at("text"),
          .kind = json.at("kind"),
          .group = json.at("group"),
          .members = json.at("members").get<std::vector<int>>(),
          .number = json.at("number"),
          .peer = json.at("peer"),
          .step = json.at("step"),
          .seconds = json.at("seconds")};
}

}  // namespace

RankReport make_report(int rank, const std::string& host, const FlightRecorder& recorder) {
  const FlightRecorder::State state = recorder.state();
  RankReport report{.rank = rank,
                    .host = host,
                    .process = getpid(),
                    .step = state.step,
                    .activity = std::string(state.activity),
                    .seconds_in_activity = state.seconds_in_activity,
                    .progress = state.progress};
  const std::size_t reported = std::min(state.waiting.size(), RankReport::kMostReported);
  for (const OperationRecord& record : std::span(state.waiting).first(reported))
    report.waiting.push_back(report_of(record, state.now - record.waiting_since));
  report.more_waiting = state.waiting.size() - reported;
  if (state.finished) report.finished = report_of(*state.finished, state.now - state.finished->finished);
  return report;
}

Json to_json(const RankReport& report) {
  Json json{{"rank", report.rank},         {"host", report.host},         {"process", report.process},
            {"step", report.step},         {"activity", report.activity}, {"seconds_in_activity", report.seconds_in_activity},
            {"progress", report.progress}, {"waiting", Json::array()}};
  for (const ReportedOperation& operation : report.waiting) json["waiting"].push_back(to_json(operation));
  if (report.more_waiting > 0) json["more_waiting"] = report.more_waiting;
  if (report.finished) json["finished"] = to_json(*report.finished);
  return json;
}

RankReport report_from(const Json& json) {
  RankReport report{.rank = json.at("rank"),
                    .host = json.at("host"),
                    .process = json.at("process"),
                    .step = json.at("step"),
                    .activity = json.at("activity"),
                    .seconds_in_activity = json.at("seconds_in_activity"),
                    .progress = json.at("progress")};
  for (const Json& operation : json.at("waiting")) report.waiting.push_back(operation_from(operation));
  report.more_waiting = json.value("more_waiting", std::size_t{0});
  if (json.contains("finished")) report.finished = operation_from(json["finished"]);
  return report;
}

std::filesystem::path flight_folder(const std::filesystem::path& run_folder) { return run_folder / "flight"; }

std::filesystem::path dump_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank_{:05}.json", rank);
}

std::filesystem::path kept_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank_{:05}.last", rank);
}

void remove_verdict(const std::filesystem::path& folder, int size) noexcept {
  std::error_code error;
  std::filesystem::remove(folder / "verdict.json", error);
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::optional<int> rank = rank_of(entry.path());
    const bool is_file = entry.symlink_status(error).type() == std::filesystem::file_type::regular;
    if (rank && *rank >= size && is_file) std::filesystem::remove(entry.path(), error);
  }
}

std::optional<int> rank_of(const std::filesystem::path& file) {
  const std::string name = file.filename();
  const std::string extension = file.extension();
  constexpr std::size_t kLeastDigits = 5, kMostDigits = 9;
  const std::string digits = name.starts_with("rank_") ? file.stem().string().substr(5) : "";
  if (digits.size() < kLeastDigits || digits.size() > kMostDigits || digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  if (extension != ".json" && extension != ".last") return std::nullopt;
  return std::stoi(digits);
}

std::string name_step(Count step) { return step == 0 ? "before the first step" : fmt::format("at step {}", step); }

void write_dump(const std::filesystem::path& folder, const RankReport& report, const FlightRecorder& recorder) {
  Json json = to_json(report);
  json["time"] = utc_timestamp();
  json["operations"] = Json::array();
  const double now = recorder.state().now;
  const auto ago = [&](double moment) { return moment > 0.0 ? Json(now - moment) : Json(); };
  for (const OperationRecord& record : recorder.records()) {
    json["operations"].push_back({{"text", record.str()},
                                  {"step", record.step},
                                  {"started_ago", ago(record.started)},
                                  {"waiting_ago", ago(record.waiting_since)},
                                  {"finished_ago", ago(record.finished)}});
  }
  make_folders(folder);
  write_file_atomically(dump_file(folder, report.rank), json.dump(1) + "\n");
}

}  // namespace cohort
