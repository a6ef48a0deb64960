// How ZeRO lays out a model that ranks hold in shards (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training
// Trillion Parameter Models").
//
// Parameters that are gathered and reduced together form a group, laid out one after the other in a flat tensor whose length is
// rounded up to a multiple of the ranks. Block r of it is owned by rank r, the only one that keeps the fp32 weights and the
// optimizer's state of these elements. A block boundary may run through a parameter: only the layout of memory is divided, not
// the tensors.
#pragma once

#include <string>
#include <vector>

#include "models/model.hpp"
#include "tensor/owned.hpp"

namespace cohort {

struct ShardGroup {
  struct Member {
    Parameter* parameter;
    Count offset;  // where it begins in the flat tensors of the group
  };
  std::vector<Member> members;
  Count elements = 0;  // of the flat tensors: a multiple of the ranks
  Count block = 0;     // elements of one rank
  int rank = 0;        // whose block is this rank's own

  Tensor compute;    // [elements] what layers read; undefined while not in memory
  Tensor gradient;   // [elements] fp32, of this rank's samples until it was reduced; undefined while not in memory
  OwnedSegment own;  // [block] of each

  /// This rank's block of a flat tensor.
  Tensor own_block(const Tensor& flat) const { return flat.slice(rank * block, (rank + 1) * block); }
  /// Makes the members' `compute` (`gradient`) parts of `flat`; an undefined tensor takes them away.
  void attach_compute(const Tensor& flat);
  void attach_gradient(const Tensor& flat);
};

/// The groups of a declared model, without memory: one for the whole model ("model"), one for each unit ("block"), or one for
/// each layer ("layer"; layers that share a matrix product stay together, and norms go with the layer before them). A weight that
/// two units share belongs to the first. One of which another pipeline stage has a copy is a group of its own, so that both
/// stages divide it alike. Frozen parameters are in none: every rank has all of them.
std::vector<ShardGroup> make_shard_groups(const Model& model, const std::string& wrap, int rank, int ranks);

/// The groups that hold the parameters of each unit, by the unit's place in the model.
std::vector<std::vector<std::size_t>> groups_of_units(const Model& model, const std::vector<ShardGroup>& groups);

}  // namespace cohort
