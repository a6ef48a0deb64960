// What the loops of portable kernels read and write: views of a row's elements, which a body gets as floats whatever the memory
// holds. in(x) is read, out(y) is written, in_out(z) both; same(s) is one number for all elements, indices() their numbers.
//
//   row.zip(n, [=](float x, float w, float& y) { y = x * scale * w; }, in(xr), in(weight), out(yr));
//
// Views are why a body says nothing of memory: on a GPU a thread moves a Pack of neighbouring elements with one access of 16
// bytes (a warp that reads 2 bytes a thread has far too few on their way to keep the memory busy), on a host they are the plain
// loads of a vector loop.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <tuple>

#include "base/dtype.hpp"
#include "base/units.hpp"

namespace cohort::ops {

template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T elements[N];
};

/// N elements of a view on their way through a body.
template <class T, int N>
struct HeldIn {
  float values[N];
  KOKKOS_FORCEINLINE_FUNCTION void store() const {}
};
template <class T, int N>
struct HeldOut {
  T* to;
  float values[N];

  KOKKOS_FORCEINLINE_FUNCTION void store() const {
    if constexpr (N == 1) {
      *to = from_float<T>(values[0]);
    } else {
      Pack<T, N> pack;
      for (int i = 0; i < N; ++i) pack.elements[i] = from_float<T>(values[i]);
      *reinterpret_cast<Pack<T, N>*>(to) = pack;
    }
  }
};
template <int N>
struct HeldIndices {
  int values[N];
  KOKKOS_FORCEINLINE_FUNCTION void store() const {}
};

template <int N, class T>
KOKKOS_FORCEINLINE_FUNCTION void load_pack(float (&values)[N], const T* from) {
  if constexpr (N == 1) {
    values[0] = to_float(*from);
  } else {
    const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(from);
    for (int i = 0; i < N; ++i) values[i] = to_float(pack.elements[i]);
  }
}

template <class T>
struct In {
  static constexpr int kElementBytes = sizeof(T);
  const T* data;

  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION HeldIn<T, N> hold(Count c) const {
    HeldIn<T, N> held;
    load_pack(held.values, data + c);
    return held;
  }
  KOKKOS_FORCEINLINE_FUNCTION bool is_aligned() const { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }
};
template <class T>
struct Out {
  static constexpr int kElementBytes = sizeof(T);
  T* data;

  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION HeldOut<T, N> hold(Count c) const {
    return {data + c, {}};
  }
  KOKKOS_FORCEINLINE_FUNCTION bool is_aligned() const { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }
};
template <class T>
struct InOut : Out<T> {
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION HeldOut<T, N> hold(Count c) const {
    HeldOut<T, N> held{this->data + c, {}};
    load_pack(held.values, this->data + c);
    return held;
  }
};
struct Same {
  static constexpr int kElementBytes = sizeof(float);
  float value;

  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION HeldIn<float, N> hold(Count) const {
    HeldIn<float, N> held;
    for (int i = 0; i < N; ++i) held.values[i] = value;
    return held;
  }
  KOKKOS_FORCEINLINE_FUNCTION bool is_aligned() const { return true; }
};
struct ElementIndex {
  static constexpr int kElementBytes = sizeof(float);

  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION HeldIndices<N> hold(Count c) const {
    HeldIndices<N> held;
    for (int i = 0; i < N; ++i) held.values[i] = static_cast<int>(c) + i;
    return held;
  }
  KOKKOS_FORCEINLINE_FUNCTION bool is_aligned() const { return true; }
};

template <class T>
KOKKOS_FORCEINLINE_FUNCTION In<T> in(const T* data) {
  return {data};
}
template <class T>
KOKKOS_FORCEINLINE_FUNCTION Out<T> out(T* data) {
  return {data};
}
template <class T>
KOKKOS_FORCEINLINE_FUNCTION InOut<T> in_out(T* data) {
  return {{data}};
}
KOKKOS_FORCEINLINE_FUNCTION Same same(float value) { return {value}; }
KOKKOS_FORCEINLINE_FUNCTION ElementIndex indices() { return {}; }

/// Elements that a thread of a GPU moves at a time: 16 bytes of the smallest type among the views.
template <class... Views>
inline constexpr int kPackSize = 16 / std::min({4, Views::kElementBytes...});

// Views of all rows of a matrix, for walks down its columns; row(r) is what they are of row r.

template <class T>
struct RowsIn {
  static constexpr int kElementBytes = sizeof(T);
  const T* data;
  Count stride;
  KOKKOS_FORCEINLINE_FUNCTION In<T> row(Count r) const { return {data + r * stride}; }
  bool is_aligned() const { return row(0).is_aligned() && row(1).is_aligned(); }
};
template <class T>
struct RowsOut {
  static constexpr int kElementBytes = sizeof(T);
  T* data;
  Count stride;
  KOKKOS_FORCEINLINE_FUNCTION Out<T> row(Count r) const { return {data + r * stride}; }
  bool is_aligned() const { return row(0).is_aligned() && row(1).is_aligned(); }
};
template <class T>
struct EachRowIn {
  static constexpr int kElementBytes = sizeof(T);
  const T* data;
  KOKKOS_FORCEINLINE_FUNCTION In<T> row(Count) const { return {data}; }
  bool is_aligned() const { return row(0).is_aligned(); }
};
struct NumberOfRow {
  static constexpr int kElementBytes = sizeof(float);
  const float* data;
  KOKKOS_FORCEINLINE_FUNCTION Same row(Count r) const { return {data[r]}; }
  bool is_aligned() const { return true; }
};

/// Row r at data + r * stride.
template <class T>
RowsIn<T> rows_in(const T* data, Count stride) {
  return {data, stride};
}
template <class T>
RowsOut<T> rows_out(T* data, Count stride) {
  return {data, stride};
}
/// The same row for every row: a bias.
template <class T>
EachRowIn<T> each_row_in(const T* data) {
  return {data};
}
/// data[r] for every element of row r.
inline NumberOfRow number_of_row(const float* data) { return {data}; }

/// N elements of each view, from element c on.
template <int N, class... Views>
KOKKOS_FORCEINLINE_FUNCTION auto held_at(Count c, const Views&... views) {
  return std::make_tuple(views.template hold<N>(c)...);  // clang takes std::tuple(...) only for host code
}

/// Packs that a thread of a GPU fetches before it works on the first of them: as many as its registers hold well.
template <class... Views>
inline constexpr int kPacksAhead = (0 + ... + Views::kElementBytes) * kPackSize<Views...> <= 64 ? 2 : 1;

/// body(element, ...) for N elements of the held views, which are then stored.
template <int N, class Body, class... Held>
KOKKOS_FORCEINLINE_FUNCTION void apply(const Body& body, Held... held) {
  for (int i = 0; i < N; ++i) body(held.values[i]...);
  (held.store(), ...);
}

/// term(element, ...) of the one element of each held view, which is then stored. (A loop that sums these itself becomes vector
/// code; one whose sum a body holds by reference does not.)
template <class Term, class... Held>
KOKKOS_FORCEINLINE_FUNCTION auto value_of(const Term& term, Held... held) {
  const auto value = term(held.values[0]...);
  (held.store(), ...);
  return value;
}

}  // namespace cohort::ops
