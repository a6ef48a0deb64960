// Which of a run's checkpoints stay and which go: only the decision, without files. store.hpp carries it out.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "checkpoint/save_options.hpp"

namespace cohort {

/// What the decision needs to know of a checkpoint.
struct RetentionCandidate {
  Count step = 0;
  bool sound = true;                                                  // false: damaged, or its training state cannot be read
  double validation_loss = std::numeric_limits<double>::quiet_NaN();  // NaN: none was measured
};

struct RetentionVerdict {
  bool stays = true;
  bool best = false;   // the lowest validation loss of all that are known
  std::string reason;  // why it stays: "one of the 3 newest", "step is a multiple of 100", ...; "" if it goes
};

/// One verdict for each candidate; these come by rising step. A checkpoint stays for one reason or more:
/// - it is one of the `keep` newest that are sound, so the newest sound one always stays; with keep = 0 all stay;
/// - its step is a multiple of `keep_every`;
/// - keep_best: it has the lowest validation loss; of equal ones the newest;
/// - it is not sound. Nobody knows whether it was the best, and what is left of it may be wanted to find out what happened: a
///   person deletes it. It takes none of the `keep` places.
std::vector<RetentionVerdict> apply_retention(const std::vector<RetentionCandidate>& candidates, const Retention& retention);

/// The steps of those candidates that go.
using OwnRetention = std::function<std::vector<Count>(const std::vector<RetentionCandidate>&, const Retention&)>;

/// From now on this function decides in place of the rules above. Where it lets go what nobody may delete, the newest sound one
/// or one that is not sound, apply_retention throws Error(usage) instead. An empty function ends it. For the course, where a
/// learner has written it.
void use_own_retention(OwnRetention retention);

/// TrainingState::validation_loss as a number; NaN if there is none.
double validation_loss_of(const std::string& text);

}  // namespace cohort
