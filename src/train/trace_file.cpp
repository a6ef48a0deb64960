#include "train/trace_file.hpp"

#include <algorithm>
#include <exception>
#include <fstream>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "comm/nccl_communicator.hpp"
#include "observe/clock.hpp"
#include "observe/flight_recorder.hpp"
#include "observe/trace_json.hpp"
#include "rundir/trace_files.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::string place_of(const Mesh& mesh) {
  std::string text;
  for (const Axis axis : kAxes) {
    if (mesh.size(axis) > 1) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(axis), mesh.index(axis));
  }
  return text;
}

// A file under another name, until it is whole. An error is kept, and nothing is written after it: the ranks that send must be
// heard out.
class Unfinished {
 public:
  explicit Unfinished(const fs::path& path)
      : path_(path), temporary_(path.string() + ".tmp"), file_(temporary_, std::ios::binary) {
    check();
  }
  void write(std::string_view text) {
    if (!trouble_.empty()) return;
    file_.write(text.data(), static_cast<std::streamsize>(text.size()));
    bytes_ += static_cast<Bytes>(text.size());
    check();
  }
  void commit() {
    if (!file_.is_open()) return;
    file_.close();
    check();
    try {
      if (trouble_.empty()) commit_file(temporary_, path_);
    } catch (const Error& error) {
      trouble_ = error.what();
    }
    std::error_code ignored;
    if (!trouble_.empty()) fs::remove(temporary_, ignored);
  }
  Bytes bytes() const { return bytes_; }
  const std::string& trouble() const { return trouble_; }

 private:
  void check() {
    if (trouble_.empty() && !file_)
      trouble_ = fmt::format("{} cannot be written (disk full, or no permission?)", temporary_.string());
  }

  fs::path path_, temporary_;
  std::ofstream file_;
  Bytes bytes_ = 0;
  std::string trouble_;
};

std::string receive_text(Communicator& world, int from) {
  std::int64_t size = 0;
  world.recv(&size, 1, DType::i64, from);
  std::string text(static_cast<std::size_t>(size), '\0');
  world.recv(text.data(), size, DType::u8, from);
  return text;
}

void send_text(Communicator& world, const std::string& text) {
  const auto size = static_cast<std::int64_t>(text.size());
  world.send(&size, 1, DType::i64, 0);
  world.send(text.data(), size, DType::u8, 0);
}

}  // namespace

RunTrace::RunTrace(const Mesh& mesh, bool on_gpu) : mesh_(mesh) {
  if (on_gpu) {
    gpu::synchronize(check_nccl_progress);
    streams_.emplace();
    without_kernels_ = kernels_.begin();
  }
  first_ = measure_clock_offset(mesh.world());
  Tracer::of_process().begin(streams_ ? &*streams_ : nullptr);
  mesh.world().barrier();
  step_began_ = steady_seconds();
}

RunTrace::~RunTrace() { Tracer::of_process().abandon(); }

void RunTrace::end_step(Count step) { end_span(TraceSpan::Kind::step, fmt::format("step {}", step)); }

void RunTrace::end_rest() { end_span(TraceSpan::Kind::work, "after the last step"); }

void RunTrace::end_span(TraceSpan::Kind kind, std::string name) {
  const double now = steady_seconds();
  Tracer::of_process().add({.kind = kind, .name = std::move(name), .begin = step_began_, .end = now});
  step_began_ = now;
}

void RunTrace::end_tracing() {
  mesh_.world().barrier();
  if (streams_) gpu::synchronize(check_nccl_progress);
  Tracer& tracer = Tracer::of_process();
  for (gpu::DeviceWork& work : kernels_.end()) {
    tracer.add({.kind = TraceSpan::Kind::kernel,
                .thread = kKernelStreams + work.stream,
                .name = std::move(work.name),
                .begin = work.begin,
                .end = work.end});
  }
  tracer.end();
}

RunTrace::Written RunTrace::finish(const fs::path& run_folder, nlohmann::ordered_json facts, const std::string& host) {
  end_tracing();
  Communicator& world = mesh_.world();
  const ClockOffset offset = between(first_, measure_clock_offset(world));
  const double error = all_reduce_value(world, offset.error, ReduceOp::max);
  const double zero = -all_reduce_value(world, -(Tracer::of_process().began() - offset.seconds), ReduceOp::max);
  const std::string place = place_of(mesh_);
  const TracedRank rank{
      .rank = world.rank(), .label = place.empty() ? host : place + ", " + host, .shift = -offset.seconds - zero};
  facts["clock"] = {{"method", "round trips to rank 0, the quickest of 16, before and after"}, {"error_us", 1e6 * error}};
  if (streams_) facts["kernels"] = without_kernels_.empty() ? "CUPTI" : "none: " + without_kernels_;
  Written written = write(run_folder, trace_head(facts.dump()), trace_events(Tracer::of_process(), rank));
  written.clock_error = error;
  return written;
}

// One rank after the other: rank 0 holds the text of one.
RunTrace::Written RunTrace::write(const fs::path& run_folder, const std::string& head, const std::string& own) const {
  const FlightRecorder::LongCall writing("writing the trace");
  Communicator& world = mesh_.world();
  if (world.rank() != 0) {
    send_text(world, own);
    return {};
  }
  Written written{.file = next_trace_file(run_folder)};
  Unfinished file(written.file);
  file.write(head);
  file.write(own);
  for (int rank = 1; rank < world.size(); ++rank) {
    file.write(",\n");
    file.write(receive_text(world, rank));
  }
  file.write(trace_tail());
  file.commit();
  written.bytes = file.bytes();
  written.trouble = file.trouble();
  return written;
}

}  // namespace cohort
