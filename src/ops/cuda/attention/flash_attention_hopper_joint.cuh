// The backward kernel of heads of 64 that sums dq, dk and dv at once, in the 5 products that are needed. Notation as in
// flash_attention_hopper_backward.cuh.
//
// A block owns tiles of 128 keys of one key/value head, 64 keys a warpgroup, and walks over steps of 128 queries, from the last
// one down to the diagonal, and in each over the query heads of the group. Scores are transposed: rows are keys, columns queries.
// p and ds come out of the score products as left operands of dv and dk. ds also goes through shared memory, where it meets all
// 128 keys: each warpgroup computes what the tile adds to dq of 64 of the step's queries. These sums leave by the copy engine,
// which adds them in the L2 cache to fp32 scratch.
//
// Same bits on every run: to each row of dq tiles add in the order of their keys. A turn says how many have added, and a thread
// that does nothing else waits for it. A tile waits for tiles that were taken before it alone, and each block works on its tiles
// in the order in which it took them: so the first of all unfinished tiles never waits. As all walk in one direction, each a step
// behind the one before it, they wait at their first steps only.
#pragma once

#include "ops/cuda/attention/flash_attention_hopper.cuh"
#include "ops/cuda/attention/flash_attention_hopper_joint.hpp"

namespace cohort::ops::cuda::hopper::joint {

inline constexpr int kTile = 128;  // keys of a block's tile, and queries of a step
inline constexpr int kGroups = 2;  // warpgroups that compute
inline constexpr int kTiles = 2;   // in shared memory: the next one is loaded while a block works on one
inline constexpr int kStages = 2;
inline constexpr int kThreads = (kGroups + 1) * kWarpgroupThreads;
inline constexpr int kLoadRegisters = 24, kComputeRegisters = 240;
inline constexpr int kRowsElements = kRows * kHeadSize;  // of 64 rows of a head

/// Of 64 queries: lse in units of log2, d, and the first key that each sees. Rows beyond the last query have lse = infinity,
/// which makes their weights 0.
struct Statistics {
  float lse_log2[kRows];
  float dot[kRows];
  int first_key[kRows];  // with documents
};

/// Scratch. For each head over all samples, and each step of its queries: statistics, turns and sums of both warpgroups' 64 rows.
struct Scratch {
  Statistics* statistics;  // [steps][2]
  unsigned* turns;         // [steps][2], how many tiles have added to the sums
  float* sums;             // [steps][2][64 * 64], as float4 [8][128 threads] of fragments; dq / scale
};

__host__ __device__ inline int steps_of(const Problem& problem) { return (problem.queries + kTile - 1) / kTile; }

template <class T>
struct alignas(1024) Shared {
  T keys[kTiles][kTile * kHeadSize], values[kTiles][kTile * kHeadSize];
  T streamed[kStages][2][kTile * kHeadSize];  // queries, output gradients
  T dscores[kGroups][kTile * kRows];          // of each 64 queries: rows are the tile's keys
  float sums[kGroups][kRowsElements];
  Statistics statistics[kStages][2];
  Barrier tile_full[kTiles], tile_empty[kTiles];
  Barrier streamed_full[kStages], streamed_empty[kStages];
  Barrier dscores_full, dscores_empty;
  Barrier sums_full[kGroups], sums_empty[kGroups];
  int tile[kTiles];  // whose keys and values these are, written before tile_full; -1: no more

  __device__ void init() {
    constexpr int kWarps = 4 * kGroups;  // that compute; one arrival each
    for (int slot = 0; slot < kTiles; ++slot) {
      barrier_init(&tile_full[slot], 1);
      barrier_init(&tile_empty[slot], kWarps + kGroups);
    }
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(&streamed_full[stage], 1);
      barrier_init(&streamed_empty[stage], kWarps);
    }
    barrier_init(&dscores_full, kWarps);
    barrier_init(&dscores_empty, kWarps);
    for (int group = 0; group < kGroups; ++group) {
      barrier_init(&sums_full[group], kWarps / kGroups);
      barrier_init(&sums_empty[group], 1);
    }
    barrier_init_fence();
  }
};

template <class T>
inline constexpr int kSharedBytes = sizeof(Shared<T>) + 1024;  // room to align the start

/// The tile of the first keys is the heaviest, and has the first turn of every step.
template <bool DOCUMENTS>
struct KeyTile {
  int sample, kv_head;
  int level, row;             // number of the tile in its head, and its first key
  int first_step, last_step;  // of queries that see any of the keys; the first is on the diagonal

  __device__ KeyTile(const Problem& problem, int index) {
    const Tile tile = tile_at(problem.order, index);
    sample = tile.head / problem.kv_heads;
    kv_head = tile.head % problem.kv_heads;
    level = first_step = tile.level;
    row = level * kTile;
    last_step = joint::steps_of(problem) - 1;
    if constexpr (DOCUMENTS) {
      const int end = problem.end_of_queries(sample, min(row + kTile, problem.keys));
      last_step = max(first_step, min((end - 1) / kTile, last_step));
    }
  }
  /// How many tiles add to a step's sums before this one.
  __device__ int turn(const Problem& problem, int step) const {
    if constexpr (DOCUMENTS) return level - problem.hidden_keys(sample, step * kTile) / kTile;
    return level;
  }
  /// Where the first 64 rows of a step have their place in scratch, for query head number `member` of the group.
  __device__ Count place(const Problem& problem, int member, int step) const {
    const Count head = static_cast<Count>(sample) * problem.heads + kv_head * problem.group() + member;
    return 2 * (head * joint::steps_of(problem) + step);
  }
};

template <class T, bool DOCUMENTS>
__device__ void load(Shared<T>& shared, const CUtensorMap* q, const CUtensorMap* kv, const CUtensorMap* dout,
                     const Statistics* statistics, const Problem& problem) {
  constexpr std::uint32_t kStepBytes = sizeof(shared.streamed[0]) + sizeof(shared.statistics[0]);
  RingPosition<kStages> ring;
  for (RingPosition<kTiles> slot;; slot.advance()) {
    const int index = take_tile(problem);
    Barrier* const tile_full = &shared.tile_full[slot.stage];
    barrier_wait(&shared.tile_empty[slot.stage], slot.parity ^ 1);
    shared.tile[slot.stage] = index;
    if (index < 0) return barrier_arrive(tile_full);
    const KeyTile<DOCUMENTS> tile(problem, index);
    barrier_arrive_expecting(tile_full, sizeof(shared.keys[0]) + sizeof(shared.values[0]));
    load_rows<T, kHeadSize, kTile>(shared.keys[slot.stage], kv, tile_full, problem.key_column(tile.kv_head, kHeadSize), tile.row,
                                   tile.sample);
    load_rows<T, kHeadSize, kTile>(shared.values[slot.stage], kv, tile_full, problem.value_column(tile.kv_head, kHeadSize),
                                   tile.row, tile.sample);
    for (int step = tile.last_step; step >= tile.first_step; --step) {
      for (int member = 0; member < problem.group(); ++member, ring.advance()) {
        const int column = (tile.kv_head * problem.group() + member) * kHeadSize;
        Barrier* const full = &shared.streamed_full[ring.stage];
        barrier_wait(&shared.streamed_empty[ring.stage], ring.parity ^ 1);
        barrier_arrive_expecting(full, kStepBytes);
        load_bytes(&shared.statistics[ring.stage], statistics + tile.place(problem, member, step), sizeof(shared.statistics[0]),
                   full);
        load_rows<T, kHeadSize, kTile>(shared.streamed[ring.stage][0], q, full, column, step * kTile, tile.sample);
        load_rows<T, kHeadSize, kTile>(shared.streamed[ring.stage][1], dout, full, column, step * kTile, tile.sample);
      }
    }
  }
}

__device__ inline unsigned acquire(const unsigned* turn) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(turn) : "memory");
  return value;
}
__device__ inline void release(unsigned* turn, unsigned value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn), "r"(value) : "memory");
}

/// Waits for the turn; in test builds no longer than for a barrier.
__device__ inline void wait_for(const unsigned* turn, unsigned value) {
#ifdef COHORT_HOPPER_BOUNDED_WAITS
  const long long start = clock64();
  while (acquire(turn) != value) {
    if (clock64() - start > 4'000'000'000LL) __trap();
  }
#else
  while (acquire(turn) != value) {
  }
#endif
}

/// One thread for each warpgroup's sums: adds them where and when it is their turn. The first of all stores them.
template <class T, bool DOCUMENTS>
__device__ void add_sums(Shared<T>& shared, const Problem& problem, const Scratch& scratch, int group) {
  std::uint32_t full = 0;  // parity of the next sums
  for (RingPosition<kTiles> slot;; slot.advance()) {
    barrier_wait(&shared.tile_full[slot.stage], slot.parity);
    const int index = shared.tile[slot.stage];
    barrier_arrive(&shared.tile_empty[slot.stage]);
    if (index < 0) return;
    const KeyTile<DOCUMENTS> tile(problem, index);
    for (int step = tile.last_step; step >= tile.first_step; --step) {
      const int turn = tile.turn(problem, step);
      for (int member = 0; member < problem.group(); ++member, full ^= 1) {
        const Count place = tile.place(problem, member, step) + group;
        float* const sums = scratch.sums + place * kRowsElements;
        if (turn > 0) wait_for(scratch.turns + place, turn);
        writes_fence();
        barrier_wait(&shared.sums_full[group], full);
        if (turn > 0) {
          add_floats(sums, shared.sums[group], sizeof(shared.sums[group]));
        } else {
          store_bytes(sums, shared.sums[group], sizeof(shared.sums[group]));
        }
        stores_commit();
        stores_wait_read();
        barrier_arrive(&shared.sums_empty[group]);
        stores_wait();
        writes_fence();
        release(scratch.turns + place, turn + 1);
      }
    }
  }
}

}  // namespace cohort::ops::cuda::hopper::joint
