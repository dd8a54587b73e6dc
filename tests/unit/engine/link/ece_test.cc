// Enhanced connection establishment between two hosts. Both ends of a path use the options that
// both devices have, from the first handshake on and after the path was opened again.
#include "engine/data/peer_link.h"
#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/data/lose_path.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::kA, testkit::kB, testkit::Talk;

constexpr const char* kOptions = R"({"name":"options",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24","ece":7},
                               {"name":"n1","address":"10.0.2.1/24","ece":7}]},
           {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24","ece":13},
                               {"name":"n1","address":"10.0.2.2/24"}]}],
  "links":[{"ends":["a/n0","b/n0"]},{"ends":["a/n1","b/n1"]}]})";

// Returns the options that all queue pairs of a path use, or 0 if the device has none.
std::uint32_t options_of(const Channel& channel, const std::string& nic) {
  const engine::PeerLink& link = channel.link;
  std::uint32_t used = UINT32_MAX;
  for (std::uint32_t i = 0; i < link.paths().count(); ++i) {
    const engine::Path& path = link.paths()[i];
    if (!path.name.starts_with(nic)) continue;
    for (const auto& queue_pair : path.queue_pairs) {
      ibv_ece ece{};
      if (path.device->provider().query_ece(queue_pair->verbs(), &ece) != 0) ece.options = 0;
      EXPECT_TRUE(used == UINT32_MAX || used == ece.options);
      used = ece.options;
    }
  }
  return used;
}

TEST(Ece, BothEndsOfAPathUseWhatBothDevicesHave) {
  Bed bed({.fabric = kOptions});
  Talk talk(bed, kA, kB, 4096);
  EXPECT_EQ(options_of(*talk.pair.send, "n0"), 5u);
  EXPECT_EQ(options_of(*talk.pair.receive, "n0"), 5u);
  EXPECT_EQ(options_of(*talk.pair.send, "n1"), 7u) << "the peer's has none: as it was made";
  EXPECT_EQ(options_of(*talk.pair.receive, "n1"), 0u);
  talk.exchange(4096);
}

TEST(Ece, APathThatIsOpenedAgainAgreesAnew) {
  Bed bed({.fabric = kOptions});
  Talk talk(bed, kA, kB, 4096);
  engine::PeerLink& link = talk.pair.send->link;
  const std::uint32_t index = link.paths()[0].name.starts_with("n0") ? 0 : 1;
  testkit::lose_path(*talk.pair.send, index);
  ASSERT_TRUE(bed.until([&] {
    return link.paths()[index].health.epoch != 0 &&
           link.paths()[index].health.state == engine::PathState::Up;
  }));
  EXPECT_EQ(options_of(*talk.pair.send, "n0"), 5u);
  EXPECT_EQ(options_of(*talk.pair.receive, "n0"), 5u);
  talk.exchange(4096);
}

}  // namespace
}  // namespace mesh
