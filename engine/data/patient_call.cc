#include "engine/data/patient_call.h"

#include "engine/data/device_context.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <chrono>
#include <exception>
#include <utility>

namespace mesh::engine {

PatientCall::PatientCall(const Of& of, Work work, Work undo)
    : device_(of.device),
      command_(of.command),
      work_(std::move(work)),
      undo_(std::move(undo)),
      began_ns_(Clock().now_ns()) {}

std::shared_ptr<PatientCall> PatientCall::begin(const Of& of, Work work, Work undo) {
  DeviceContext& device = of.device;
  auto call = std::make_shared<PatientCall>(of, std::move(work), std::move(undo));
  if (device.late_calls.by_hand) {
    call->run();
    return call;
  }
  auto kept = std::make_unique<std::shared_ptr<PatientCall>>(call);
  const auto function = [](void* self, std::uint32_t) noexcept {
    const std::unique_ptr<std::shared_ptr<PatientCall>> run(
        static_cast<std::shared_ptr<PatientCall>*>(self));
    (*run)->run();
  };
  if (device.call_later({.function = function, .self = kept.get(), .argument = 0})) {
    static_cast<void>(kept.release());
  } else {
    call->run();
  }
  return call;
}

void PatientCall::run() noexcept {
  try {
    work_();
  } catch (const std::exception& error) {
    LOG_WARN("{}: {}", device_.name(), error.what());
  }
  bool late = false, abandoned = false;
  {
    const std::lock_guard guard(mutex_);
    over_ = true;
    late = late_;
    abandoned = abandoned_;
    ends_.notify_all();
  }
  if (abandoned) undo_();
  if (late && device_.late_calls.remove())
    LOG_INFO("{}: {} has returned after {} ms, and the rail stands by for links again",
             device_.name(), command_, (Clock().now_ns() - began_ns_) / kNsPerMs);
}

bool PatientCall::wait() noexcept {
  std::unique_lock lock(mutex_);
  if (over_) return true;
  const std::uint64_t waited_ns = Clock().now_ns() - began_ns_;
  const std::uint64_t left_ns = device_.late_calls.any() || waited_ns > kSpareCallToLateNs
                                    ? 0
                                    : kSpareCallToLateNs - waited_ns;
  if (ends_.wait_for(lock, std::chrono::nanoseconds(left_ns), [this] { return over_; }))
    return true;
  late_ = true;
  if (device_.late_calls.add())
    LOG_WARN(
        "{}: {} has not returned in {} ms: links over other rails come up without this one, which "
        "stands by for them when the call returns",
        device_.name(), command_, kSpareCallToLateNs / kNsPerMs);
  return false;
}

void PatientCall::wait_for_end() noexcept {
  std::unique_lock lock(mutex_);
  ends_.wait(lock, [this] { return over_; });
}

bool PatientCall::over() const noexcept {
  const std::lock_guard guard(mutex_);
  return over_;
}

bool PatientCall::abandon() noexcept {
  const std::lock_guard guard(mutex_);
  abandoned_ = !over_;
  return abandoned_;
}

}  // namespace mesh::engine
