// A site profile: what differs between clusters, and nothing else does. A file of lines that bash can read as well:
//
//   # a comment
//   BASE="generic"                       first, if at all: take what this file leaves out from another profile
//   PARTITION="gpu"                      a key; those that there are: all_site_keys()
//   export NCCL_SOCKET_IFNAME="ib0"      a variable of the job's environment; the comment above it goes into the job too
//
// Values stand in double quotes and may name variables of the job's shell ($SCRATCH). Other marks on which bash acts are refused.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"

namespace cohort {

struct SiteKey {
  std::string name;
  std::string help;
  bool is_number = false;  // a whole number from 0; "" = unknown
  bool must_say = false;   // "" is not a value for it
};

/// In the order in which profiles have them.
const std::vector<SiteKey>& all_site_keys();
/// Null if there is none.
const SiteKey* find_site_key(std::string_view name);

struct SiteValue {
  std::string text;
  std::string origin;  // "sites/generic.env:7" or "--set TIME=1:00:00", for messages
};

struct SiteExport {
  std::string name;
  std::string value;
  std::vector<std::string> comment;  // the comment lines above it, "# " included
};

struct SiteProfile {
  std::string name;
  std::map<std::string, SiteValue> values;
  std::vector<SiteExport> exports;

  /// Text of a key; "" where the profile does not set it.
  const std::string& text(const std::string& key) const;
  /// Of a key that is a number; 0 where it is "" or not set.
  Count number(const std::string& key) const;
  /// Whether the key is set to something.
  bool says(const std::string& key) const { return !text(key).empty(); }
};

/// Reads a profile; a BASE is looked for beside it and in `sites`. Throws Error(io), or Error(config) with file and line.
SiteProfile read_site_profile(const std::filesystem::path& file, const std::filesystem::path& sites);

/// Sets one key from "KEY=value" of the command line. Throws Error(usage).
void set_site_value(SiteProfile& profile, const std::string& text);

}  // namespace cohort
