#include "models/family.hpp"
#include "models/mlp/mlp.hpp"

namespace cohort::mlp {

const ModelRules& rules();

const ModelFamily& family() {
  static const ModelFamily kFamily{
      .rules = rules(), .declare = [](const ModelSection& model, const ModelStorage& storage) -> std::unique_ptr<Model> {
        return std::make_unique<Mlp>(model, storage);
      }};
  return kFamily;
}

}  // namespace cohort::mlp
