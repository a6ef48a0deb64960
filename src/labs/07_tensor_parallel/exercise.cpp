// Lab 7: tensor, sequence and context parallel. What each function has to do is in <cohort/lab07_tensor_parallel.hpp>.
//
//   cohort lab show 7        the handout        cohort lab check 7       are they right?
//   cohort lab hint 7.1      a hint             cohort lab run 7         train with them
#include <cohort/lab07_tensor_parallel.hpp>
#include <span>
#include <vector>

using cohort::lab::Link;
using cohort::lab::not_written;

// 7.1
void column_parallel_linear(Link& link, const LinearSizes& sizes, const LinearPart& part) {
  (void)link, (void)sizes, (void)part;
  not_written();
}

// 7.2
void row_parallel_linear(Link& link, const LinearSizes& sizes, const LinearPart& part) {
  (void)link, (void)sizes, (void)part;
  not_written();
}

// 7.3
void qkv_columns(const HeadSizes& sizes, std::size_t rank, std::size_t ranks, std::span<std::size_t> columns) {
  (void)sizes, (void)rank, (void)ranks, (void)columns;
  not_written();
}

// 7.4
void sequence_all_gather(Link& link, std::span<const float> own, std::span<float> all) {
  (void)link, (void)own, (void)all;
  not_written();
}

// 7.5
void sequence_reduce_scatter(Link& link, std::span<const float> partial, std::span<float> own) {
  (void)link, (void)partial, (void)own;
  not_written();
}

// 7.6
void vocabulary_parallel_cross_entropy(Link& link, const VocabularyPart& part) {
  (void)link, (void)part;
  not_written();
}

// 7.7
void merge_attention(std::span<float> out, float& lse, std::span<const float> part_out, float part_lse) {
  (void)out, (void)lse, (void)part_out, (void)part_lse;
  not_written();
}

// 7.8
void ring_attention(Link& link, QueryBlock& queries, std::span<const float> own, std::span<float> out, std::span<float> lse) {
  (void)link, (void)queries, (void)own, (void)out, (void)lse;
  not_written();
}
