// barrier: rank 1 leaves, although no message has told it, directly or through others, that rank 0 has entered
#include <algorithm>
#include <array>
#include <cmath>
#include <cohort/lab04_nodes.hpp>
#include <string>
#include <vector>

using cohort::lab::Link;

// Believes that a rank whose message was sent knows that the receiver is there.
void barrier(Link& link) {
  std::array<float, 1> word{};
  if (link.rank() != 0) return link.send(0, word);
  for (int other = 1; other < link.ranks(); ++other) link.receive(other, word);
}
