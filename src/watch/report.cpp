#include "watch/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

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
  for (const OperationRecord& record : state.waiting)
    report.waiting.push_back(report_of(record, state.now - record.waiting_since));
  if (state.finished) report.finished = report_of(*state.finished, state.now - state.finished->finished);
  return report;
}

Json to_json(const RankReport& report) {
  Json json{{"rank", report.rank},         {"host", report.host},         {"process", report.process},
            {"step", report.step},         {"activity", report.activity}, {"seconds_in_activity", report.seconds_in_activity},
            {"progress", report.progress}, {"waiting", Json::array()}};
  for (const ReportedOperation& operation : report.waiting) json["waiting"].push_back(to_json(operation));
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
  if (json.contains("finished")) report.finished = operation_from(json["finished"]);
  return report;
}

std::filesystem::path flight_folder(const std::filesystem::path& run_folder) { return run_folder / "flight"; }

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
  write_file_atomically(folder / fmt::format("rank_{:05}.json", report.rank), json.dump(1) + "\n");
}

void remove_dumps(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> dumps;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error); !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_dump = name == "verdict.json" || (name.starts_with("rank_") && name.ends_with(".json"));
    if (is_dump && entry->symlink_status(error).type() == std::filesystem::file_type::regular) dumps.push_back(entry->path());
  }
  std::error_code ignored;
  for (const std::filesystem::path& dump : dumps) std::filesystem::remove(dump, ignored);
}

}  // namespace cohort
