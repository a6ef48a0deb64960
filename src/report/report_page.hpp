// `cohort report`: runs as one HTML page that needs nothing else. The page (report/page/) draws what is in the JSON that it
// holds.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "report/run_record.hpp"

namespace cohort {

/// What the page shows of one run: facts, findings, and figures thinned so that they look the same (report/series.hpp), about 200
/// KB however long the run was, and as much again for hundreds of ranks. `planned`: what else is known of it, merged in (see
/// commands/report.cpp, and report/traced_part.hpp); may be null.
nlohmann::ordered_json report_of(const RunRecord& run, const nlohmann::ordered_json& planned);

/// The page of these runs, whole. `version` is that of the program.
std::string report_page(std::span<const nlohmann::ordered_json> runs, const std::string& version);

}  // namespace cohort
