#pragma once
// Chooses the rails and addresses of two hosts that become the paths of a link. The acceptor
// decides, from both sides' rails. Thread: any (values). Bound: kMeetMax pairs of rails.

#include <mesh/config.h>

#include "engine/link/path_sets.h"
#include "src/topo/pairing.h"
#include "src/verbs/provider.h"

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace mesh::engine {

// Returns the acceptor's route from an address of one of its rails to an address of the connector.
using AskRoute =
    std::function<verbs::Route(std::size_t rail, std::size_t address, const WireAddress& to)>;

struct PathChoice {
  // Every pair of rails that meets, with addresses and MTU, the faster ones first. Empty if no rail
  // reaches another.
  std::vector<WirePath> meet;
  PathSets sets;        // chosen as HELLO asks
  std::string no_path;  // why no rails meet; empty if some do
  // Names, as a clause, a route that does not leave by the rail whose address it is from. Empty if
  // there is none.
  std::string elsewhere;
  // The outcome of datagrams. If none was answered, the pairs that were asked may meet or not.
  topo::CableProof proof{};
  std::uint8_t by_proof = 0;       // 1: a path over a cable that is not known yet stands by
  std::uint8_t relayed = 0;        // number of paths over other hosts that stand by
  std::vector<WirePath> beside{};  // the path over other hosts beside the primary ones, if any
};
topo::RailEnd rail_end(const WireRail& rail);  // as topo::pair_rails() takes it

// The acceptor's rails, site and host.
struct OwnRails {
  // NOLINTNEXTLINE(google-explicit-constructor): without a site they are rails and nothing else.
  OwnRails(const std::vector<WireRail>& all, std::string of_site = {},
           std::uint64_t on_several_cables = 0, std::uint64_t of_host = 0)
      : rails(all), site(std::move(of_site)), shared(on_several_cables), host_id(of_host) {}
  const std::vector<WireRail>& rails;
  std::string site;
  std::uint64_t shared = 0;   // as in WireProof
  std::uint64_t host_id = 0;  // as in HELLO
};
// The connector's rails and the acceptor's, as the pairing takes them.
struct PairingEnds {
  std::vector<topo::RailEnd> theirs, ours;
  topo::Sides sides = topo::Sides::Unknown;
};
PairingEnds pairing_ends(const Hello& hello, const OwnRails& own);

// In a proof the connector's rails are the local ones.
PathChoice choose_paths(const Hello& hello, const OwnRails& own, const AskRoute& ask,
                        const topo::CableProof* proof = nullptr);
// The pairs of rails that datagrams should be sent for, because addresses do not tell whether they
// meet. A pair of which a port is down can only answer when that has come up.
struct DoubtfulRails {
  std::vector<topo::WirePair> up, down;
  bool empty() const noexcept { return up.empty() && down.empty(); }
};
// Returns none between sites, whose rails have routers between them.
DoubtfulRails doubtful_rails(const Hello& hello, const OwnRails& own);

// Returns true if a link may lead over other hosts. It may not between two sites, nor if HELLO asks
// for one rail only, nor if HELLO asks for all rails and some of them are known to meet.
bool may_be_relayed(const Hello& hello, const OwnRails& own, const PathChoice& choice);
// Adds the paths over other hosts, if each side has a rail that is not known to meet the other side
// itself. Their rails are named when they are opened. If both sides wish it, one of them carries
// beside the primary paths. As each CTS entry has a key for it, its rail of the acceptor is named
// here; the connector's is only a proposal.
void add_relayed(const Hello& hello, const OwnRails& own, const Settings& settings,
                 PathChoice* choice);

// Adds a path over a cable that is not known yet, where addresses leave a doubt: a port of it may
// be down, or cables may move. If there is no room, the last standby path gives way, one of several
// over other hosts, or a primary one that may be no cable. Call it last.
void add_by_proof(const Hello& hello, const OwnRails& own, PathChoice* choice);

// Returns "the first has ...; the second ...": both sides name the connector first. Between sites
// these are the subnets of the rails that leave the site.
std::string no_path_text(const Hello& hello, const OwnRails& own);

// Returns why there is no path, or none that HELLO allows; `name` is our host's.
std::string why_no_path(const Hello& hello, const OwnRails& own, const PathChoice& choice,
                        const std::string& name);

// Returns a line for each subnet that several of our rails are in: if direct cables share a subnet,
// addresses do not tell which cable leads where.
std::vector<std::string> shared_subnet_lines(const std::vector<WireRail>& rails);

std::string address_text(const WireAddress& address);  // "10.0.12.1"

}  // namespace mesh::engine
