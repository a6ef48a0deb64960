// The sources of a mixture and its stages in a run file, and the same as TOML again:
//
//   [[data.sources]]
//   name = "web"
//   tokens = "data/web.h5"
//
//   [[data.stages]]
//   from_step = 1                      # until the next stage begins
//   weights = { web = 0.7, code = 0.3 }  # of the samples; need not add up to 1; a source that is not named has weight 0
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <vector>

#include "config/key_spec.hpp"

namespace cohort {

/// `where` is where the tables begin; each knows its own line, if the document has lines. Error (config) names that.
std::vector<DataSource> read_sources(const KeySpec& key, const toml::node& node, const std::string& where);
std::vector<DataStage> read_stages(const KeySpec& key, const toml::node& node, const std::string& where);

/// `[{ name = "web", tokens = "data/web.h5" }]`: exact, reads back as the same.
std::string sources_as_toml(const std::vector<DataSource>& sources);
std::string stages_as_toml(const std::vector<DataStage>& stages);

/// Whether it is a key of one source or stage: "sources.1.tokens".
bool is_mixture_key(std::string_view name);
/// That key, "sources.NUMBER.KEY" or "stages.NUMBER.KEY", the first as 1, and the origin of the source or stage. Error (config)
/// if there is no such source, stage or key.
struct MixtureKey {
  KeySpec key;
  std::string& origin;
};
MixtureKey mixture_key_named(DataSection& data, std::string_view name, const std::string& where);

/// Error (config): data.tokens beside sources, or neither; names that are missing, wrong or twice there; stages that do not begin
/// at step 1 or are out of order, weights of unknown sources or all zero.
void check_data_files(const RunConfig& config);

}  // namespace cohort
