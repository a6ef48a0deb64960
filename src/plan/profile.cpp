#include "plan/profile.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace cohort {
namespace {

// Of an estimate: arithmetic and memory overlap within a kernel, so the slower of the two decides.
double estimated(const OpRates& rates, const OpWork& work) {
  const Bytes width = size_of(work.dtype);
  const double products = width == 1 ? rates.eight_bits : width == 2 ? rates.sixteen_bits : work.tf32 ? rates.tf32 : rates.fp32;
  const auto side = static_cast<double>(std::min({work.m, work.n, work.k}));
  double flops = products * side / (side + rates.half_side);
  if (work.op.find("linear_gelu") != work.op.npos) flops *= rates.epilogue_share;
  if (work.kind == OpKind::attention) {
    const bool backward = work.op.ends_with("backward");
    flops = (backward ? rates.attention_backward : rates.attention_forward) * products / rates.sixteen_bits;
  }
  const double computing = work.flops > 0.0 ? work.flops / flops : 0.0;
  return rates.launch + std::max(computing, work.bytes / rates.bytes_per_second);
}

// What a sample and a call have as their size: the times of one op go about in proportion to it.
double size_of_call(double flops, double bytes) { return flops > 0.0 ? flops : bytes; }

constexpr std::string_view kAlone = "_alone";

double log_ratio(Count a, Count b) {
  return std::log(static_cast<double>(std::max<Count>(a, 1)) / static_cast<double>(std::max<Count>(b, 1)));
}

// The speed at a shape from those at measured ones: the mean of their logarithms, by the inverse square of the distance in the
// logarithms of m, n and k (Shepard 1968).
double speed_by_shape(const std::vector<const OpSample*>& samples, const OpWork& work) {
  constexpr double kSame = 1e-6;
  double sum = 0.0, weights = 0.0;
  for (const OpSample* one : samples) {
    const double dm = log_ratio(one->m, work.m), dn = log_ratio(one->n, work.n), dk = log_ratio(one->k, work.k);
    const double weight = 1.0 / (dm * dm + dn * dn + dk * dk + kSame);
    sum += weight * std::log(size_of_call(one->flops, one->bytes) / one->seconds);
    weights += weight;
  }
  return std::exp(sum / weights);
}

// Time by size along straight lines between measured sizes, both as logarithms. Below the smallest the time stays, above the
// largest the speed.
struct TimeBySize {
  std::map<double, double> seconds;  // size: time

  double at(double size) const {
    const auto above = seconds.lower_bound(size);
    if (above == seconds.begin()) return above->second;
    const auto below = std::prev(above);
    if (above == seconds.end()) return below->second * size / below->first;
    const double part = std::log(size / below->first) / std::log(above->first / below->first);
    return below->second * std::pow(above->second / below->second, part);
  }
};

// An op on rows takes longer for shorter rows of as many bytes in all: its times for each length of a row.
std::map<Count, TimeBySize> times_by_length(const std::vector<const OpSample*>& grid) {
  std::map<Count, TimeBySize> lengths;
  for (const OpSample* one : grid) lengths[one->n].seconds[one->bytes] = one->seconds;
  return lengths;
}

// Along a straight line between measured lengths, both as logarithms; beyond them as at the last.
double at_length(const std::map<Count, TimeBySize>& lengths, const OpWork& work) {
  const auto above = lengths.lower_bound(work.n);
  if (above == lengths.begin()) return above->second.at(work.bytes);
  const auto below = std::prev(above);
  const double shorter = below->second.at(work.bytes);
  if (above == lengths.end()) return shorter;
  const double part = log_ratio(work.n, below->first) / log_ratio(above->first, below->first);
  return shorter * std::pow(above->second.at(work.bytes) / shorter, part);
}

// Samples of the op in the type; of another type if there are none; of any op that moves memory if it was not measured. In a
// profile of an older program it may have been measured with what it is "alone" now ("linear_backward_weight").
std::vector<const OpSample*> samples_of(const std::vector<OpSample>& all, const OpWork& work) {
  const bool measured = std::any_of(all.begin(), all.end(), [&](const OpSample& one) { return one.op == work.op; });
  const std::string_view op =
      measured || !work.op.ends_with(kAlone) ? work.op : work.op.substr(0, work.op.size() - kAlone.size());
  std::vector<const OpSample*> same, other_type, plain;
  for (const OpSample& one : all) {
    if (one.op == op) (one.dtype == work.dtype && one.tf32 == work.tf32 ? same : other_type).push_back(&one);
    if (one.op == "add") plain.push_back(&one);
  }
  return !same.empty() ? same : !other_type.empty() ? other_type : plain;
}

double interpolated(const std::vector<OpSample>& all, const OpWork& work) {
  const std::vector<const OpSample*> samples = samples_of(all, work);
  if (samples.front()->kind == OpKind::product || samples.front()->kind == OpKind::attention)
    return size_of_call(work.flops, work.bytes) / speed_by_shape(samples, work);
  const bool grid = std::all_of(samples.begin(), samples.end(), [](const OpSample* one) { return one->grid; });
  if (work.n > 0 && grid) return at_length(times_by_length(samples), work);
  TimeBySize times;
  for (const OpSample* one : samples) times.seconds[one->bytes] = one->seconds;
  return times.at(std::max(work.bytes, 1.0));
}

// A ring, or a tree for an all-reduce of few bytes (Thakur et al. 2005; Sanders et al. 2009 for the two trees of NCCL).
double by_links(const LinkRates& node, const LinkRates& network, std::string_view operation, const GroupSpan& span, Bytes bytes) {
  const double n = span.ranks, nodes = span.nodes;
  const double own = network.bytes_per_second * span.most_of_node;  // of the ranks that share a node, each with its own way out
  double speed = node.bytes_per_second;
  if (span.nodes > 1) speed = span.most_of_node > 1 ? std::min(speed, own) : network.bytes_per_second;
  const double hop = span.nodes > 1 ? network.hop : node.hop;
  if (operation == "recv") return hop + static_cast<double>(bytes) / (span.nodes > 1 ? network.bytes_per_second : speed);
  const double ring = (n - nodes) * node.hop + (span.nodes > 1 ? nodes * network.hop : 0.0);
  const double moving = (n - 1.0) / n * static_cast<double>(bytes) / speed;
  const double tree = std::ceil(std::log2(nodes)) * network.hop + (span.most_of_node - 1) * node.hop + hop;
  if (operation == "all_reduce") {
    constexpr double kTreeSlower = 1.15;
    return 2.0 * std::min(ring + moving, tree + kTreeSlower * moving);
  }
  if (operation == "broadcast") return tree + static_cast<double>(bytes) / speed;
  return ring + moving;
}

}  // namespace

GroupSpan span_of(const std::vector<int>& members, int ranks_per_node) {
  std::map<int, int> of_node;
  for (const int member : members) ++of_node[member / ranks_per_node];
  GroupSpan span{static_cast<int>(members.size()), static_cast<int>(of_node.size()), 1};
  for (const auto& [node, ranks] : of_node) span.most_of_node = std::max(span.most_of_node, ranks);
  return span;
}

bool MachineProfile::covers(DType dtype, bool tf32) const {
  const auto fits = [&](const OpSample& one) { return one.kind == OpKind::product && one.dtype == dtype && one.tf32 == tf32; };
  if (ops.empty()) return dtype != DType::u8 || rates.eight_bits > 0.0;
  return std::any_of(ops.begin(), ops.end(), fits);
}

double MachineProfile::seconds_of(const OpWork& work) const {
  return ops.empty() ? estimated(rates, work) : interpolated(ops, work);
}

// Where the operation was measured, but over other ranks, the links tell by how much it takes longer or shorter.
double MachineProfile::seconds_of(std::string_view operation, const GroupSpan& span, Bytes bytes) const {
  if (span.ranks <= 1) return 0.0;
  const double estimate = by_links(node, network, operation, span, bytes);
  TimeBySize times;
  GroupSpan measured_over;
  for (const CollectiveSample& one : collectives) {
    if (one.operation != operation || (one.nodes > 1) != (span.nodes > 1)) continue;
    times.seconds[static_cast<double>(one.bytes)] = one.seconds;
    measured_over = {one.ranks, one.nodes, one.ranks / one.nodes};
  }
  if (times.seconds.empty()) return estimate;
  const double there = by_links(node, network, operation, measured_over, bytes);
  return times.at(std::max(static_cast<double>(bytes), 1.0)) * estimate / there;
}

}  // namespace cohort
