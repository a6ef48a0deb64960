#include "train/check_optimizer.hpp"

#include <algorithm>

#include "models/model.hpp"
#include "optim/parameter_groups.hpp"
#include "train/precision.hpp"

namespace cohort {

std::string check_optimizer(const RunConfig& config) {
  ModelSection model = config.model;
  model.vocabulary = std::max<Count>(2, model.vocabulary);  // which has no part in names
  return ParameterGroups(config.optimizer).check(declare_model(model, storage_of(config))->parameters());
}

}  // namespace cohort
