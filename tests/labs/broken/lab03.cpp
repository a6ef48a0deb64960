// What a grader must live through: an endless loop, a crash, a write beside the data, the end of the program.
#include <cohort/lab03_collectives.hpp>
#include <cstdlib>
#include <span>

void naive_all_reduce(cohort::lab::Link& link, std::span<float>) {
  volatile int rank = link.rank();
  while (rank >= 0) {
  }
}

void tree_all_reduce(cohort::lab::Link&, std::span<float> data) {
  volatile float* volatile nowhere = nullptr;
  nowhere[data.size()] = 1.0f;
}

void ring_all_reduce(cohort::lab::Link&, std::span<float> data) { data.data()[data.size() + 2] = 1.0f; }

AllReduceSeconds predict_all_reduce(int, double, double, double) { std::exit(0); }
