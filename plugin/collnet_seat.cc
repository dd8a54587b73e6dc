#include "plugin/collnet_seat.h"

#include "plugin/oneshot/bring_up.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace mesh::plugin {

namespace {

// NICs that reach GPU memory would be asked to reduce there, which no CPU may.
bool reaches_gpus(const RailInfo& rail) { return rail.dma_buffers || rail.peer_memory; }

}  // namespace

std::unique_ptr<CollNetSeat> CollNetSeat::listen(Engine& engine, HandleBytes& handle) {
  std::unique_ptr<CollNetSeat> seat(new CollNetSeat(engine));
  handle.fill(std::byte{0});
  const Result<Context*> context = engine.open_context({});
  if (!context.ok()) return seat;
  seat->context_ = context.value();
  const Result<Listener*> listener = engine.listen(*seat->context_, 0, handle);
  if (listener.ok()) seat->listener_ = listener.value();
  return seat;
}

CollNetSeat::~CollNetSeat() {
  group_.reset();
  close_listener();
  if (context_ != nullptr) engine_.close_context(context_);
}

void CollNetSeat::close_listener() noexcept {
  if (listener_ != nullptr) engine_.close_listener(listener_);
  listener_ = nullptr;
}

void CollNetSeat::connect(const Invitation& invitation) noexcept {
  connected_ = true;
  const std::size_t members = invitation.handles.size();
  try {
    const std::string reason = bring_up(invitation);
    if (reason.empty())
      LOG_INFO(
          "one-shot all-reduce joins {} hosts{}, for up to {} bytes", members,
          group_->steps() == 1 ? "" : fmt::format(" in {} steps along cables", group_->steps()),
          invitation.bound);
    else
      LOG_WARN("one-shot all-reduce is off for a communicator of {}: {}", members, reason);
  } catch (const std::exception& error) {
    LOG_WARN("one-shot all-reduce is off for a communicator of {}: {}", members, error.what());
  }
}

std::string CollNetSeat::bring_up(const Invitation& invitation) {
  const std::size_t members = invitation.handles.size();
  if (members < 2 || members > oneshot::kMembersMax)
    return fmt::format("it has 2 to {} members", oneshot::kMembersMax);
  if (listener_ == nullptr) return "this host could not listen";
  const bool willing = !reaches_gpus(engine_.rails()[0]);
  std::vector<HandleBytes> handles(members);
  for (std::size_t rank = 0; rank < members; ++rank)
    std::memcpy(handles[rank].data(), invitation.handles[rank], kHandleBytes);
  const auto stall_seconds = static_cast<std::uint64_t>(invitation.stall_seconds);
  oneshot::BringUp bring_up({.engine = engine_,
                             .context = *context_,
                             .listener = *listener_,
                             .handles = std::move(handles),
                             .rank = invitation.rank,
                             .bound = invitation.bound,
                             .willing = willing ? 1u : 0u,
                             .host = invitation.host,
                             .stalls = {.bar_ns = stall_seconds * kNsPerSecond}});
  const Clock clock;
  const std::uint64_t end_ns = clock.now_ns() + kOneShotConnectToGiveUpNs;
  Status status = bring_up.step();
  while (status.code() == Errc::WouldBlock && clock.now_ns() < end_ns) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(kOneShotLookToNextNs));
    status = bring_up.step();
  }
  if (!willing) return "this host's NICs reach GPU memory (NCCL_MESH_GDR=off would end that)";
  if (status.code() == Errc::WouldBlock)
    return fmt::format("no answer from members {}", bring_up.missing());
  if (!status.ok()) return fmt::format("its members do not connect ({})", errc_name(status.code()));
  group_ = std::make_unique<oneshot::Group>(bring_up.take());
  return "";
}

}  // namespace mesh::plugin
