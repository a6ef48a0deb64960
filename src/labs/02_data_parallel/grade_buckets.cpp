// Buckets are right if each could leave as soon as its last gradient is ready, none holds too much, and none could have held
// more.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "labs/02_data_parallel/data_parallel_graders.hpp"

namespace cohort::labs::lab02_data_parallel {
namespace {

using AssignBuckets = void(std::span<const std::size_t>, std::size_t, std::size_t, std::span<int>);

struct Buckets {
  std::vector<std::size_t> bytes;
  std::size_t first_limit, limit;

  std::size_t limit_of(int bucket) const { return bucket == 0 ? first_limit : limit; }
};

std::vector<int> assigned(AssignBuckets* assign, const Buckets& buckets) {
  constexpr int kUntouched = -7;
  constexpr std::size_t kBeside = 8;
  const std::size_t n = buckets.bytes.size();
  std::vector<int> memory(n + 2 * kBeside, kUntouched);
  assign(buckets.bytes, buckets.first_limit, buckets.limit, std::span(memory).subspan(kBeside, n));
  for (std::size_t i = 0; i < kBeside; ++i) {
    if (memory[i] != kUntouched || memory[kBeside + n + i] != kUntouched)
      reject("something is written beside `buckets`, which has {}", n);
  }
  std::vector<int> found(memory.begin() + kBeside, memory.begin() + static_cast<std::ptrdiff_t>(kBeside + n));
  const auto untouched = std::find(found.begin(), found.end(), kUntouched);
  if (untouched != found.end()) reject("buckets[{}] is left as it was", untouched - found.begin());
  return found;
}

void check_order(const std::vector<int>& found) {
  if (found.empty()) return;
  if (found.front() != 0) reject("gradient 0, which is ready first, is in bucket {}: buckets are numbered from 0", found.front());
  for (std::size_t i = 1; i < found.size(); ++i) {
    if (found[i] < found[i - 1])
      reject("gradient {} is in bucket {} after gradient {} in bucket {}: bucket {} would wait for it while backward goes on", i,
             found[i], i - 1, found[i - 1], found[i]);
    if (found[i] > found[i - 1] + 1) reject("there is no bucket {}: gradient {} is in bucket {}", found[i - 1] + 1, i, found[i]);
  }
}

void check_sizes(const Buckets& buckets, const std::vector<int>& found) {
  std::size_t held = 0, gradients = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::size_t bytes = buckets.bytes[i];
    const bool begins = i == 0 || found[i] != found[i - 1];
    if (begins && i > 0 && held + bytes <= buckets.limit_of(found[i - 1]))
      reject("gradient {} begins bucket {}, but bucket {} of {} bytes had room for its {} (limit {})", i, found[i], found[i - 1],
             held, bytes, buckets.limit_of(found[i - 1]));
    held = begins ? bytes : held + bytes;
    gradients = begins ? 1 : gradients + 1;
    const std::size_t limit = buckets.limit_of(found[i]);
    if (held <= limit || gradients == 1) continue;
    const char* why = held - bytes > limit ? "a gradient that is larger than the limit has a bucket of its own"
                      : found[i] == 0 && held <= buckets.limit ? "bucket 0 has a limit of its own"
                                                               : "what no longer fits begins the next bucket";
    reject("bucket {} holds {} bytes with gradient {}, and may hold {}: {}", found[i], held, i, limit, why);
  }
}

}  // namespace

void grade_buckets(const Library& library, Grading& grading) {
  auto* assign = library.function<AssignBuckets>("assign_buckets");
  const std::vector<Buckets> cases{
      {{60, 60, 60, 60, 60, 60}, 150, 150},
      {{100, 100, 100, 100, 100, 100, 100}, 200, 300},
      {{100, 100, 100, 100, 100, 100, 100}, 300, 300},
      {{60, 60, 60, 60, 60, 60}, 100, 150},
      {{}, 100, 100},
      {{100}, 100, 100},
      {{500}, 100, 100},
      {{500, 50, 40, 500, 500, 10}, 100, 100},
      {{50, 500, 50, 50, 500}, 100, 100},
      {{90, 20, 90, 20, 10, 10}, 100, 100},
      {{0, 100, 0, 0, 500, 0, 100}, 100, 100},
      {{400, 300, 300, 400, 900, 100, 1, 1000, 1}, 300, 1000},
      // one block of GPT-2 124M and its neighbours, in fp32, with the limits of DistributedDataParallel
      {{3072, 3072, 3072, 9437184, 12288, 9437184, 3072, 3072, 3072, 2359296, 9216, 7077888, 3072, 3072, 3145728, 154389504},
       1 << 20,
       25 << 20},
  };
  for (const Buckets& buckets : cases) {
    grading.begin(fmt::format("{}, first_limit {}, limit {}",
                              counted(static_cast<std::int64_t>(buckets.bytes.size()), "gradient"), buckets.first_limit,
                              buckets.limit));
    const std::vector<int> found = assigned(assign, buckets);
    check_order(found);
    check_sizes(buckets, found);
  }
}

}  // namespace cohort::labs::lab02_data_parallel
