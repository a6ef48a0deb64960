// stop_in_time: all go on after step 3, in which a rank was signalled
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab10_operations.hpp>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

using cohort::lab::Link;

// Rank 0 alone is asked.
bool stop_in_time(Link& link, bool signalled) {
  std::array<float, 1> word{signalled ? 1.0f : 0.0f}, heard{};
  int distance = 1;
  for (; distance < link.ranks(); distance *= 2) {
    if (link.rank() % (2 * distance) != 0) {
      link.receive(link.rank() - distance, word);
      break;
    }
  }
  for (distance /= 2; distance > 0; distance /= 2) {
    if (link.rank() + distance < link.ranks()) link.send(link.rank() + distance, word);
  }
  return word[0] > 0.0f || heard[0] > 0.0f;
}
