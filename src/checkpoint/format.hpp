// The checkpoint format, version 1: a stable specification. A change that an older reader cannot understand raises
// kFormatVersion.
//
//   RUN/checkpoints/step_00000100/       named by the optimizer steps done, at least eight digits
//     model.h5                           the tensors and the training state, in HDF5's 1.8 file format
//     manifest.json                      what model.h5 holds; written last: without it there is no checkpoint
//   RUN/checkpoints/.step_00000100.tmp/  a save in progress, or what a killed one left; never counts, removed by the next save
//   RUN/checkpoints/.step_00000100.old/  the former checkpoint of a step that is being saved again: there while the new one takes
//   its
//                                        place; counts as step 100 as long as step_00000100 does not
//
// model.h5
//   One dataset per logical tensor, whole whatever the layout that wrote it, contiguous and row-major, of the tensor's own shape.
//   The dots of a parameter's name become groups:
//     /model/blocks/3/attention/qkv/weight      the value of blocks.3.attention.qkv.weight
//     /optim/m/blocks/3/attention/qkv/weight    optimizer state "m" (AdamW's first moment) of the same shape; "v" likewise
//   Element types are little-endian: fp32 and fp64 as IEEE floats; fp16 and bf16 as 16-bit floats.
//   /run_file                                   the resolved run file (TOML) as one string
//   Attributes of the root group:
//     format "cohort-checkpoint", version 1
//     step          optimizer steps done
//     samples_seen  samples consumed by all ranks together: the position of the sampler, whose order is a pure function of the
//     seed tokens_seen   tokens trained on by all ranks together seed          of all random streams, as a signed 64-bit integer
//     of the same bits. The generator is counter-based: it has no other state. model         description of the model: its kind
//     and the sizes that shape it; the loader refuses another one data          what was trained on (the token file's name and
//     checksum); the loader returns it, the trainer decides cohort_version, git_revision, created (UTC, ISO 8601), ranks, layout
//     ("dp 4 x ..."): who wrote it; no meaning for loading
//   The learning-rate schedule has no state beyond the step, and the run file says which schedule it is.
//
// manifest.json: an object with these members
//   format, version, step   as in model.h5
//   file, file_bytes        "model.h5" and its exact size
//   datasets                an array with one object for each dataset in the file: name, dtype ("fp32", ..., or "text"), shape,
//   and crc32:
//                           the CRC-32 of zlib over the elements as stored (little-endian, row-major), as eight lowercase hex
//                           digits
//   manifest_crc32          the last member: CRC-32 of this very file with these eight digits replaced by zeros
// So every bit is covered: elements and manifest by these sums, HDF5's own structures and the attributes by HDF5's checksums.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.hpp"

namespace cohort {

inline constexpr std::string_view kFormatName = "cohort-checkpoint";
inline constexpr Count kFormatVersion = 1;
inline constexpr std::string_view kModelFile = "model.h5";
inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kRunFileDataset = "/run_file";
inline constexpr std::string_view kTextDType = "text";
inline constexpr std::string_view kModelGroup = "/model/";

/// RUN/checkpoints
std::filesystem::path checkpoints_folder(const std::filesystem::path& run_folder);
/// "step_00000100"
std::string step_name(Count step);
/// ".step_00000100.tmp", ".step_00000100.old"
std::string temporary_name(Count step);
std::string replaced_name(Count step);
/// The inverse of these three; nothing for any other name.
std::optional<Count> step_of_name(std::string_view name);
std::optional<Count> step_of_temporary(std::string_view name);
std::optional<Count> step_of_replaced(std::string_view name);

/// "/model/blocks/3/attention/qkv/weight" for "blocks.3.attention.qkv.weight".
std::string value_dataset(std::string_view parameter);
/// "/optim/m/blocks/3/attention/qkv/weight" for slot "m".
std::string state_dataset(std::string_view slot, std::string_view parameter);

}  // namespace cohort
