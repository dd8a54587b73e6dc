// Datagrams over real net devices: two network namespaces of the test's own, joined by two veth
// cables.

#include "src/verbs/kernel_datagrams.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

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

#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

namespace mesh::verbs {
namespace {

constexpr int kPatienceMs = 10'000;

bool runs(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str()) == 0;
}

// Gives a net device of the calling thread's namespace a link-local address, and takes it up.
bool takes_up(const std::string& name, int address) {
  return runs(
      fmt::format("ip link set {0} addrgenmode none && ip link set {0} up && "
                  "ip -6 addr add fe80::{1:x}/64 dev {0} nodad",
                  name, address));
}

// Opens the device's datagrams; a device that has just come up may not be running yet.
std::unique_ptr<CableDatagrams> opened(const std::string& name) {
  for (int waited_ms = 0; waited_ms < kPatienceMs; waited_ms += 10) {
    if (auto datagrams = open_kernel_datagrams(name); datagrams != nullptr) return datagrams;
    ::poll(nullptr, 0, 10);
  }
  return nullptr;
}

// The ports n0 and n1 of a host.
struct Ports {
  std::array<std::unique_ptr<CableDatagrams>, 2> end;
  // Two processes of the host hear the group.
  std::array<std::unique_ptr<CableDatagrams>, 2> group, second;
  bool open() {
    end = {opened("n0"), opened("n1")};
    group = {open_kernel_group("n0"), open_kernel_group("n1")};
    second = {open_kernel_group("n0"), open_kernel_group("n1")};
    return end[0] != nullptr && end[1] != nullptr;
  }
};

// Two hosts, each a network namespace: n0 of the first is cabled to n1 of the second, and n1 to n0.
class TwoHosts {
 public:
  // Returns what this machine lacks, or an empty text.
  std::string open() {
    std::promise<int> second_is_there;
    std::promise<bool> cabled;
    std::string missing;
    std::thread second([&] {
      const bool own = ::unshare(CLONE_NEWNET) == 0;
      second_is_there.set_value(own ? ::gettid() : 0);
      if (!own || !cabled.get_future().get()) return;
      if (takes_up("n0", 0xb0) && takes_up("n1", 0xb1)) static_cast<void>(b.open());
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
      if (made && takes_up("n0", 0xa0) && takes_up("n1", 0xa1)) static_cast<void>(a.open());
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

TEST(KernelDatagrams, GoOverTheirOwnCableOnly) {
  TwoHosts hosts;
  const std::string missing = hosts.open();
  if (!missing.empty()) GTEST_SKIP() << missing;
  CableDatagrams &a0 = *hosts.a.end[0], &a1 = *hosts.a.end[1];
  CableDatagrams &b0 = *hosts.b.end[0], &b1 = *hosts.b.end[1];
  EXPECT_EQ(a0.place().address[15], 0xa0);
  a0.send(b0.place(), words(1));  // nobody has that address on this cable
  a0.send(b1.place(), words(2));
  ASSERT_TRUE(hears(b1));
  const auto question = b1.next();
  ASSERT_TRUE(question.has_value());
  EXPECT_EQ(question->from, a0.place());
  ASSERT_EQ(question->bytes, 3u);
  EXPECT_EQ(question->data[0], std::byte{2});
  b1.send(question->from, words(3));
  ASSERT_TRUE(hears(a0));
  EXPECT_EQ(a0.next()->from, b1.place());
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
