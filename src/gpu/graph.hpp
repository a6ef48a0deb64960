// Work for the device that is recorded once and launched again and again: for passes of hundreds of small kernels, of which the
// host could not start one as fast as the device runs it.
#pragma once

#include <functional>
#include <utility>

struct CUgraphExec_st;  // cudaGraphExec_t is a pointer to it

namespace cohort::gpu {

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(graph_, other.graph_);
    return *this;
  }

  bool recorded() const { return graph_ != nullptr; }
  /// Runs `work` so that what it puts on the compute stream is kept and not started. It must wait for nothing, copy to or from no
  /// memory of the host that is not pinned, and allocate nothing on the device; what it does on the host is not repeated. Throws
  /// Error(internal) if the device refuses.
  void record(const std::function<void()>& work);
  /// Puts it all on the compute stream, with the addresses and numbers that it had when it was recorded.
  void launch() const;

 private:
  void forget() noexcept;
  CUgraphExec_st* graph_ = nullptr;
};

}  // namespace cohort::gpu
