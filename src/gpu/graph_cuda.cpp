#include <cuda_runtime.h>

#include "base/error.hpp"
#include "gpu/device.hpp"
#include "gpu/graph.hpp"

namespace cohort::gpu {
namespace {

void check_graph(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // it is told here; nobody else shall meet it
  fail(ExitCode::internal, "{}: {}", what, cudaGetErrorString(result));
}

// A recording on its way: left open, it would spoil the stream.
class Recording {
 public:
  Recording() { check_graph(cudaStreamBeginCapture(compute_stream(), cudaStreamCaptureModeThreadLocal), "recording kernels"); }
  ~Recording() {
    cudaGraph_t graph = nullptr;
    if (!ended_ && cudaStreamEndCapture(compute_stream(), &graph) == cudaSuccess) cudaGraphDestroy(graph);
    if (!ended_) cudaGetLastError();
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  cudaGraph_t end() {
    ended_ = true;
    cudaGraph_t graph = nullptr;
    check_graph(cudaStreamEndCapture(compute_stream(), &graph), "recording kernels");
    return graph;
  }

 private:
  bool ended_ = false;
};

}  // namespace

Graph::~Graph() { forget(); }

void Graph::forget() noexcept {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  graph_ = nullptr;
}

void Graph::record(const std::function<void()>& work) {
  forget();
  cudaGraph_t graph = nullptr;
  {
    Recording recording;
    work();
    graph = recording.end();
  }
  const cudaError_t result = cudaGraphInstantiate(&graph_, graph, 0);
  cudaGraphDestroy(graph);
  check_graph(result, "making recorded kernels ready");
}

void Graph::launch() const { check_graph(cudaGraphLaunch(graph_, compute_stream()), "launching recorded kernels"); }

}  // namespace cohort::gpu
