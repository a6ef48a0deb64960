#include "checkpoint/store/retention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/error.hpp"

namespace cohort {
namespace {

/// The index of the best; the number of candidates if no loss is known. What is not finite is never the best.
std::size_t best_of(const std::vector<RetentionCandidate>& candidates) {
  std::size_t best = candidates.size();
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].sound || !std::isfinite(candidates[i].validation_loss) || candidates[i].validation_loss > lowest) continue;
    lowest = candidates[i].validation_loss;
    best = i;
  }
  return best;
}

OwnRetention& own_retention() {
  static OwnRetention retention;
  return retention;
}

void decide_by_own_retention(const std::vector<RetentionCandidate>& candidates, const Retention& retention,
                             std::vector<RetentionVerdict>& verdicts) {
  const std::vector<Count> gone = own_retention()(candidates, retention);
  bool newer = false;  // a sound one is
  for (std::size_t i = candidates.size(); i-- > 0;) {
    const RetentionCandidate& candidate = candidates[i];
    verdicts[i].stays = std::find(gone.begin(), gone.end(), candidate.step) == gone.end();
    verdicts[i].reason = verdicts[i].stays ? "kept by your own rule" : "";
    if (!verdicts[i].stays && !(candidate.sound && newer))
      fail(ExitCode::usage, "your own rule would delete step {}, {}: nothing is deleted", candidate.step,
           candidate.sound ? "the newest" : "which is damaged");
    newer = newer || candidate.sound;
  }
}

}  // namespace

void use_own_retention(OwnRetention retention) { own_retention() = std::move(retention); }

std::vector<RetentionVerdict> apply_retention(const std::vector<RetentionCandidate>& candidates, const Retention& retention) {
  const std::size_t best = best_of(candidates);
  std::vector<RetentionVerdict> verdicts(candidates.size());
  Count newer = 0;  // sound ones that are newer than candidate i
  for (std::size_t i = candidates.size(); i-- > 0;) {
    const RetentionCandidate& candidate = candidates[i];
    RetentionVerdict& verdict = verdicts[i];
    verdict.best = i == best;
    if (!candidate.sound) {
      verdict.reason = "damaged: delete it by hand if nobody needs it";
    } else if (retention.keep <= 0) {
      verdict.reason = "all are kept";
    } else if (newer < retention.keep) {
      verdict.reason = retention.keep == 1 ? "the newest" : fmt::format("one of the {} newest", retention.keep);
    } else if (retention.keep_best && verdict.best) {
      verdict.reason = "the lowest validation loss";
    } else if (retention.keep_every > 0 && candidate.step % retention.keep_every == 0) {
      verdict.reason = fmt::format("its step is a multiple of {}", retention.keep_every);
    } else {
      verdict.stays = false;
    }
    if (candidate.sound) ++newer;
  }
  if (own_retention()) decide_by_own_retention(candidates, retention, verdicts);
  return verdicts;
}

double validation_loss_of(const std::string& text) {
  char* end = nullptr;  // strtod, since std::from_chars for double is missing in the libc++ of macOS
  const double loss = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && end == text.c_str() + text.size();
  return whole ? loss : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace cohort
