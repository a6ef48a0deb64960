#include "train/save_options_of.hpp"

#include "base/error.hpp"
#include "hdf5/hdf5.hpp"

namespace cohort {
namespace {

StorageOptions defaults_of(const std::string& site) {
  constexpr Bytes kPage = 4 * kKiB;
  constexpr Bytes kStripe = 4 * kMiB;
  constexpr int kStripes = 8;
  if (site == "lustre") {
    return {.alignment = kStripe, .collective = hdf5::File::has_parallel(), .stripe_count = kStripes, .stripe_size = kStripe};
  }
  if (site == "nfs") return {};
  return {.alignment = kPage};
}

}  // namespace

SaveOptions save_options_of(const CheckpointSection& config) {
  SaveOptions options;
  options.form = config.form == "per_rank" ? CheckpointForm::per_rank : CheckpointForm::consolidated;
  options.model_dtype = dtype_from_name(config.weights);
  options.retention = {config.keep, config.keep_every, config.keep_best};
  options.verify = config.verify;
  options.on_commit = config.on_commit;
  StorageOptions& storage = options.storage = defaults_of(config.site);
  storage.chunk = config.chunk;
  storage.compression = static_cast<int>(config.compression);
  storage.locking = config.locking;
  if (config.alignment >= 0) storage.alignment = config.alignment;
  if (config.stripe_count >= 0) storage.stripe_count = static_cast<int>(config.stripe_count);
  if (config.stripe_size >= 0) storage.stripe_size = config.stripe_size;
  if (config.write != "site") storage.collective = config.write == "collective";
  if (config.write == "collective" && !hdf5::File::has_parallel()) {
    fail(ExitCode::config,
         "checkpoint.write = \"collective\": Cohort was built with an HDF5 without MPI (`cohort info`); set write = "
         "\"gathered\", form = \"per_rank\", or build with a parallel HDF5");
  }
  return options;
}

}  // namespace cohort
