#pragma once
// Hosts in a row, an honest pair between the first two, and hostile callers that ask the middle
// host to relay. At the end nothing of theirs is left, and the honest pair still works.
// Thread: one. Bound: the bed's rounds for every answer.

#include "engine/control/relay_frames.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/raw_peer.h"

#include <mesh/snapshot.h>

namespace mesh::testkit {

inline engine::WireHop hop_of(std::size_t queue_pairs) {
  engine::WireHop hop{.mtu = 5, .psn = 1};
  hop.address.gid[10] = hop.address.gid[11] = 0xff;
  const std::array<std::uint8_t, 4> address{10, 0, 1, 1};
  std::copy(address.begin(), address.end(), hop.address.gid.begin() + 12);
  hop.qps.resize(queue_pairs, {.qpn = 99, .counts = {.address = 64, .rkey = 1}});
  return hop;
}

// Hosts a - b - c. The hostile callers ask b.
class HostileRelay : public testing::Test {
 public:
  // Memory for order(): 64 slots of 256 bytes in both directions of both queue pairs, and payloads.
  static constexpr std::uint64_t kRingBytes = 4 * 64 * 256 + (512 << 10) + 4 * 65536;

 protected:
  HostileRelay() {
    EXPECT_TRUE(bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, handle_).ok());
    member_ = std::make_unique<RawPeer>(bed_, handle_);
    EXPECT_TRUE(member_->shake_hands());
    ticket_ = member_->welcome->ticket;
    honest_ = std::make_unique<Talk>(bed_, Seat{0, 0}, Seat{1, 0}, 4096);
    queue_pairs_ = bed_.stats(1).queue_pairs;
  }
  ~HostileRelay() override {
    EXPECT_TRUE(bed_.until([&] { return relay().ring_bytes == 0 && relay().chains == 0; }));
    honest_->exchange(4096);
    honest_->end();
    member_.reset();
    EXPECT_TRUE(bed_.empties()) << log_.joined();
  }

  std::unique_ptr<RawPeer> caller() { return std::make_unique<RawPeer>(bed_, handle_); }
  engine::Chain order(std::uint64_t number) const {
    return {.ticket = ticket_,
            .chain = number,
            .far_rail = 1,
            .sizes = {.qps = 2, .sq_depth = 64, .express_bytes = 4096, .wr_bytes = 65536}};
  }
  RelaySnapshot relay() const { return bed_.hosts[1].engine->snapshot().relay; }
  // Returns the text that refuses an order. The host makes nothing for it.
  std::string why_not(RawPeer& from, const engine::Chain& asked) {
    const std::uint64_t refused = relay().refused_paths;
    from.say(asked);
    const auto answer = from.hear<engine::Chained>(engine::MessageType::Chained);
    if (!answer) return "no answer";
    EXPECT_EQ(answer->chain, asked.chain);
    EXPECT_EQ(answer->result, Errc::Exhausted);
    EXPECT_EQ(relay().refused_paths, refused + 1);
    return answer->text;
  }
  // Checks that the connection has ended, and with it all that it had asked for.
  void expect_dropped(RawPeer& from) {
    EXPECT_TRUE(from.ended()) << log_.joined();
    EXPECT_EQ(relay().refused_frames, ++dropped_);
    EXPECT_EQ(relay().ring_bytes, 0u);
  }

  Bed bed_{{.fabric = kLine, .rails = "auto"}};
  const LogCapture log_;
  HandleBytes handle_{};
  std::unique_ptr<RawPeer> member_;
  std::unique_ptr<Talk> honest_;
  engine::Id128 ticket_{};
  std::uint64_t queue_pairs_ = 0, dropped_ = 0;
};

}  // namespace mesh::testkit
