// all_gather: which is that of element
#include <cohort/lab06_memory.hpp>
#include <cstddef>
#include <span>

using cohort::lab::Link;

namespace {

std::span<float> block(Link& link, std::span<float> data, int b) {
  const int n = link.ranks();
  const std::size_t length = data.size() / static_cast<std::size_t>(n);
  return data.subspan(static_cast<std::size_t>((b % n + n) % n) * length, length);
}

}  // namespace

// Puts blocks behind each other as they come.
void all_gather(Link& link, std::span<float> data) {
  const int n = link.ranks(), next = (link.rank() + 1) % n, before = (link.rank() + n - 1) % n;
  for (int step = 0; step < n - 1; ++step)
    link.exchange(next, block(link, data, link.rank() + step), before, block(link, data, link.rank() + step + 1));
}
