#pragma once
// Decides which local rail speaks to which rail of a peer, within a subnet and across routers.
// Thread: any (pure, but for what it asks). Bound: PairingWish::path_count_max pairs and
// kRoutesAskedMax questions; the time is the product of the rail counts.

#include <mesh/policy.h>

#include "src/base/socket.h"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mesh::topo {

// An address with the length of its network's prefix, and the test whether two of them share a
// wire. Thread: any (values). Bound: none.
struct SubnetMember {
  SocketAddress address;  // an IPv4-mapped GID is IPv4 here (SocketAddress::from_gid)
  int prefix_len = 0;     // in bits of the address's family

  int bits() const noexcept { return address.family == AF_INET ? 32 : 128; }
  bool valid() const noexcept {
    return address.family != AF_UNSPEC && prefix_len >= 0 && prefix_len <= bits();
  }
};

// Returns true if each address takes the other address for a neighbour. With different prefix
// lengths one side would send to a gateway.
bool same_subnet(const SubnetMember& a, const SubnetMember& b) noexcept;

std::string subnet_text(const SubnetMember& member);  // "10.0.12.0/24"

struct RailAddress {
  std::array<std::uint8_t, 16> gid{};
  int prefix_len = 0;  // in bits of the GID's address family; not used on InfiniBand
};

SubnetMember member_of(const RailAddress& address);
// Returns true if two InfiniBand GIDs have one subnet prefix.
bool same_ib_subnet(const RailAddress& a, const RailAddress& b) noexcept;

struct RailEnd {
  std::vector<RailAddress> addresses;  // at least one, the preferred one first
  bool ethernet = true;
  std::uint32_t speed_mbps = 0;
  std::uint32_t identity = 0;  // its port's place in its host, equal on hosts of one make
  bool apart = false;          // it does not leave its site, and the peer is at another site
  bool up = true;              // a port that is down keeps the place that it has by its identity
  bool shared = false;         // its subnet is known to be on several cables
  // Its packets reach nothing at a port with another number: RoCE v1 and RoCE v2 differ.
  std::uint8_t packets = 0;
  std::uint16_t partition = 0xffff;  // InfiniBand: its partition key
};
// Returns true if a port takes the other port's packets: they are of one kind and, on InfiniBand,
// in one partition, of which one of the two ports is a full member.
bool speaks_to(const RailEnd& one, const RailEnd& other) noexcept;

struct RailPair {
  std::size_t local = 0;
  std::size_t peer = 0;
  std::size_t local_address = 0;  // index in the rail's list
  std::size_t peer_address = 0;
  friend bool operator==(const RailPair&, const RailPair&) = default;
};

// Tells whether a packet from the peer's address reaches ours by the peer's own rail.
enum class Reach : std::uint8_t { Yes, No, Unknown };
using AskReach = std::function<Reach(const RailPair&)>;

// A rail of ours and one of the peer's.
struct WirePair {
  std::size_t local = 0;
  std::size_t peer = 0;
  friend auto operator<=>(const WirePair&, const WirePair&) = default;
};
bool holds(std::span<const WirePair> pairs, const WirePair& pair) noexcept;

// The pairs of rails that datagrams were sent for, and those of them that are on one wire, as the
// answers tell. If none answers, that tells nothing: a firewall may drop datagrams.
struct CableProof {
  std::vector<WirePair> asked, met;
  void add_met(std::span<const WirePair> pairs);  // they count as asked, too
  friend bool operator==(const CableProof&, const CableProof&) = default;
};
CableProof turned(const CableProof& proof);  // as the other host sees it

// Whether the two sides of a pairing are known to be two hosts. Otherwise equal addresses of all
// rails are taken for one host's.
enum class Sides : std::uint8_t { Unknown, TwoHosts };
// Takes the hosts' ids, 0 for one that is not known. Containers of one host have equal ids.
inline Sides sides_of(std::uint64_t id, std::uint64_t other) noexcept {
  return id != 0 && other != 0 && id != other ? Sides::TwoHosts : Sides::Unknown;
}

struct PairingWish {
  static constexpr std::size_t kNoPreference = SIZE_MAX;
  std::size_t preferred_local = kNoPreference;  // the rail that NCCL asked for
  std::size_t path_count_max = kPathsMax;
  AskReach reach = {};  // empty: there are no routers
  const CableProof* proof = nullptr;
  Sides sides = Sides::Unknown;
};

// Why two rails that share a subnet cannot meet.
enum class Misfit : std::uint8_t { Packets, Partitions, EqualAddresses };
struct MisfitPair {
  RailPair pair;
  Misfit why = Misfit::Packets;
};
// Returns the pairs of rails that share a subnet and cannot meet, except those of which a rail is
// among `paired`. Two hosts may have equal addresses on different cables.
std::vector<MisfitPair> misfits(std::span<const RailEnd> locals, std::span<const RailEnd> peers,
                                std::span<const RailPair> paired, Sides sides);

// Returns the pairs of rails that speak to each other, or none if nothing reaches anything. The
// rules:
// - Ethernet rails pair within a subnet that any of their addresses share, InfiniBand rails under
//   one subnet prefix, and rails that do not take each other's packets never (speaks_to()).
// - If there is a choice, the subnet that the fewest pairs of rails share comes first, so a cable's
//   own subnet comes before a wider one; then the order of the lists counts.
// - Link-local addresses are on every wire and tell nothing. Rails meet by them only if no other
//   addresses of the two hosts meet: the k-th with the k-th, and none of them twice.
// - If some of the pairs that were asked are on one wire, they meet, also by link-local addresses,
//   and the others that were asked do not, nor do others of a rail that is on a cable of its own.
// - An address that both sides have is a copied setting if they are known to be two hosts. If that
//   is not known, it counts if a host meets itself or nothing else meets.
// - If several rails of both sides share a subnet, those of equal identity meet. Of the rest the
//   k-th local rail takes the k-th of the peer. If one side has more rails, the rails of the
//   smaller side are used again, those that are up first, so that each rail works.
// - Rails that do not leave their site meet nothing at another site.
// - Rails that share no subnet may meet across routers (routed_pairs()).
// - Pairs whose two ports are up come first, among them those of the preferred rail, then the
//   faster ones.
std::vector<RailPair> pair_rails(std::span<const RailEnd> locals, std::span<const RailEnd> peers,
                                 const PairingWish& wish = {});

// Returns the pairs of rails whose addresses may meet, but do not tell whether the rails do: other
// pairs share their subnet, also where each rail has one choice because hosts have equal addresses,
// or the addresses are link-local and other rails meet. A port that is down leaves the same doubt.
// A rail with a subnet that only one pair shares is in none of them, unless the subnet is known to
// be on several cables.
std::vector<WirePair> doubtful_pairs(std::span<const RailEnd> locals,
                                     std::span<const RailEnd> peers, Sides sides = Sides::Unknown);

// Returns the text for the line that refuses a connection, such as "the first has 10.0.12.0/24,
// 10.0.13.0/24; the second 10.0.23.0/24".
std::string no_common_subnet_text(std::span<const RailEnd> locals, std::span<const RailEnd> peers);

// Peers may have 64 rails of 8 addresses each, and each question is a system call.
inline constexpr std::size_t kRoutesAskedMax = 256;

// Returns pairs, across routers, of the rails that share no subnet and are in no pair yet. The
// rules:
// - Rails of equal identity pair if the peer's host has a route from one of its rail's addresses to
//   one of ours that leaves by that rail. Where no identities are equal, the k-th rail pairs with
//   the k-th.
// - Where nobody can tell, because the net device is not visible, or because InfiniBand has no such
//   table, rails pair if there is no other pair at all.
// The two ends of a cable have no route to the ends of other cables, so a mesh of cables gets no
// pair here.
std::vector<RailPair> routed_pairs(std::span<const RailEnd> locals, std::span<const RailEnd> peers,
                                   std::span<const RailPair> paired, const AskReach& ask);

}  // namespace mesh::topo
