#include "engine/data/device_refusal.h"

#include "src/base/log.h"
#include "src/verbs/device_probe.h"
#include "src/verbs/memory_hint.h"

#include <cstring>
#include <string>

namespace mesh::engine {

Status tell_refused(std::string_view device, std::string_view object, int error) noexcept {
  LOG_WARN("{}: cannot create {}: {}{}", device, object, std::strerror(error),
           verbs::memory_hint(error));
  return Errc::System;
}

void tell_no_queue_pair(std::string_view device, const QueueDepths& depths,
                        const PairAnswer& answer) {
  if (answer.error == 0) {
    LOG_WARN("{}: a queue pair gets {} bytes inline, and {} are needed", device,
             answer.inline_bytes, verbs::kInlineNeeded);
    return;
  }
  const std::string object = fmt::format("a queue pair (send {}, receive {}, inline {})",
                                         depths.send, depths.receive, verbs::kInlineNeeded);
  static_cast<void>(tell_refused(device, object, answer.error));
}

}  // namespace mesh::engine
