// Datagrams over real net devices: two network namespaces of the test's own, joined by two veth
// cables.

#include "src/verbs/kernel_datagrams.h"

#include "tests/unit/verbs/veth_hosts.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>

namespace mesh::verbs {
namespace {

using mesh::testkit::Family, mesh::testkit::hears, mesh::testkit::Ports, mesh::testkit::TwoHosts,
    mesh::testkit::words;

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
