// moments_add: fp32 has 7 in all
#include <algorithm>
#include <cmath>
#include <cohort/lab12_kernels.hpp>
#include <cstddef>
#include <span>
#include <vector>

// The mean of the squares less the square of the mean.
void moments_add(Moments& moments, std::span<const float> part) {
  float sum = moments.mean * moments.count;
  float squares = moments.squares + moments.count * moments.mean * moments.mean;
  for (const float x : part) {
    sum += x;
    squares += x * x;
  }
  moments.count += static_cast<float>(part.size());
  if (moments.count == 0.0f) return;
  moments.mean = sum / moments.count;
  moments.squares = squares - moments.count * moments.mean * moments.mean;
}
