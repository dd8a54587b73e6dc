#include "engine/link/farewell.h"

#include "engine/link/context.h"
#include "engine/link/link.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"
#include "src/relay/end_device.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace mesh::engine {

namespace {
// Returns true if an up path leads over other hosts. The caller holds the progress lock.
bool leads_over_hosts(PeerLink& link) {
  for (const Path& path : link.paths().all()) {
    if (path.ends.relayed && path.health.state == PathState::Up) return true;
  }
  return false;
}

// Returns no words if there is no memory for them: the path is left all the same.
std::string still_cause() noexcept try {
  return fmt::format("{} while memory is taken back", kSilentCause);
} catch (const std::exception&) {
  return {};
}
}  // namespace

// ---- Memory.

void Farewell::take_back(Channel& channel, Registration& registration, const Wait& wait) {
  CHECK(&channel.link == &link_.peer_link());
  end_requests(channel, registration, wait);
  // Queue pairs of a link that was cut may write until they are in ERR, and other uses may keep the
  // range registered.
  const auto paths = link_.peer_link().paths().all();
  const auto is_still = [this, paths] {
    return link_.state() != LinkState::Down ||
           std::none_of(paths.begin(), paths.end(), [](const Path& path) { return path.stops(); });
  };
  // By reference, because NCCL's call may not ask for memory.
  while (!is_still()) static_cast<void>(wait(kNsPerSecond, std::cref(is_still)));
}

void Farewell::end_requests(Channel& channel, Registration& registration, const Wait& wait) {
  bool named = false;
  {
    const ProgressLoop::Guard guard(channel.loop);
    channel.link.paths().drain_completions();
    named = channel.side == Side::Send ? static_cast<SendChannel&>(channel).reads(registration)
                                       : static_cast<RecvChannel&>(channel).names(registration);
  }
  if (!named) return;
  if (channel.side == Side::Send) return finish_sends(static_cast<SendChannel&>(channel), wait);
  revoke_receives(static_cast<RecvChannel&>(channel), wait);
}

// Takes the region back from the peer, which may still write into it: the peer must drop the
// credits, finish what it has begun, and say so.
void Farewell::revoke_receives(RecvChannel& channel, const Wait& wait) {
  std::uint64_t credits = 0;
  {
    const ProgressLoop::Guard guard(channel.loop);
    channel.fail_all(Errc::Revoked);
    credits = channel.accepted;
  }
  const auto safe = [&] {
    return channel.closing.revoked || channel.closing.closed_there ||
           link_.state() == LinkState::Down;
  };
  if (safe()) return;
  if (!channel.closing.revoke_sent) {
    channel.closing.revoke_sent = true;
    ++link_.host().counts().revokes;
    link_.send(Revoke{.channel = channel.index, .first_credit = 0, .credit_count = credits});
    link_.host().plane().wake();
  }
  if (!wait(patience_ns(), std::cref(safe))) await_fence_or_cut(wait, safe);
}

// An abort takes back many regions in a row. When one peer has kept us waiting, no other peer is
// waited for.
std::uint64_t Farewell::patience_ns() const {
  return link_.host().now_ns() < link_.context().impatient_until_ns ? 0 : kRevokeToCutNs;
}

// Waits until posted sends have completed, because our NIC may still read from the region.
void Farewell::finish_sends(SendChannel& channel, const Wait& wait) {
  {
    const ProgressLoop::Guard guard(channel.loop);
    channel.fail_all(Errc::Revoked);
  }
  const auto safe = [&] {
    const ProgressLoop::Guard guard(channel.loop);
    channel.link.paths().drain_completions();
    return channel.idle() || link_.state() == LinkState::Down;
  };
  const std::uint64_t bound_ns = patience_ns();
  if (bound_ns > kRevokeToLeftNs) {
    std::vector<PathLook> before;
    try {
      before = look_at_paths();
    } catch (const std::exception&) {  // no path is left, and the wait goes on
    }
    if (wait(kRevokeToLeftNs, std::cref(safe))) return;
    if (!before.empty()) leave_still_paths(before);
  }
  if (!wait(bound_ns - std::min(bound_ns, kRevokeToLeftNs), std::cref(safe)))
    await_fence_or_cut(wait, safe);
}

// Cuts the link. If a path is fenced while another is up, waits for that first: a fence takes up to
// kStopToDrainedNs where neither end's card flushes its queue pairs.
void Farewell::await_fence_or_cut(const Wait& wait, const std::function<bool()>& safe) {
  bool fences = false;
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    const PathSet& paths = link_.peer_link().paths();
    fences = paths.fencing() && !paths.stalled() && patience_ns() != 0;
  }
  if (fences && wait(kStopToDrainedNs, safe)) return;
  cut(kRevokeToCutNs + (fences ? kStopToDrainedNs : 0));
}

std::vector<PathLook> Farewell::look_at_paths() const {
  const ProgressLoop::Guard guard(link_.context().loop);
  link_.peer_link().paths().drain_completions();
  std::vector<PathLook> looks;
  for (const Path& path : link_.peer_link().paths().all()) looks.push_back(path.look());
  return looks;
}

// Quarantines the paths on which nothing that is owed has completed since `before`, if another path
// is up that does better: a card that hangs must not cost the link.
void Farewell::leave_still_paths(const std::vector<PathLook>& before) {
  const ProgressLoop::Guard guard(link_.context().loop);
  PathSet& paths = link_.peer_link().paths();
  paths.drain_completions();
  const auto is_up = [](const Path& path) { return path.health.state == PathState::Up; };
  const auto is_still = [&before](const Path& path) {
    const PathLook then = before[path.index], now = path.look();
    return then.owes && now.owes && now.completed == then.completed;
  };
  const auto all = paths.all();
  const bool other_moves = std::any_of(
      all.begin(), all.end(), [&](const Path& path) { return is_up(path) && !is_still(path); });
  if (!other_moves) return;
  for (Path& path : all) {
    if (is_up(path) && is_still(path)) link_.peer_link().quarantine(path, still_cause());
  }
}

// Ends the link, because the peer has not answered, or our sends have not completed, in the time
// that memory may take to be taken back. Once its queue pairs are gone nothing reaches our memory.
void Farewell::cut(std::uint64_t waited_ns) {
  const bool waited = link_.host().now_ns() >= link_.context().impatient_until_ns;
  LOG_WARN("peer {}: {} {} ms while memory is taken back; the link is cut",
           link_.identity().peer_host, waited ? "no answer within" : "another peer has used up the",
           (waited ? waited_ns : kRevokeToCutNs) / kNsPerMs);
  link_.context().impatient_until_ns = link_.host().now_ns() + kCutToPatienceNs;
  link_.take_down(Errc::Timeout);
  link_.host().plane().wake();  // this is NCCL's thread
}

// ---- Frames of the peer about memory.

bool Farewell::on(const Revoke& body) {
  if (Channel* channel = link_.peer_link().channels().find(body.channel); channel != nullptr) {
    const ProgressLoop::Guard guard(channel->loop);
    channel->link.paths().drain_completions();
    if (channel->failure.load(std::memory_order_relaxed) == Errc::Ok) {
      LOG_DETAIL("peer {}: takes back the memory of channel {} with requests open",
                 link_.identity().peer_host, body.channel);
    }
    channel->fail_all(Errc::PeerClosed);
  }
  if (answer_revoke(body)) return true;
  const auto same = [&body](const PendingRevoke& each) {
    return each.revoke.channel == body.channel;
  };
  // A later REVOKE takes the place of the one that waits: the bound is one entry for each channel.
  std::erase_if(revokes_, same);
  const std::uint64_t leave_ns = link_.host().now_ns() + kRevokeToLeftNs;
  revokes_.push_back({.revoke = body, .leave_ns = leave_ns, .looks = look_at_paths()});
  link_.host().tend_at(leave_ns);
  return true;
}

// Returns true if it is answered.
bool Farewell::tend_revoke(PendingRevoke& pending) {
  if (answer_revoke(pending.revoke)) return true;
  if (pending.leave_ns != 0 && link_.host().now_ns() >= pending.leave_ns) {
    pending.leave_ns = 0;
    leave_still_paths(pending.looks);
  }
  return false;
}

bool Farewell::answer_revoke(const Revoke& body) {
  if (Channel* channel = link_.peer_link().channels().find(body.channel); channel != nullptr) {
    const ProgressLoop::Guard guard(channel->loop);
    channel->link.paths().drain_completions();
    if (channel->outstanding != 0) return false;
  }
  link_.send(Revoked{.channel = body.channel,
                     .first_credit = body.first_credit,
                     .credit_count = body.credit_count});
  return true;
}

bool Farewell::on(const Revoked& body) {
  Channel* const channel = link_.peer_link().channels().find(body.channel);
  // Ignored unless we have sent a REVOKE.
  if (channel != nullptr && channel->closing.revoke_sent) channel->closing.revoked = true;
  return true;
}

// ---- Channels and the link.

void Farewell::begin_close(Channel& channel) {
  if (channel.closing.closed_here) return;
  CHECK(&channel.link == &link_.peer_link());
  {
    const ProgressLoop::Guard guard(channel.loop);
    channel.fail_all(Errc::PeerClosed);
  }
  channel.closing.closed_here = true;
  link_.touch();
  link_.host().tend_soon();
  const std::uint32_t index = channel.index;
  if (!advance_close(index)) link_.indices.closing.push_back(index);
}

// Advances the end of a channel that NCCL has closed. Returns true if the channel is gone. A
// connector may then use its index again.
bool Farewell::advance_close(std::uint32_t index) {
  Channel& channel = *link_.peer_link().channels().find(index);
  const ProgressLoop::Guard guard(channel.loop);
  const bool idle = channel.outstanding == 0;
  if (link_.state() == LinkState::Up && idle && !channel.closing.close_sent) {
    channel.closing.close_sent = true;
    link_.note_idle();
    const std::uint64_t messages = channel.side == Side::Send
                                       ? static_cast<SendChannel&>(channel).announced()
                                       : static_cast<RecvChannel&>(channel).received();
    link_.send(Close{.channel = index, .messages = messages});
  }
  const bool over = link_.state() == LinkState::Down ||
                    (channel.closing.close_sent && channel.closing.closed_there);
  if (!over || !idle) return false;
  CHECK(channel.closing.closed_here && channel.outstanding == 0);  // NCCL uses it no more
  link_.peer_link().channels().remove(index);
  if (link_.connector()) {
    std::vector<std::uint32_t>& free = link_.indices.free;
    CHECK(index < link_.indices.lives.size() && free.size() < free.capacity());
    free.push_back(index);
  }
  return true;
}

bool Farewell::on(const Close& body) {
  const PendingClose pending{.close = body,
                             .deadline_ns = link_.host().now_ns() + announced_bound_ns()};
  const auto same = [&body](const PendingClose& each) {
    return each.close.channel == body.channel;
  };
  if (std::any_of(closes_.begin(), closes_.end(), same)) return true;  // a repeated CLOSE
  if (!act_on_close(pending)) closes_.push_back(pending);
  return true;
}

// Returns how long announcements may come after CLOSE. A path over other hosts notices only after
// kRelayWorkToCountNs that a host between stands still.
std::uint64_t Farewell::announced_bound_ns() const {
  if (!link_.has_peer_link()) return kCloseToAnnouncedNs;
  const ProgressLoop::Guard guard(link_.context().loop);
  const bool relayed = leads_over_hosts(link_.peer_link());
  return kCloseToAnnouncedNs + (relayed ? kRelayWorkToCountNs : 0);
}

bool Farewell::act_on_close(const PendingClose& pending) {
  Channel* const channel = link_.peer_link().channels().find(pending.close.channel);
  if (channel == nullptr) return true;
  {
    const ProgressLoop::Guard guard(channel->loop);
    channel->link.paths().drain_completions();
    if (channel->side == Side::Send) {
      // No new send is taken from now on. deregister_memory() waits for posted ones.
      channel->take_no_more(Errc::PeerClosed);
      static_cast<SendChannel*>(channel)->drop_unposted(Errc::PeerClosed);
    }
    // Posted sends have landed or will land, and what the peer has announced is here or will come:
    // both must get their completions.
    const bool owed = channel->side == Side::Send
                          ? channel->outstanding != 0
                          : static_cast<RecvChannel*>(channel)->received() < pending.close.messages;
    // Until a lost path is fenced nobody knows what has landed.
    if (owed && (link_.host().now_ns() < pending.deadline_ns ||
                 (pending.deadline_ns != 0 && link_.peer_link().paths().fencing())))
      return false;
    channel->fail_all(Errc::PeerClosed);
  }
  channel->closing.closed_there = true;
  link_.host().tend_soon();
  return true;
}

void Farewell::say_bye_if_empty() {
  if (!link_.connector() || link_.state() != LinkState::Up ||
      link_.peer_link().channels().count() != 0 || !link_.waiting.empty())
    return;
  link_.send(Bye{});
  link_.set_state(LinkState::ByeSent);
  CHECK(link_.indices.closing.empty());
  bye_deadline_ns_ = link_.host().now_ns() + kCloseToCutNs;
  link_.host().tend_soon();
}

bool Farewell::on(const Bye& /*body*/) {
  if (!closes_.empty()) {
    bye_received_ = true;  // acted on when all CLOSEs are
    link_.host().tend_soon();
    return true;
  }
  if (!link_.connector() && link_.state() == LinkState::Up) link_.send(Bye{});
  link_.take_down(Errc::PeerClosed);
  return true;
}

// ---- The link's own steps.

void Farewell::reuse_index(std::uint32_t index) {
  Channel* const old = link_.peer_link().channels().find(index);
  if (old == nullptr || !old->closing.close_sent) return;
  for (PendingClose& pending : closes_) {
    if (pending.close.channel == index) pending.deadline_ns = 0;
  }
  std::erase_if(closes_, [&](const PendingClose& pending) {
    return pending.close.channel == index && act_on_close(pending);
  });
  if (advance_close(index)) std::erase(link_.indices.closing, index);
}

void Farewell::hurry() {
  for (PendingClose& pending : closes_) pending.deadline_ns = 0;
  std::erase_if(closes_, [this](const PendingClose& pending) { return act_on_close(pending); });
}

void Farewell::drop() noexcept {
  revokes_.clear();
  closes_.clear();
  bye_received_ = false;
}

bool Farewell::tend() {
  std::erase_if(revokes_, [this](PendingRevoke& revoke) { return tend_revoke(revoke); });
  std::erase_if(closes_, [this](const PendingClose& close) { return act_on_close(close); });
  std::erase_if(link_.indices.closing,
                [this](std::uint32_t index) { return advance_close(index); });
  if (bye_received_ && closes_.empty()) on(Bye{});
  say_bye_if_empty();
  if (link_.state() == LinkState::ByeSent && link_.host().now_ns() >= bye_deadline_ns_)
    link_.take_down(Errc::PeerClosed);
  if (link_.state() == LinkState::ByeSent) link_.host().tend_at(bye_deadline_ns_);
  const bool open_ends = pending_answers() != 0 || some_work_is_outstanding();
  // Perhaps nobody else turns this loop any more, and outstanding work must still complete.
  if (open_ends) link_.context().loop.try_turn();
  return open_ends;
}

// Returns true if a closing channel has work outstanding; otherwise it waits for the peer's CLOSE.
bool Farewell::some_work_is_outstanding() const noexcept {
  if (link_.indices.closing.empty()) return false;
  const ProgressLoop::Guard guard(link_.context().loop);
  const std::vector<std::uint32_t>& closing = link_.indices.closing;
  return std::any_of(closing.begin(), closing.end(), [this](std::uint32_t index) {
    return link_.peer_link().channels().find(index)->outstanding != 0;
  });
}

}  // namespace mesh::engine
