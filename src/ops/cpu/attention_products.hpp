// The matrix products of attention_head.hpp: a tile of queries against the keys that they see. With a tile kernel they read
// their matrices where they lie, but for the transposes of keys and values, and leave out what no query of eight sees; without
// one the library computes the whole tile.
#pragma once

#include "ops/cpu/tile_kernel.hpp"
#include "ops/gemm.hpp"

namespace cohort::ops {

/// Which keys [begin[i], end[i]) of a tile each query i sees. Neither begin nor end descends.
struct SeenKeys {
  const Count* begin;
  const Count* end;
};

/// The kernel for heads of this size; null: the library is used. So it is, too, where this thread's products have several
/// threads.
cpu::TileKernel attention_kernel(Count head_size);

/// Elements that pack_keys writes.
Count packed_key_elements(Count keys, Count head_size);

/// The transpose of keys [keys, HS] as scores() reads it.
void pack_keys(float* packed, const MatrixView& keys);

/// c [queries, keys] = a b^T where a query sees the key; elsewhere anything. `packed` is what pack_keys made of b, or, of a
/// panel's multiple of keys further on (kTileColumns), that much of it; not used without a kernel.
void scores(const Exec& exec, cpu::TileKernel kernel, const SeenKeys& seen, const MatrixView& c, const MatrixView& a,
            const MatrixView& b, const float* packed);

/// c [queries, HS] = w b or, with `add`, += w b. w [queries, keys] is 0 where a query does not see the key.
void times_keys(const Exec& exec, cpu::TileKernel kernel, const SeenKeys& seen, const MatrixView& c, const MatrixView& w,
                const MatrixView& b, bool add);

/// c [keys, HS] = w^T b or, with `add`, += w^T b, for the same w.
void times_queries(const Exec& exec, cpu::TileKernel kernel, const SeenKeys& seen, const MatrixView& c, const MatrixView& w,
                   const MatrixView& b, bool add);

}  // namespace cohort::ops
