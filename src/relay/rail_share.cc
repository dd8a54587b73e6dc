#include "src/relay/rail_share.h"

#include <mutex>

namespace mesh::relay {

void RailShare::release() noexcept {
  last_ = holder_;
  holder_ = nullptr;
}

bool RailShare::may_take(const void* who) noexcept {
  if (holder_ != nullptr) {
    others_wait_ = true;
    return ++asked_ >= kPatience;
  }
  // Refuses once: the others have their turn before the last holder asks again.
  if (last_ != who || !others_wait_) return true;
  others_wait_ = false;
  return false;
}

bool RailShare::try_post(const void* who, std::uint64_t under_way, std::uint64_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  if (holder_ != who) {
    if (under_way >= kUnderWayBytes || !may_take(who)) return false;
    holder_ = who;
    others_wait_ = false;
    spent_ = 0;
  }
  if (spent_ >= kQuantumBytes) {
    if (others_wait_) return false;
    spent_ = 0;
  }
  if (under_way >= kUnderWayBytes) return false;
  spent_ += bytes;
  under_way_ = under_way + bytes;
  asked_ = 0;
  return true;
}

bool RailShare::look(const void* who, std::uint64_t under_way) noexcept {
  const std::lock_guard guard(lock_);
  if (holder_ != who) return false;
  if (under_way < under_way_) asked_ = 0;
  under_way_ = under_way;
  if (others_wait_ && spent_ >= kQuantumBytes && under_way <= kHandOverBytes) release();
  return holder_ == who;
}

bool RailShare::rest(const void* who, std::uint64_t under_way) noexcept {
  const std::lock_guard guard(lock_);
  if (holder_ == who && under_way <= kHandOverBytes) release();
  return holder_ == who;
}

void RailShare::leave(const void* who) noexcept {
  const std::lock_guard guard(lock_);
  if (holder_ == who) release();
}

}  // namespace mesh::relay
