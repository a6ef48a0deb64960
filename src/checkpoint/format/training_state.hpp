// What a checkpoint holds beside the tensors: enough to continue as if nothing had happened.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.hpp"

namespace cohort {

struct TrainingState {
  Count step = 0;                   // optimizer steps done
  Count samples_seen = 0;           // by all ranks together: the position of the sampler (step x global batch)
  Count tokens_seen = 0;            // by all ranks together
  std::uint64_t seed = 0;           // keys every random stream; the generator has no other state
  std::string model;                // kind and sizes of the model; a checkpoint of another model is refused
  std::string data;                 // what was trained on, and its tokenizer (train/data_record.hpp)
  std::string run_file;             // the resolved run file (TOML)
  std::string tokenizer;            // in its serialised form (data/tokenizer.hpp); "" for models without text
  std::string loss_scale = "1";     // of fp16, as a decimal number; 1 in other types
  Count loss_scale_good_steps = 0;  // steps without overflow since it last changed
  std::string validation_loss;      // measured at this step, as a decimal number; "" if none was
  std::string history;              // a line for each resume that was allowed to change something: what, and from which step on

  // Who wrote it. For people; loading does not depend on it.
  std::string cohort_version;
  std::string git_revision;  // "" if unknown
  std::string created;       // UTC, ISO 8601; save_checkpoint() fills it in when empty
  Count ranks = 1;
  std::string layout;  // "dp 4 x pp 1 x cp 1 x tp 1"

  bool operator==(const TrainingState&) const = default;
};

/// Calls visit(name, field) for every field of bounded size, an attribute in the file: a Count, a std::uint64_t or a std::string.
/// With for_each_text() it is all there is: writing, reading, sending and showing go by these two.
template <class State, class Visit>
void for_each_attribute(State& state, Visit&& visit) {
  visit("step", state.step);
  visit("samples_seen", state.samples_seen);
  visit("tokens_seen", state.tokens_seen);
  visit("seed", state.seed);
  visit("model", state.model);
  visit("loss_scale", state.loss_scale);
  visit("loss_scale_good_steps", state.loss_scale_good_steps);
  visit("validation_loss", state.validation_loss);
  visit("cohort_version", state.cohort_version);
  visit("git_revision", state.git_revision);
  visit("created", state.created);
  visit("ranks", state.ranks);
  visit("layout", state.layout);
}

/// Calls visit(name, text) for every text that can grow, a dataset in the file: attributes end at 64 KiB.
template <class State, class Visit>
void for_each_text(State& state, Visit&& visit) {
  visit("data", state.data);
  visit("history", state.history);
  visit("run_file", state.run_file);
  visit("tokenizer", state.tokenizer);
}

/// Both but for run file and tokenizer: what is shown in a line each.
template <class State, class Visit>
void for_each_field(State& state, Visit&& visit) {
  for_each_attribute(state, visit);
  visit("data", state.data);
  visit("history", state.history);
}

}  // namespace cohort
