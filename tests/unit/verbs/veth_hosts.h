#pragma once
// Two network namespaces of a test's own, as hosts that are joined by two veth cables. Thread: one.

#include "src/verbs/kernel_datagrams.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <poll.h>
#include <sched.h>
#include <unistd.h>

namespace mesh::testkit {

using verbs::CableDatagrams, verbs::open_kernel_datagrams, verbs::open_kernel_group,
    verbs::open_kernel_ipv4_datagrams;

inline constexpr int kPatienceMs = 10'000;

inline bool runs(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str()) == 0;
}

enum class Family { Ipv6, Ipv4 };

// Gives a net device of the calling thread's namespace an address, and takes it up.
inline bool takes_up(const std::string& name, int address, Family family) {
  if (family == Family::Ipv4)
    return runs(
        fmt::format("ip link set {0} addrgenmode none && ip link set {0} up && "
                    "ip addr add 10.0.0.{1}/24 dev {0}",
                    name, address));
  return runs(
      fmt::format("ip link set {0} addrgenmode none && ip link set {0} up && "
                  "ip -6 addr add fe80::{1:x}/64 dev {0} nodad",
                  name, address));
}

// Opens the device's datagrams; a device that has just come up may not be running yet.
inline std::unique_ptr<CableDatagrams> opened(const std::string& name, Family family) {
  const auto open = family == Family::Ipv4 ? open_kernel_ipv4_datagrams : open_kernel_datagrams;
  for (int waited_ms = 0; waited_ms < kPatienceMs; waited_ms += 10) {
    if (auto datagrams = open(name); datagrams != nullptr) return datagrams;
    ::poll(nullptr, 0, 10);
  }
  return nullptr;
}

// The ports n0 and n1 of a host.
struct Ports {
  std::array<std::unique_ptr<CableDatagrams>, 2> end;
  // Two processes of the host hear the group.
  std::array<std::unique_ptr<CableDatagrams>, 2> group, second;
  bool open(Family family) {
    end = {opened("n0", family), opened("n1", family)};
    group = {open_kernel_group("n0"), open_kernel_group("n1")};
    second = {open_kernel_group("n0"), open_kernel_group("n1")};
    return end[0] != nullptr && end[1] != nullptr;
  }
};

// Two hosts, each a network namespace: n0 of the first is cabled to n1 of the second, and n1 to n0.
class TwoHosts {
 public:
  // Returns what this machine lacks, or an empty text.
  std::string open(Family family = Family::Ipv6) {
    std::promise<int> second_is_there;
    std::promise<bool> cabled;
    std::string missing;
    std::thread second([&] {
      const bool own = ::unshare(CLONE_NEWNET) == 0;
      second_is_there.set_value(own ? ::gettid() : 0);
      if (!own || !cabled.get_future().get()) return;
      if (takes_up("n0", 0xb0, family) && takes_up("n1", 0xb1, family))
        static_cast<void>(b.open(family));
    });
    std::thread([&] {
      const int tid = second_is_there.get_future().get();
      const bool own = tid != 0 && ::unshare(CLONE_NEWNET) == 0;
      if (!own) missing = std::string("no network namespace may be made: ") + std::strerror(errno);
      const auto cable = [tid](const char* ours, const char* theirs) {
        return runs(
            fmt::format("ip link add {0} type veth peer name {1} netns {2}", ours, theirs, tid));
      };
      const bool made = own && cable("n0", "n1") && cable("n1", "n0");
      if (own && !made) missing = "iproute2 makes no veth between network namespaces here";
      cabled.set_value(made);
      if (made && takes_up("n0", 0xa0, family) && takes_up("n1", 0xa1, family))
        static_cast<void>(a.open(family));
    }).join();
    second.join();
    return missing;
  }
  Ports a, b;
};

inline bool hears(const CableDatagrams& end) {
  pollfd ready{.fd = end.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, kPatienceMs) == 1;
}

inline std::array<std::byte, 3> words(int value) {
  return {std::byte(value), std::byte{1}, std::byte{2}};
}

}  // namespace mesh::testkit
