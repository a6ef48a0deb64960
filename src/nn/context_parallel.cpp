#include "nn/context_parallel.hpp"

#include "nn/context.hpp"
#include "ops/embedding.hpp"

namespace cohort {

Tensor position_rows(const StepContext& context, const Tensor& table, Count tokens) {
  if (context.cache != nullptr || !context.documents.empty()) {  // each row has its own position: what an embedding is
    const Tensor rows = context.activations->take({tokens, table.shape().columns()}, table.dtype());
    const auto positions = context.cache != nullptr ? context.cache->places().positions : context.documents.positions;
    ops::embedding_forward(context.exec, rows, positions, table, {});
    return rows;
  }
  if (context.sequence == nullptr) return table.slice(0, tokens);
  const ops::TokenRows here = context.sequence->rows();
  COHORT_CHECK(tokens == here.count(), "samples of {} tokens here, where {} of {} were to be", tokens, here.count(), here.tokens);
  const Tensor rows = context.activations->take({tokens, table.shape().columns()}, table.dtype());
  for (const ops::TokenRun& run : here.runs)
    rows.slice(run.row, run.row + run.count).copy_from(table.slice(run.position, run.position + run.count));
  return rows;
}

void add_position_rows(const StepContext& context, const Tensor& table, const Tensor& rows) {
  for (const ops::TokenRun& run : context.sequence->rows().runs) {
    const Tensor part = table.slice(run.position, run.position + run.count);
    ops::add(context.exec, part, part, rows.slice(run.row, run.row + run.count));
  }
}

}  // namespace cohort
