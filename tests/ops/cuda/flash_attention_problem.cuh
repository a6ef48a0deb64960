// A problem for the flash attention kernels: inputs on the device and the right results, and what a kernel's results are off by.
// Only for tests.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ops/cuda/attention/flash_attention.hpp"
#include "ops/cuda/flash_attention_reference.cuh"

namespace cohort::ops::cuda {

inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("FAIL %s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}
inline void finish(const char* what) {
  check_cuda(cudaGetLastError(), what);
  check_cuda(cudaDeviceSynchronize(), what);
}

/// Device memory full of NaN (bytes 0xff), with as much before and after it: a kernel that reads past the end meets NaN, and one
/// that writes there is seen by `guards_intact`.
class Buffer {
 public:
  explicit Buffer(Bytes bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    check_cuda(cudaMalloc(&base_, bytes_ + 2 * kGuard), "cudaMalloc");
    poison();
  }
  ~Buffer() { cudaFree(base_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void poison() { check_cuda(cudaMemset(base_, 0xff, bytes_ + 2 * kGuard), "cudaMemset"); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(base_ + kGuard);
  }
  std::vector<unsigned char> bytes() const { return copy(kGuard, bytes_); }
  bool guards_intact() const {
    const auto intact = [](const std::vector<unsigned char>& guard) {
      return std::all_of(guard.begin(), guard.end(), [](unsigned char byte) { return byte == 0xff; });
    };
    return intact(copy(0, kGuard)) && intact(copy(kGuard + bytes_, kGuard));
  }

 private:
  static constexpr std::size_t kGuard = 4096;
  std::vector<unsigned char> copy(std::size_t from, std::size_t count) const {
    std::vector<unsigned char> result(count);
    check_cuda(cudaMemcpy(result.data(), base_ + from, count, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return result;
  }
  unsigned char* base_ = nullptr;
  std::size_t bytes_;
};

struct Rung {
  const char* name;
  bool dropout;
  bool (*supports)(DType, const AttentionShape&);
  Bytes (*scratch_bytes)(const AttentionShape&, DType);
  void (*forward)(DType, const AttentionShape&, void* out, float* lse, const void* qkv, const FlashDropout&);
  void (*backward)(DType, const AttentionShape&, void* dqkv, const void* dout, const void* out, const float* lse, const void* qkv,
                   void* scratch, const FlashDropout&);
};

template <class F>
void with_element(DType dtype, const F& f) {
  if (dtype == DType::f32) {
    f(float{});
  } else if (dtype == DType::bf16) {
    f(__nv_bfloat16{});
  } else {
    f(__half{});
  }
}

/// out, lse, dq, dk, dv.
constexpr int kParts = 5;

/// One problem: inputs on the device, and the right results.
class Problem {
 public:
  Problem(DType dtype, const AttentionShape& s, double dropout)
      : dtype_(dtype),
        s_(s),
        qkv_(rows() * s.packed_width() * element_bytes()),
        dout_(rows() * s.width() * element_bytes()),
        slots_(s.batch * static_cast<Bytes>(sizeof(Count))),
        out_ref_(rows() * s.width() * 8),
        lse_ref_(rows() * s.heads * 8),
        delta_ref_(rows() * s.heads * 8),
        dqkv_ref_(rows() * s.packed_width() * 8) {
    std::vector<Count> slots;
    for (Count b = 0; b < s.batch; ++b) slots.push_back(3 + 2 * (s.batch - b));
    check_cuda(cudaMemcpy(slots_.as<Count>(), slots.data(), slots.size() * sizeof(Count), cudaMemcpyHostToDevice), "slots");
    if (dropout > 0.0) {
      dropout_ = {static_cast<std::uint64_t>(std::ceil(std::ldexp(dropout, 53))),
                  static_cast<float>(1.0 / (1.0 - dropout)),
                  0x123456789abcdefULL,
                  17,
                  3,
                  slots_.as<Count>()};
    }
    with_element(dtype, [&](auto element) { prepare(element, dropout); });
    finish("reference");
  }

  Count rows() const { return s_.batch * s_.tokens; }
  Bytes element_bytes() const { return dtype_ == DType::f32 ? 4 : 2; }

  struct Results {
    Results(const Problem& p, const Rung& rung)
        : out(p.rows() * p.s_.width() * p.element_bytes()),
          lse(p.rows() * p.s_.heads * 4),
          dqkv(p.rows() * p.s_.packed_width() * p.element_bytes()),
          scratch(rung.scratch_bytes(p.s_, p.dtype_)) {
      rung.forward(p.dtype_, p.s_, out.as<void>(), lse.as<float>(), p.qkv_.as<void>(), p.dropout_);
      finish("forward");
      rung.backward(p.dtype_, p.s_, dqkv.as<void>(), p.dout_.as<void>(), out.as<void>(), lse.as<float>(), p.qkv_.as<void>(),
                    scratch.as<void>(), p.dropout_);
      finish("backward");
    }
    bool guards_intact() const {
      return out.guards_intact() && lse.guards_intact() && dqkv.guards_intact() && scratch.guards_intact();
    }
    bool same_bits(const Results& other) const {
      return out.bytes() == other.out.bytes() && lse.bytes() == other.lse.bytes() && dqkv.bytes() == other.dqkv.bytes();
    }
    Buffer out, lse, dqkv, scratch;
  };

  /// The errors of all parts; those of dq, dk and dv relative to the size of dqkv.
  std::vector<double> errors(const Results& r) const {
    std::vector<double> result;
    with_element(dtype_, [&](auto element) {
      using Element = decltype(element);
      const Count q = s_.heads * s_.head_size;
      const Count k = q + s_.kv_heads * s_.head_size;
      const Count w = s_.packed_width();
      const auto dqkv = r.dqkv.as<Element>();
      const double whole = compare(dqkv, dqkv_ref_, rows(), w, 0, w).size;
      const auto part = [&](Count begin, Count end) {
        return compare(dqkv, dqkv_ref_, rows(), w, begin, end).difference / whole;
      };
      const Norms out = compare(r.out.as<Element>(), out_ref_, rows(), s_.width(), 0, s_.width());
      const Norms lse = compare(r.lse.as<float>(), lse_ref_, s_.batch * s_.heads, s_.tokens, 0, s_.tokens);
      result = {out.difference / out.size, lse.difference / lse.size, part(0, q), part(q, k), part(k, w)};
    });
    return result;
  }

 private:
  struct Norms {
    double difference, size;
  };
  template <class Element>
  static Norms compare(const Element* x, const Buffer& reference, Count rows, Count width, Count begin, Count end) {
    const Buffer sums(16);
    check_cuda(cudaMemset(sums.as<double>(), 0, 16), "cudaMemset");
    reference::compare<<<256, 256>>>(sums.as<double>(), x, reference.as<double>(), rows, width, begin, end);
    finish("compare");
    double host[2];
    check_cuda(cudaMemcpy(host, sums.as<double>(), 16, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return {std::sqrt(host[0]), std::sqrt(host[1])};
  }

  template <class Element>
  void prepare(Element, double dropout) {
    const auto qkv = qkv_.as<Element>();
    const auto dout = dout_.as<Element>();
    // Variance 1, and 4 for the queries: scores of variance 4 make weights from e^-6 to e^6 and a maximum that moves.
    const double range = std::sqrt(3.0);
    reference::fill<<<256, 256>>>(qkv, rows() * s_.packed_width(), s_.packed_width(), s_.width(), range, 1u);
    reference::fill<<<256, 256>>>(dout, rows() * s_.width(), s_.width(), Count{0}, range, 2u);
    const reference::Problem p{s_.tokens,     s_.heads,      s_.kv_heads,    s_.head_size,      dropout,
                               dropout_.seed, dropout_.step, dropout_.layer, slots_.as<Count>()};
    const auto blocks = static_cast<unsigned>(rows() * s_.heads);
    const auto kv_blocks = static_cast<unsigned>(rows() * s_.kv_heads);
    const std::size_t shared = static_cast<std::size_t>(s_.tokens) * sizeof(double);
    const auto lse = lse_ref_.as<double>();
    const auto delta = delta_ref_.as<double>();
    const auto dqkv = dqkv_ref_.as<double>();
    reference::forward<<<blocks, reference::kThreads, shared>>>(p, out_ref_.as<double>(), lse, delta, qkv, dout);
    reference::backward_queries<<<blocks, reference::kThreads, shared>>>(p, dqkv, lse, delta, qkv, dout);
    reference::backward_keys<<<kv_blocks, reference::kThreads, 2 * shared>>>(p, dqkv, lse, delta, qkv, dout);
  }

  DType dtype_;
  AttentionShape s_;
  FlashDropout dropout_;
  Buffer qkv_, dout_, slots_, out_ref_, lse_ref_, delta_ref_, dqkv_ref_;
};

}  // namespace cohort::ops::cuda
