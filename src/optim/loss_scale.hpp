// Dynamic loss scaling for fp16 (Micikevicius et al. 2018, "Mixed Precision Training", section 3.2): the loss is multiplied by a
// factor so that small gradients do not become 0 in fp16, and the gradients are divided by it before they are used. The factor is
// as large as overflow allows: an overflow halves it, and the step is skipped; a long run without one doubles it.
//
// A state machine of plain numbers. All ranks feed it the same outcomes (the gradients are global), so all keep the same factor.
#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "base/units.hpp"

namespace cohort {

struct LossScaleOptions {
  double initial = 65536.0;
  double minimum = 1.0;
  Count growth_interval = 2000;  // steps in a row without overflow after which the factor doubles

  /// What it never grows beyond: where all gradients are 0, which never overflow, growth must end.
  double largest() const { return std::max(16777216.0, initial); }  // 2^24
};

/// One step of the rule, written by somebody else: changes factor and count by what the step did, as LossScale::update().
using OwnLossScaleRule = std::function<bool(double& scale, Count& good_steps, const LossScaleOptions& options, bool overflowed)>;

/// From now on every LossScale follows this rule, and policies without one are refused (SharedError(usage)). An empty function
/// ends it. For the course, where a learner has written it.
void use_own_loss_scale_rule(OwnLossScaleRule rule);

class LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options);
  /// A factor of 1 that never changes: for types with the range of fp32.
  static LossScale none();

  bool active() const { return active_; }
  /// Multiplies the loss of the next step.
  double scale() const { return scale_; }
  /// Steps without overflow since the factor last changed.
  Count good_steps() const { return good_steps_; }

  /// Tells what the step did. False if the factor would fall below the minimum, and stays as it is: then it is not the range of
  /// fp16 that makes gradients overflow, and the run must stop.
  [[nodiscard]] bool update(bool overflowed);
  /// What to say of that, and what to do about it.
  std::string at_minimum_in_words() const;
  /// Continues from a checkpoint; does nothing if not active. Throws Error(checkpoint) for what no run can have saved.
  void restore(double scale, Count good_steps);

 private:
  LossScaleOptions options_;
  bool active_ = true;
  double scale_;
  Count good_steps_ = 0;
};

}  // namespace cohort
