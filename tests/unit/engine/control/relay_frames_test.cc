// The frames of relays: the decoder reads what the encoder wrote, and refuses values out of range.
#include "engine/control/relay_frames.h"
#include "tests/unit/engine/control/sample_frames.h"

namespace mesh::engine {
namespace {

template <typename Body>
Status read(const Body& body, Body* out) {
  const Bytes frame = encode(FrameHeader{}, body);
  return decode(frame.data() + kFrameHeaderBytes, frame.size() - kFrameHeaderBytes, out);
}

TEST(RelayFrames, AreReadAsTheyWereWritten) {
  PeersAre peers;
  ASSERT_TRUE(read(PeersAre{.left = 3, .host = {sample_host()}}, &peers).ok());
  ASSERT_EQ(peers.host.size(), 1u);
  EXPECT_EQ(peers.host[0].ticket, id_of(9));
  EXPECT_EQ(peers.host[0].port, 4711);
  EXPECT_EQ(peers.host[0].cables, sample_host().cables);
  EXPECT_EQ(peers.left, 3);
  Chained chained;
  ASSERT_TRUE(read(Chained{.chain = 5, .ends = {sample_hop(3), sample_hop(3)}}, &chained).ok());
  EXPECT_EQ(chained.ends[1], sample_hop(3));
  Join join;
  ASSERT_TRUE(read(Join{.chain = 6, .near = sample_hop(1), .far = sample_hop(2)}, &join).ok());
  EXPECT_EQ(join.near, sample_hop(1));
  EXPECT_EQ(join.far, sample_hop(2));
  Chain chain;
  const ChainSizes sizes{.qps = 5, .sq_depth = 256, .express_bytes = 8192, .wr_bytes = 524288};
  ASSERT_TRUE(
      read(Chain{.ticket = id_of(1), .chain = 7, .far_rail = 2, .sizes = sizes}, &chain).ok());
  EXPECT_EQ(chain.sizes, sizes);
  EXPECT_EQ(chain.far_rail, 2);
}

TEST(RelayFrames, RefuseWhatCannotBe) {
  PeersAre peers;
  WireHost nameless = sample_host();
  nameless.ticket = {};
  EXPECT_FALSE(read(PeersAre{.host = {nameless}}, &peers).ok()) << "takes no part";
  EXPECT_FALSE(read(PeersAre{.left = 1}, &peers).ok()) << "nobody, and more to come";
  Chained chained;
  EXPECT_FALSE(read(Chained{.chain = 1}, &chained).ok()) << "made, without queue pairs";
  EXPECT_FALSE(
      read(Chained{.chain = 1, .result = Errc::System, .ends = {sample_hop(1), sample_hop(1)}},
           &chained)
          .ok());
  Join join;
  WireHop bad = sample_hop(1);
  bad.qps[0].ring.wr_bytes = bad.qps[0].ring.payload_bytes;
  EXPECT_FALSE(read(Join{.chain = 1, .near = bad, .far = sample_hop(1)}, &join).ok())
      << "a ring that holds one only";
  Chain chain;
  EXPECT_FALSE(read(Chain{.sizes = {.qps = 5, .sq_depth = 100}}, &chain).ok());
  EXPECT_FALSE(read(Chain{.sizes = {.qps = 0, .sq_depth = 64}}, &chain).ok());
}

}  // namespace
}  // namespace mesh::engine
