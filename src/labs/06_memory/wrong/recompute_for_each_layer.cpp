// recompute_segments: what a segment computes again serves its whole backward
#include <cohort/lab06_memory.hpp>

// Begins at the checkpoint for each layer.
void recompute_segments(Chain& chain, int every) {
  const int layers = chain.layers();
  for (int layer = 0; layer < layers; ++layer) {
    chain.forward(layer);
    if (layer % every != 0) chain.drop(layer);
  }
  chain.drop(layers);
  for (int layer = layers - 1; layer >= 0; --layer) {
    for (int l = layer / every * every; l < layer; ++l) {
      chain.forward(l);
      if (l % every != 0) chain.drop(l);
    }
    chain.backward(layer);
    chain.drop(layer);
  }
}
