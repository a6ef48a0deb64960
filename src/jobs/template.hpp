// Templates of job scripts. A template is a complete sbatch script, but for
//
//   #@ key: value       lines at its top that say what the template is for; they do not go into the job (see TemplateFacts)
//   @NAME@              placeholders, which rendering replaces
//   @include FILE       a line of its own: the lines of FILE in the folder parts/ beside the template, which has placeholders too
//
// A line with a placeholder whose value is empty is left out, and so are the comment lines directly above it: that is how a site
// without partitions gets a job without that line.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace cohort {

/// What the lines "#@ key: value" say.
struct TemplateFacts {
  /// Whose ranks the job has: those of the run file's layout; as many as asked for, since the program takes any number; or one.
  enum class Tasks { layout, any, one };

  std::string description;      // description: one line, required
  Count least_nodes = 1;        // nodes: 1, 1+ or 2+
  Count most_nodes = 0;         // 0 = no limit
  Tasks tasks = Tasks::layout;  // tasks: layout, any or 1
  bool needs_gpus = false;      // device: cuda
};

struct TemplateLine {
  std::string place;  // "templates/gpu.sbatch:12", for messages
  std::string text;
};

struct JobTemplate {
  std::string name;
  TemplateFacts facts;
  std::vector<TemplateLine> lines;  // with what was included, without the facts
};

struct Placeholder {
  std::string name;
  std::string place;
};

/// Throws Error(io), or Error(config) with file and line.
JobTemplate read_template(const std::filesystem::path& file);

/// In the order in which they stand there; a name may come several times.
std::vector<Placeholder> placeholders_of(const JobTemplate& source);
bool uses(const JobTemplate& source, const std::string& name);

/// The job script. Throws Error(config) with file and line: a placeholder without a value (with the nearest one that has), a
/// value of several lines beside other text, and a value that sbatch would misread in a line #SBATCH.
std::string render(const JobTemplate& source, const std::map<std::string, std::string>& values);

}  // namespace cohort
