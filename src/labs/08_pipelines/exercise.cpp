// Lab 8: pipelines and 3D. What each function has to do is in <cohort/lab08_pipelines.hpp>.
//
//   cohort lab show 8        the handout        cohort lab check 8       are they right?
//   cohort lab hint 8.1      a hint             cohort lab run 8         train with them
#include <cohort/lab08_pipelines.hpp>
#include <span>
#include <vector>

using cohort::lab::not_written;

// 8.1
double bubble_fraction(int stages, int chunks, int micro_batches) {
  (void)stages, (void)chunks, (void)micro_batches;
  not_written();
}

// 8.2
void gpipe_order(int stages, int stage, int micro_batches, std::span<PipelineAction> actions) {
  (void)stages, (void)stage, (void)micro_batches, (void)actions;
  not_written();
}

// 8.3
void one_f_one_b_order(int stages, int stage, int micro_batches, std::span<PipelineAction> actions) {
  (void)stages, (void)stage, (void)micro_batches, (void)actions;
  not_written();
}

// 8.4
int peak_activations(std::span<const PipelineAction> actions) {
  (void)actions;
  not_written();
}

// 8.5
void balanced_stages(std::span<const double> costs, std::span<std::size_t> ends) {
  (void)costs, (void)ends;
  not_written();
}

// 8.6
MeshPlace mesh_coordinates(const MeshSizes& sizes, int rank) {
  (void)sizes, (void)rank;
  not_written();
}

// 8.7
void mesh_group(const MeshSizes& sizes, int rank, MeshAxis axis, std::span<int> group) {
  (void)sizes, (void)rank, (void)axis, (void)group;
  not_written();
}

// 8.8
MeshOrder choose_layout(const MeshSizes& sizes, const Cluster& cluster) {
  (void)sizes, (void)cluster;
  not_written();
}
