#include "engine/engine_impl.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <new>

namespace mesh::engine {

namespace {
constexpr std::uint64_t kRevokeBoundNs =
    500'000'000;  // for the peer's answer; then the link is fenced
constexpr std::uint64_t kImpatienceNs = 1'000'000'000;
constexpr std::uint64_t kByeBoundNs = 1'000'000'000;
constexpr std::uint64_t kAnnouncedBoundNs =
    1'000'000'000;  // for announcements that the sender counted and we have not seen
}  // namespace

LinkControl& EngineImpl::control_of(Channel& channel) {
  for (const auto& context : contexts_) {
    if (&context->loop != &channel.loop) continue;
    for (const auto& link : context->links) {
      if (link->link.get() == &channel.link) return *link;
    }
  }
  check_failed(__FILE__, __LINE__, "a channel belongs to a link");
}

Result<Registration*> EngineImpl::register_memory(Channel& channel, const SendArgs& range,
                                                  MemoryType type) {
  Lock lock(mutex_);
  RegistrationTable& table = *control_of(channel).context.registrations;
  lock.unlock();  // pinning gigabytes takes time
  const Result<Registration*> registration = table.acquire(range, type, channel.link.rails());
  if (!registration.ok()) return registration;
  lock.lock();
  try {
    ++channel.regions[registration.value()];
  } catch (...) {
    table.release(registration.value(), channel.link.rails());
    throw;
  }
  return registration;
}

void EngineImpl::deregister_memory(Channel& channel, Registration& registration) noexcept {
  Lock lock(mutex_);
  LinkControl& link = control_of(channel);
  // The same range may have been registered more than once here; only the last one takes it back.
  const auto uses = channel.regions.find(&registration);
  if (uses == channel.regions.end()) {
    LOG_WARN("peer {}: a memory handle given back that was not registered through channel {}",
             link.identity.peer_host, channel.index);
    return;
  }
  const bool last = --uses->second == 0;
  if (last) channel.regions.erase(uses);
  bool named = false;
  if (last) {
    const ProgressLoop::Guard guard(channel.loop);
    channel.loop.drain_completions();
    named = channel.side == Side::Send ? static_cast<SendChannel&>(channel).reads(registration)
                                       : static_cast<RecvChannel&>(channel).names(registration);
  }
  if (named && channel.side == Side::Send)
    finish_sends(link, static_cast<SendChannel&>(channel), lock);
  if (named && channel.side == Side::Receive)
    revoke_receives(link, static_cast<RecvChannel&>(channel), lock);
  link.context.registrations->release(&registration, channel.link.rails());
}

// The peer may still write into the region: it must drop the credits and finish what it has begun,
// and say so.
void EngineImpl::revoke_receives(LinkControl& link, RecvChannel& channel, Lock& lock) {
  std::uint64_t credits = 0;
  {
    const ProgressLoop::Guard guard(channel.loop);
    channel.fail_all(Errc::Revoked);
    credits = channel.accepted;
  }
  const auto safe = [&] {
    return channel.life.revoked || channel.life.closed_there || link.state == LinkState::Down;
  };
  if (safe()) return;
  if (!channel.life.revoke_sent) {
    channel.life.revoke_sent = true;
    ++revokes_;
    send(link, Revoke{.channel = channel.index, .first_credit = 0, .credit_count = credits});
    plane_->wake();
  }
  if (!wait_for(lock, patience_ns(link), std::cref(safe))) fence(link);
}

// An abort takes back many regions one after the other: once one peer has kept us waiting, the next
// ones get no second wait.
std::uint64_t EngineImpl::patience_ns(const LinkControl& link) const {
  return clock_.now_ns() < link.context.impatient_until_ns ? 0 : kRevokeBoundNs;
}

// Our NIC may still read from the region: what is posted must complete.
void EngineImpl::finish_sends(LinkControl& link, SendChannel& channel, Lock& lock) {
  {
    const ProgressLoop::Guard guard(channel.loop);
    channel.fail_all(Errc::Revoked);
  }
  const auto safe = [&] {
    const ProgressLoop::Guard guard(channel.loop);
    channel.loop.drain_completions();
    return channel.idle() || link.state == LinkState::Down;
  };
  if (!wait_for(lock, patience_ns(link), std::cref(safe))) fence(link);
}

// The peer does not answer: our queue pairs end, and with them every way into our memory.
void EngineImpl::fence(LinkControl& link) {
  const bool waited = clock_.now_ns() >= link.context.impatient_until_ns;
  LOG_WARN("peer {}: {} while memory is taken back; the link is cut", link.identity.peer_host,
           waited ? "no answer within 500 ms" : "another peer has used up the 500 ms");
  link.context.impatient_until_ns = clock_.now_ns() + kImpatienceNs;
  take_down(link, Errc::Timeout);
}

bool EngineImpl::on_revoke(LinkControl& link, const Revoke& body) {
  if (Channel* channel = link.link->channel(body.channel); channel != nullptr) {
    const ProgressLoop::Guard guard(channel->loop);
    channel->loop.drain_completions();
    if (channel->failure.load(std::memory_order_relaxed) == Errc::Ok) {
      LOG_INFO("peer {}: takes back the memory of channel {} with requests open",
               link.identity.peer_host, body.channel);
    }
    channel->fail_all(Errc::PeerClosed);
  }
  if (answer_revoke(link, body)) return true;
  const auto same = [&body](const Revoke& each) { return each.channel == body.channel; };
  std::erase_if(link.revokes,
                same);  // said again: one answer is enough, and one entry a channel the bound
  link.revokes.push_back(body);
  return true;
}

bool EngineImpl::answer_revoke(LinkControl& link, const Revoke& body) {
  if (Channel* channel = link.link->channel(body.channel); channel != nullptr) {
    const ProgressLoop::Guard guard(channel->loop);
    channel->loop.drain_completions();
    if (channel->outstanding != 0) return false;
  }
  send(link, Revoked{.channel = body.channel,
                     .first_credit = body.first_credit,
                     .credit_count = body.credit_count});
  return true;
}

bool EngineImpl::on_revoked(LinkControl& link, const Revoked& body) {
  Channel* const channel = link.link->channel(body.channel);
  if (channel != nullptr && channel->life.revoke_sent)
    channel->life.revoked = true;  // else it answers what nobody asked
  return true;
}

void EngineImpl::begin_close(Channel& channel) {
  if (channel.life.closed_here) return;
  LinkControl& link = control_of(channel);
  {
    const ProgressLoop::Guard guard(channel.loop);
    channel.fail_all(Errc::PeerClosed);
  }
  channel.life.closed_here = true;
  busy_ = true;
  const std::uint32_t index = channel.index;
  if (!advance_close(link, index)) link.closing.push_back(index);
}

void EngineImpl::close_channel(Channel& channel) noexcept {
  const Lock lock(mutex_);
  LinkControl& link = control_of(channel);
  begin_close(channel);
  say_bye_if_empty(link);
  plane_->wake();
}

// True: the channel is gone.
bool EngineImpl::advance_close(LinkControl& link, std::uint32_t index) {
  Channel& channel = *link.link->channel(index);
  const ProgressLoop::Guard guard(channel.loop);
  const bool idle = channel.outstanding == 0;
  if (link.state == LinkState::Up && idle && !channel.life.close_sent) {
    channel.life.close_sent = true;
    const std::uint64_t messages = channel.side == Side::Send
                                       ? static_cast<SendChannel&>(channel).announced()
                                       : static_cast<RecvChannel&>(channel).received();
    send(link, Close{.channel = index, .messages = messages});
  }
  const bool over =
      link.state == LinkState::Down || (channel.life.close_sent && channel.life.closed_there);
  if (!over || !idle) return false;
  link.link->remove_channel(index);
  if (link.connector()) link.free_indices.push_back(index);
  return true;
}

bool EngineImpl::on_close(LinkControl& link, const Close& body) {
  const LinkControl::PendingClose pending{.close = body,
                                          .deadline_ns = clock_.now_ns() + kAnnouncedBoundNs};
  const auto same = [&body](const LinkControl::PendingClose& each) {
    return each.close.channel == body.channel;
  };
  if (std::any_of(link.closes.begin(), link.closes.end(), same)) return true;  // said again
  if (!act_on_close(link, pending)) link.closes.push_back(pending);
  return true;
}

bool EngineImpl::act_on_close(LinkControl& link, const LinkControl::PendingClose& pending) {
  Channel* const channel = link.link->channel(pending.close.channel);
  if (channel == nullptr) return true;
  {
    const ProgressLoop::Guard guard(channel->loop);
    channel->loop.drain_completions();
    if (channel->side == Side::Send) {
      // From now on nothing new is taken, and memory of what is still posted is waited for when it
      // is taken back.
      channel->take_no_more(Errc::PeerClosed);
      static_cast<SendChannel*>(channel)->drop_unposted(Errc::PeerClosed);
    }
    // What is posted has landed or will; what was announced is here or will be: both deserve their
    // completion.
    const bool owed = channel->side == Side::Send
                          ? channel->outstanding != 0
                          : static_cast<RecvChannel*>(channel)->received() < pending.close.messages;
    // Before a lost path is fenced nobody knows what has landed.
    if (owed && (clock_.now_ns() < pending.deadline_ns ||
                 (pending.deadline_ns != 0 && link.link->fencing())))
      return false;
    channel->fail_all(Errc::PeerClosed);
  }
  channel->life.closed_there = true;
  busy_ = true;
  return true;
}

void EngineImpl::say_bye_if_empty(LinkControl& link) {
  if (!link.connector() || link.state != LinkState::Up || link.link->channel_count() != 0 ||
      !link.waiting.empty())
    return;
  send(link, Bye{});
  link.state = LinkState::ByeSent;
  link.deadline_ns = clock_.now_ns() + kByeBoundNs;
  busy_ = true;
}

bool EngineImpl::on_bye(LinkControl& link, const Bye&) {
  if (!link.closes.empty()) {
    link.bye_received = true;  // acted on when the closes are
    busy_ = true;
    return true;
  }
  if (!link.connector() && link.state == LinkState::Up) send(link, Bye{});
  take_down(link, Errc::PeerClosed);
  return true;
}

// Asks for no memory: it is what helps when there is none.
void EngineImpl::take_down(LinkControl& link, Errc why) noexcept {
  if (link.state == LinkState::Down) return;
  link.state = LinkState::Down;
  busy_ = true;
  if (link.bring_up) link.bring_up->abandon();
  if (link.bring_up && !link.bring_up->running()) link.bring_up.reset();
  const bool one_rises = link.bring_up && link.bring_up->reopens();
  if (link.link) {
    const ProgressLoop::Guard guard(link.context.loop);
    link.context.loop.drain_completions();  // what was announced before the end still counts
    link.link->fail(why, "");
    // A thread may still be at work on the queue pairs; then they end with it. Nothing is sent to
    // them before READY.
    if (!link.bring_up) end_queue_pairs(*link.link);
    if (one_rises) link.link->stop_queue_pairs(&link.link->path(link.bring_up->indices().front()));
  }
  while (!link.waiting.empty()) {
    PendingConnect* const stage = link.waiting.back();
    link.waiting.pop_back();
    fail_stage(*stage, why);
  }
  if (link.connection != 0) plane_->close(link.connection);
  link.connection = 0;
  stop_redial(link);
  link.revokes.clear();
  link.closes.clear();
  link.bye_received = false;
}

bool EngineImpl::tend(LinkControl& link) {
  tend_bring_up(link);
  tend_handshake(link);
  const bool repairing = tend_paths(link);
  const bool lost = tend_redial(link);
  if (link.link && link.state != LinkState::Down && link.link->failure() != Errc::Ok) {
    send(link, Refuse{.reason = link.link->failure(),
                      .text = fmt::format("host {}: its end of the link failed: {}",
                                          options_.provider->host_name(),
                                          errc_name(link.link->failure()))});
    take_down(link, link.link->failure());
  }
  if (!link.link || (link.bring_up && !link.bring_up->reopens())) return false;
  std::erase_if(link.revokes, [&](const Revoke& revoke) { return answer_revoke(link, revoke); });
  std::erase_if(link.closes,
                [&](const LinkControl::PendingClose& close) { return act_on_close(link, close); });
  std::erase_if(link.closing, [&](std::uint32_t index) { return advance_close(link, index); });
  if (link.bye_received && link.closes.empty()) on_bye(link, {});
  say_bye_if_empty(link);
  if (link.state == LinkState::ByeSent && clock_.now_ns() >= link.deadline_ns)
    take_down(link, Errc::PeerClosed);
  const bool unanswered = !link.revokes.empty() || !link.closes.empty();
  // Nobody else may be turning this loop any more; what is outstanding must still complete.
  if (unanswered || !link.closing.empty()) link.context.loop.try_turn();
  return lost || repairing || unanswered || !link.closing.empty() ||
         link.state == LinkState::ByeSent;
}

// Whatever a link's business throws, which is that no memory is left, ends that link.
bool EngineImpl::tend_safely(LinkControl& link) noexcept {
  try {
    if (link.unsaid && link.state != LinkState::Down) throw std::bad_alloc();
    return tend(link);
  } catch (const std::exception& error) {
    LOG_WARN("peer {}: {}; its link ends", link.identity.peer_host, error.what());
    take_down(link, Errc::System);
    return true;
  }
}

bool EngineImpl::tend_links() {
  bool again = false;
  tend_at_ns_ = UINT64_MAX;
  for (const auto& context : contexts_) {
    for (const auto& link : context->links) again |= tend_safely(*link);
    reap_links(*context);
  }
  start_bring_ups();
  return again;
}

void EngineImpl::reap_links(Context& context) {
  std::erase_if(context.links, [this](const auto& link) {
    const bool over = link->state == LinkState::Down && !link->bring_up && link->waiting.empty() &&
                      (!link->link || link->link->channel_count() == 0);
    if (over) settle(*link);
    return over;
  });
}

}  // namespace mesh::engine
