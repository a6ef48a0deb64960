// A file of a run that has a JSON object a line and a step in each (metrics.jsonl, ranks.jsonl, layers.jsonl), read line by line:
// however long it is, one line is in memory.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace cohort {

/// What was wrong with the lines that were read.
struct LineFaults {
  Count unreadable = 0;
  Count repeated = 0;   // for the visitor to count: who keeps records knows which came before
  Count went_back = 0;  // records of steps that do not follow the largest before
  bool torn = false;    // the last line has no end
};

/// `visit` gets each record in the order of the file, of which steps may come again. Throws Error(io) if the file cannot be read.
LineFaults for_each_record(const std::filesystem::path& path,
                           const std::function<void(Count, const nlohmann::ordered_json&)>& visit);

/// In whole sentences.
void note_faults(const LineFaults& faults, const std::string& file, std::vector<std::string>& notes);

/// A number of a record; what is none, as null which stands for one that is not finite, is NaN.
double number_or_nan(const nlohmann::ordered_json& value);

/// The number that was written as text, since JSON has no NaN and no infinity: "nan", "inf", "-inf".
double number_of_text(const std::string& text);

/// The numbers of a record by name: those in objects behind a point, "seconds.step"; true as 1; and those that were written as
/// text, "loss_text", under the name without "_text".
void for_each_number(const nlohmann::ordered_json& record, const std::function<void(const std::string&, double)>& visit);

}  // namespace cohort
