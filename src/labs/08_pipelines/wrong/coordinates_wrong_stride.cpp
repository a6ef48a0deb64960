// mesh_coordinates: it says, which is
#include <cohort/lab08_pipelines.hpp>

MeshPlace mesh_coordinates(const MeshSizes& sizes, int rank) {
  return {.pp = rank / (sizes.pp * sizes.tp), .dp = rank / sizes.tp % sizes.dp, .tp = rank % sizes.tp};
}
