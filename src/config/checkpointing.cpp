#include "config/checkpointing.hpp"

#include "base/error.hpp"

namespace cohort {
namespace {

void check_retention(const RunConfig& config, const WhereIs& where_is) {
  const CheckpointSection& c = config.checkpoint;
  if (c.keep == 0 && (c.keep_every > 0 || c.keep_best)) {
    fail(ExitCode::config,
         "{}checkpoint.{} has no effect with checkpoint.keep = 0, which keeps all; set keep to the number of newest checkpoints "
         "to keep",
         where_is(c.keep_best ? "checkpoint.keep_best" : "checkpoint.keep_every"), c.keep_best ? "keep_best" : "keep_every");
  }
  if (!c.keep_best || c.every == 0) return;
  const Count every = config.train.validate_every;
  if (every == 0 || c.every % every != 0) {
    fail(ExitCode::config,
         "{}checkpoint.keep_best compares validation losses, but not every checkpoint (checkpoint.every = {}) has one "
         "(train.validate_every = {}); let validate_every divide every",
         where_is("checkpoint.keep_best"), c.every, every);
  }
}

}  // namespace

void validate_checkpointing(const RunConfig& config, const WhereIs& where_is) {
  const CheckpointSection& c = config.checkpoint;
  check_retention(config, where_is);
  if (c.compression > 0 && c.chunk == 0) {
    fail(ExitCode::config, "{}checkpoint.compression = {} needs chunks; set checkpoint.chunk, for example to 1048576",
         where_is("checkpoint.compression"), c.compression);
  }
  const bool collective = c.form == "consolidated" && (c.write == "collective" || (c.write == "site" && c.site == "lustre"));
  if (!collective) return;
  if (c.compression > 0) {
    fail(ExitCode::config,
         "{}checkpoint.compression = {} with collective writes: ranks cannot share a compressed chunk; set checkpoint.write = "
         "\"gathered\", or form = \"per_rank\"",
         where_is("checkpoint.compression"), c.compression);
  }
  if (c.locking) {
    fail(ExitCode::config,
         "{}checkpoint.locking with collective writes: the ranks would lock each other out; set it to false, or "
         "checkpoint.write = \"gathered\"",
         where_is("checkpoint.locking"));
  }
}

}  // namespace cohort
