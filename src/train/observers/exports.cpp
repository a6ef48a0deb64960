#include <filesystem>
#include <functional>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "checkpoint/format/format.hpp"
#include "interchange/exchange.hpp"
#include "interchange/hf_config.hpp"
#include "observe/flight_recorder.hpp"
#include "train/observers/observers.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// On rank 0. The files appear under a name of their own, and get the step's when they are whole. A failure is reported; training
// continues, since the checkpoint itself is there.
class Exports : public StepObserver {
 public:
  Exports(TrainingRun& run, FolderFormat format)
      : run_(run), format_(format), folder_(fs::path(run.config.run.directory) / "export") {}

  // Exports go with their checkpoints. One that has none now, of a user who keeps it, stays; but not that of the run that this
  // one replaces.
  void begin_run() override {
    if (run_.world.rank() != 0 || !fs::exists(folder_)) return;
    report_failure(fmt::format("{} cannot be read", folder_.string()), [&] {
      for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
        const std::optional<Count> step = step_of_name(entry.path().filename().string());
        if (step && (run_.done == 0 || fs::exists(checkpoint(*step)))) steps_.insert(*step);
      }
    });
    remove_stale();
  }

  void saved(Count step) override {
    if (run_.world.rank() != 0) return;
    const auto scope = run_.timers.scope(Phase::checkpoint);
    report_failure(fmt::format("step {} was saved, but not exported", step), [&] { write(step); });
    remove_stale();
  }

 private:
  fs::path checkpoint(Count step) const { return checkpoints_folder(run_.config.run.directory) / step_name(step); }

  void report_failure(const std::string& what, const std::function<void()>& act) {
    try {
      act();
    } catch (const std::exception& error) {
      run_.say(fmt::format("warning: {}: {}", what, error.what()));
    }
  }

  void write(Count step) {
    const fs::path place = folder_ / step_name(step);
    const fs::path unfinished = place.string() + ".partial";
    const FlightRecorder::LongCall exporting("exporting a checkpoint");  // the others wait
    fs::remove_all(unfinished);                                          // a name of ours alone: what a killed run left
    try {
      export_to(unfinished, step);
    } catch (...) {
      fs::remove_all(unfinished);
      throw;
    }
    if (fs::exists(place)) delete_exported(place);
    commit_file(unfinished, place);
    steps_.insert(step);
    run_.log->info("step {} exported to {}", step, place.string());
  }

  void export_to(const fs::path& folder, Count step) {
    export_checkpoint({.checkpoint = checkpoint(step),
                       .folder = folder,
                       .format = format_,
                       .dtype = dtype_from_name(run_.config.checkpoint.weights)});
  }

  void remove_stale() {
    std::erase_if(steps_, [&](Count step) {
      if (fs::exists(checkpoint(step))) return false;
      const fs::path place = folder_ / step_name(step);
      report_failure(fmt::format("{} stays", place.string()), [&] { delete_exported(place); });
      return true;
    });
  }

  TrainingRun& run_;
  FolderFormat format_;
  fs::path folder_;
  std::set<Count> steps_;  // of exports that go with their checkpoints
};

}  // namespace

std::unique_ptr<StepObserver> make_exports(TrainingRun& run) {
  const std::string& format = run.config.checkpoint.export_format;
  if (format == "none") return nullptr;
  if (format == "hf") hugging_face_form_of(run.config.model);  // the error of a model that has none
  return std::make_unique<Exports>(run, format == "hf" ? FolderFormat::hf : FolderFormat::safetensors);
}

}  // namespace cohort
