// The standby paths in WELCOME.

#include "engine/control/frames.h"

#include <gtest/gtest.h>

namespace mesh::engine {
namespace {

WirePath pair_of(std::uint8_t rail) {
  WirePath path;
  path.connector_rail = path.acceptor_rail = rail;
  path.mtu = 3;
  return path;
}

// Makes a WELCOME with `paths` paths on the first rails and `standby` standby paths on the next
// ones.
Welcome welcome(std::uint8_t paths, std::uint8_t standby) {
  Welcome body{.host = "b", .qps = 1, .rq_depth = 64, .slots = 32, .rails = {}, .paths = {}};
  for (std::uint8_t i = 0; i < 10; ++i) {
    WireRail& rail = body.rails.emplace_back();
    rail.addresses.resize(1);
    rail.mtu = 3;
    rail.name = "r";
    body.meet.push_back(pair_of(i));
  }
  for (std::uint8_t i = 0; i < paths; ++i) {
    body.paths.push_back(pair_of(i));
    body.paths.back().qpn = {1, 2};
  }
  for (std::uint8_t i = 0; i < standby; ++i)
    body.standby.push_back(pair_of(static_cast<std::uint8_t>(paths + i)));
  if (paths == 0) body.meet.clear(), body.no_path = "nothing meets";
  return body;
}

Status decoded(const Welcome& body, Welcome* out) {
  const Bytes frame = encode({.sequence = 1}, body);
  return decode(frame.data() + kFrameHeaderBytes, frame.size() - kFrameHeaderBytes, out);
}

TEST(WelcomeStandby, IsReadInItsOrder) {
  Welcome out;
  ASSERT_TRUE(decoded(welcome(2, 3), &out).ok());
  ASSERT_EQ(out.standby.size(), 3u);
  EXPECT_EQ(out.standby[2].acceptor_rail, 4u);
}

TEST(WelcomeStandby, BehindPathsOnlyAndNoMoreThanALinkHolds) {
  Welcome out;
  EXPECT_TRUE(decoded(welcome(1, 7), &out).ok());
  EXPECT_FALSE(decoded(welcome(2, 7), &out).ok());
  EXPECT_TRUE(decoded(welcome(0, 0), &out).ok());
  EXPECT_FALSE(decoded(welcome(0, 1), &out).ok()) << "for nothing";
}

TEST(WelcomeStandby, PathsOverOtherHostsAreNoMoreThanALinkHolds) {
  Welcome body = welcome(1, 3), out;
  body.relayed = kRelayPlacesMax;
  ASSERT_TRUE(decoded(body, &out).ok());
  EXPECT_EQ(out.relayed, kRelayPlacesMax);
  body.relayed = kRelayPlacesMax + 1;
  EXPECT_FALSE(decoded(body, &out).ok());
  body = welcome(1, 5);
  body.relayed = 2;
  EXPECT_TRUE(decoded(body, &out).ok());
  body.beside = {pair_of(6)};
  EXPECT_FALSE(decoded(body, &out).ok()) << "nine paths";
}

TEST(WelcomeStandby, OnePathOverOtherHostsGoesBesideThePathsIfThereAreSome) {
  Welcome body = welcome(1, 0), out;
  body.beside = {pair_of(2)};
  ASSERT_TRUE(decoded(body, &out).ok());
  ASSERT_EQ(out.beside.size(), 1u);
  EXPECT_EQ(out.beside[0].acceptor_rail, 2);
  body = welcome(0, 0);
  body.relayed = 1;
  EXPECT_TRUE(decoded(body, &out).ok());
  body.beside = {pair_of(2)};
  EXPECT_FALSE(decoded(body, &out).ok()) << "beside no path";
}

}  // namespace
}  // namespace mesh::engine
