#include "engine/latency_watch.h"

#include "engine/data/path.h"
#include "engine/data/progress_loop_datapath.h"
#include "engine/data/send_queue_pair.h"
#include "engine/link/link.h"
#include "src/base/timeouts.h"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace mesh::engine {

namespace {

// Links that are looked at together. Each look takes a progress lock for a moment, and so delays
// NCCL's thread: with more links than this, each has its turn less often.
constexpr std::size_t kTimedLinksAtOnce = 16;

// Returns true for a link whose paths carry messages of ours. Acceptors post only entries.
bool sends(const Link& link) {
  return link.connector() && link.state() == LinkState::Up && link.has_peer_link() &&
         link.failure() == Errc::Ok;
}

}  // namespace

void LatencyWatch::look(const Contexts& contexts) {
  const std::uint64_t now_ns = clock_.now_ns();
  if (now_ns < next_ns_) return;
  links_.clear();
  for (const auto& context : contexts) {
    for (const auto& link : context->links) {
      if (sends(*link)) links_.push_back(link.get());
    }
  }
  std::uint64_t until_ns = now_ns;
  if (now_ns >= post_ns_) {
    post_ns_ = now_ns + every_ns_;
    // A clock that is moved by hand stands still meanwhile.
    if (post() && !clock_.manual()) until_ns += kTimedPostToNapNs;
  }
  const std::uint64_t nap_ns = await(until_ns);
  const bool traffic = quiet_links_ < links_.size();
  const std::uint64_t poll_ns = nap_ns == UINT64_MAX ? UINT64_MAX : now_ns + nap_ns;
  busy_ = traffic || nap_ns != UINT64_MAX;
  next_ns_ = traffic || !busy_ ? std::min(post_ns_, poll_ns) : poll_ns;
}

// Returns true if a link has had traffic.
bool LatencyWatch::post() {
  const std::size_t count = std::min(links_.size(), kTimedLinksAtOnce);
  bool traffic = false;
  for (std::size_t i = 0; i < count; ++i, ++cursor_) {
    if (cursor_ >= links_.size()) cursor_ = 0;
    const bool had = post_on(*links_[cursor_]);
    quiet_links_ = had ? 0 : quiet_links_ + 1;
    traffic |= had;
  }
  return traffic;
}

// Returns true if the link has had traffic.
bool LatencyWatch::post_on(Link& link) const {
  bool traffic = false;
  const ProgressLoop::Guard guard(link.context().loop);
  for (Path& path : link.peer_link().paths().all()) {
    if (!path.latency.had_traffic(path.counters_of_rails().bytes_sent)) continue;
    traffic = true;
    if (path.health.state != PathState::Up || path.latency.under_way()) continue;
    SendQueuePair::of(*path.queue_pairs[0]).post_timed(clock_);
    link.watched.timed |= path.latency.under_way();
  }
  return traffic;
}

// Polls for the writes that are under way, and until this time without a pause. Returns how long to
// wait until the next look; UINT64_MAX: none is under way.
std::uint64_t LatencyWatch::await(std::uint64_t until_ns) const {
  for (;;) {
    std::uint64_t nap_ns = UINT64_MAX;
    for (Link* const link : links_) {
      if (link->watched.timed) nap_ns = std::min(nap_ns, poll(*link));
    }
    if (nap_ns > kTimedNapMinNs || clock_.now_ns() >= until_ns) return nap_ns;
    ::sched_yield();
  }
}

// As await(), for one link. The nap is a quarter of the youngest write's age, so that a latency is
// right to a quarter even if nobody else polls, and a path that is silent for long costs nothing.
std::uint64_t LatencyWatch::poll(Link& link) const {
  ProgressLoop& loop = link.context().loop;
  const ProgressLoop::Attempt attempt(loop);
  if (!attempt.held()) return kTimedNapMinNs;  // its holder polls
  std::uint64_t nap_ns = UINT64_MAX;
  for (Path& path : link.peer_link().paths().all()) {
    if (!path.latency.under_way()) continue;
    path.device->drain(std::span(path.queue_pairs).first(1));
    if (!path.latency.under_way()) continue;
    const std::uint64_t age_ns = clock_.now_ns() - path.latency.posted_ns();
    nap_ns = std::min(nap_ns, std::max(kTimedNapMinNs, age_ns / 4));
  }
  loop.ring_staged();
  link.watched.timed = nap_ns != UINT64_MAX;
  return nap_ns;
}

}  // namespace mesh::engine
