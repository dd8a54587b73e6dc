#include "src/soft/fault_door.h"

#include "src/soft/rendezvous_wire.h"
#include "src/soft/unix_socket.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace mesh::soft {

namespace {

FaultMessage encode(const FaultOrder& order) {
  const Fault& fault = order.fault;
  FaultMessage message;
  message.prefix.type = kFault;
  fault.nic.copy(message.nic, kNameRoom - 1);
  fault.peer_host.copy(message.peer_host, kNameRoom - 1);
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

bool wait_for(int fd, short events) {
  pollfd waiting{fd, events, 0};
  int ready;
  do {
    ready = ::poll(&waiting, 1, kFaultAnswerMs);
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

}  // namespace

bool decode(std::span<const std::byte> bytes, FaultOrder* order) {
  FaultMessage message;
  if (bytes.size() != sizeof message) return false;
  std::memcpy(&message, bytes.data(), sizeof message);
  message.nic[kNameRoom - 1] = message.peer_host[kNameRoom - 1] = '\0';
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

Result<FaultAnswer> tell_host(const FabricFile& fabric, const std::string& host,
                              const FaultOrder& order) {
  const UniqueFd fd = connect_abstract(rendezvous_name(fabric.identity, host));
  if (!fd.valid()) return errno == ECONNREFUSED ? Errc::NotFound : Errc::System;
  if (credentials_of(fd.get()).uid != ::geteuid()) return Errc::System;
  const bool asked = wait_for(fd.get(), POLLOUT) &&
                     send_message(fd.get(), bytes_of(encode(order)), {}) == Io::Done;
  std::array<std::byte, kMessageBytesMax> buffer{};
  Received received;
  if (!asked || !wait_for(fd.get(), POLLIN) ||
      receive_message(fd.get(), buffer, &received) != Io::Done)
    return Errc::System;
  FaultAnswerMessage message;
  if (received.bytes != sizeof message) return Errc::System;
  std::memcpy(&message, buffer.data(), sizeof message);
  if (message.prefix.magic != kRendezvousMagic || message.prefix.type != kFaultAnswer)
    return Errc::System;
  return FaultAnswer{.code = static_cast<Errc>(message.code),
                     .count = message.count,
                     .port_up = message.port_up != 0,
                     .work_requests = message.work_requests,
                     .bytes = message.bytes};
}

}  // namespace mesh::soft
