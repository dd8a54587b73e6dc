// The frames of others in a world of chains: of callers, and of hosts that were asked to carry.
#include "engine/control/relay_frames.h"
#include "tests/fuzz/chains_world.h"

namespace mesh::fuzz {

using engine::Bytes;

engine::WireAddress played_address(std::uint8_t subnet, std::uint8_t host) {
  engine::WireAddress address{.prefix_len = 24};
  address.gid[10] = address.gid[11] = 0xff;
  const std::array<std::uint8_t, 4> ip{10, 0, subnet, host};
  std::copy(ip.begin(), ip.end(), address.gid.begin() + 12);
  return address;
}

engine::WireRail played_rail(std::uint8_t subnet, std::uint8_t host) {
  engine::WireRail rail;
  rail.addresses = {played_address(subnet, host)};
  rail.mtu = 3;
  rail.gid_type = static_cast<std::uint8_t>(verbs::GidType::RoceV2);
  rail.name = "far";
  return rail;
}

engine::WireHop ChainsWorld::hop(Input& input, bool with_rings) const {
  engine::WireHop hop{.address = played_address(1, 1), .mtu = 3, .psn = 1};
  for (std::uint32_t i = 1 + input.below(3); i != 0; --i) {
    engine::WireHopQp& qp = hop.qps.emplace_back();
    qp.qpn = 9;
    qp.counts = {.address = 64, .rkey = 1};
    if (!with_rings) continue;
    qp.ring = {.address = 4096,
               .rkey = 1,
               .slots = 1 + input.below(64),
               .payload_bytes = 64 * input.below(128),
               .wr_bytes = 32 * input.below(160)};
  }
  return hop;
}

// Returns a frame that a caller sends to the host that carries.
Bytes ChainsWorld::frame(Input& input) const {
  const engine::Id128 shown = input.below(8) == 7 ? engine::Id128{8} : ticket_;
  const std::uint64_t number = input.below(4);
  switch (input.below(5)) {
    case 0: return encode({}, engine::AskPeers{.ticket = shown});
    case 1: return encode({}, engine::Cut{.chain = number});
    case 2: {
      const bool rings = input.below(4) == 3;
      return encode({}, engine::Join{.chain = number,
                                     .near = hop(input, rings),
                                     .far = hop(input, !rings && input.below(2) == 1)});
    }
    default: break;
  }
  const std::uint8_t odd = input.u8();
  engine::Chain order{.ticket = shown, .chain = number};
  order.near_rail = odd % 16 == 15 ? 3 : odd % 2;
  order.far_rail = odd / 2 % 2;
  order.near_address = odd % 32 == 31 ? 1 : 0;
  order.sizes = {.qps = 1 + input.below(3),
                 .sq_depth = odd % 64 == 63 ? 65536 : 16u << input.below(4),
                 .express_bytes = std::uint64_t{64} << input.below(24),
                 .wr_bytes = std::uint64_t{64} << input.below(24)};
  return encode({}, order);
}

// Returns a frame of a host that was asked to carry.
Bytes ChainsWorld::answer(Input& input, std::uint64_t number) const {
  const Errc result = input.below(8) == 7 ? Errc::Exhausted : Errc::Ok;
  switch (input.below(4)) {
    case 0: {
      engine::PeersAre peers{.left = input.u8()};
      if (input.below(8) == 7) return encode({}, engine::PeersAre{});
      engine::WireHost& host = peers.host.emplace_back(known_hosts()[input.below(2)]);
      if (const std::uint8_t other = input.u8(); other % 4 != 3) host.ticket = {other, 1};
      host.rails = {played_rail(static_cast<std::uint8_t>(input.below(5)), 8), played_rail(4, 8)};
      return encode({}, peers);
    }
    case 1: {
      engine::Chained chained{.chain = number, .result = result, .text = "so"};
      if (result == Errc::Ok) chained.ends = {hop(input, true), hop(input, true)};
      return encode({}, chained);
    }
    case 2: return encode({}, engine::Joined{.chain = number, .result = result, .text = "so"});
    default: return encode({}, engine::Cut{.chain = number, .text = "so"});
  }
}

}  // namespace mesh::fuzz
