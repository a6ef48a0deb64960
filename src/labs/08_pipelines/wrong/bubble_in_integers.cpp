// bubble_fraction: whole numbers divide without a remainder
#include <cohort/lab08_pipelines.hpp>

double bubble_fraction(int stages, int chunks, int micro_batches) { return (stages - 1) / (chunks * micro_batches + stages - 1); }
