#include "optim/parameter_groups.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/optimizer_groups.hpp"

namespace cohort {
namespace {

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) { return matches(pattern, name); });
}

Tensor part_of(const Tensor& flat, const UpdateRun& run) { return flat.defined() ? flat.slice(run.begin, run.end) : flat; }

OwnDecay& own_decay() {
  static OwnDecay function;
  return function;
}

}  // namespace

void use_own_decay(OwnDecay decays) { own_decay() = std::move(decays); }

float ParameterGroup::decay_of(const Parameter& parameter) const {
  const bool decays = all_decay || (own_decay() ? own_decay()(parameter) : parameter.decays);
  return decays ? static_cast<float>(settings.weight_decay) : 0.0f;
}

ParameterGroups::ParameterGroups(const OptimizerSection& section) {
  std::vector<OptimizerGroup> all = section.groups;
  all.push_back({.match = {"*"}, .values = {}, .origin = {}});
  for (const OptimizerGroup& group : all) {
    const OptimizerSection settings = settings_of(section, group);
    const std::vector<const OptimizerRules*> kinds = kinds_of(settings);
    const bool all_decay = group.values.contains("weight_decay");
    Rule rule{group.match, group.origin, group.values.contains("kind"), 0, 0};
    rule.own = add(*kinds.front(), settings, all_decay);
    rule.other = kinds.size() > 1 ? add(*kinds.back(), settings, all_decay) : rule.own;
    rules_.push_back(rule);
  }
}

std::size_t ParameterGroups::add(const OptimizerRules& rules, const OptimizerSection& settings, bool all_decay) {
  groups_.push_back({&optimizer_kind_of(rules), settings, all_decay});
  return groups_.size() - 1;
}

const ParameterGroups::Rule& ParameterGroups::rule_of(const std::string& parameter) const {
  return *std::find_if(rules_.begin(), rules_.end(), [&](const Rule& rule) { return matches_any(rule.match, parameter); });
}

const ParameterGroup& ParameterGroups::of(const Parameter& parameter) const {
  const Rule& rule = rule_of(parameter.name);
  const ParameterGroup& own = groups_[rule.own];
  const OptimizerRules& rules = own.kind->rules;
  if (!rules.whole_matrices || parameter.role == ParameterRole::matrix) return own;
  if (!rule.named) return groups_[rule.other];
  if (parameter.global_shape.dims() == 2) return own;
  fail(ExitCode::config, "{}: optimizer {} updates matrices, but {} has the shape {}; match only matrices", rule.origin,
       rules.kind, parameter.name, parameter.global_shape.str());
}

std::string ParameterGroups::check(const ParameterRegistry& whole_model) const {
  struct Share {
    Count parameters = 0, elements = 0;
  };
  std::map<const OptimizerRules*, Share> shares;
  for (const auto& parameter : whole_model.trained()) {
    Share& share = shares[&of(*parameter).kind->rules];
    ++share.parameters;
    share.elements += parameter->global_shape.elements();
  }
  for (const Rule& rule : rules_) {
    for (const std::string& pattern : rule.match) {
      const auto fits = [&](const auto& parameter) { return matches(pattern, parameter->name); };
      if (&rule == &rules_.back() || std::any_of(whole_model.trained().begin(), whole_model.trained().end(), fits)) continue;
      std::vector<std::string> names;
      for (const auto& parameter : whole_model.trained()) names.push_back(parameter->name);
      const std::string nearest = nearest_name(pattern, names);
      fail(ExitCode::config, "{}: \"{}\" matches no parameter of this model{}; names look like {}", rule.origin, pattern,
           nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest), names.front());
    }
  }
  if (groups_.size() == 1) return "";
  std::vector<std::string> words;
  for (const auto& [rules, share] : shares)
    words.push_back(fmt::format("{}: {} of {} parameters", rules->kind, counted(share.parameters, "tensor"),
                                human_count(static_cast<double>(share.elements))));
  std::sort(words.begin(), words.end());
  return join(words, "; ");
}

std::vector<UpdateRun> runs_of(const std::vector<OwnedPiece>& pieces, Count elements, const ParameterGroups& groups) {
  std::vector<UpdateRun> runs;
  for (const OwnedPiece& piece : pieces) {
    const ParameterGroup& group = groups.of(*piece.parameter);
    if (runs.empty() || runs.back().group != &group) {
      const Count begin = runs.empty() ? 0 : piece.at;
      if (!runs.empty()) runs.back().end = begin;
      runs.push_back({begin, elements, &group, {}});
    }
    OwnedPiece within = piece;
    within.at -= runs.back().begin;
    runs.back().pieces.push_back(within);
  }
  return runs;
}

OwnedSegment segment_of(const OwnedSegment& segment, const UpdateRun& run) {
  return {part_of(segment.values, run), part_of(segment.compute, run), part_of(segment.gradients, run), run.pieces};
}

Tensor decay_ranges(const OwnedSegment& run, const ParameterGroup& group, Count begin, Count end) {
  std::vector<DecayRange> ranges;
  for (const OwnedPiece& piece : run.pieces) {
    const Count first = std::max(begin, piece.at) - begin, last = std::min(end, piece.at + piece.elements) - begin;
    if (first >= last) continue;
    const float decay = group.decay_of(*piece.parameter);
    if (!ranges.empty() && ranges.back().weight_decay == decay) {
      ranges.back().end = last;  // padding between the two stays zero: it has no gradient
    } else {
      ranges.push_back({first, last, decay});
    }
  }
  const Tensor host = Tensor::zeros("optimizer.ranges", {static_cast<Count>(ranges.size() * sizeof(DecayRange))}, DType::u8);
  if (!ranges.empty()) std::memcpy(host.raw(), ranges.data(), static_cast<std::size_t>(host.bytes()));
  return host;
}

}  // namespace cohort
