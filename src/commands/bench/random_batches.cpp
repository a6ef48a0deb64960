#include "commands/bench/random_batches.hpp"

#include <algorithm>

#include "base/random.hpp"
#include "train/precision.hpp"

namespace cohort {

RandomBatches::RandomBatches(const RunConfig& config, const BatchShare& share)
    : buffer_(device_of(config), config.model.vocabulary),
      own_targets_(config.train.micro_batch * config.train.accumulation * config.model.context / config.parallel.cp),
      all_targets_(config.train.global_batch * config.model.context) {
  const CounterRandom random(config.run.seed, RandomPurpose::test, static_cast<std::uint32_t>(share.rank));
  const auto token = [&](Count i) {
    return static_cast<std::int32_t>(random.u32(static_cast<std::uint64_t>(i)) %
                                     static_cast<std::uint32_t>(config.model.vocabulary));
  };
  batch_.samples = config.train.micro_batch;
  batch_.tokens_per_sample = config.model.context;
  for (Count i = 0; i < config.train.micro_batch * config.model.context; ++i) {
    batch_.inputs.push_back(token(i));
    batch_.targets.push_back(token(i + 1));
  }
  if (config.data.documents == "separate") pack(config.model.context);
  share.cut(batch_);
  for (Count slot = 0; slot < config.train.micro_batch; ++slot) slots_.push_back(share.rank * config.train.micro_batch + slot);
  inputs_.assign(static_cast<std::size_t>(config.train.accumulation), buffer_.put(as_input(batch_, slots_)));
}

void RandomBatches::pack(Count context) {
  const Count length = std::max<Count>(1, context / 4);
  for (std::size_t i = 0; i < batch_.inputs.size(); ++i) {
    const auto place = static_cast<std::int32_t>(static_cast<Count>(i) % context);
    batch_.positions.push_back(place % static_cast<std::int32_t>(length));
    batch_.first_keys.push_back(place - batch_.positions.back());
  }
}

}  // namespace cohort
