#include "parallel/zero/shard_group.hpp"

#include <algorithm>
#include <map>

namespace cohort {
namespace {

// Blocks begin at multiples of this many elements, so that their addresses suit 16-byte accesses in every type.
constexpr Count kBlockAlignment = 64;

Count rounded_up(Count n, Count unit) { return (n + unit - 1) / unit * unit; }

// Which group each parameter belongs to, by its place in the registry.
std::vector<std::size_t> group_numbers(const Model& model, const std::string& wrap) {
  std::vector<std::size_t> numbers(model.parameters().all().size(), 0);
  std::vector<bool> seen(numbers.size(), false);
  std::size_t next = 0;
  for (const auto& parameter : model.parameters().all()) seen[parameter->index] = parameter->frozen;  // belongs to none
  for (const Parameter* parameter : model.parameters().trained()) {
    if (!parameter->copied) continue;
    seen[parameter->index] = true;
    numbers[parameter->index] = next++;
  }
  if (wrap == "model") {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = seen[i] ? numbers[i] : next;
    return numbers;
  }
  for (const Unit& unit : model.units()) {
    int layer = -1;
    bool any = false;
    for (const Parameter* parameter : unit.parameters) {
      if (seen[parameter->index]) continue;
      seen[parameter->index] = true;
      if (any && wrap == "layer" && parameter->layer != layer) ++next;
      any = true;
      layer = parameter->layer;
      numbers[parameter->index] = next;
    }
    if (any) ++next;
  }
  return numbers;
}

// The elements of the group's block `rank` as pieces of its members.
std::vector<OwnedPiece> pieces_of(const ShardGroup& group) {
  const Count begin = group.rank * group.block, end = begin + group.block;
  std::vector<OwnedPiece> pieces;
  for (const ShardGroup::Member& member : group.members) {
    const Count first = std::max(begin, member.offset);
    const Count last = std::min(end, member.offset + member.parameter->elements());
    if (first < last) pieces.push_back({member.parameter, first - member.offset, first - begin, last - first});
  }
  return pieces;
}

void attach(const ShardGroup& group, Tensor Parameter::*tensor, const Tensor& flat) {
  for (const ShardGroup::Member& member : group.members) {
    Parameter& parameter = *member.parameter;
    parameter.*tensor =
        flat.defined() ? flat.slice(member.offset, member.offset + parameter.elements()).reshaped(parameter.shape) : Tensor{};
  }
}

}  // namespace

void ShardGroup::attach_compute(const Tensor& flat) {
  compute = flat;
  attach(*this, &Parameter::compute, flat);
}

void ShardGroup::attach_gradient(const Tensor& flat) {
  gradient = flat;
  attach(*this, &Parameter::gradient, flat);
}

std::vector<ShardGroup> make_shard_groups(const Model& model, const std::string& wrap, int rank, int ranks) {
  const std::vector<std::size_t> numbers = group_numbers(model, wrap);
  std::vector<ShardGroup> groups(numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end()) + 1);
  for (Parameter* parameter : model.parameters().trained()) {
    ShardGroup& group = groups[numbers[parameter->index]];
    group.members.push_back({parameter, group.elements});
    group.elements += parameter->elements() + parameter->padding;
  }
  for (ShardGroup& group : groups) {
    group.rank = rank;
    group.block = rounded_up((group.elements + ranks - 1) / ranks, kBlockAlignment);
    group.elements = group.block * ranks;
    group.own.pieces = pieces_of(group);
  }
  return groups;
}

std::vector<std::vector<std::size_t>> groups_of_units(const Model& model, const std::vector<ShardGroup>& groups) {
  std::map<const Parameter*, std::size_t> group_of;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const ShardGroup::Member& member : groups[g].members) group_of[member.parameter] = g;
  }
  std::vector<std::vector<std::size_t>> of_units;
  for (const Unit& unit : model.units()) {
    std::vector<std::size_t>& own = of_units.emplace_back();
    for (const Parameter* parameter : unit.parameters) {
      if (parameter->frozen) continue;
      const std::size_t g = group_of.at(parameter);
      if (std::find(own.begin(), own.end(), g) == own.end()) own.push_back(g);
    }
  }
  return of_units;
}

}  // namespace cohort
