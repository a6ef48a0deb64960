#include "watch/addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

#include "base/machine.hpp"

namespace cohort {
namespace {

// "" if it is of another family, or holds on one link alone.
std::string text_of(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address.sa_family == AF_INET) bytes = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  if (address.sa_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&v6)) bytes = &v6;
  }
  if (bytes == nullptr || inet_ntop(address.sa_family, bytes, text.data(), text.size()) == nullptr) return "";
  return text.data();
}

std::vector<std::string> addresses_of_interfaces(bool loopback) {
  std::vector<std::string> addresses;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return addresses;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    if (((one->ifa_flags & IFF_LOOPBACK) != 0) != loopback) continue;
    if (std::string text = text_of(*one->ifa_addr); !text.empty()) addresses.push_back(std::move(text));
  }
  freeifaddrs(all);
  return addresses;
}

}  // namespace

std::vector<std::string> own_addresses() { return addresses_of_interfaces(false); }

std::vector<std::string> loopback_addresses() { return addresses_of_interfaces(true); }

std::string own_network() {
  return boot_id() + " " + network_namespace();  // without the latter: as if all processes of this boot had one network
}

}  // namespace cohort
