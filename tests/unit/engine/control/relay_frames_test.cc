// The frames of relays: the decoder reads what the encoder wrote, and refuses values out of range.
#include "engine/control/relay_frames.h"
#include "tests/unit/engine/control/sample_header.h"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <cstddef>
#include <vector>

namespace mesh::engine {
namespace {

WireHop hop(std::uint32_t qps) {
  WireHop hop{.address = {.gid = id_of(3), .prefix_len = 24}, .lid = 7, .mtu = 5, .psn = 0xabcdef};
  for (std::uint32_t i = 0; i < qps; ++i) {
    hop.qps.push_back({.qpn = 17 + i,
                       .counts = {.address = 0x7f0000001000, .rkey = 5},
                       .ring = {.address = 0x7f0000002000,
                                .rkey = 6,
                                .slots = 64,
                                .payload_bytes = 1 << 20,
                                .wr_bytes = 65536}});
  }
  return hop;
}

WireHost host() {
  WireHost host;
  host.ticket = id_of(9);
  host.name = "b";
  host.port = 4711;
  host.addresses = {{.family = AF_INET, .bytes = {10, 0, 0, 1}}};
  WireRail& rail = host.rails.emplace_back();
  rail.addresses = {{.gid = id_of(1), .prefix_len = 24}};
  rail.mtu = 5;
  rail.name = "n0";
  return host;
}

template <typename Body>
Status read(const Body& body, Body* out) {
  const Bytes frame = encode(FrameHeader{}, body);
  return decode(frame.data() + kFrameHeaderBytes, frame.size() - kFrameHeaderBytes, out);
}

// Checks that a body decodes at its whole length and at no shorter one.
template <typename Body>
void expect_whole(const Body& body) {
  const Bytes frame = encode(FrameHeader{}, body);
  const std::size_t size = frame.size() - kFrameHeaderBytes;
  for (std::size_t bytes = 0; bytes < size; ++bytes) {
    Body out;
    EXPECT_FALSE(decode(frame.data() + kFrameHeaderBytes, bytes, &out).ok()) << bytes;
  }
  Body out;
  EXPECT_TRUE(decode(frame.data() + kFrameHeaderBytes, size, &out).ok());
}

TEST(RelayFrames, AreReadAsTheyWereWritten) {
  PeersAre peers;
  ASSERT_TRUE(read(PeersAre{.left = 3, .host = {host()}}, &peers).ok());
  ASSERT_EQ(peers.host.size(), 1u);
  EXPECT_EQ(peers.host[0].ticket, id_of(9));
  EXPECT_EQ(peers.host[0].port, 4711);
  EXPECT_EQ(peers.left, 3);
  Chained chained;
  ASSERT_TRUE(read(Chained{.chain = 5, .ends = {hop(3), hop(3)}}, &chained).ok());
  EXPECT_EQ(chained.ends[1], hop(3));
  Join join;
  ASSERT_TRUE(read(Join{.chain = 6, .near = hop(1), .far = hop(2)}, &join).ok());
  EXPECT_EQ(join.near, hop(1));
  EXPECT_EQ(join.far, hop(2));
  Chain chain;
  const ChainSizes sizes{.qps = 5, .sq_depth = 256, .express_bytes = 8192, .wr_bytes = 524288};
  ASSERT_TRUE(
      read(Chain{.ticket = id_of(1), .chain = 7, .far_rail = 2, .sizes = sizes}, &chain).ok());
  EXPECT_EQ(chain.sizes, sizes);
  EXPECT_EQ(chain.far_rail, 2);
}

TEST(RelayFrames, AreReadWholeOrNotAtAll) {
  expect_whole(AskPeers{.ticket = id_of(2)});
  expect_whole(PeersAre{.left = 1, .host = {host()}});
  expect_whole(Chained{.chain = 5, .ends = {hop(2), hop(2)}});
  expect_whole(Join{.chain = 6, .near = hop(1), .far = hop(1)});
  expect_whole(Joined{.chain = 6});
  expect_whole(Cut{.chain = 6, .text = "why"});
}

TEST(RelayFrames, RefuseWhatCannotBe) {
  PeersAre peers;
  WireHost nameless = host();
  nameless.ticket = {};
  EXPECT_FALSE(read(PeersAre{.host = {nameless}}, &peers).ok()) << "takes no part";
  EXPECT_FALSE(read(PeersAre{.left = 1}, &peers).ok()) << "nobody, and more to come";
  Chained chained;
  EXPECT_FALSE(read(Chained{.chain = 1}, &chained).ok()) << "made, without queue pairs";
  EXPECT_FALSE(
      read(Chained{.chain = 1, .result = Errc::System, .ends = {hop(1), hop(1)}}, &chained).ok());
  Join join;
  WireHop bad = hop(1);
  bad.qps[0].ring.wr_bytes = bad.qps[0].ring.payload_bytes;
  EXPECT_FALSE(read(Join{.chain = 1, .near = bad, .far = hop(1)}, &join).ok())
      << "a ring that holds one only";
  Chain chain;
  EXPECT_FALSE(read(Chain{.sizes = {.qps = 5, .sq_depth = 100}}, &chain).ok());
  EXPECT_FALSE(read(Chain{.sizes = {.qps = 0, .sq_depth = 64}}, &chain).ok());
}

}  // namespace
}  // namespace mesh::engine
