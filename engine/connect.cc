#include "engine/control/handle.h"
#include "engine/engine_impl.h"
#include "src/base/log.h"
#include "src/base/random.h"

#include <algorithm>
#include <utility>

namespace mesh::engine {

// Gives the loop to a poller of the NIC that NCCL asks for first: both are on one NUMA node.
void EngineImpl::start_polling(Context& context, std::uint32_t rail) {
  if (context.polled || options_.threading == Threading::Manual) return;
  context.polled = true;  // decided once per context
  context.loop.set_poller(true);
  bool added = false;
  try {
    added = pollers_.add(context.loop, rails_[rail]);
  } catch (const std::exception&) {
    LOG_WARN("no memory for a poller: NCCL's threads poll for this communicator");
  }
  if (!added) context.loop.set_poller(false);
}

Result<Listener*> EngineImpl::listen(Context& context, int rail, HandleBytes& handle) {
  if (rail < 0 || static_cast<std::size_t>(rail) >= rail_infos_.size()) {
    LOG_WARN("listen on device {}: there are {} devices, numbered from 0", rail,
             rail_infos_.size());
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
                .rail = static_cast<std::uint8_t>(rail),
                .addresses = std::vector<SocketAddress>(addresses.begin(), addresses.end())},
               handle);
  start_polling(context, static_cast<std::uint32_t>(rail));
  context.listeners.push_back(std::move(listener));
  return context.listeners.back().get();
}

void EngineImpl::close_listener(Listener* listener) noexcept {
  if (listener == nullptr) return;
  const Lock lock(mutex_);
  for (Channel* channel : listener->arrived) {
    Link& link = links_.of_channel(*channel);
    link.touch();
    link.close_channel(*channel);
  }
  auto& listeners = listener->context->listeners;
  std::erase_if(listeners, [listener](const auto& each) { return each.get() == listener; });
  plane_->wake();
}

Result<Channel*> EngineImpl::accept(Listener& listener) {
  const Lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return Errc::WouldBlock;
  if (listener.arrived.empty()) return listener.verdict(clock_.now_ns());
  Channel* const channel = listener.arrived.front();
  listener.arrived.pop_front();
  return channel;
}

Result<Channel*> EngineImpl::connect(Context& context, int rail, HandleBytes& handle) {
  if (rail < 0 || static_cast<std::size_t>(rail) >= rail_infos_.size()) {
    LOG_WARN("connect on device {}: there are {} devices, numbered from 0", rail,
             rail_infos_.size());
    return Errc::InvalidArgument;
  }
  // The control thread may hold the mutex: NCCL calls again rather than waits here.
  const Lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return Errc::WouldBlock;
  // The last bytes of another plugin's handle are no stage.
  const bool is_first = read_stage(handle).index == 0 || handle_version(handle) != kProtocolVersion;
  return is_first ? first_connect(context, static_cast<std::uint32_t>(rail), handle)
                  : later_connect(handle);
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
      decline_version(bytes);
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
  stage->asked = {.rail = static_cast<std::uint8_t>(rail),
                  .listened = handle->rail,
                  .wish = rails_wish(settings_.rails)};
  Link* link = context.connector_to(handle->context, stage->asked);
  if (link == nullptr) {
    link = &context.add_connector(handle->context, stage->asked);
    try {
      link->port = {.addresses = handle->addresses, .port = handle->port};
      link->dial_all();
    } catch (...) {
      link->take_down(Errc::System);
      throw;
    }
  }
  stage->link = link;
  std::size_t at = 0;
  while (at < stages_.size() && stages_[at]) ++at;
  if (at == stages_.size()) stages_.emplace_back();
  link->waiting.reserve(link->waiting.size() +
                        1);  // then push_back() cannot fail, and the link knows the stage
  stages_[at] = std::move(stage);
  write_stage({.index = at + 1, .check = stages_[at]->check}, bytes);
  link->waiting.push_back(stages_[at].get());
  link->open_when_up(*stages_[at]);
  plane_->wake();
  return Errc::WouldBlock;
}

// Tells the accepting side that this connect has failed: it waits for us and has not heard of us.
void EngineImpl::decline_version(const HandleBytes& bytes) {
  const Result<Handle> handle = read_handle_of_any_version(bytes);
  if (!handle.ok()) return;
  reception_.decline(
      *handle,
      fmt::format("host {} speaks version {} and was asked for version {}: all ranks must use the "
                  "same plugin",
                  options_.provider->host_name(), kProtocolVersion, handle_version(bytes)));
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

}  // namespace mesh::engine
