#include "tensor/convert.hpp"

#include "base/counting_listener.hpp"
#include "tensor/spaces.hpp"
#include "tensor/storage_type.hpp"

namespace cohort {
namespace {

template <class To, class From>
void convert_elements(DeviceKind device, Count n, To* to, const From* from) {
  for_each_index(
      device, "cohort::convert", n, KOKKOS_LAMBDA(Count i) { to[i] = from_float<To>(to_float(from[i])); });
}

}  // namespace

void convert(const Tensor& to, const Tensor& from) {
  COHORT_CHECK(to.elements() == from.elements() && to.device() == from.device(), "convert: {} on {} from {} on {}",
               to.shape().str(), name_of(to.device()), from.shape().str(), name_of(from.device()));
  note_traffic("convert", from.dtype(), to.bytes() + from.bytes());
  with_storage_type(to, [&]<class To>(To) {
    with_storage_type(from, [&]<class From>(From) {
      convert_elements<To, From>(to.device(), to.elements(), to.data<To>(), from.data<From>());
    });
  });
}

Tensor to_host_fp32(const Tensor& tensor) {
  Tensor host = tensor.to_host();
  if (host.dtype() == DType::f32) return host;
  Tensor fp32 = Tensor::zeros("host copy", host.shape());
  convert(fp32, host);
  return fp32;
}

}  // namespace cohort
