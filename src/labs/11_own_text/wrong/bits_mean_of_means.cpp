// bits_per_byte: that is the mean of the batches' losses
#include <algorithm>
#include <cmath>
#include <cohort/lab11_own_text.hpp>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

// The mean of means.
double bits_per_byte(std::span<const MeasuredBatch> batches) {
  double nats = 0.0, tokens = 0.0, bytes = 0.0;
  for (const MeasuredBatch& batch : batches) {
    nats += batch.nats_per_token;
    tokens += static_cast<double>(batch.tokens);
    bytes += static_cast<double>(batch.bytes);
  }
  return nats / static_cast<double>(batches.size()) * tokens / std::log(2.0) / bytes;
}
