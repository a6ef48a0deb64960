// Lab 3: collectives from send and receive. An all-reduce leaves the sum over all ranks in every rank's data:
//
//   data[i] <- sum over ranks of data[i]
//
// All ranks call the function at the same time, with as many elements each: any number, also none or fewer than there are ranks.
// All must end with the same bits: who adds in another order than the others gets another rounding.
#pragma once

#include <cohort/lab.hpp>
#include <span>

extern "C" {

/// 3.1: every rank sends its data to rank 0, which adds them up and sends the sum back.
void naive_all_reduce(cohort::lab::Link& link, std::span<float> data);

/// 3.2: in rounds. In the first, ranks with an odd number hand their data to the rank before them, which adds it, and are done;
/// in the second, every other one of those left does, at twice the distance; and so on until rank 0 has the sum. It goes back the
/// same way, last round first. No more than 2 ceil(log2 n) messages one after the other, for any n: a rank without a partner
/// waits for the next round.
void tree_all_reduce(cohort::lab::Link& link, std::span<float> data);

/// 3.3: the data in n blocks, block b from element b * N / n on. In n - 1 steps every rank sends a block to the next rank (the
/// last one's next is rank 0) and adds the block that comes from the one before: then each rank has the whole sum of one block.
/// In n - 1 more steps these blocks go around. A rank sends 2 (n - 1) / n times its data in all, whatever n is.
void ring_all_reduce(cohort::lab::Link& link, std::span<float> data);

/// 3.4: how long they take, by the cost model: a message of so many bytes takes latency + bytes / bandwidth seconds (bandwidth in
/// bytes a second), a rank sends one and receives one at a time, and adding is free. For any number of ranks from 1 on.
struct AllReduceSeconds {
  double naive;  // rank 0 receives from one rank after the other, and sends to one after the other
  double tree;
  double ring;
};
AllReduceSeconds predict_all_reduce(int ranks, double bytes, double latency, double bandwidth);
}
