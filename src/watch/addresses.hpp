// Where processes of this and of other machines can reach this one.
#pragma once

#include <string>
#include <vector>

namespace cohort {

/// The addresses, IPv4 and IPv6, at which other machines may reach this one: those of its interfaces that are up, without the
/// loopback and without addresses that hold only on one link.
std::vector<std::string> own_addresses();
/// Those of the loopback that this machine has.
std::vector<std::string> loopback_addresses();
/// Equal for processes, and only for these, that have the loopback in common: those of one machine, and in it of one network
/// namespace, as each container may have its own.
std::string own_network();

}  // namespace cohort
