// qkv_columns: not column 0 of key head 0
#include <algorithm>
#include <cohort/lab07_tensor_parallel.hpp>
#include <span>

// With more ranks than key heads several ranks need the same one.
void qkv_columns(const HeadSizes& sizes, std::size_t rank, std::size_t ranks, std::span<std::size_t> columns) {
  const std::size_t queries = sizes.heads / ranks, keys = std::max<std::size_t>(1, sizes.kv_heads / ranks);
  const std::size_t first_query = rank * queries;
  const std::size_t first_key = rank * keys;
  auto next = columns.begin();
  const auto take = [&](std::size_t head, std::size_t heads) {
    for (std::size_t column = head * sizes.head_size; column < (head + heads) * sizes.head_size; ++column) *next++ = column;
  };
  take(first_query, queries);
  take(sizes.heads + first_key, keys);
  take(sizes.heads + sizes.kv_heads + first_key, keys);
}
