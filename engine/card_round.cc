#include "engine/card_round.h"

#include "engine/data/registration.h"
#include "engine/link/context.h"
#include "engine/link/link.h"
#include "src/base/log.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace mesh::engine {

namespace {
// Returns null while the whole link comes up: its thread makes the memory, and no round has a part
// in it.
LinkMemory* memory_of(Link& link) {
  const bool rests = link.has_peer_link() && link.bring_up() == nullptr;
  return rests ? &link.peer_link().memory() : nullptr;
}
}  // namespace

CardRound::CardRound(Context& context, DeviceContext& device, verbs::OpenDevice::Hold fresh)
    : context_(context),
      device_(device),
      fresh_(std::move(fresh)),
      first_(!device.is_of(fresh_) || device.gate.closed()) {
  for (const auto& link : context.links) {
    LinkMemory* const memory = memory_of(*link);
    if (memory == nullptr) continue;
    if (first_) memory->drop(device, &link_regions_);
    for (LinkMemory::Missing& each : memory->missing(device)) blocks_.push_back(std::move(each));
  }
}

void CardRound::begin() {
  if (!first_) return;
  const ProgressLoop::Guard guard(context_.loop);
  remains_.emplace(device_.take_apart(context_.loop));
}

Status CardRound::make() {
  if (first_) {
    if (const Status made = device_.renew(fresh_); !made.ok()) return made;
    if (const Status made = context_.loop.flusher->renew_card(device_, &flush_); !made.ok())
      return made;
    const Status made = context_.registrations->renew(device_.index(), context_.loop, &regions_);
    if (!made.ok()) return made;
  }
  for (LinkMemory::Missing& block : blocks_)
    if (const Status made = LinkMemory::make(block, device_); !made.ok()) return made;
  return {};
}

void CardRound::destroy_former() noexcept {
  flush_.qp.reset();
  flush_.cq.reset();
  regions_.clear();
  link_regions_.clear();
  remains_.reset();
  if (!status_.ok()) blocks_.clear();
}

void CardRound::run() noexcept {
  device_.gate.admit_this_thread();
  try {
    status_ = make();
  } catch (const std::exception& error) {
    LOG_WARN("{}: a new card: {}", device_.name(), error.what());
    status_ = Errc::System;
  }
  if (!status_.ok()) device_.gate.close();
  device_.gate.admit_nobody();
  destroy_former();
  fresh_.reset();
  over_.store(true, std::memory_order_release);
}

bool CardRound::finish() {
  for (LinkMemory::Missing& block : blocks_) {
    const auto its =
        std::find_if(context_.links.begin(), context_.links.end(), [&block](const auto& link) {
          const LinkMemory* const memory = memory_of(*link);
          return memory != nullptr && memory->has(block);
        });
    if (its == context_.links.end())
      device_.deregister(std::move(block.made), block.memory);  // its link has ended
    else
      memory_of(**its)->take(std::move(block), device_);
  }
  blocks_.clear();
  return status_.ok();
}

}  // namespace mesh::engine
