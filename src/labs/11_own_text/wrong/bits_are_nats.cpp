// bits_per_byte: those are nats per byte
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

// Nats.
double bits_per_byte(std::span<const MeasuredBatch> batches) {
  double nats = 0.0, tokens = 0.0, bytes = 0.0;
  for (const MeasuredBatch& batch : batches) {
    nats += batch.nats_per_token * static_cast<double>(batch.tokens);
    tokens += static_cast<double>(batch.tokens);
    bytes += static_cast<double>(batch.bytes);
  }
  (void)tokens, (void)bytes;
  return nats / bytes;
}
