#include "report/run_tail.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.hpp"

namespace cohort {
namespace {

using nlohmann::json;

// null, which stands for a number that is not finite, is NaN.
double number_of(const json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  return found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

double towards(double mean, double value) { return mean == 0.0 ? value : 0.9 * mean + 0.1 * value; }

}  // namespace

RunTail::RunTail(const std::filesystem::path& run_folder, std::size_t cells)
    : path_(run_folder / "metrics.jsonl"), cells_(cells), losses_(cells) {
  std::error_code error;
  if (!std::filesystem::exists(path_, error))
    fail(ExitCode::io, "{}: not a run folder: it has no metrics.jsonl, which a run writes from its first step on",
         run_folder.string());
}

bool RunTail::read_new() {
  std::error_code error;
  const auto size = std::filesystem::file_size(path_, error);
  if (error) return false;
  if (size < read_) {
    read_ = 0;
    latest_ = {};
    losses_ = RunningCurve(cells_);
  }
  if (size == read_) return false;
  std::ifstream file(path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(read_));
  bool any = false;
  for (std::string line; std::getline(file, line) && !file.eof();) {  // the end of the file within a line: it is being written
    read_ += line.size() + 1;
    take(line);
    any = true;
  }
  return any;
}

void RunTail::take(const std::string& line) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) return;
  LatestFigures& f = latest_;
  const auto step = object["step"].get<Count>();
  if (step <= f.step) {  // the run went back, and its file has grown since
    f = {};
    losses_ = RunningCurve(cells_);
  }
  f.step = step;
  f.time = number_of(object, "time", f.time);
  if (object.contains("validation_loss")) {
    f.validation_loss = number_of(object, "validation_loss", 0.0);
    f.lowest_validation_loss = f.validated_at < 0 ? f.validation_loss : std::min(f.lowest_validation_loss, f.validation_loss);
    f.validated_at = f.step;
  }
  if (!object.contains("loss")) return;
  f.loss = number_of(object, "loss", f.loss);
  losses_.add(f.loss);
  f.learning_rate = number_of(object, "learning_rate", f.learning_rate);
  f.gradient_norm = number_of(object, "gradient_norm", f.gradient_norm);
  f.rate = towards(f.rate, number_of(object, "tokens_per_second", 0.0));
  f.mfu = number_of(object, "mfu", f.mfu);
  if (object.contains("seconds")) f.step_seconds = towards(f.step_seconds, number_of(object["seconds"], "step", 0.0));
  if (object.contains("memory")) f.memory = static_cast<Bytes>(number_of(object["memory"], "max", 0.0));
  if (object.contains("own_work") && object.contains("slowest_rank") && object["slowest_rank"].is_number_integer()) {
    f.slowest_rank = object["slowest_rank"].get<int>();
    const double median = number_of(object["own_work"], "median", 0.0);
    f.slowest_by = median > 0.0 ? number_of(object["own_work"], "max", 0.0) / median : 0.0;
  }
}

}  // namespace cohort
