#include "engine/control/handle.h"
#include "engine/engine_impl.h"
#include "engine/link/half_open.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/secret.h"

#include <algorithm>
#include <exception>

namespace mesh::engine {

// The poller is the one of the NIC that NCCL asks for first: the two sit on the same node.
void EngineImpl::start_polling(Context& context, std::uint32_t rail) {
  if (context.polled || options_.threading == Threading::Manual) return;
  // Once: a request that waits for its test() to be posted must not find that test() has ceased to
  // turn the loop.
  context.polled = true;
  if (!pollers_.add(context.loop, rails_[rail])) return;
  context.loop.callers_turn.store(false, std::memory_order_relaxed);
}

Result<Listener*> EngineImpl::listen(Context& context, int rail, HandleBytes& handle) {
  if (rail < 0 || static_cast<std::size_t>(rail) >= rails_.size()) {
    LOG_WARN("listen on device {}: there are {} devices, numbered from 0", rail, rails_.size());
    return Errc::InvalidArgument;
  }
  const Lock lock(mutex_);
  auto listener = std::make_unique<Listener>();
  listener->context = &context;
  listener->nonce = random_id();
  listener->rail = rail;
  const auto addresses = plane_->addresses();
  write_handle({.nonce = listener->nonce,
                .context = context.id,
                .port = plane_->port(),
                .addresses = std::vector<SocketAddress>(addresses.begin(), addresses.end())},
               handle);
  start_polling(context, static_cast<std::uint32_t>(rail));
  context.listeners.push_back(std::move(listener));
  return context.listeners.back().get();
}

void EngineImpl::close_listener(Listener* listener) noexcept {
  if (listener == nullptr) return;
  const Lock lock(mutex_);
  for (Channel* channel : listener->arrived) begin_close(*channel);
  auto& listeners = listener->context->listeners;
  std::erase_if(listeners, [listener](const auto& each) { return each.get() == listener; });
  plane_->wake();
}

Result<Channel*> EngineImpl::accept(Listener& listener) {
  const Lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || listener.arrived.empty()) return Errc::WouldBlock;
  Channel* const channel = listener.arrived.front();
  listener.arrived.pop_front();
  return channel;
}

Result<Channel*> EngineImpl::connect(Context& context, int rail, HandleBytes& handle) {
  if (rail < 0 || static_cast<std::size_t>(rail) >= rails_.size()) {
    LOG_WARN("connect on device {}: there are {} devices, numbered from 0", rail, rails_.size());
    return Errc::InvalidArgument;
  }
  // The control thread may be making queue pairs: come back rather than wait.
  const Lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return Errc::WouldBlock;
  return read_stage(handle).index == 0
             ? first_connect(context, static_cast<std::uint32_t>(rail), handle)
             : later_connect(handle);
}

LinkControl* EngineImpl::link_to(Context& context, const Id128& peer_context) {
  for (const auto& link : context.links) {
    const bool failed = link->link && link->link->failure() != Errc::Ok;
    if (link->connector() && link->identity.peer_context == peer_context && link->usable() &&
        !failed)
      return link.get();
  }
  return nullptr;
}

LinkControl& EngineImpl::add_connector(Context& context, const Id128& peer_context) {
  auto made = std::make_unique<LinkControl>(context);
  made->identity = {.role = LinkRole::Connector,
                    .id = random_id(),
                    .peer_context = peer_context,
                    .peer_host = "not yet known"};
  made->psn = static_cast<std::uint32_t>(random_u64() & 0xffffff);
  return *context.links.emplace_back(std::move(made));
}

Result<Channel*> EngineImpl::first_connect(Context& context, std::uint32_t rail,
                                           HandleBytes& bytes) {
  const Result<Handle> handle = read_handle(bytes);
  if (!handle.ok()) {
    if (const std::uint16_t version = handle_version(bytes);
        version != 0 && version != kProtocolVersion) {
      LOG_WARN(
          "connect: the peer speaks version {}, we speak {}: all ranks must use the same plugin",
          version, kProtocolVersion);
    } else {
      LOG_WARN(
          "connect: these {} bytes are not a handle of nccl-mesh (do all ranks use the same "
          "plugin?)",
          kHandleBytes);
    }
    return handle.status();
  }
  start_polling(context, rail);
  auto stage = std::make_unique<PendingConnect>();
  stage->check = random_u64() | 1;
  stage->context = &context;
  stage->listener = handle->nonce;
  LinkControl* link = link_to(context, handle->context);
  if (link == nullptr) {
    link = &add_connector(context, handle->context);
    link->rail_wanted = rail;
    link->redial.port = handle->port;
    try {
      link->redial.addresses = handle->addresses;
      link->connection = plane_->dial({.addresses = handle->addresses, .port = handle->port});
    } catch (...) {
      take_down(*link, Errc::System);
      throw;
    }
  }
  stage->link = link;
  std::size_t at = 0;
  while (at < stages_.size() && stages_[at]) ++at;
  if (at == stages_.size()) stages_.emplace_back();
  link->waiting.reserve(link->waiting.size() + 1);  // a stage must be known to its link
  stages_[at] = std::move(stage);
  write_stage({.index = at + 1, .check = stages_[at]->check}, bytes);
  link->waiting.push_back(stages_[at].get());
  if (link->state == LinkState::Up) open_channel(*stages_[at]);
  plane_->wake();
  return Errc::WouldBlock;
}

Result<Channel*> EngineImpl::later_connect(HandleBytes& bytes) {
  const auto [index, check] = read_stage(bytes);
  if (index > stages_.size() || !stages_[index - 1] || stages_[index - 1]->check != check) {
    LOG_WARN(
        "connect: the handle names a stage ({}) that does not exist; it was changed or its "
        "communicator is gone",
        index);
    return Errc::InvalidArgument;
  }
  PendingConnect& stage = *stages_[index - 1];
  switch (stage.state) {
    case StageState::Waiting:
    case StageState::Opening: return Errc::WouldBlock;
    case StageState::Ready: {
      Channel* const channel = stage.channel;
      stages_[index - 1].reset();
      return channel;
    }
    case StageState::Failed: {
      const Errc error = stage.error;
      stages_[index - 1].reset();
      return error;
    }
  }
  return Errc::Internal;
}

void EngineImpl::fail_stage(PendingConnect& stage, Errc why) noexcept {
  if (stage.state == StageState::Ready || stage.state == StageState::Failed) return;
  std::erase(stage.link->waiting, &stage);
  // NCCL never gets this channel, so nobody else would close it.
  if (stage.channel != nullptr) begin_close(*stage.channel);
  stage.channel = nullptr;
  stage.state = StageState::Failed;
  stage.error = why;
}

void EngineImpl::open_channel(PendingConnect& stage) {
  LinkControl& link = *stage.link;
  std::uint32_t index = static_cast<std::uint32_t>(link.lives.size());
  if (!link.free_indices.empty()) {
    index = link.free_indices.back();
    link.free_indices.pop_back();
  } else if (index == kChannelsMax) {
    LOG_WARN("peer {}: {} channels are open, the most that one communicator can have with one peer",
             link.identity.peer_host, index);
    return fail_stage(stage, Errc::Exhausted);
  } else {
    link.lives.push_back(0);
  }
  try {
    open_channel_at(stage, index);
  } catch (const std::exception& error) {
    LOG_WARN("peer {}: no channel can be opened: {}", link.identity.peer_host, error.what());
    if (stage.channel == nullptr && link.free_indices.size() < link.free_indices.capacity())
      link.free_indices.push_back(index);
    fail_stage(stage, Errc::System);
  }
}

void EngineImpl::open_channel_at(PendingConnect& stage, std::uint32_t index) {
  LinkControl& link = *stage.link;
  PeerLink& peer = *link.link;
  // What closing it takes, which must not need memory.
  link.free_indices.reserve(link.lives.size());
  link.closing.reserve(link.lives.size());
  const std::uint32_t life = ++link.lives[index];
  const Result<LinkPlace> place = peer.memory().channel_place(index);
  if (!place.ok()) {
    link.free_indices.push_back(index);
    return fail_stage(stage, place.code());
  }
  Open open{.listener = stage.listener,
            .channel = index,
            .life = life,
            .credits_address = reinterpret_cast<std::uint64_t>(place->memory),
            .credits_rkey = {place->rkeys.begin(), place->rkeys.begin() + peer.path_count()}};
  {
    const ProgressLoop::Guard guard(link.context.loop);
    stage.channel = peer.add_send_channel(index, life, place->memory);
  }
  stage.state = StageState::Opening;
  stage.deadline_ns = clock_.now_ns() + kHandshakeStepNs;
  send(link, open);
}

// The connector uses an index again when both CLOSEs have been said; ours may still be waiting for
// its turn.
void EngineImpl::settle_old_life(LinkControl& link, std::uint32_t index) {
  Channel* const old = link.link->channel(index);
  if (old == nullptr || !old->life.close_sent) return;
  for (LinkControl::PendingClose& pending : link.closes) {
    if (pending.close.channel == index) pending.deadline_ns = 0;
  }
  std::erase_if(link.closes, [&](const LinkControl::PendingClose& pending) {
    return pending.close.channel == index && act_on_close(link, pending);
  });
  if (advance_close(link, index)) std::erase(link.closing, index);
}

bool EngineImpl::on_open(LinkControl& link, const Open& body) {
  if (link.state == LinkState::Down) return true;
  PeerLink& peer = *link.link;
  Opened answer;
  answer.channel = body.channel;
  const auto& listeners = link.context.listeners;
  const auto listener = std::find_if(listeners.begin(), listeners.end(), [&body](const auto& each) {
    return same_secret(each->nonce, body.listener);
  });
  if (listener == listeners.end() || body.credits_rkey.size() != peer.path_count()) {
    if (stranger_lines_.take(clock_.now_ns())) {
      LOG_INFO("peer {}: asks for a listener that was closed{}", link.identity.peer_host,
               stranger_lines_.rest());
    }
    answer.result = Errc::PeerClosed;
    send(link, answer);
    return true;
  }
  if ((*listener)->arrived.size() >= kArrivedMax) {
    answer.result = Errc::Exhausted;
    send(link, answer);
    return true;
  }
  settle_old_life(link, body.channel);
  if (peer.channel(body.channel) != nullptr) {
    return complain(link, fmt::format("opens channel {} twice", body.channel));
  }
  const Result<LinkPlace> place = peer.memory().channel_place(body.channel);
  if (!place.ok()) {
    answer.result = place.code();
    send(link, answer);
    return true;
  }
  if (peer.channel_index_bound() == 0)
    announce_link(link);  // a link that never carries one is not worth a line
  RecvChannel::Credits credits{.address = body.credits_address, .rkeys = {}};
  std::copy(body.credits_rkey.begin(), body.credits_rkey.end(), credits.rkeys.begin());
  RecvChannel* channel = nullptr;
  {
    const ProgressLoop::Guard guard(link.context.loop);
    channel =
        peer.add_recv_channel(body.channel, body.life, reinterpret_cast<Record*>(place->memory));
    channel->set_credits(credits);
  }
  link.closing.reserve(peer.channel_index_bound());  // begin_close() must not need memory
  (*listener)->arrived.push_back(channel);
  answer.records_address = reinterpret_cast<std::uint64_t>(place->memory);
  answer.records_rkey.assign(place->rkeys.begin(), place->rkeys.begin() + peer.path_count());
  send(link, answer);
  return true;
}

bool EngineImpl::on_opened(LinkControl& link, const Opened& body) {
  const auto found =
      std::find_if(link.waiting.begin(), link.waiting.end(), [&body](const PendingConnect* stage) {
        return stage->channel != nullptr && stage->channel->index == body.channel;
      });
  if (found == link.waiting.end()) {
    // Given up meanwhile. Where the peer has refused, it has no such channel and will never say
    // CLOSE.
    Channel* const given_up = link.link->channel(body.channel);
    if (body.result != Errc::Ok && given_up != nullptr && given_up->life.closed_here)
      given_up->life.closed_there = true;
    return true;
  }
  PendingConnect& stage = **found;
  if (body.result != Errc::Ok || body.records_rkey.size() != link.link->path_count()) {
    stage.channel->life.closed_there = true;  // the peer has no such channel
    fail_stage(stage, body.result == Errc::Ok ? Errc::Protocol : body.result);
    return true;
  }
  SendChannel::Records records{.address = body.records_address, .rkeys = {}};
  std::copy(body.records_rkey.begin(), body.records_rkey.end(), records.rkeys.begin());
  {
    const ProgressLoop::Guard guard(link.context.loop);
    static_cast<SendChannel*>(stage.channel)->set_records(records);
  }
  link.waiting.erase(found);
  stage.state = StageState::Ready;
  return true;
}

}  // namespace mesh::engine
