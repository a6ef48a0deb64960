// qkv_columns: not column 0 of value head
#include <algorithm>
#include <cohort/lab07_tensor_parallel.hpp>
#include <span>

// Forgets that there may be fewer key heads than query heads.
void qkv_columns(const HeadSizes& sizes, std::size_t rank, std::size_t ranks, std::span<std::size_t> columns) {
  const std::size_t queries = sizes.heads / ranks, keys = std::max<std::size_t>(1, sizes.kv_heads / ranks);
  const std::size_t first_query = rank * queries;
  const std::size_t first_key = first_query / (sizes.heads / sizes.kv_heads);
  auto next = columns.begin();
  const auto take = [&](std::size_t head, std::size_t heads) {
    for (std::size_t column = head * sizes.head_size; column < (head + heads) * sizes.head_size; ++column) *next++ = column;
  };
  take(first_query, queries);
  take(sizes.heads + first_key, keys);
  take(2 * sizes.heads + first_key, keys);
}
