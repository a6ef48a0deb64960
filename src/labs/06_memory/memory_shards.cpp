#include "labs/06_memory/memory_shards.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cohort/lab06_memory.hpp>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "labs/grading/contributions.hpp"
#include "labs/grading/guarded.hpp"
#include "labs/grading/ranks.hpp"
#include "labs/use/communicator_link.hpp"
#include "parallel/strategy.hpp"

namespace cohort::labs::lab06_memory {
namespace {

using OnBlocks = void(lab::Link&, std::span<float>);
using ZeroStep = void(lab::Link&, std::span<float>, std::span<float>, std::span<float>, float);

constexpr std::array kRanks{2, 1, 3, 4, 8};
constexpr std::array<std::size_t, 4> kBlocks{4, 1, 0, 7};

std::size_t size(int ranks) { return static_cast<std::size_t>(ranks); }

std::string case_of(int ranks, std::size_t block) {
  return fmt::format("{}, blocks of {}", counted(ranks, "rank"), counted(static_cast<Count>(block), "element"));
}

std::vector<Guarded> on_ranks(int ranks, std::size_t elements, const std::function<float(int, std::size_t)>& value) {
  std::vector<Guarded> data;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<float> values(elements);
    for (std::size_t i = 0; i < elements; ++i) values[i] = value(rank, i);
    data.emplace_back(std::move(values));
  }
  return data;
}

void check_guards(const std::vector<Guarded>& data, const char* name) {
  for (std::size_t rank = 0; rank < data.size(); ++rank) data[rank].check(fmt::format("on rank {}, {}", rank, name));
}

void check_sent(const Traffic& traffic, int ranks, std::size_t block, Count blocks, const char* why) {
  for (int rank = 0; rank < ranks; ++rank) {
    const Count sent = traffic.elements_sent[size(rank)], allowed = blocks * static_cast<Count>(block);
    if (sent > allowed)
      reject("rank {} sends {} elements ({} bytes): {} of {} would do{}", rank, sent, 4 * sent, counted(blocks, "block"),
             counted(static_cast<Count>(block), "element"), why);
  }
}

// Elements differ by a factor, so that a block in another's place is seen, too.
float factor_of(std::size_t element) { return static_cast<float>(element % 3 + 1); }

float share_of(int rank, std::size_t element) { return digit_of(rank) * factor_of(element); }

void check_reduced(OnBlocks* reduce_scatter, int ranks, std::size_t block) {
  std::vector<Guarded> data = on_ranks(ranks, size(ranks) * block, share_of);
  const Traffic traffic = run_ranks(ranks, [&](lab::Link& link) { reduce_scatter(link, data[size(link.rank())].span()); });
  check_guards(data, "data");
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = size(rank) * block; i < size(rank + 1) * block; ++i) {
      const std::string wrong = wrong_contributions(data[size(rank)][i] / static_cast<double>(factor_of(i)), ranks);
      if (!wrong.empty())
        reject("on rank {}, element {}, which is in its own block, is not the sum over all ranks: {}", rank, i, wrong);
    }
  }
  check_sent(traffic, ranks, block, ranks - 1, ": no rank needs the sums of the others' blocks");
}

void check_gathered(OnBlocks* all_gather, int ranks, std::size_t block) {
  const auto owner = [&](std::size_t i) { return static_cast<int>(i / block); };
  std::vector<Guarded> data = on_ranks(ranks, size(ranks) * block, [&](int rank, std::size_t i) {
    return owner(i) == rank ? static_cast<float>(i + 1) : std::nanf("");
  });
  const Traffic traffic = run_ranks(ranks, [&](lab::Link& link) { all_gather(link, data[size(link.rank())].span()); });
  check_guards(data, "data");
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < size(ranks) * block; ++i) {
      const float found = data[size(rank)][i];
      if (found == static_cast<float>(i + 1)) continue;
      reject("on rank {}, element {} is {}", rank, i,
             std::isnan(found) ? fmt::format("not that of its owner, rank {}: it is what was there before", owner(i))
                               : fmt::format("{}, which is that of element {}", found, found - 1.0f));
    }
  }
  check_sent(traffic, ranks, block, ranks - 1, "");
}

// Values that no order of adding makes other bits of: multiples of 1/64, small enough.
float parameter_of(std::size_t i) { return static_cast<float>(i % 13) * 0.25f - 1.5f; }
float gradient_of(int rank, std::size_t i) { return static_cast<float>((i + 3 * size(rank)) % 9) * 0.5f - 2.0f; }
float momentum_of(std::size_t i) { return static_cast<float>(i % 5) - 2.0f; }

struct Step {
  double momentum, parameter;
};
// What one rank with all the samples would do; `share` of the gradients' sum.
Step step_of(int ranks, std::size_t i, double rate, double share) {
  double sum = 0.0;
  for (int rank = 0; rank < ranks; ++rank) sum += gradient_of(rank, i);
  const double momentum = 0.9 * momentum_of(i) + share * sum;
  return {momentum, parameter_of(i) - rate * momentum};
}

// fp32, values below 20: a few roundings of 2^-24 of them.
bool near(double found, double expected) { return std::fabs(found - expected) <= 1e-5; }

void check_parameter(float found, int rank, int ranks, std::size_t i, std::size_t block, double rate) {
  if (near(found, step_of(ranks, i, rate, 1.0).parameter)) return;
  const int owner = static_cast<int>(i / block);
  const double own = parameter_of(i) - rate * (0.9 * momentum_of(i) + gradient_of(owner, i));
  std::string why = "which is not one step from where it was";
  if (found == parameter_of(i)) why = fmt::format("as before: the update of rank {}, its owner, has not come", owner);
  if (near(found, step_of(ranks, i, rate, 1.0 / ranks).parameter))
    why = "which is the step by the mean of the gradients: the sum is meant";
  if (near(found, own) && ranks > 1) why = fmt::format("which is the step by the gradient of rank {} alone", owner);
  if (near(found, parameter_of(i) + rate * step_of(ranks, i, rate, 1.0).momentum)) why = "which is a step up, not down";
  reject("on rank {}, parameter {} is {:g} after the step, {}", rank, i, found, why);
}

void check_step(ZeroStep* step, int ranks, std::size_t block) {
  const float rate = 0.125f;
  const std::size_t elements = size(ranks) * block;
  std::vector<Guarded> parameters = on_ranks(ranks, elements, [](int, std::size_t i) { return parameter_of(i); });
  std::vector<Guarded> gradients = on_ranks(ranks, elements, gradient_of);
  std::vector<Guarded> momenta =
      on_ranks(ranks, block, [&](int rank, std::size_t i) { return momentum_of(size(rank) * block + i); });
  const Traffic traffic = run_ranks(ranks, [&](lab::Link& link) {
    const std::size_t rank = size(link.rank());
    step(link, parameters[rank].span(), gradients[rank].span(), momenta[rank].span(), rate);
  });
  check_guards(parameters, "parameters");
  check_guards(gradients, "gradients");
  check_guards(momenta, "momentum, which has this rank's block alone");
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < elements; ++i) {
      check_parameter(parameters[size(rank)][i], rank, ranks, i, block, rate);
      if (parameters[size(rank)][i] != parameters[0][i])
        reject("parameter {} is {:.9g} on rank 0 and {:.9g} on rank {}: the ranks' copies of the weights would drift apart", i,
               parameters[0][i], parameters[size(rank)][i], rank);
    }
    for (std::size_t i = 0; i < block; ++i) {
      if (!near(momenta[size(rank)][i], step_of(ranks, size(rank) * block + i, rate, 1.0).momentum))
        reject("on rank {}, element {} of its momentum is {:g}: not 0.9 of what it was and the sum of the gradients", rank, i,
               momenta[size(rank)][i]);
    }
  }
  check_sent(traffic, ranks, block, 2 * (ranks - 1),
             ": that is what an all-reduce sends, and a reduce-scatter and an all-gather send no more");
}

// Learners' functions in a run: all ranks find out alike that one is not written.
std::function<void(Communicator&, std::span<float>)> in_a_run(const Library& library, const char* name) {
  return [library, name, function = library.function<OnBlocks>(name)](Communicator& group, std::span<float> data) {
    CommunicatorLink link(group);
    try {
      function(link, data);
    } catch (const lab::NotWritten&) {
      throw SharedError(ExitCode::usage, fmt::format("{} is not written yet", name));
    }
  };
}

OwnShardCollectives& used() {
  static OwnShardCollectives collectives;
  return collectives;
}

}  // namespace

void grade_shard_bounds(const Library& library, Grading& grading) {
  auto* bounds = library.function<Shard(std::size_t, int, int, std::size_t)>("shard_bounds");
  for (const std::size_t alignment : {std::size_t{1}, std::size_t{4}, std::size_t{64}}) {
    for (const std::size_t elements : {std::size_t{12}, std::size_t{10}, std::size_t{1}, std::size_t{0}, std::size_t{257}}) {
      for (const int ranks : {4, 1, 3, 8}) {
        const std::size_t share = (elements + size(ranks) - 1) / size(ranks);
        const std::size_t block = (share + alignment - 1) / alignment * alignment;
        for (int rank = 0; rank < ranks; ++rank) {
          grading.begin(fmt::format("{} elements, rank {} of {}, alignment {}", elements, rank, ranks, alignment));
          const Shard found = bounds(elements, ranks, rank, alignment);
          if (found.block % alignment != 0) reject("block is {}, which is not a multiple of the alignment", found.block);
          if (found.block * size(ranks) < elements)
            reject("block is {}: {} of them hold {} elements, and the last ones would belong to nobody", found.block,
                   counted(ranks, "block"), found.block * size(ranks));
          if (found.block != block)
            reject("block is {}: a smaller multiple of the alignment holds all elements, too", found.block);
          if (found.end > elements)
            reject("end is {}, behind the last of {} elements: padding belongs to nobody", found.end, elements);
          if (found.begin > found.end) reject("begin is {}, and end is {}, which is before it", found.begin, found.end);
          if (found.begin != std::min(size(rank) * block, elements) || found.end != std::min(size(rank + 1) * block, elements))
            reject(
                "the rank owns the elements from {} to {}, exclusive: block number {} begins at another element, or goes further",
                found.begin, found.end, rank);
        }
      }
    }
  }
}

void grade_reduce_scatter(const Library& library, Grading& grading) {
  auto* reduce_scatter = library.function<OnBlocks>("reduce_scatter");
  for (const int ranks : kRanks) {
    for (const std::size_t block : kBlocks) {
      grading.begin(case_of(ranks, block));
      check_reduced(reduce_scatter, ranks, block);
    }
  }
}

void grade_all_gather(const Library& library, Grading& grading) {
  auto* all_gather = library.function<OnBlocks>("all_gather");
  for (const int ranks : kRanks) {
    for (const std::size_t block : kBlocks) {
      grading.begin(case_of(ranks, block));
      check_gathered(all_gather, ranks, block);
    }
  }
}

void grade_zero_step(const Library& library, Grading& grading) {
  auto* step = library.function<ZeroStep>("zero_step");
  for (const int ranks : kRanks) {
    for (const std::size_t block : kBlocks) {
      grading.begin(case_of(ranks, block));
      check_step(step, ranks, block);
    }
  }
}

void use_reduce_scatter(const Library& library) {
  used().reduce_scatter = in_a_run(library, "reduce_scatter");
  use_own_shard_collectives(used());
}

void use_all_gather(const Library& library) {
  used().all_gather = in_a_run(library, "all_gather");
  use_own_shard_collectives(used());
}

}  // namespace cohort::labs::lab06_memory
