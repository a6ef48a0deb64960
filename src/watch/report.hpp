// What a rank says of itself when a job hangs: on the wire to rank 0, and in the dump that `cohort doctor` reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "observe/flight_recorder.hpp"

namespace cohort {

/// An operation among ranks that a rank waits for, or has done.
struct ReportedOperation {
  std::string text;            // as in OperationRecord::str()
  std::string kind;            // "all_reduce of 12345 fp32": must be the same on all members
  std::string group;           // its name
  std::vector<int> members{};  // ranks of the job; empty: unknown
  std::uint64_t number = 0;    // 0: a message
  int peer = -1;               // of a message
  Count step = 0;
  double seconds = 0.0;  // waiting for so long; if done, so long ago

  bool operator==(const ReportedOperation&) const = default;
};

struct RankReport {
  /// The oldest operations hold up the others, so no more of them travel to rank 0.
  static constexpr std::size_t kMostReported = 256;

  int rank = 0;
  std::string host;
  std::int64_t process = 0;  // its number on the host
  Count step = 0;            // that it works on, 1 the first; 0: none has begun
  std::string activity;      // "": not known
  double seconds_in_activity = 0.0;
  std::uint64_t progress = 0;
  std::vector<ReportedOperation> waiting{};  // oldest first, at most kMostReported
  std::size_t more_waiting = 0;              // operations behind those, of which a device may have thousands in flight
  std::optional<ReportedOperation> finished{};

  bool operator==(const RankReport&) const = default;
};

RankReport make_report(int rank, const std::string& host, const FlightRecorder& recorder);

nlohmann::json to_json(const RankReport& report);
/// Throws nlohmann::json's exceptions on anything else.
RankReport report_from(const nlohmann::json& json);

/// RUN/flight, where dumps and the verdict are.
std::filesystem::path flight_folder(const std::filesystem::path& run_folder);
/// FOLDER/rank_NNNNN.json, .last: the dump of a rank, and what its recorder keeps (FlightRecorder::keep_in()).
std::filesystem::path dump_file(const std::filesystem::path& folder, int rank);
std::filesystem::path kept_file(const std::filesystem::path& folder, int rank);
/// The inverse of both; nothing for other names.
std::optional<int> rank_of(const std::filesystem::path& file);
/// Removes the verdict of an earlier start, and the files of ranks from `size` on, which this start does not have.
void remove_verdict(const std::filesystem::path& folder, int size) noexcept;
/// "at step 5", "before the first step".
std::string name_step(Count step);
/// Writes the report and the recorder's ring to FOLDER/rank_NNNNN.json. Throws Error(io).
void write_dump(const std::filesystem::path& folder, const RankReport& report, const FlightRecorder& recorder);

}  // namespace cohort
