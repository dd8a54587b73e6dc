#include "engine/data/call_watch.h"

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

namespace mesh::engine {

CallWatch::Call::Call(CallWatch& watch, const std::string& device, const char* command) noexcept
    : watch_(watch), device_(device), command_(command), began_ns_(Clock().now_ns()) {
  const std::lock_guard guard(watch_.mutex_);
  next_ = watch_.newest_;
  if (next_ != nullptr) next_->before_ = this;
  watch_.newest_ = this;
  watch_.any_.store(true, std::memory_order_relaxed);
}

CallWatch::Call::~Call() {
  {
    const std::lock_guard guard(watch_.mutex_);
    (before_ == nullptr ? watch_.newest_ : before_->next_) = next_;
    if (next_ != nullptr) next_->before_ = before_;
    watch_.any_.store(watch_.newest_ != nullptr, std::memory_order_relaxed);
  }
  if (told_)
    LOG_INFO("{}: {} has returned after {} ms", device_, command_,
             (Clock().now_ns() - began_ns_) / kNsPerMs);
}

std::string CallWatch::oldest() const {
  const std::lock_guard guard(mutex_);
  const Call* oldest = newest_;
  while (oldest != nullptr && oldest->next_ != nullptr) oldest = oldest->next_;
  if (oldest == nullptr) return {};
  return fmt::format("{}: {} has not returned in {} ms", oldest->device_, oldest->command_,
                     (Clock().now_ns() - oldest->began_ns_) / kNsPerMs);
}

void CallWatch::look() noexcept {
  const std::lock_guard guard(mutex_);
  Call* oldest = nullptr;
  for (Call* each = newest_; each != nullptr; each = each->next_) {
    if (each->told_) return;
    oldest = each;
  }
  if (oldest == nullptr || Clock().now_ns() < oldest->began_ns_ + kCallToToldNs) return;
  oldest->told_ = true;
  LOG_WARN("{}: {} has not returned in {} ms, and a link waits for it", oldest->device_,
           oldest->command_, kCallToToldNs / kNsPerMs);
}

}  // namespace mesh::engine
