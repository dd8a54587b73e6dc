#include "engine/link/openings.h"

#include "engine/link/announce.h"
#include "engine/link/context.h"
#include "engine/link/half_open.h"
#include "engine/link/link.h"
#include "engine/link/link_setup.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string_view>
#include <utility>

namespace mesh::engine {

// ---- Connects that wait.

void Openings::fail(PendingConnect& stage, Errc why) noexcept {
  if (stage.state == StageState::Ready || stage.state == StageState::Failed) return;
  Channel* const channel = stage.channel;
  link_.fail_connect(stage, why);
  // NCCL never gets this channel, so it is closed here.
  if (channel != nullptr) link_.close_channel(*channel);
}

void Openings::fail_all(Errc why) noexcept {
  while (!link_.waiting.empty()) {
    const std::size_t before = link_.waiting.size();
    fail(*link_.waiting.back(), why);
    CHECK(link_.waiting.size() < before);
  }
}

// ---- Time.

void Openings::tend() {
  give_up_growth();
  finish_growth();
  expire();
}

void Openings::expire() {
  const std::uint64_t now_ns = link_.host().now_ns();
  const std::vector<PendingConnect*> waiting = link_.waiting;
  for (PendingConnect* const stage : waiting) {
    if (stage->state != StageState::Opening || now_ns < stage->deadline_ns) continue;
    LOG_WARN(
        "peer {} ({}): has not answered our OPEN of channel {} with OPENED in {} s; the connect "
        "fails, see its log",
        link_.identity().peer_host, link_.connection_name(), stage->channel->index,
        kHandshakeStepToAnswerNs / kNsPerSecond);
    fail(*stage, Errc::Timeout);
  }
}

// ---- Connector.

void Openings::open_all() {
  const std::vector<PendingConnect*>& waiting = link_.waiting;
  for (std::size_t i = 0; i < waiting.size() && !growing();) {
    PendingConnect* const stage = waiting[i];
    if (stage->state == StageState::Waiting) open(*stage);
    if (i < waiting.size() && waiting[i] == stage) ++i;  // else it has failed and left
  }
}

void Openings::open(PendingConnect& stage) {
  CHECK(link_.connector() && &link_ == stage.link && stage.state == StageState::Waiting);
  if (growing()) return;
  std::vector<std::uint32_t>& lives = link_.indices.lives;
  std::vector<std::uint32_t>& free = link_.indices.free;
  const bool reused = !free.empty();
  const std::uint32_t index = reused ? free.back() : static_cast<std::uint32_t>(lives.size());
  if (index == kChannelsMax) {
    LOG_WARN("peer {}: {} channels are open, the most that one communicator can have with one peer",
             link_.identity().peer_host, index);
    return decline(stage, Errc::Exhausted);
  }
  bool taken = false;
  Status opened = Errc::System;
  try {
    if (waits_for_devices(index)) return grow(index);
    if (!reused) lives.push_back(0);
    if (reused) free.pop_back();
    taken = true;
    opened = open_at(stage, index);
  } catch (const std::exception& error) {
    LOG_WARN("peer {}: no channel can be opened: {}", link_.identity().peer_host, error.what());
  }
  if (opened.ok()) return;
  // A new index is lost if the list of free ones has no room for it: the room there is belongs to
  // the open channels.
  const bool has_place = reused || free.capacity() >= lives.size();
  if (taken && stage.channel == nullptr && has_place) free.push_back(index);
  decline(stage, opened.code());
}

// Fails the connect for a reason that the acceptor does not know yet, and tells the acceptor if
// there is memory for that.
void Openings::decline(PendingConnect& stage, Errc why) noexcept {
  const Id128 listener = stage.listener;
  fail(stage, why);
  try {
    link_.send(
        Decline{.acceptor_context = link_.identity().peer_context,
                .listener = listener,
                .reason = why,
                .text = fmt::format("host {} cannot open a channel, see its log: {}",
                                    link_.host().options().provider->host_name(), errc_name(why))});
  } catch (const std::exception& error) {
    LOG_WARN("peer {}: not told that the connect failed: {}", link_.identity().peer_host,
             error.what());
  }
}

// Returns the error if a device refuses the channel's memory; the caller keeps the index.
Status Openings::open_at(PendingConnect& stage, std::uint32_t index) {
  PeerLink& peer_link = link_.peer_link();
  ChannelIndices& indices = link_.indices;
  indices.reserve(indices.lives.size());
  CHECK(peer_link.channels().find(index) == nullptr);  // the index must be free
  const std::uint32_t life = ++indices.lives[index];
  const Result<PeerWritable> place = memory_for(index);
  if (!place.ok()) return place.status();
  const Open open{.listener = stage.listener,
                  .channel = index,
                  .life = life,
                  .credits_address = reinterpret_cast<std::uint64_t>(place->memory),
                  .credits_rkey = place->rkeys};
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    stage.channel = peer_link.channels().add_sender(index, life, place->memory);
  }
  stage.state = StageState::Opening;
  stage.deadline_ns = link_.host().now_ns() + kHandshakeStepToAnswerNs;
  link_.send(open);
  return {};
}

// Returns how many keys of its memory the peer tells: see LinkKeys.
std::size_t Openings::peer_key_count() const noexcept {
  const PathSet& paths = link_.peer_link().paths();
  return paths.count() + (names_rails(paths) ? link_.terms.peer_rails.size() : 0);
}

// ---- Acceptor, and frames of the peer.

bool Openings::answer(const Open& asked, Errc why) {
  Opened answer;
  answer.channel = asked.channel;
  answer.result = why;
  link_.send(answer);
  return true;
}

bool Openings::on(const Open& body) {
  if (link_.state() == LinkState::Down || refuses(body)) return true;
  const bool held = std::any_of(held_.begin(), held_.end(),
                                [&body](const Open& each) { return each.channel == body.channel; });
  if (held || link_.peer_link().channels().find(body.channel) != nullptr)
    return link_.complain(fmt::format("opens channel {} twice", body.channel));
  if (!growing() && !waits_for_devices(body.channel)) {
    welcome_channel(body);
    return true;
  }
  held_.push_back(body);
  if (!growing()) grow(body.channel);
  return true;
}

bool Openings::refuses(const Open& asked) {
  const auto refuse = [&](std::string_view cause, Errc why) {
    LogBudget& lines = link_.host().unauthenticated_lines();
    if (lines.take(link_.host().now_ns()))
      LOG_INFO("peer {}: {}{}", link_.identity().peer_host, cause, lines.rest());
    return answer(asked, why);
  };
  Listener* const listener = link_.context().listener(asked.listener);
  if (listener == nullptr) return refuse("asks for a listener that was closed", Errc::PeerClosed);
  if (asked.credits_rkey.size() != peer_key_count()) {
    return refuse(fmt::format("opens channel {} with {} keys and not {}", asked.channel,
                              asked.credits_rkey.size(), peer_key_count()),
                  Errc::Protocol);
  }
  return listener->arrived.size() >= kArrivedMax && answer(asked, Errc::Exhausted);
}

void Openings::refuse_for(Listener& listener, const Open& asked, Errc why) {
  listener.named(nullptr);
  listener.refused = why;
  answer(asked, why);
}

void Openings::welcome_channel(const Open& asked) {
  PeerLink& peer_link = link_.peer_link();
  Listener& listener = *link_.context().listener(asked.listener);
  const Result<PeerWritable> place = memory_for(asked.channel);
  if (!place.ok()) return refuse_for(listener, asked, place.code());
  listener.named(nullptr);
  if (peer_link.channels().index_bound() == 0)
    announce(link_);  // a link without channels gets no line
  RecvChannel::Credits credits{.address = asked.credits_address, .rkeys = {}};
  std::copy(asked.credits_rkey.begin(), asked.credits_rkey.end(), credits.rkeys.begin());
  RecvChannel* channel = nullptr;
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    channel = peer_link.channels().add_receiver(asked.channel, asked.life,
                                                reinterpret_cast<Record*>(place->memory));
    channel->set_credits(credits);
  }
  link_.indices.reserve(peer_link.channels().index_bound());
  listener.arrived.push_back(channel);
  link_.send(Opened{.channel = asked.channel,
                    .records_address = reinterpret_cast<std::uint64_t>(place->memory),
                    .records_rkey = place->rkeys});
}

bool Openings::on(const Opened& body) {
  PeerLink& peer_link = link_.peer_link();
  std::vector<PendingConnect*>& waiting = link_.waiting;
  const auto found =
      std::find_if(waiting.begin(), waiting.end(), [&body](const PendingConnect* stage) {
        return stage->channel != nullptr && stage->channel->index == body.channel;
      });
  if (found == waiting.end()) {
    // The connect was given up meanwhile. If the peer has refused, it has no such channel and will
    // never send CLOSE.
    Channel* const given_up = peer_link.channels().find(body.channel);
    if (body.result != Errc::Ok && given_up != nullptr && given_up->closing.closed_here)
      given_up->closing.closed_there = true;
    return true;
  }
  PendingConnect& stage = **found;
  if (body.result != Errc::Ok || body.records_rkey.size() != peer_key_count()) {
    stage.channel->closing.closed_there = true;  // the peer has no such channel
    fail(stage, body.result == Errc::Ok ? Errc::Protocol : body.result);
    return true;
  }
  SendChannel::Records records{.address = body.records_address, .rkeys = {}};
  std::copy(body.records_rkey.begin(), body.records_rkey.end(), records.rkeys.begin());
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    static_cast<SendChannel*>(stage.channel)->set_records(records);
  }
  waiting.erase(found);
  stage.state = StageState::Ready;
  return true;
}

bool Openings::on(const Decline& body) {
  Listener* const listener = link_.context().listener(body.listener);
  if (listener == nullptr) return true;
  listener->named_by = nullptr;
  // Until accept() has returned the reason, only the first one gets a line.
  if (std::exchange(listener->refused, body.reason) == Errc::Ok)
    LOG_WARN("peer {}: {}", link_.identity().peer_host, body.text);
  return true;
}

}  // namespace mesh::engine
