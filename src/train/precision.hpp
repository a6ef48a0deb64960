// Precision policies: which type each part of a step has.
//
//   policy   parameters   read by layers   activations,     matrix         gradients   sum over ranks       optimizer
//            (master)     ("compute")      their gradients  products                   (default)            state
//   fp32     fp32         the master       fp32             fp32           fp32        fp32                 fp32
//   tf32     fp32         the master       fp32             tf32 -> fp32   fp32        fp32                 fp32   (GPU only)
//   bf16     fp32         bf16 copy        bf16             bf16 -> fp32   fp32        fp32 (or bf16)       fp32
//   fp16     fp32         fp16 copy        fp16             fp16 -> fp32   fp32        fp32 (or fp16)       fp32   + loss scaling
//   fp8      fp32         bf16 copy        bf16             8 bits -> fp32 fp32        fp32 (or bf16)       fp32   (GPU only)
//
// "a -> b": operands of type a, summed in type b. Statistics of norms and attention, and losses, are fp32 or fp64 in all. After
// Micikevicius et al. 2018, "Mixed Precision Training", sections 3.1 (master weights), 3.2 (loss scaling), 3.3 (sums in fp32).
//
// fp8: the products of linear layers alone, from bf16 tensors rounded to 8 bits for the purpose (ops/fp8_linear.hpp); the
// vocabulary's product, adapters, attention, norms and all else are as in bf16. Ranks scale what they hold: with tensor
// parallelism each its own shard, with data parallelism each its own micro-batch.
#pragma once

#include "config/run_config.hpp"
#include "ops/exec.hpp"
#include "tensor/parameter.hpp"

namespace cohort {

DeviceKind device_of(const RunConfig& config);
/// Where and in which type the model of this run lives.
ModelStorage storage_of(const RunConfig& config);
ops::Exec exec_of(const RunConfig& config);
/// The type in which gradients are summed over ranks.
DType reduction_of(const RunConfig& config);

}  // namespace cohort
