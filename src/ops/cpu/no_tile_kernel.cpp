#include "ops/cpu/tile_kernel.hpp"

namespace cohort::ops::cpu {

void (*tile_kernel())(const Tile&) { return nullptr; }

}  // namespace cohort::ops::cpu
