// mesh_group: these are the right ranks, but not in ascending order
#include <cohort/lab08_pipelines.hpp>
#include <span>

// This rank first, then the next ones.
void mesh_group(const MeshSizes& sizes, int rank, MeshAxis axis, std::span<int> group) {
  const int stride = axis == MeshAxis::tp ? 1 : axis == MeshAxis::dp ? sizes.tp : sizes.dp * sizes.tp;
  const int size = static_cast<int>(group.size()), own = rank / stride % size;
  for (int i = 0; i < size; ++i) group[static_cast<std::size_t>(i)] = rank + ((own + i) % size - own) * stride;
}
