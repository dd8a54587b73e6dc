// Datagrams over real net devices: two network namespaces of the test's own, joined by two veth
// cables.
#include "src/verbs/kernel_datagrams.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace mesh::verbs {
namespace {

constexpr int kPatienceMs = 10'000;

bool runs(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str()) == 0;
}

enum class Family { Ipv6, Ipv4 };

// Gives a net device of the calling thread's namespace an address, and takes it up.
bool takes_up(const std::string& name, int address, Family family) {
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
std::unique_ptr<CableDatagrams> opened(const std::string& name, Family family) {
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

bool hears(const CableDatagrams& end) {
  pollfd ready{.fd = end.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, kPatienceMs) == 1;
}

std::array<std::byte, 3> words(int value) { return {std::byte(value), std::byte{1}, std::byte{2}}; }

// A question arrives, and its answer finds the way back to where it came from.
void ask_and_answer(CableDatagrams& asks, CableDatagrams& answers) {
  asks.send(answers.place(), words(2));
  ASSERT_TRUE(hears(answers));
  const auto question = answers.next();
  ASSERT_TRUE(question.has_value());
  EXPECT_EQ(question->from, asks.place());
  ASSERT_EQ(question->bytes, 3u);
  EXPECT_EQ(question->data[0], std::byte{2});
  answers.send(question->from, words(3));
  ASSERT_TRUE(hears(asks));
  EXPECT_EQ(asks.next()->from, answers.place());
}

TEST(KernelDatagrams, GoOverTheirOwnCableOnly) {
  TwoHosts hosts;
  const std::string missing = hosts.open();
  if (!missing.empty()) GTEST_SKIP() << missing;
  CableDatagrams &a0 = *hosts.a.end[0], &a1 = *hosts.a.end[1];
  CableDatagrams &b0 = *hosts.b.end[0], &b1 = *hosts.b.end[1];
  EXPECT_EQ(a0.place().address[15], 0xa0);
  a0.send(b0.place(), words(1));  // nobody has that address on this cable
  ASSERT_NO_FATAL_FAILURE(ask_and_answer(a0, b1));
  a1.send(b0.place(), words(4));
  ASSERT_TRUE(hears(b0));
  EXPECT_EQ(b0.next()->data[0], std::byte{4}) << "and not the first one";
  for (CableDatagrams* const end : {&a0, &a1, &b0, &b1}) EXPECT_FALSE(end->next().has_value());
}

TEST(KernelDatagrams, LongOnesAreSkipped) {
  TwoHosts hosts;
  const std::string missing = hosts.open();
  if (!missing.empty()) GTEST_SKIP() << missing;
  CableDatagrams &a0 = *hosts.a.end[0], &b1 = *hosts.b.end[1];
  // Another program's socket would send this; ours are not made to.
  const std::array<std::byte, kCableDatagramBytesMax + 1> longer{};
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(b1.place().port);
  std::memcpy(&to.sin6_addr, b1.place().address.data(), sizeof to.sin6_addr);
  sockaddr_in6 own{};
  socklen_t size = sizeof own;
  ASSERT_EQ(::getsockname(a0.fd(), reinterpret_cast<sockaddr*>(&own), &size), 0);
  to.sin6_scope_id = own.sin6_scope_id;
  ASSERT_GT(::sendto(a0.fd(), longer.data(), longer.size(), 0,
                     reinterpret_cast<const sockaddr*>(&to), sizeof to),
            0);
  a0.send(b1.place(), words(5));
  ASSERT_TRUE(hears(b1));
  std::optional<CableDatagram> next;
  while (!next && hears(b1)) next = b1.next();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->data[0], std::byte{5});
}

TEST(KernelDatagrams, WhatIsSentToTheGroupIsHeardByEachProcessAtTheOtherEndOfTheCableAlone) {
  TwoHosts hosts;
  const std::string missing = hosts.open();
  if (!missing.empty()) GTEST_SKIP() << missing;
  CableDatagrams& a0 = *hosts.a.end[0];
  for (const Ports* const ports : {&hosts.a, &hosts.b})
    for (const auto& end : {&ports->group, &ports->second})
      for (const auto& each : *end) ASSERT_NE(each, nullptr) << std::strerror(errno);
  CableDatagrams& asked = *hosts.b.group[1];
  EXPECT_EQ(asked.place(), kCableGroup);
  a0.send(kCableGroup, words(6));
  for (CableDatagrams* const end : {&asked, hosts.b.second[1].get()}) {
    ASSERT_TRUE(hears(*end));
    const auto question = end->next();
    ASSERT_TRUE(question.has_value());
    EXPECT_EQ(question->from, a0.place());
    EXPECT_EQ(question->data[0], std::byte{6});
  }
  asked.send(a0.place(), words(7));
  ASSERT_TRUE(hears(a0));
  const auto answer = a0.next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->from.address, hosts.b.end[1]->place().address);
  EXPECT_EQ(answer->from.port, kCableGroup.port);
  for (const auto& end : {&hosts.a.group[0], &hosts.a.group[1], &hosts.b.group[0],
                          &hosts.b.group[1], &hosts.b.end[1]})
    EXPECT_FALSE((*end)->next().has_value());
}

// The hosts have one subnet on both cables and no IPv6 address, and answer for each address on each
// device, as kernels do without a setting.
TEST(KernelDatagrams, WithoutIpv6TheyGoByIpv4AndAreTakenFromTheirOwnCableOnly) {
  TwoHosts hosts;
  const std::string missing = hosts.open(Family::Ipv4);
  if (!missing.empty()) GTEST_SKIP() << missing;
  CableDatagrams &a0 = *hosts.a.end[0], &a1 = *hosts.a.end[1];
  CableDatagrams &b0 = *hosts.b.end[0], &b1 = *hosts.b.end[1];
  EXPECT_TRUE(a0.place().is_ipv4());
  EXPECT_EQ(a0.place().address[15], 0xa0);
  a0.send(b0.place(), words(1));  // arrives at b's n1, which is at the other end of the cable
  ASSERT_NO_FATAL_FAILURE(ask_and_answer(a0, b1));
  ASSERT_TRUE(hears(b0)) << "the first one has come, over the wrong cable";
  EXPECT_FALSE(b0.next().has_value());
  a1.send(b0.place(), words(4));
  ASSERT_TRUE(hears(b0));
  EXPECT_EQ(b0.next()->data[0], std::byte{4});
  for (CableDatagrams* const end : {&a0, &a1, &b0, &b1}) EXPECT_FALSE(end->next().has_value());
}

TEST(KernelDatagrams, ADeviceWithoutAnIpv4AddressHasNoneByIt) {
  EXPECT_EQ(open_kernel_ipv4_datagrams(""), nullptr);
  EXPECT_EQ(open_kernel_ipv4_datagrams("nosuch0"), nullptr);
  EXPECT_EQ(open_kernel_ipv4_datagrams("lo"), nullptr);
}

TEST(KernelDatagrams, ADeviceThatIsNotThereHasNoGroup) {
  EXPECT_EQ(open_kernel_group(""), nullptr);
  EXPECT_EQ(open_kernel_group("nosuch0"), nullptr);
}

TEST(KernelDatagrams, ADeviceWithoutALinkLocalAddressHasNone) {
  EXPECT_EQ(open_kernel_datagrams(""), nullptr);
  EXPECT_EQ(open_kernel_datagrams("nosuch0"), nullptr);
  EXPECT_EQ(open_kernel_datagrams("lo"), nullptr);
}

}  // namespace
}  // namespace mesh::verbs
