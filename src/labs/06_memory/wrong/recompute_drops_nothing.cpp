// recompute_segments: activations are held at the same time
#include <algorithm>
#include <cohort/lab06_memory.hpp>

// What was computed again is never given up.
void recompute_segments(Chain& chain, int every) {
  const int layers = chain.layers();
  for (int layer = 0; layer < layers; ++layer) {
    chain.forward(layer);
    if (layer % every != 0) chain.drop(layer);
  }
  chain.drop(layers);
  for (int begin = (layers - 1) / every * every; begin >= 0; begin -= every) {
    const int end = std::min(begin + every, layers);
    for (int layer = begin; layer < end - 1; ++layer) chain.forward(layer);
    for (int layer = end - 1; layer >= begin; --layer) chain.backward(layer);
  }
}
