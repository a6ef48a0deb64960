// The checkpoint format, version 4: a stable specification. A change that an older reader cannot understand raises
// kFormatVersion. Versions 1, 2 and 3 (end of this page) are still read.
//
//   RUN/checkpoints/step_00000100/       named by the optimizer steps done, at least eight digits
//     model.h5                           the training state, and every tensor as one dataset, whole whatever layout wrote it
//     rank_00000.h5, rank_00001.h5 ...   only in the form "per_rank": what each rank held; no file if it held nothing
//     manifest.json                      what these files hold; written last: without it there is no checkpoint
//   RUN/checkpoints/.step_00000100.tmp/  a save in progress, or what a killed one left; never counts, removed by the next save
//   RUN/checkpoints/.step_00000100.old/  the former checkpoint of a step that is being saved again: there while the new one
//                                        takes its place; counts as step 100 as long as step_00000100 does not
//   RUN/checkpoints/set_aside/           steps beyond one that the run was taken back to: never deleted, never counted
//
// model.h5
//   One dataset for each logical tensor, row-major, of the tensor's own shape. The dots of a parameter's name become groups:
//     /model/blocks/3/attention/qkv/weight         the value of blocks.3.attention.qkv.weight
//     /optim/m/blocks/3/attention/qkv/weight       optimizer state "m" (AdamW's first moment) of the same shape; "v" likewise
//     /optim/master/blocks/3/attention/qkv/weight  the value in fp32, where /model is rounded to 16 bits; absent otherwise
//   Element types are little-endian: fp32 and fp64 as IEEE floats, fp16 as IEEE half, bf16 as a float type of 16 bits (sign, 8
//   bits of exponent, 7 of mantissa), which h5dump and h5py show as numbers.
//   Form "consolidated": the datasets hold the elements; contiguous, or in chunks, compressed or not. HDF5's 1.8 format.
//   Form "per_rank": the datasets are virtual, put together by HDF5 from those of the rank files beside it (a scalar shows as
//   one of shape [1]). HDF5's 1.10 format. Readers that know this page use manifest and rank files, not the virtual datasets:
//   where a rank file is missing, HDF5 shows the fill value without an error. It is NaN; of integers the least, of unsigned ones
//   the largest. The attribute `note` of the root group says so in the file.
//   Texts, each one string:
//     /run_file        the resolved run file (TOML)
//     /data            what was trained on (the token file's name and checksum); the loader returns it, the trainer decides
//     /history         a line for each resume that was allowed to change something
//     /tokenizer       the model's tokenizer, JSON as in a token file (data/tokenizer.hpp), some megabytes for a large
//     vocabulary;
//                      empty for models without text, absent in older checkpoints
//   Attributes of the root group, of bounded size:
//     format "cohort-checkpoint", version 4
//     step             optimizer steps done
//     samples_seen     samples consumed by all ranks together: the position of the sampler, whose order is a pure function of
//                      the seed
//     tokens_seen      tokens trained on by all ranks together
//     seed             of all random streams, as a signed 64-bit integer of the same bits. The generator is counter-based: it
//                      has no other state
//     loss_scale, loss_scale_good_steps   of fp16: the factor, and the steps without overflow since it last changed
//     model            description of the model: its kind and the sizes that shape it; the loader refuses another one
//     validation_loss  measured at this very step, as a decimal number; "" if none was
//     cohort_version, git_revision, created (UTC, ISO 8601), ranks, layout ("dp 4 x ..."): who wrote it; not for loading
//   The learning-rate schedule has no state beyond the step, and the run file says which schedule it is.
//
// rank_NNNNN.h5
//   A dataset for each part of a tensor that the rank wrote, named TENSOR/0, TENSOR/1, ..., flat or in the shape of its box.
//   Attributes of each: tensor (its name), global_shape, box_start and box_shape (the box of the tensor that the rank's layout
//   cut out), begin (how many elements of the box, in row-major order, come before these).
//   Attributes of the root group: format, version, rank.
//
// manifest.json: an object with these members
//   format, version, step   as in model.h5
//   form                    "consolidated" or "per_rank"
//   texts                   an array with name ("/run_file") and crc32 of each text of model.h5
//   files                   an array with name and exact size (bytes) of each; the first is model.h5. Also crc32, of all its
//                           bytes, of the model.h5 of "per_rank": how virtual datasets are put together has no checksum in HDF5
//   tensors                 an array in the order of the model with name, dtype ("fp32", ...), shape and parts of each. A part:
//     file, dataset         where its elements are; file counts in `files` from 0
//     start, count          the box: its offset and its length in each dim; both absent: the whole tensor
//     begin, elements       which elements of the box, in row-major order
//     block, crc32          checksums, each of `block` elements (the last of what is left), eight lowercase hex digits one after
//                           the other: zlib's CRC-32 of the elements as stored, before compression (little-endian)
//   manifest_crc32          the last member: CRC-32 of this very file with these eight digits replaced by zeros
// So every bit is covered: elements, texts and manifest by these sums, HDF5's own structures and the attributes by HDF5's
// checksums. Parts of a tensor cover it once; of two boxes of a tensor, the ranges along any dim are the same or have nothing in
// common, as splits of dims make them, so that covering is easy to check. Checksums of blocks let a reader check the part that it
// reads. Other files in the folder are none of the checkpoint's: loading ignores them; CheckpointReader::verify() refuses a stray
// *.h5.
//
// Why a part is a box and a run of it, not boxes alone: splits of dims (tensor and expert parallelism) leave a box, of which ZeRO
// takes equal pieces of the row-major order. Such a piece is one range in memory, one dataset and one row of checksums; as boxes
// it would be up to 2 dims - 1 of each.
//
// Deleting removes manifest.json first and model.h5 second: no index is ever left without its rank files.
//
// Version 3 had in the place of start and count `range`, [dim, begin, end], since a box was a range of one dim at most.
// Version 2 was as version 3, but had data and history as attributes, in the manifest run_file_crc32 in the place of texts, and
// the fill value 0. Version 1 had one form, which is "consolidated", without validation_loss and history; its manifest named one
// file (file, file_bytes) and in `datasets` the name, dtype, shape and one crc32 of each dataset, /run_file among them with dtype
// "text".
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.hpp"

namespace cohort {

inline constexpr std::string_view kFormatName = "cohort-checkpoint";
inline constexpr Count kFormatVersion = 4;
inline constexpr std::string_view kModelFile = "model.h5";
inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kSetAside = "set_aside";  // in RUN/checkpoints
inline constexpr std::string_view kRunFileDataset = "/run_file";
inline constexpr std::string_view kTokenizerDataset = "/tokenizer";
inline constexpr std::string_view kModelGroup = "/model/";
inline constexpr std::string_view kMasterGroup = "/optim/master/";
inline constexpr Count kBlockElements = Count{1} << 20;  // that a checksum covers

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
