#include "data/token_documents.hpp"

#include <cstdint>

#include "base/error.hpp"

namespace cohort {

std::optional<Count> document_at(const TokenFile& file, Split split, Count token) {
  COHORT_CHECK(token >= 0 && token < file.tokens(split), "token {} of {} in {}", token, file.tokens(split), name_of(split));
  const Count documents = file.documents(split);
  if (documents == 0) return std::nullopt;
  Count low = 0, high = documents;  // entry `low` is at or before the token, entry `high` behind it
  while (high - low > 1) {
    const Count middle = low + (high - low) / 2;
    std::uint64_t start = 0;
    file.read_documents(split, middle, {&start, 1});
    (static_cast<Count>(start) <= token ? low : high) = middle;
  }
  return low;
}

}  // namespace cohort
