// Replicas that are threads of one process: their all-reduces are sums in memory, and who waits for what nobody else begins is
// rejected in that moment.
#pragma once

#include <cohort/lab02_data_parallel.hpp>
#include <functional>

namespace cohort::labs {

/// Calls `work` on every rank at the same time. A sum is made of what the data were when each rank began it, and put into them
/// when it is waited for. Rejected: ranks wait for each other; two ranks disagree on the length of an all-reduce; data change
/// while an all-reduce of them is under way; a request is waited for that was never begun. What `work` throws on a rank is thrown
/// here, that of the lowest rank.
void run_replicas(int ranks, const std::function<void(lab::Replicas&)>& work);

}  // namespace cohort::labs
