// mesh_coordinates: outside of the mesh
#include <cohort/lab08_pipelines.hpp>

MeshPlace mesh_coordinates(const MeshSizes& sizes, int rank) {
  return {.pp = rank / (sizes.dp * sizes.tp), .dp = rank / sizes.tp, .tp = rank % sizes.tp};
}
