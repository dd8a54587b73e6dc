// Datagrams over real net devices: two network namespaces of the test's own, joined by two veth
// cables.
#include "src/verbs/kernel_datagrams.h"

#include "src/base/unique_fd.h"
#include "tests/prelude.h"

namespace mesh::verbs {
namespace {

constexpr int kPatienceMs = 10'000;

bool runs(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str()) == 0;
}

enum class Families { Ipv6, Ipv4, Both };

// Gives a net device of the calling thread's namespace addresses, and takes it up.
bool takes_up(const std::string& name, int address, Families families) {
  bool done = runs(fmt::format("ip link set {0} addrgenmode none && ip link set {0} up", name));
  if (families != Families::Ipv6)
    done &= runs(fmt::format("ip addr add 10.0.0.{}/24 dev {}", address, name));
  if (families != Families::Ipv4)
    done &= runs(fmt::format("ip -6 addr add fe80::{:x}/64 dev {} nodad", address, name));
  return done;
}

std::unique_ptr<CableDatagrams> opened(const std::string& name) {
  return open_kernel_datagrams(name, DatagramEnd::Port);
}
std::unique_ptr<CableDatagrams> group_of(const std::string& name) {
  return open_kernel_datagrams(name, DatagramEnd::Group);
}

// Refreshes the end until its place is as wanted. Returns false if that takes too long.
template <typename Wanted>
bool becomes(CableDatagrams& end, Wanted&& wanted) {
  for (int waited_ms = 0; waited_ms < kPatienceMs; waited_ms += 10) {
    if (!end.refresh()) return false;
    if (wanted(end.place())) return true;
    ::poll(nullptr, 0, 10);
  }
  return false;
}

// The ports n0 and n1 of a host.
struct Ports {
  std::array<std::unique_ptr<CableDatagrams>, 2> end;
  // Two processes of the host hear the group.
  std::array<std::unique_ptr<CableDatagrams>, 2> group, second;
  void open() {
    end = {opened("n0"), opened("n1")};
    group = {group_of("n0"), group_of("n1")};
    second = {group_of("n0"), group_of("n1")};
  }
};

// Two hosts, each a network namespace: n0 of the first is cabled to n1 of the second, and n1 to n0.
class TwoHosts {
 public:
  // Returns what this machine lacks, or an empty text.
  std::string open(Families of_a = Families::Ipv6, Families of_b = Families::Ipv6) {
    std::promise<int> second_is_there;
    std::promise<bool> cabled;
    std::string missing;
    std::thread second([&] {
      const bool own = ::unshare(CLONE_NEWNET) == 0;
      second_is_there.set_value(own ? ::gettid() : 0);
      if (!own || !cabled.get_future().get()) return;
      if (takes_up("n0", 0xb0, of_b) && takes_up("n1", 0xb1, of_b)) b.open();
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
      if (made && takes_up("n0", 0xa0, of_a) && takes_up("n1", 0xa1, of_a)) a.open();
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
  EXPECT_EQ(question->from, reached_from(answers.place(), asks.place()));
  ASSERT_EQ(question->bytes, 3u);
  EXPECT_EQ(question->data[0], std::byte{2});
  answers.send(question->from, words(3));
  ASSERT_TRUE(hears(asks));
  EXPECT_EQ(asks.next()->from, reached_from(asks.place(), answers.place()));
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
  const std::string missing = hosts.open(Families::Ipv4, Families::Ipv4);
  if (!missing.empty()) GTEST_SKIP() << missing;
  CableDatagrams &a0 = *hosts.a.end[0], &a1 = *hosts.a.end[1];
  CableDatagrams &b0 = *hosts.b.end[0], &b1 = *hosts.b.end[1];
  EXPECT_FALSE(a0.place().has_ipv6());
  EXPECT_EQ(a0.place().ipv4[3], 0xa0);
  a0.send(b0.place(), words(1));  // arrives at b's n1, which is at the other end of the cable
  ASSERT_NO_FATAL_FAILURE(ask_and_answer(a0, b1));
  EXPECT_FALSE(b0.next().has_value()) << "the first one has come over the wrong cable";
  a1.send(b0.place(), words(4));
  ASSERT_TRUE(hears(b0));
  EXPECT_EQ(b0.next()->data[0], std::byte{4});
  for (CableDatagrams* const end : {&a0, &a1, &b0, &b1}) EXPECT_FALSE(end->next().has_value());
}

// One host has switched IPv6 off, as some administrators do on ports of a cluster.
TEST(KernelDatagrams, AHostWithBothFamiliesAndOneWithIpv4AloneHearEachOther) {
  TwoHosts hosts;
  const std::string missing = hosts.open(Families::Both, Families::Ipv4);
  if (!missing.empty()) GTEST_SKIP() << missing;
  CableDatagrams &a0 = *hosts.a.end[0], &b1 = *hosts.b.end[1];
  EXPECT_TRUE(a0.place().has_ipv6() && a0.place().has_ipv4());
  ASSERT_NO_FATAL_FAILURE(ask_and_answer(a0, b1));
  ASSERT_NO_FATAL_FAILURE(ask_and_answer(b1, a0));
}

TEST(KernelDatagrams, HostsWithBothFamiliesSpeakIpv6) {
  TwoHosts hosts;
  const std::string missing = hosts.open(Families::Both, Families::Both);
  if (!missing.empty()) GTEST_SKIP() << missing;
  CableDatagrams &a0 = *hosts.a.end[0], &b1 = *hosts.b.end[1];
  ASSERT_NO_FATAL_FAILURE(ask_and_answer(a0, b1));
  a0.send(b1.place(), words(8));
  ASSERT_TRUE(hears(b1));
  EXPECT_TRUE(b1.next()->from.has_ipv6());
}

// Runs the body in a network namespace with one cable, n0 to p0. Returns what this machine lacks.
template <typename Body>
std::string with_a_cable(Body&& body) {
  std::string missing;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0)
      missing = std::string("no network namespace may be made: ") + std::strerror(errno);
    else if (!runs("ip link add n0 type veth peer name p0"))
      missing = "iproute2 makes no veth here";
    else
      body();
  }).join();
  return missing;
}

// The cable is out when the process starts. Then it is put in, and the kernel tests the new IPv6
// address for duplicates.
TEST(KernelDatagrams, AnEndFollowsTheAddressesOfItsDevice) {
  const std::string missing = with_a_cable([] {
    ASSERT_TRUE(runs("ip link set n0 up"));
    const auto end = opened("n0");
    ASSERT_NE(end, nullptr);
    EXPECT_EQ(end->place(), DatagramPlace{}) << "nobody can reach it";
    ASSERT_TRUE(runs("ip addr add 10.0.0.1/24 dev n0"));
    ASSERT_TRUE(end->refresh());
    EXPECT_TRUE(end->place().has_ipv4());
    const std::uint16_t port = end->place().port;
    EXPECT_NE(port, 0);
    ASSERT_TRUE(runs("ip link set p0 up"));
    EXPECT_TRUE(becomes(*end, [](const DatagramPlace& place) { return place.has_ipv6(); }));
    EXPECT_EQ(end->place().port, port) << "with the port that peers have been told";
    ASSERT_TRUE(runs("ip addr del 10.0.0.1/24 dev n0"));
    ASSERT_TRUE(end->refresh());
    EXPECT_FALSE(end->place().has_ipv4());
  });
  if (!missing.empty()) GTEST_SKIP() << missing;
}

TEST(KernelDatagrams, AnAddressUnderTestForDuplicatesIsNotTold) {
  const std::string missing = with_a_cable([] {
    ASSERT_TRUE(
        runs("ip link set n0 addrgenmode none && ip link set n0 up && ip link set p0 up && "
             "ip -6 addr add fe80::1/64 dev n0"));
    const auto end = opened("n0");
    ASSERT_NE(end, nullptr);
    const bool told = end->place().has_ipv6();
    const bool tested = runs("ip -6 addr show dev n0 | grep -q tentative");
    EXPECT_FALSE(told && tested);  // a slow machine may be late for the test
    EXPECT_TRUE(becomes(*end, [](const DatagramPlace& place) { return place.has_ipv6(); }));
  });
  if (!missing.empty()) GTEST_SKIP() << missing;
}

TEST(KernelDatagrams, AnotherDeviceOfTheNameEndsIt) {
  const std::string missing = with_a_cable([] {
    const auto end = opened("n0"), group = group_of("n0");
    ASSERT_NE(end, nullptr);
    ASSERT_NE(group, nullptr);
    EXPECT_TRUE(end->refresh() && group->refresh());
    ASSERT_TRUE(runs("ip link del n0 && ip link add n0 type veth peer name p0"));
    EXPECT_FALSE(end->refresh());
    EXPECT_FALSE(group->refresh());
  });
  if (!missing.empty()) GTEST_SKIP() << missing;
}

TEST(KernelDatagrams, AGroupWhosePortIsTakenSaysSo) {
  const std::string missing = with_a_cable([] {
    const UniqueFd taker(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(kCableGroup.port);
    ASSERT_EQ(::bind(taker.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    EXPECT_EQ(group_of("n0"), nullptr);
    EXPECT_EQ(errno, EADDRINUSE);
  });
  if (!missing.empty()) GTEST_SKIP() << missing;
}

TEST(KernelDatagrams, ADeviceThatIsNotThereHasNone) {
  for (const char* const name : {"", "nosuch0"}) {
    EXPECT_EQ(opened(name), nullptr);
    EXPECT_EQ(errno, ENODEV);
    EXPECT_EQ(group_of(name), nullptr);
  }
  EXPECT_EQ(opened("lo")->place(), DatagramPlace{}) << "its address is of no use to others";
}

}  // namespace
}  // namespace mesh::verbs
