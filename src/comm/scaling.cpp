#include "comm/scaling.hpp"

#include "base/error.hpp"

namespace cohort {

void divide(void* data, Count elements, DType dtype, int divisor) {
  const auto by = static_cast<float>(divisor);
  switch (dtype) {
    case DType::f32: {
      auto* x = static_cast<float*>(data);
      for (Count i = 0; i < elements; ++i) x[i] /= by;
      return;
    }
    case DType::f64: {
      auto* x = static_cast<double*>(data);
      for (Count i = 0; i < elements; ++i) x[i] /= divisor;
      return;
    }
    case DType::bf16: {
      auto* x = static_cast<bf16*>(data);
      for (Count i = 0; i < elements; ++i) x[i] = to_bf16(to_float(x[i]) / by);
      return;
    }
    case DType::f16: {
      auto* x = static_cast<f16*>(data);
      for (Count i = 0; i < elements; ++i) x[i] = to_f16(to_float(x[i]) / by);
      return;
    }
    case DType::i32:
    case DType::i64:
    case DType::u8:
      break;
  }
  COHORT_CHECK(false, "division of {} was asked for", name_of(dtype));
}

}  // namespace cohort
