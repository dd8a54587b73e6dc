#pragma once
// The paths of a link whose rails are named at each opening: by the connector, which tells them in
// REOPEN. For those that lead over other hosts it adds to PathRepair their routes, the chains
// through the hosts on the way, and what those hosts say. A path by proof leads over a cable that
// datagrams have told since the link was made. Thread: control mutex; it takes the loop's progress
// lock where it touches paths. Bound: kPathsMax.

#include "engine/control/relay_frames.h"
#include "engine/link/relay/failed_steps.h"
#include "engine/link/relay/relay_client.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mesh::engine {

class Link;
struct Path;

// The cause that is logged for a path whose chains have work but report nothing for
// kRelayWorkToCountNs.
inline constexpr const char* kStuckCause = "a host on the way carries nothing any more";

class RelayedPaths {
 public:
  explicit RelayedPaths(Link& link) : link_(link) {}
  void begin();  // called when the link has its paths

  // ---- Connector: the chains of a path that is being opened.
  // Why a path is opened: messages wait for it, it is to stand by, or it makes the link faster.
  enum class Need : std::uint8_t { Message, Spare, Gain };
  // Asks the hosts of a route for chains. Returns false, and why, if there is no route.
  bool ask(std::uint32_t index, Need need, std::string* why);
  // Returns true if the last ask() found no route, and hosts have told more since.
  bool has_news(std::uint32_t index) const;
  // Returns true if the last ask() found no route over so many hosts, but one over others is known.
  bool has_other_way(std::uint32_t index) const { return tries_[index].other_way; }
  RelayedChains* chains(std::uint32_t index) noexcept { return chains_[index].get(); }  // or null
  std::string who_is_asked(std::uint32_t index) const;
  void cut(std::uint32_t index) noexcept;  // called when a try has failed or the path is lost
  void let_stand_by(
      std::uint32_t index) noexcept;  // the path is not needed; nothing is wrong with it
  // Returns why a path that is up or probed is dead; empty if it is not. The caller holds the
  // progress lock.
  std::string why_dead(std::uint32_t index);
  // Names the rails of a path by proof: of a cable that datagrams have told, and that no path of
  // the link names. Returns false, and why, if there is none.
  bool find_cable(std::uint32_t index, std::string* why);
  // Completes a REOPEN of a path whose rails are named: the acceptor's queue pairs are to connect
  // to ours, or to the last host on the way.
  void lead(std::uint32_t index, Reopen* asks) const;
  std::vector<WireHop> first_hop(std::uint32_t index) const;  // empty if the path has no chains
  void join(std::uint32_t index, std::uint32_t psn, const WireHop& peer);
  // Returns true if a link never had a path, and for too long no host is known that joins the two.
  bool is_lost(std::uint64_t stalled_since_ns);
  // Returns "; " and what neighbours have told, if no way was ever found.
  std::string told_of_neighbours() const;
  void found_path() noexcept { routed_ = false; }

  // ---- Acceptor: names the rails that the connector has chosen. Returns false, and why, if there
  // are none such.
  bool take_route_of(const Reopen& asked, std::string* why);

  // ---- Both: quarantines paths whose chains have broken, or carry nothing while something waits.
  void watch();
  void cut_all() noexcept;  // the link is over

 private:
  struct Ends {
    std::uint32_t own_rail = 0, own_address = 0, peer_rail = 0, peer_address = 0;
  };
  void name_rails(std::uint32_t index, const Ends& ends, const std::string& over);
  bool may_use(std::size_t rail) const;
  void begin_chains(std::uint32_t index, RelayRoute route);
  HostsBetween hosts_of(std::uint32_t index) const;
  std::vector<Id128> hosts_of_others(std::uint32_t index) const;

  Link& link_;
  std::vector<std::unique_ptr<RelayedChains>> chains_;  // by path; destroying them cuts them
  struct Tries {
    std::optional<RelayRoute> last;  // the route of the last try, whose outcome is not yet noted
    Id128 at_fault{};                // the host at fault for it, as FailedSteps takes it
    // The relay client's news() when no route was found; empty: there was one.
    std::optional<std::uint64_t> unrouted{};
    bool other_way = false;
  };
  std::vector<Tries> tries_;  // by path
  FailedSteps failed_;        // of all paths
  bool routed_ = false;       // a route was found since the link last had a path
};

}  // namespace mesh::engine
