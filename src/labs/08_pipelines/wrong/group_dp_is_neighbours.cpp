// mesh_group: that is its group of tp
#include <cohort/lab08_pipelines.hpp>
#include <span>

// Strides as if pp varied fastest.
void mesh_group(const MeshSizes& sizes, int rank, MeshAxis axis, std::span<int> group) {
  const int stride = axis == MeshAxis::pp ? 1 : axis == MeshAxis::dp ? sizes.pp : sizes.pp * sizes.dp;
  const int first = rank / (stride * static_cast<int>(group.size())) * stride * static_cast<int>(group.size());
  for (std::size_t i = 0; i < group.size(); ++i) group[i] = first + static_cast<int>(i) * stride;
}
