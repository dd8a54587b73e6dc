#pragma once
// Those paths of a link that lead over other hosts, beside what PathRepair does about every path:
// routes, the chains through the hosts on the way, and what these say. Thread: control mutex; it
// takes the loop's token where it touches paths. Bound: kPathsMax.

#include "engine/control/relay_frames.h"
#include "engine/link/relay/failed_hosts.h"
#include "engine/link/relay/relay_client.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mesh::engine {

class Link;
struct Path;

// Why a path is lost whose chains have work and tell nothing (relay::kStuckNs).
inline constexpr const char* kStuckCause = "a host on the way carries nothing any more";

class RelayedPaths {
 public:
  explicit RelayedPaths(Link& link) : link_(link) {}
  void begin();  // the link has its paths

  // ---- Connector: chains of a path that is opened.
  // Gain: another path carries the link, and this one is opened to make it faster.
  enum class Need : std::uint8_t { Link, Gain };
  // Asks the hosts on a route for them. False: there is no route, and why.
  bool ask(std::uint32_t index, Need need, std::string* why);
  RelayedChains* chains(std::uint32_t index) noexcept { return chains_[index].get(); }  // or null
  std::string who_is_asked(std::uint32_t index) const;
  void cut(std::uint32_t index) noexcept;       // the try has failed, or the path is lost
  void let_rest(std::uint32_t index) noexcept;  // nothing is wrong with it
  // Of a path that is up or probed; holding the token. Empty: nothing is wrong with it.
  std::string why_dead(std::uint32_t index);
  void take_addresses(std::uint32_t index);  // of the route
  // The acceptor's queue pairs are for the last host on the way.
  void lead_over(std::uint32_t index, Reopen* asks) const;
  std::vector<WireHop> first_hop(std::uint32_t index) const;  // none: it has no chains
  void join(std::uint32_t index, std::uint32_t psn, const WireHop& peer);
  // A link that never had a path: for too long no host has been known that joins the two.
  bool is_lost(std::uint64_t stalled_since_ns);
  void found_path() noexcept { routed_ = false; }

  // ---- Acceptor: the addresses that the connector's route has chosen. False: they do not fit.
  bool take_route_of(const Reopen& asked, std::string* why);

  // ---- Both: chains that have broken, and those that carry nothing while something waits.
  void watch();
  void cut_all() noexcept;  // the link is over

 private:
  void name_route(Path& path, const std::string& over, std::uint32_t hosts);

  Link& link_;
  std::vector<std::unique_ptr<RelayedChains>> chains_;  // by path; what ends them cuts them
  struct Tries {
    std::optional<RelayRoute> last;  // it was begun, and what has become of it is not noted
    Id128 at_fault{};                // of that one, as FailedHosts has it
    FailedHosts failed;
  };
  std::vector<Tries> tries_;  // by path
  bool routed_ = false;       // there was a route since the link has no path
};

}  // namespace mesh::engine
