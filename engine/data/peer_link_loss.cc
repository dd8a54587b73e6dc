// The loop's part of losing a path and getting it back: which users leave it, what it lost, which
// queue pairs carry that, and how it joins again. The control path (path_repair.h) talks with the
// peer and decides when.
#include "engine/data/device_context.h"
#include "engine/data/path_text.h"
#include "engine/data/peer_link.h"
#include "engine/data/progress_loop_datapath.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/probes.h"

#include <algorithm>
#include <cstring>
#include <exception>

namespace mesh::engine {

// Shares everything out anew after the usable paths have changed; what has a queue pair keeps it.
void PeerLink::reroute() {
  DCHECK(loop_.held());
  paths_.order();
  channels_.for_each([this](Channel& channel) {
    channel.choose_express();
    loop_.activate(channel);
  });
}

namespace {
// Returns false for a path without a device.
bool port_seen_down(const Path& path) {
  const verbs::PortView* const view =
      path.device == nullptr ? nullptr : path.device->rail().view.get();
  return view != nullptr && !view->port().up;
}
}  // namespace

void PeerLink::quarantine(Path& path, const std::string& cause) noexcept {
  DCHECK(loop_.held());
  if (path.health.state != PathState::Up) return;
  paths_.set_state(path, PathState::Quarantined);
  for (const auto& queue_pair : path.queue_pairs) {
    queue_pair->quarantine();
    loop_.forget(*queue_pair);
  }
  path.byte_waiter = nullptr;
  path.latency.give_up();
  LogLevel level = LogLevel::Detail;
  // The peer, and a host between, may have taken their ends apart before we know that it is over.
  const bool ended = channels_.index_bound() != 0 && channels_.all_ended();
  const bool over = failure() != Errc::Ok || paths_.is_outranked(path) || ended;
  try {
    if (!over) level = owner_.peer_log().note_loss(*this, path, port_seen_down(path));
    path.health.last_cause = cause;
    reroute();
    channels_.for_each([&path](Channel& channel) { channel.leave_path(path); });
  } catch (const std::exception& error) {
    return fail_for_memory(path, error.what());
  }
  loop_.wake_control();
  if (paths_.is_outranked(path)) {
    LOG_DETAIL("peer {}: path {} is a standby path again", identity_.peer_host, path.name);
    return;
  }
  if (!ended) {
    ++path.health.failures;
    loop_.counters.errors.add(1);
    MESH_PROBE3(path_lost, identity_.peer_host.c_str(), path.name.c_str(), cause.c_str());
  }
  MESH_LOG(level, "peer {}: path {} is lost: {}; {}", identity_.peer_host,
           path_text(path, sizeof("peer : path  is lost: ; ") - 1 + identity_.peer_host.size() +
                               cause.size() + what_carries_on().size()),
           cause, what_carries_on());
}

std::string PeerLink::what_carries_on() const {
  if (!paths_.stalled()) {
    return fmt::format("{} of {} paths carry on", paths_.usable_count(), paths_.primary_count());
  }
  const auto stands_by = [](const Path& path) { return path.health.state == PathState::Standby; };
  const auto direct = [&](const Path& path) { return stands_by(path) && !path.ends.relayed; };
  if (std::any_of(paths_.all().begin(), paths_.all().end(), direct))
    return "another cable takes over";
  return std::any_of(paths_.all().begin(), paths_.all().end(), stands_by)
             ? "a way over other hosts is looked for"
             : "no other path is up, waiting for one";
}

bool PeerLink::account_lost(Path& path, std::span<const std::uint64_t> taken) {
  DCHECK(loop_.held());
  DCHECK(path.health.state == PathState::Quarantined);
  std::vector<Span> lost;
  if (identity_.role == LinkRole::Connector) {
    // Late queue pairs of the peer may have joined when ours have not: nothing was sent on them.
    const std::size_t ours = path.queue_pairs.size();
    if (taken.size() < ours) return false;
    const std::span<const std::uint64_t> late = taken.subspan(ours);
    if (std::any_of(late.begin(), late.end(), [](std::uint64_t count) { return count != 0; }))
      return false;
    for (std::size_t i = 0; i < ours; ++i) {
      if (!SendQueuePair::of(*path.queue_pairs[i]).may_have_taken(taken[i])) return false;
    }
    for (std::size_t i = 0; i < ours; ++i)
      SendQueuePair::of(*path.queue_pairs[i]).account_lost(taken[i], &lost);
  }
  channels_.for_each([&path](Channel& channel) { channel.fenced(path); });
  for (const Span& span : lost) span.request->channel->replay(span);
  path.health.replayed_stripes += lost.size();
  paths_.set_state(path, PathState::Down);
  return true;
}

std::string black_hole_text(const Path& path) {
  return fmt::format("full packets of {} bytes (the path's MTU) vanish; raise the MTU on the way",
                     path.ends.mtu_bytes);
}

void PeerLink::probe(Path& path) noexcept {
  DCHECK(loop_.held());
  DCHECK(identity_.role == LinkRole::Connector);
  const bool full = path.probe_target.address != 0 && path.ends.mtu_bytes <= kProbeBytesMax;
  const int error =
      SendQueuePair::of(*path.queue_pairs[0])
          .post_probe(path.device->probe_source(full ? path.ends.mtu_bytes : 0), path.probe_target);
  if (error == 0) return;
  path.health.probe_failed = true;
  if (path.health.state == PathState::Up) on_post_failed(*path.queue_pairs[0], error);
}

void PeerLink::leave_out(Path& path, std::string why) {
  DCHECK(loop_.held());
  path.health.last_cause = std::move(why);
  if (path.health.state == PathState::Up) ++path.health.failures;
  paths_.set_state(path, PathState::Down);  // what its queue pairs flush is no news
  path.stop();
  paths_.destroy(path);
  reroute();
}

void PeerLink::widen(Path& path) noexcept {
  DCHECK(loop_.held());
  late_.join(path);
  try {
    reroute();
  } catch (const std::exception& error) {
    fail_for_memory(path, error.what());
  }
}

void PeerLink::change_card(std::uint32_t acceptor_rail, std::uint32_t card) {
  DCHECK(loop_.held());
  paths_.cards.note(acceptor_rail, card);
  reroute();
  if (identity_.role == LinkRole::Connector) return;
  channels_.for_each([](Channel& channel) { RecvChannel::of(channel).ask_rewrite(); });
}

void PeerLink::admit(Path& path) {
  DCHECK(loop_.held());
  DCHECK(path.health.state == PathState::Down);
  DCHECK(path.inflight_bytes() == 0);
  DCHECK(path.byte_waiter == nullptr);
  paths_.set_state(path, PathState::Up);
  for (const auto& queue_pair : path.queue_pairs) queue_pair->open();
  MESH_PROBE3(path_back, identity_.peer_host.c_str(), path.name.c_str(), path.health.epoch);
  reroute();
  if (reach_.lazy()) {
    reach_.wake_up();
    channels_.for_each([](Channel& channel) { channel.wake(); });
  }
  for (Path& other : paths_.all()) {
    if (other.health.state == PathState::Up && paths_.is_outranked(other))
      quarantine(other, "a better path is up");
  }
}

}  // namespace mesh::engine
