// One decision on all ranks about work that each does alone: reading a file, checking sizes.
#pragma once

#include <functional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"

namespace cohort {

/// Runs `work` on every rank, then lets all ranks agree on the outcome. If any rank threw, all throw one SharedError with the
/// message and exit code of the lowest rank that failed; its rank and host are named unless all failed alike. `what` says what
/// was being done ("reading the token file"). `work` must not communicate. // Collective over: comm
void fail_together(Communicator& comm, std::string_view what, const std::function<void()>& work,
                   std::source_location site = std::source_location::current());

/// What `make` gives on rank 0 alone, on all ranks; its error is one of all. // Collective over: comm
std::string made_by_rank_0(Communicator& comm, std::string_view what, const std::function<std::string()>& make);

/// The text of rank `root`, on all ranks. // Collective over: comm
std::string broadcast_text(Communicator& comm, std::string text, int root,
                           std::source_location site = std::source_location::current());

/// Every rank's text, in the order of ranks, on rank `root`; elsewhere nothing. // Collective over: comm
std::vector<std::string> gather_texts(Communicator& comm, const std::string& text, int root,
                                      std::source_location site = std::source_location::current());

/// "" if all ranks gave the same text; else which ranks differ from rank 0, and the first line in which they do: "rank 2 on n7
/// has 'steps = 60' where rank 0 on n6 has 'steps = 50'". // Collective over: comm
std::string difference_between_ranks(Communicator& comm, const std::string& text,
                                     std::source_location site = std::source_location::current());

/// Whether all ranks gave the same text. // Collective over: comm
bool same_on_all_ranks(Communicator& comm, std::string_view text, std::source_location site = std::source_location::current());

}  // namespace cohort
