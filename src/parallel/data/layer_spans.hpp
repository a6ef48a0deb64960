// Each layer of a pass as a span of the trace (observe/tracer.hpp), taken from the hooks: forward from pre_forward to
// post_forward, backward from pre_backward (where there is none, pre_gradient) until its first gradient is ready. What the
// strategy does in its own hooks at both ends is outside.
#pragma once

#include <optional>

#include "nn/hooks.hpp"
#include "observe/tracer.hpp"

namespace cohort {

/// To be given to a model in the place of `inner`, which is called as ever.
class LayerSpans : public Hooks {
 public:
  explicit LayerSpans(Hooks& inner) : inner_(inner) {}

  void pre_forward(const Unit& unit) override {
    inner_.pre_forward(unit);
    open(unit, "forward");
  }
  void post_forward(const Unit& unit) override {
    close();
    inner_.post_forward(unit);
  }
  void pre_backward(const Unit& unit) override {
    close();
    inner_.pre_backward(unit);
    open(unit, "backward");
  }
  void pre_gradient(const Unit& unit) override {
    const bool inside = unit_ == &unit;
    if (!inside) close();
    inner_.pre_gradient(unit);
    if (!inside) open(unit, "backward");
  }
  void grad_ready(Parameter& parameter) override {
    close();
    inner_.grad_ready(parameter);
  }
  void end_pass() override {
    close();
    inner_.end_pass();
  }

 private:
  void open(const Unit& unit, const char* pass) {
    unit_ = &unit;
    span_.emplace(unit.name.c_str(), pass);
  }
  void close() {
    span_.reset();
    unit_ = nullptr;
  }

  Hooks& inner_;
  const Unit* unit_ = nullptr;  // whose span is open
  std::optional<TraceScope> span_;
};

}  // namespace cohort
