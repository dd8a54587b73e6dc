#pragma once
// How soon what is lost must be noticed. Thread: one. Bound: grows with paths and channels.

#include <mesh/snapshot.h>

#include "tests/standard.h"

#include <compare>

namespace mesh::sim {

class ChannelRun;
struct Side;

// If every host answers and one cable at least is whole, no fence waits for the connection that ran
// over the cable that is cut.
class FenceWatch {
 public:
  // No cable is whole until then.
  void excuse(std::uint64_t until_ns) { excused_ns_ = std::max(excused_ns_, until_ns); }
  // A communicator of the host has ended early. Its links fence nothing any more, and over a
  // connection that does not lead to the address proven before nobody believes that.
  void leave_out(std::size_t host) { left_.insert(fmt::format("h{}", host)); }
  // Returns in words which path of the host is lost and not fenced in time; empty if none is.
  std::string see(std::size_t host, const EngineSnapshot& shot, std::uint64_t now_ns);

 private:
  struct Lost {
    std::uint64_t failures = 0, since_ns = 0;
  };
  std::map<std::string, Lost> lost_;  // by host, peer, direction and path: not fenced yet
  std::uint64_t excused_ns_ = 0;
  std::set<std::string> left_;  // names of hosts
};

// If a card is back in its place and nothing fails any more, every path over it carries again. A
// path that its connector lets stand by stands by at its acceptor, too.
class CalmWatch {
 public:
  // hosts[process]: its host. It outlives the watch.
  explicit CalmWatch(const std::vector<std::size_t>& hosts) : hosts_(hosts) {}
  void left(std::size_t host, const std::string& nic) { cards_.insert({host, nic + ":1"}); }
  // Something fails, or is away, until then.
  void disturb(std::uint64_t until_ns) { calm_ns_ = std::max(calm_ns_, until_ns); }
  // Returns in words which rail or path of the process has not been up for `bound_ns` after all
  // were back; empty if none is.
  struct Look {
    std::uint64_t now_ns = 0, bound_ns = 0;
  };
  std::string see(std::size_t process, const EngineSnapshot& shot, const Look& look);
  // Returns in words which path of the process has not stood by for `bound_ns` after its
  // connector's end did; empty if each does. Looks between hosts of one process each.
  std::string see_standby(std::size_t process, const EngineSnapshot& shot, const Look& look);

 private:
  bool is_late(const std::string& what, bool up, const Look& look);
  bool is_alone(const std::string& name) const;

  std::set<std::pair<std::size_t, std::string>> cards_;  // by host and rail
  // By the connector's host, the acceptor's host and the path's name there: how many paths of that
  // name do not stand by. A path over hosts keeps the name of its last try, so two may have one
  // name at the connector while the acceptor knows only one of them by it.
  std::map<std::string, std::map<std::pair<std::string, std::string>, std::uint64_t>> in_use_;
  const std::vector<std::size_t>& hosts_;
  std::map<std::string, std::uint64_t> not_up_since_;  // rails and paths
  std::uint64_t calm_ns_ = 0;
};

// When a port goes down, each process of its host hears of it.
class PortWatch {
 public:
  explicit PortWatch(const std::vector<std::size_t>& hosts) : hosts_(hosts) {}
  struct Port {
    std::size_t host = 0;
    std::string nic;
    friend auto operator<=>(const Port&, const Port&) = default;
  };
  struct Span {
    std::uint64_t begin_ns = 0, duration_ns = 0;  // 0: for ever
  };
  void goes_down(const Port& port, const Span& span);
  // Its card leaves. A process opens the next card some time after it has come.
  void leaves(const Port& port, const Span& span);
  // Returns in words which port the process believes in; empty if there is none.
  std::string see(std::size_t process, const EngineSnapshot& shot, std::uint64_t now_ns) const;

 private:
  struct Downs {
    std::uint64_t count = 0;  // that nobody can have taken for one with the down before
    std::uint64_t told_by_ns = 0, up_ns = 0;
  };
  const std::vector<std::size_t>& hosts_;
  std::map<Port, Downs> downs_;
};

// Each request towards a host that is lost ends in a bounded time, though the control network may
// be silent, too.
class LossWatch {
 public:
  // Returns in words which request of the channel has outlived its host by that bound; empty if
  // none has.
  std::string see(ChannelRun& channel, std::uint64_t now_ns, std::uint64_t bound_ns);

 private:
  struct Oldest {
    std::size_t number = SIZE_MAX;
    std::uint64_t since_ns = 0;
  };
  std::map<const Side*, Oldest> oldest_;  // requests towards a host that is lost
};

}  // namespace mesh::sim
