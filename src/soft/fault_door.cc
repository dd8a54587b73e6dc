#include "src/soft/fault_door.h"

#include "src/soft/host_state.h"
#include "src/soft/rendezvous_wire.h"
#include "src/soft/unix_socket.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

namespace mesh::soft {

namespace {

FaultMessage encode(const FaultOrder& order) {
  const Fault& fault = order.fault;
  FaultMessage message;
  message.prefix.type = kFault;
  message.nic = fault.nic;
  message.peer_host = fault.peer_host;
  message.verb = static_cast<std::uint32_t>(order.verb);
  message.kind = static_cast<std::uint32_t>(fault.kind);
  message.status = static_cast<std::uint32_t>(fault.status);
  message.queue_pair = order.queue_pair;
  message.after_work_requests = fault.after_work_requests;
  message.work_requests = fault.work_requests;
  message.after_ns = fault.after_ns;
  message.duration_ns = fault.duration_ns;
  message.delay_ns = fault.delay_ns;
  message.seed = fault.seed;
  message.mtu = fault.mtu;
  return message;
}

}  // namespace

bool decode(std::span<const std::byte> bytes, FaultOrder* order) {
  FaultMessage message;
  if (bytes.size() != sizeof message) return false;
  std::memcpy(&message, bytes.data(), sizeof message);
  const bool known = message.verb <= static_cast<std::uint32_t>(FaultVerb::Look) &&
                     message.kind <= static_cast<std::uint32_t>(kFaultKindLast) &&
                     message.status <= IBV_WC_GENERAL_ERR;
  if (!known) return false;
  order->verb = static_cast<FaultVerb>(message.verb);
  order->queue_pair = message.queue_pair;
  Fault& fault = order->fault;
  fault.kind = static_cast<FaultKind>(message.kind);
  fault.nic = message.nic;
  fault.peer_host = message.peer_host;
  fault.status = static_cast<ibv_wc_status>(message.status);
  fault.after_work_requests = message.after_work_requests;
  fault.work_requests = message.work_requests;
  fault.after_ns = message.after_ns;
  fault.duration_ns = message.duration_ns;
  fault.delay_ns = message.delay_ns;
  fault.seed = message.seed;
  fault.mtu = static_cast<std::uint32_t>(message.mtu);
  return true;
}

namespace {

// Returns NotFound if the process at the other end is gone.
Result<FaultAnswer> tell_process(int fd, const FaultOrder& order) {
  std::array<std::byte, kMessageBytesMax> buffer{};
  Received received;
  const Io asked = ask(fd, bytes_of(encode(order)), buffer, &received);
  if (asked == Io::Closed) return Errc::NotFound;
  FaultAnswerMessage message;
  if (asked != Io::Done || received.bytes != sizeof message) return Errc::System;
  std::memcpy(&message, buffer.data(), sizeof message);
  if (message.prefix.magic != kRendezvousMagic || message.prefix.type != kFaultAnswer)
    return Errc::System;
  return FaultAnswer{.code = static_cast<Errc>(message.code),
                     .count = message.count,
                     .connected = message.connected,
                     .port_up = message.port_up != 0,
                     .work_requests = message.work_requests,
                     .bytes = message.bytes};
}

// Makes the order for the host's next process: what the first one has armed is armed for all, which
// only look.
void pass_on(const FaultAnswer& answer, FaultOrder& order) {
  const bool one = order.verb == FaultVerb::FailQueuePairs && order.queue_pair >= 0;
  if (one) order.queue_pair -= static_cast<int>(answer.connected);
  if ((one && answer.count != 0) || order.verb != FaultVerb::FailQueuePairs)
    order.verb = FaultVerb::Look;
}

}  // namespace

Result<FaultAnswer> tell_host(const FabricFile& fabric, const std::string& host,
                              const FaultOrder& order) {
  FaultOrder next = order;
  std::optional<FaultAnswer> all;
  for (int slot = 0; slot < kSlotsMax; ++slot) {
    const UniqueFd fd = connect_abstract(rendezvous_name(fabric.identity, host, slot));
    if (!fd.valid() && errno == ECONNREFUSED) continue;
    if (!fd.valid() || credentials_of(fd.get()).uid != ::geteuid()) return Errc::System;
    const Result<FaultAnswer> answer = tell_process(fd.get(), next);
    if (answer.code() == Errc::NotFound) continue;
    if (!answer.ok() || answer->code != Errc::Ok) return answer;
    pass_on(*answer, next);
    if (!all) {
      all = *answer;
      continue;
    }
    all->count += answer->count;
    all->work_requests += answer->work_requests;
    all->bytes += answer->bytes;
  }
  return all ? Result<FaultAnswer>(*all) : Errc::NotFound;
}

}  // namespace mesh::soft
