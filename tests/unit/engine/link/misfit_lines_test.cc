#include "engine/link/misfit_lines.h"

#include "src/base/socket.h"
#include "tests/prelude.h"

namespace mesh::engine {
namespace {

WireAddress address(const char* ipv4) {
  WireAddress wire{.gid = {}, .prefix_len = 24};
  wire.gid[10] = wire.gid[11] = 0xff;
  std::copy_n(SocketAddress::from_text(ipv4)->bytes.begin(), 4, wire.gid.begin() + 12);
  return wire;
}

verbs::Route no_way(std::size_t, std::size_t, const WireAddress&) {
  return {.kind = verbs::RouteKind::None, .netdev = ""};
}

WireRail named(const char* name, const char* at, std::uint64_t guid = 0) {
  WireRail wire;
  wire.addresses = {address(at)};
  wire.name = name;
  wire.gid_type = 2;
  wire.guid = guid;
  return wire;
}

TEST(MisfitLines, EndsThatDoNotFitAreToldWithTheValuesOfBoth) {
  Hello hello;
  hello.host = "a";
  hello.host_id = 1;
  hello.rails = {named("n0", "10.0.12.1"), named("n1", "10.0.13.1")};
  hello.rails[0].gid_type = 1;
  const std::vector<WireRail> rails{named("m0", "10.0.12.2"), named("m1", "10.0.13.2")};
  const OwnRails own{rails, "", 0, 2};
  const PathChoice choice = choose_paths(hello, own, no_way);
  EXPECT_EQ(choice.meet.size(), 1u);
  const std::vector<MisfitLine> lines = misfit_lines(hello, own, choice, "b");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].text(),
            "rail n0 of host a sends RoCE v1 (10.0.12.1) and rail m0 of host b RoCE v2 "
            "(10.0.12.2), which do not understand each other: set NCCL_IB_ROCE_VERSION_NUM alike, "
            "or unset NCCL_IB_GID_INDEX");
  EXPECT_TRUE(lines[0].sure);
}

// Two hosts may have one address on different cables, and then nothing is wrong.
TEST(MisfitLines, ACopiedAddressIsSureOnlyWhereTheOtherHalvesOfTheSocketsMeet) {
  Hello hello;
  hello.host = "a";
  hello.host_id = 1;
  hello.rails = {named("n0", "10.0.12.1", 7), named("n1", "10.0.13.1", 7)};
  std::vector<WireRail> rails{named("m0", "10.0.12.1", 8), named("m1", "10.0.13.2", 8)};
  const OwnRails own{rails, "", 0, 2};
  for (const bool halves : {true, false}) {
    rails[0].guid = halves ? 8 : 9;
    const PathChoice choice = choose_paths(hello, own, no_way);
    EXPECT_EQ(choice.meet.size(), 1u);
    const std::vector<MisfitLine> lines = misfit_lines(hello, own, choice, "b");
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].sure, halves);
    EXPECT_NE(lines[0].text().find("10.0.12.1"), std::string::npos);
  }
}

}  // namespace
}  // namespace mesh::engine
