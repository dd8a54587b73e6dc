#pragma once
// Which local rail speaks to which rail of a peer. Pure: both sides' rails in, pairs out.
// Thread: any. Bound: PairingWish::path_count_max pairs; time is the product of the rail counts.

#include <mesh/policy.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mesh::topo {

struct RailAddress {
  std::array<std::uint8_t, 16> gid{};
  int prefix_len = 0;  // bits of the address family the GID stands for; not looked at on InfiniBand
};

struct RailEnd {
  std::vector<RailAddress> addresses;  // at least one, the preferred first
  bool ethernet = true;
  std::uint32_t speed_mbps = 0;
};

struct RailPair {
  std::size_t local = 0;
  std::size_t peer = 0;
  std::size_t local_address = 0;  // in the rail's list
  std::size_t peer_address = 0;
  friend bool operator==(const RailPair&, const RailPair&) = default;
};

struct PairingWish {
  static constexpr std::size_t kNoPreference = SIZE_MAX;
  std::size_t preferred_local = kNoPreference;  // the rail NCCL asked for
  std::size_t path_count_max = kPathsMax;
};

// Ethernet rails pair within a subnet that any of their addresses share; InfiniBand rails under one
// subnet prefix; the two kinds never. Where there is a choice the subnet that fewest pairs of rails
// share comes first (a cable's own before a wider one), then the order of the lists. Link-local
// addresses are on every wire and so tell nothing: rails meet by them only where no other address
// of the two hosts does, the k-th with the k-th, none of them twice. The same address on both sides
// counts only where a host meets itself or nothing else meets: elsewhere it is a copied setting.
// Where several rails of both sides share a subnet the k-th local one takes the k-th of the peer;
// where one side has more of them, the other's are used again so that each rail works. Pairs of the
// preferred rail come first, then the faster ones. Empty: no common subnet.
std::vector<RailPair> pair_rails(std::span<const RailEnd> locals, std::span<const RailEnd> peers,
                                 const PairingWish& wish = {});

// For the line that refuses a connection: "our subnets 10.0.12.0/24, 10.0.13.0/24; the
// peer's 10.0.23.0/24".
std::string no_common_subnet_text(std::span<const RailEnd> locals, std::span<const RailEnd> peers);

}  // namespace mesh::topo
