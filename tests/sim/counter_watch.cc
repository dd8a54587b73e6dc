#include "tests/sim/counter_watch.h"

namespace mesh::sim {

CounterWatch::Figures CounterWatch::figures_of(const EngineSnapshot& shot) {
  const EngineStats& stats = shot.stats;
  return {{{"messages_sent", stats.messages_sent},
           {"messages_received", stats.messages_received},
           {"bytes_sent", stats.bytes_sent},
           {"bytes_received", stats.bytes_received},
           {"late_announcements", stats.late_announcements},
           {"revokes", stats.revokes},
           {"resumes", stats.resumes},
           {"errors", stats.errors},
           {"credit stalls", shot.stalls.credit},
           {"queue stalls", shot.stalls.queue},
           {"window stalls", shot.stalls.window},
           {"inflight stalls", shot.stalls.inflight},
           {"neighbours asked", shot.neighbours.asked},
           {"neighbours' answers", shot.neighbours.taken},
           {"neighbours answered", shot.neighbours.answered},
           {"neighbours ignored",
            shot.neighbours.malformed + shot.neighbours.foreign + shot.neighbours.excess}}};
}

CounterWatch::Figures CounterWatch::figures_of(const PeerSnapshot& peer) {
  return {{{"messages", peer.messages},
           {"bytes", peer.bytes},
           {"degraded_ns", peer.degraded_ns},
           {"without_path_ns", peer.without_path_ns}}};
}

CounterWatch::Figures CounterWatch::figures_of(const PathSnapshot& path) {
  return {{{"bytes_sent", path.counters.bytes_sent},
           {"work_requests", path.counters.work_requests},
           {"doorbells", path.counters.doorbells},
           {"send_completions", path.counters.send_completions},
           {"announcements", path.counters.announcements},
           {"latency samples", path.latency.total()},
           {"latency sum", path.latency.sum_ns},
           {"failures", path.failures},
           {"replayed_stripes", path.replayed_stripes},
           {"reopen_tries", path.reopen_tries}}};
}

const char* CounterWatch::first_fallen(Seen& before, const Figures& now) const {
  const char* fallen = nullptr;
  for (std::size_t i = 0; i < kFiguresMax; ++i) {
    if (now[i].value < before.figures[i].value && fallen == nullptr) fallen = now[i].name;
  }
  before = {.figures = now, .look = look_};
  return fallen;
}

std::string CounterWatch::vanished() const {
  for (const auto& [name, peer] : peers_) {
    if (peer.seen.look != look_) return fmt::format("those of peer {} are gone", name.first);
    for (const auto& [path, seen] : peer.paths) {
      if (seen.look != look_) return fmt::format("those of path {} are gone", path);
    }
  }
  return "";
}

std::string CounterWatch::see(const EngineSnapshot& shot) {
  ++look_;
  std::string fallen;
  const auto compare = [&](const std::string& owner, Seen& before, const Figures& now) {
    const char* const name = first_fallen(before, now);
    if (name != nullptr && fallen.empty()) fallen = fmt::format("{} of {} fell", name, owner);
  };
  compare("the engine", engine_, figures_of(shot));
  for (const PeerSnapshot& peer : shot.peers) {
    PeerSeen& before = peers_[{peer.peer, peer.sends}];
    compare(peer.peer, before.seen, figures_of(peer));
    for (const PathSnapshot& path : peer.paths)
      compare(path.name, before.paths[path.name], figures_of(path));
  }
  return fallen.empty() ? vanished() : fallen;
}

}  // namespace mesh::sim
