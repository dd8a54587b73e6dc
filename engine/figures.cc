#include "engine/figures.h"

#include "engine/data/path_text.h"
#include "engine/link/relay/relay_service.h"
#include "engine/request_watch.h"
#include "engine/sums.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"
#include "src/verbs/discovery.h"
#include "src/verbs/gid_choice.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace mesh::engine {

namespace {

void add_wait(Channel& channel, const Context& context, PeerSnapshot& to, std::uint64_t now_ns) {
  const std::uint64_t age_ns = channel.oldest.age_ns(now_ns);
  if (age_ns < kRequestOpenToShownNs) return;
  const std::optional<Waiting> waiting = RequestWatch::waiting_of(channel, context.turned);
  if (!waiting) return;
  WaitSnapshot& wait = to.waits[static_cast<std::size_t>(waiting->reason)];
  ++wait.channels;
  wait.longest_ns = std::max(wait.longest_ns, age_ns);
}

struct ChannelCounts {
  std::uint64_t messages = 0, bytes_received = 0;
};
ChannelCounts counts_of(const Channel& channel) {
  if (channel.side == Side::Send)
    return {.messages = static_cast<const SendChannel&>(channel).posted_messages()};
  const auto& receiver = static_cast<const RecvChannel&>(channel);
  return {.messages = receiver.received(), .bytes_received = receiver.received_bytes()};
}

PathSnapshot snapshot_of(const Path& path) {
  PathSnapshot shot;
  shot.name = path.name;
  shot.rail = path.device->name();
  shot.counters = path.counters_of_rails();
  shot.latency = path.latency.histogram();
  shot.inflight_bytes = path.inflight_bytes();
  switch (path.health.state) {
    case PathState::Up: shot.up = 1; break;
    case PathState::Quarantined: shot.quarantined = 1; break;
    case PathState::Down: shot.down = 1; break;
    case PathState::Standby: shot.standby = 1; break;
  }
  shot.epoch = path.health.epoch;
  shot.failures = path.health.failures;
  shot.replayed_stripes = path.health.replayed_stripes;
  shot.reopen_tries = path.health.reopen_tries;
  shot.black_holes = path.health.black_holes;
  shot.last_cause = path.health.last_cause;
  if (!path.over.empty()) shot.routes = {path.over};
  return shot;
}

PathSnapshot snapshot_of(const FormerRails& rails) {
  PathSnapshot shot;
  shot.name = rails.name;
  shot.rail = rails.rail;
  shot.counters = rails.counters;
  shot.latency = rails.latency;
  shot.failures = rails.failures;
  shot.replayed_stripes = rails.replayed_stripes;
  shot.reopen_tries = rails.reopen_tries;
  return shot;
}

// Returns the figures of one link. The caller holds the progress lock of its loop.
PeerSnapshot snapshot_of(const Link& link, std::uint64_t now_ns) {
  PeerLink& peer = link.peer_link();
  PeerSnapshot shot;
  shot.peer = link.identity().peer_host;
  shot.sends = link.connector();
  shot.links = 1;
  shot.channels = peer.channels().count();
  shot.spent_links = link.over() || link.failure() != Errc::Ok ? 1 : 0;
  shot.degraded_ns = link.watched.degraded_ns;
  shot.without_path_ns = link.watched.without_path_ns;
  shot.messages = peer.channels().ended().messages.get();
  shot.bytes = peer.channels().ended().bytes_received.get();
  peer.channels().for_each([&](Channel& channel) {
    shot.open_requests += channel.open_count();
    const ChannelCounts counts = counts_of(channel);
    shot.messages += counts.messages;
    shot.bytes += counts.bytes_received;
    add_wait(channel, link.context(), shot, now_ns);
  });
  for (const Path& path : peer.paths().all()) {
    shot.paths.push_back(snapshot_of(path));
    for (const FormerRails& rails : path.former) shot.paths.push_back(snapshot_of(rails));
    shot.bytes += path.counters().bytes_sent;  // 0 on a link that receives
  }
  return shot;
}

// Names the hosts that the link's paths lead over.
std::string over_text(const PeerSnapshot& link) {
  std::string text;
  for (const PathSnapshot& path : link.paths) {
    for (const std::string& route : path.routes)
      text += fmt::format("{}{}", text.empty() ? ", over " : "; ", hosts_named(route));
  }
  return text;
}

// The line that is logged when a link is destroyed or its context closes.
std::string summary_text(const PeerSnapshot& link) {
  std::uint64_t failures = 0, replayed = 0;
  for (const PathSnapshot& path : link.paths) {
    failures += path.failures;
    replayed += path.replayed_stripes;
  }
  const std::string survived =
      failures == 0
          ? ""
          : fmt::format(
                "; its paths failed {} times, {} stripes were sent again, {} s with a path missing",
                failures, replayed, link.degraded_ns / 1'000'000'000);
  const auto carried =
      std::count_if(link.paths.begin(), link.paths.end(), [&link](const PathSnapshot& path) {
        return (link.sends ? path.counters.bytes_sent : path.counters.announcements) != 0;
      });
  return fmt::format("{} host {}: {} bytes in {} messages over {} path{}{}{}",
                     link.sends ? "sent to" : "received from", link.peer, link.bytes, link.messages,
                     carried, carried == 1 ? "" : "s", over_text(link), survived);
}

// Returns how many bytes of our own messages went over one of our rails.
std::uint64_t bytes_of_rail(const PeerLedger& ledger, const std::string& rail) {
  std::uint64_t bytes = 0;
  for (const PeerSnapshot& peer : ledger.rows()) {
    for (const PathSnapshot& path : peer.paths) {
      if (path.rail == rail) bytes += path.counters.bytes_sent;
    }
  }
  return bytes;
}

std::string megabytes_text(std::uint64_t bytes) {
  constexpr double kMegabyte = 1e6, kNoFraction = 100;
  const double megabytes = static_cast<double>(bytes) / kMegabyte;
  return megabytes < kNoFraction ? fmt::format("{:.3g}", megabytes)
                                 : fmt::format("{:.0f}", megabytes);  // {:.3g} of 2590 is 2.59e+03
}

std::string relayed_text(const RelayedSnapshot& way, std::uint64_t own_bytes) {
  const double share = static_cast<double>(way.bytes) / static_cast<double>(way.bytes + own_bytes);
  const std::string waits =
      way.ring_full == 0 ? ""
                         : fmt::format("; the next host's buffer was full {} times", way.ring_full);
  return fmt::format("carried for other hosts from {} to {}: {} MB, {:.0f} % of all sent over {}{}",
                     way.from, way.rail, megabytes_text(way.bytes), 100 * share, way.rail, waits);
}

// Returns true if the way has carried little but credits and acknowledgements of what went the
// opposite way.
bool only_answers(const RelayedSnapshot& way, std::span<const RelayedSnapshot> ways) {
  constexpr std::uint64_t kAnswersShare = 100;
  return std::any_of(ways.begin(), ways.end(), [&way](const RelayedSnapshot& other) {
    return other.from == way.rail && other.rail == way.from &&
           way.bytes < other.bytes / kAnswersShare;
  });
}

const char* port_state_name(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_NOP: return "unknown";
    case IBV_PORT_DOWN: return "down";
    case IBV_PORT_INIT: return "init";
    case IBV_PORT_ARMED: return "armed";
    case IBV_PORT_ACTIVE: return "active";
    case IBV_PORT_ACTIVE_DEFER: return "active_defer";
  }
  return "unknown";
}

void add_loop(const LoopCounters& counters, EngineStats& stats) {
  stats.messages_sent += counters.messages_sent.get();
  stats.messages_received += counters.messages_received.get();
  stats.bytes_sent += counters.bytes_sent.get();
  stats.bytes_received += counters.bytes_received.get();
  stats.late_announcements += counters.late_announcements.get();
  stats.errors += counters.errors.get();
}

void add_link(const PeerLink& link, EngineStats& stats) {
  ++stats.links;
  stats.channels += link.channels().count();
  link.channels().for_each([&stats](const Channel& channel) {
    const ChannelCounts counts = counts_of(channel);
    (channel.side == Side::Send ? stats.messages_sent : stats.messages_received) += counts.messages;
    stats.bytes_received += counts.bytes_received;
  });
  for (const Path& path : link.paths().all()) {
    const PathCounters counters = path.counters();
    stats.bytes_sent += counters.bytes_sent;
    stats.work_requests += counters.work_requests;
    stats.doorbells += counters.doorbells;
    stats.send_completions += counters.send_completions;
    stats.announcements += counters.announcements;
  }
}

StallCounts stalls_of(const LoopCounters& counters) {
  return {.credit = counters.credit_stalls.get(),
          .queue = counters.queue_stalls.get(),
          .window = counters.window_stalls.get(),
          .inflight = counters.inflight_stalls.get()};
}

void add_stalls(StallCounts counts, StallCounts& to) { Sums(counts).add_to(Sums(to)); }

}  // namespace

std::vector<RailSnapshot> rail_states(const EngineOptions& options,
                                      std::span<const verbs::Rail> rails) {
  std::vector<RailSnapshot> states;
  for (const verbs::Rail& rail : rails) {
    RailSnapshot& state = states.emplace_back();
    state.name = rail.info.name;
    state.address = rail.info.address;
    state.speed_mbps = rail.info.speed_mbps;
    state.offered = rail.up;
    for (const verbs::GidEntry& gid : rail.gids)
      state.addresses.push_back({.address = verbs::address_text(gid), .gid_index = gid.index});
    if (!rail.gids.empty()) state.gid_type = verbs::gid_type_name(rail.gids.front().type);
    state.mtu = rail.info.mtu;
    state.numa_node = rail.info.numa_node;
    state.pci = verbs::pci_address(rail.info);
    const verbs::PortNow port = verbs::port_now(*options.provider, rail);
    state.active = port.up;
    state.state = port_state_name(port.state);
  }
  return states;
}

EngineStats Figures::stats(const Contexts& contexts) const {
  EngineStats stats;
  stats.contexts = contexts.size();
  stats.revokes = counts.revokes;
  stats.resumes = counts.resumes;
  add_loop(ended_loops_, stats);
  for (const auto& context : contexts) {
    const ProgressLoop::Guard guard(context->loop);  // counters belong to the holder
    add_loop(context->loop.counters, stats);
    stats.registrations += context->registrations->size();
    for (const auto& device : context->loop.devices) {
      stats.queue_pairs += device->queue_pair_count();
      stats.completion_queues += device->completion_queue_count();
    }
    for (const auto& link : context->links) {
      stats.pending_answers += link->farewell().pending_answers();
      if (link->has_peer_link()) add_link(link->peer_link(), stats);
    }
  }
  return stats;
}

void Figures::add_to(EngineSnapshot& shot, const Contexts& contexts, std::uint64_t now_ns) const {
  shot.stalls = stalls_of(ended_loops_);
  PeerLedger peers = ended_;
  for (const auto& context : contexts) {
    for (const auto& link : context->links) {
      if (!link->has_peer_link()) continue;
      const ProgressLoop::Guard guard(context->loop);  // once per link: a short wait for others
      peers.add(snapshot_of(*link, now_ns));
    }
    const ProgressLoop::Guard guard(context->loop);
    add_stalls(stalls_of(context->loop.counters), shot.stalls);
  }
  shot.peers = peers.rows();
}

void Figures::keep(const Link& link, std::uint64_t now_ns) noexcept {
  if (!link.has_peer_link()) return;
  try {
    const ProgressLoop::Guard guard(link.context().loop);
    PeerSnapshot shot = snapshot_of(link, now_ns);
    if (shot.sends) link.context().loop.counters.bytes_sent.add(shot.bytes);
    if (shot.messages != 0 && !link.context().closing) LOG_DETAIL("{}", summary_text(shot));
    ended_.add_ended(std::move(shot));
  } catch (const std::exception& error) {
    LOG_WARN("peer {}: the counters of its link are lost: {}", link.identity().peer_host,
             error.what());
  }
}

void Figures::sum_up(Context& context, std::uint64_t now_ns) const noexcept {
  try {
    const ProgressLoop::Guard guard(context.loop);
    for (const auto& link : context.links) {
      if (!link->has_peer_link()) continue;
      const PeerSnapshot shot = snapshot_of(*link, now_ns);
      if (shot.messages != 0) LOG_DETAIL("{}", summary_text(shot));
    }
  } catch (const std::exception& error) {
    LOG_WARN("the totals of a communicator's links cannot be logged: {}", error.what());
  }
}

void Figures::sum_up(const RelayService& relays) const noexcept {
  try {
    const std::vector<RelayedSnapshot> ways = relays.figures().ways;
    for (const RelayedSnapshot& way : ways) {
      if (way.bytes == 0) continue;
      MESH_LOG(only_answers(way, ways) ? LogLevel::Detail : LogLevel::Info, "{}",
               relayed_text(way, bytes_of_rail(ended_, way.rail)));
    }
  } catch (const std::exception& error) {
    LOG_WARN("the totals of relayed traffic cannot be logged: {}", error.what());
  }
}

}  // namespace mesh::engine
