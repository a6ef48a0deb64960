// Slurm's short way of writing the names of nodes: "node[1-3,7],login1".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// The names in order: "gpu[08-10]" -> gpu08, gpu09, gpu10; "r[1-2]n[1-2]" -> r1n1, r1n2, r2n1, r2n2. Nothing for a text that is
/// no such list, or for one of more than a million names.
std::optional<std::vector<std::string>> expand_node_list(std::string_view text);

}  // namespace cohort
