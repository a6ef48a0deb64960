// mesh_coordinates: if pp varied fastest
#include <cohort/lab08_pipelines.hpp>

MeshPlace mesh_coordinates(const MeshSizes& sizes, int rank) {
  return {.pp = rank % sizes.pp, .dp = rank / sizes.pp % sizes.dp, .tp = rank / (sizes.pp * sizes.dp)};
}
