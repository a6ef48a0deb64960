// What the report's page shows of a run's trace: the timeline of one step, and what was exchanged.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace cohort {

/// Of the newest trace in the folder: {"trace": {...}}, at most some 500 KB; or {"trace_note": why there is nothing to show}.
nlohmann::ordered_json traced_part(const std::filesystem::path& run_folder);

}  // namespace cohort
