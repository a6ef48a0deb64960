// The trace of a run's steps, of all ranks in one file (rundir/trace_files.hpp says which). It appears when it is whole.
//
// The clocks of the ranks are compared with that of rank 0 before the first and after the last traced step
// (comm/clock_offset.hpp), and the times of all ranks are those of rank 0's clock, give or take the error that the file states. 0
// is when the first rank began.
//
// The head of the file ("otherData") says what it is of: program, run, layout, ranks, steps, the clock's method and error, and
// whether kernels are in it, or why not.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "comm/clock_offset.hpp"
#include "gpu/kernel_trace.hpp"
#include "gpu/stream_clock.hpp"
#include "mesh/mesh.hpp"
#include "observe/tracer.hpp"

namespace cohort {

class RunTrace {
 public:
  /// Compares the clocks and begins: a barrier is the first operation of the trace. `on_gpu`: with the device's times.
  // Collective over: the mesh's world
  RunTrace(const Mesh& mesh, bool on_gpu);
  /// Ends it; what was not written is lost.
  ~RunTrace();
  RunTrace(const RunTrace&) = delete;
  RunTrace& operator=(const RunTrace&) = delete;

  /// The step ended here; it began where the one before it ended.
  void end_step(Count step);
  /// What came after the last step, such as a last save, ends here.
  void end_rest();

  struct Written {
    std::filesystem::path file;
    Bytes bytes = 0;
    double clock_error = 0.0;  // seconds, of the rank whose clock is known least
    std::string trouble{};     // why there is no file; "": there is
  };
  /// Ends the trace, with another barrier, and writes the file. What came of it rank 0 knows; a file that cannot be written is no
  /// reason to end a run. `facts` go into the head of the file, `host` beside the rank. Call it once. // Collective over: the
  /// mesh's world
  Written finish(const std::filesystem::path& run_folder, nlohmann::ordered_json facts, const std::string& host);

 private:
  void end_span(TraceSpan::Kind kind, std::string name);
  void end_tracing();
  /// What rank 0 writes, and the others send it.
  Written write(const std::filesystem::path& run_folder, const std::string& head, const std::string& own) const;

  const Mesh& mesh_;
  std::optional<gpu::StreamClock> streams_;
  gpu::KernelTrace kernels_;
  std::string without_kernels_;  // why
  ClockOffset first_;
  double step_began_ = 0.0;
};

}  // namespace cohort
