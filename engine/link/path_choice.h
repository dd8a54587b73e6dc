#pragma once
// Which rails and addresses of two hosts become the paths of a link: the acceptor's decision, made
// of both sides' rails. Thread: any (values). Bound: kMeetMax pairs of rails.

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

// The acceptor's route from an address of its own rail to one of the connector's.
using AskRoute =
    std::function<verbs::Route(std::size_t rail, std::size_t address, const WireAddress& to)>;

struct PathChoice {
  // Every pair of rails that meets, with addresses and MTU, the faster ones first. Empty: nothing
  // reaches anything.
  std::vector<WirePath> meet;
  PathSets sets;        // as HELLO asks
  std::string no_path;  // why nothing meets, where nothing does
  // A route that does not leave by the rail whose address it is for, as a clause. Empty: there is
  // none.
  std::string elsewhere;
  std::vector<WirePath> relayed{};  // pairs of rails that do not meet and may be joined by others
  bool beside = false;              // the first of these carries beside the primary paths
};
topo::RailEnd rail_end(const WireRail& rail);  // as the pairing sees it

// What the acceptor has.
struct OwnRails {
  // NOLINTNEXTLINE(google-explicit-constructor): without a site they are rails and nothing else.
  OwnRails(const std::vector<WireRail>& all, std::string of_site = {})
      : rails(all), site(std::move(of_site)) {}
  const std::vector<WireRail>& rails;
  std::string site;
};
PathChoice choose_paths(const Hello& hello, const OwnRails& own, const AskRoute& ask);

// Whether a link may lead over other hosts, as HELLO asks: not to another site, whose rails are
// chosen, nor beside rails of which all or only the asked one is to be used.
bool may_be_relayed(const Hello& hello, const OwnRails& own, const PathChoice& choice);
// Whether a path over other hosts carries beside primary ones: both sides wish it.
bool goes_both_ways(const Hello& hello, const Settings& settings, const PathChoice& choice);
// Which rails of both sides other hosts may join, of those that do not meet the other side
// themselves: one of each cable, so that each cable of both sides comes early.
std::vector<WirePath> relayed_pairs(const std::vector<WireRail>& connector_rails,
                                    const std::vector<WireRail>& acceptor_rails,
                                    const PathChoice& choice);

// "our subnets ...; the peer's ...", from the connector's side. Between sites they are those of the
// rails that leave.
std::string no_path_text(const Hello& hello, const OwnRails& own);

// Why there is no path, or none that HELLO allows; `name` is our host's.
std::string why_no_path(const Hello& hello, const OwnRails& own, const PathChoice& choice,
                        const std::string& name);

// A line for each subnet that several of our rails are in: of direct cables in one subnet nothing
// tells which leads where.
std::vector<std::string> shared_subnet_lines(const std::vector<WireRail>& rails);

std::string address_text(const WireAddress& address);  // "10.0.12.1"

}  // namespace mesh::engine
