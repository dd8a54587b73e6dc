#pragma once
// Remembers what the log has said of peers. A peer has one link for each direction, communicator
// and set of rails, and they all see a cut cable or a dead peer; a reader wants to read of it once.
// Thread: any. Bound: kPeersMax peers (when another one comes, all are forgotten, and lines may
// come again), kNamesakesMax hosts of one name, and kPathsMax losses for each link.

#include "src/base/log.h"
#include "src/base/socket.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mesh::engine {

class PeerLink;
struct Path;

class PeerLog {
 public:
  static constexpr std::size_t kPeersMax = 4096, kNamesakesMax = 4;

  explicit PeerLog(std::string own_host) : own_host_(std::move(own_host)) {}

  // Returns true if this is the first call with these words about this peer.
  bool is_news(const std::string& peer, const std::string& words);

  // ---- Names.
  // A host with its id, as verbs::Provider tells it, and some of its addresses.
  struct Namesake {
    std::uint64_t id = 0;
    std::vector<SocketAddress> addresses;

    bool is(const Namesake& other) const;
  };
  // Notes that a host has that name. Returns an address of another host that has it: their ids
  // differ or, if one of them has none, they have no address in common.
  std::optional<SocketAddress> other_claim(const std::string& name, Namesake host);

  // ---- A peer's end. Returns true for the first link that ends because of its peer.
  bool is_first_end(const std::string& peer);
  void note_begin(const std::string& peer);  // a link has come up: another end is news

  // ---- Lost paths.
  // The link has lost the path, perhaps because our port is down. Returns the level of the line
  // about it: Detail if another link to that peer misses the path too. One cut cable takes many
  // paths, and one line warns of each port: Info is the level of the lines of further paths over a
  // port that is down, of paths between processes of our own host, and of relayed paths while any
  // path is missing.
  LogLevel note_loss(const PeerLink& link, const Path& path, bool port_down);
  // Notes what carries the link's messages instead. Returns true if it is the first for a loss.
  bool note_stand_in(const PeerLink& link, const std::string& text);
  // The link has the path back, which it may not have lost. Returns what carried messages
  // meanwhile, or an empty text, if no link misses the path any more.
  std::optional<std::string> end_of_loss(const PeerLink& link, const Path& path);
  void forget(const PeerLink& link) noexcept;  // it has ended

 private:
  using Cable = std::pair<std::string, std::string>;  // the peer's host, the path's name
  struct Loss {
    std::set<const PeerLink*> links;
    std::string stand_in;
    std::optional<std::uint32_t> down;  // our rail, if its port was down
  };
  static Cable cable_of(const PeerLink& link, const Path& path);

  const std::string own_host_;
  std::mutex mutex_;
  std::map<std::string, std::set<std::string>> told_;
  std::map<std::string, std::vector<Namesake>> claims_;  // all hosts of a name
  std::set<std::string> ended_;
  std::map<Cable, Loss> losses_;
};

}  // namespace mesh::engine
