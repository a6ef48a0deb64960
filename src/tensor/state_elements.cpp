#include "tensor/state_elements.hpp"

namespace cohort {

StateElements StateElements::slice(Count begin, Count end) const {
  if (!file_) return memory_.slice(begin, end);
  COHORT_CHECK(0 <= begin && begin <= end && end <= elements_, "elements {} to {} of {}", begin, end, elements_);
  return {file_, offset_ + begin * size_of(DType::f32), end - begin};
}

Tensor StateElements::to_host() const {
  if (!file_) return memory_.to_host();
  const Tensor host = Tensor::zeros("state", {elements_});
  file_->read(offset_, host.raw(), host.bytes()).wait();
  return host;
}

void StateElements::copy_to(const Tensor& host) const {
  if (!file_) return host.copy_from(memory_);
  COHORT_CHECK(host.on_host() && host.elements() == elements_, "{} elements copied to {}", elements_, host.elements());
  file_->read(offset_, host.raw(), host.bytes()).wait();
}

void StateElements::copy_from(const Tensor& other) const {
  if (!file_) return memory_.copy_from(other);
  COHORT_CHECK(other.elements() == elements_ && other.dtype() == DType::f32, "{} {} elements into {} of fp32", other.elements(),
               name_of(other.dtype()), elements_);
  const Tensor host = other.to_host();
  file_->write(offset_, host.raw(), host.bytes()).wait();
}

void StateElements::overwrite(const std::function<void(std::span<float>)>& fill) const {
  if (!file_ && memory_.on_host()) return fill(memory_.span<float>());
  const Tensor host = Tensor::zeros("state", {elements()});
  fill(host.span<float>());
  copy_from(host);
}

}  // namespace cohort
