// The queue pairs of flushes: each is connected to itself, and one that hangs is given up.
#include "engine/data/flusher.h"

#include "engine/data/device_context.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"
#include "src/verbs/discovery.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace mesh::engine {

namespace {

constexpr std::uint8_t kHopLimit = 255, kRnrTimer = 12, kRetryMax = 7;

constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kToReceive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kToSend = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

}  // namespace

// Returns the attributes of a queue pair of the port whose peer is the port itself.
Flusher::Port Flusher::port_of(const DeviceContext& device, const Settings& settings) {
  const verbs::Rail& rail = device.rail();
  Port port;
  port.init.qp_state = IBV_QPS_INIT;
  port.init.pkey_index = rail.pkey_index;
  port.init.port_num = rail.info.port;
  port.init.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  port.receive.qp_state = IBV_QPS_RTR;
  port.receive.path_mtu = rail.active_mtu;
  port.receive.max_dest_rd_atomic = 1;
  port.receive.min_rnr_timer = kRnrTimer;
  port.receive.ah_attr.port_num = rail.info.port;
  port.receive.ah_attr.dlid = rail.lid;
  port.receive.ah_attr.is_global = rail.ethernet || rail.global_header_required ? 1 : 0;
  port.receive.ah_attr.grh.dgid = rail.gids.front().gid;
  port.receive.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(rail.gids.front().index);
  port.receive.ah_attr.grh.hop_limit = kHopLimit;
  port.send.qp_state = IBV_QPS_RTS;
  port.send.timeout = static_cast<std::uint8_t>(settings.timeout);
  port.send.retry_cnt = static_cast<std::uint8_t>(settings.retry_count);
  port.send.rnr_retry = kRetryMax;
  port.send.max_rd_atomic = 1;
  return port;
}

int Flusher::connect(Rail& rail) noexcept {
  verbs::Provider& provider = rail.device->provider();
  ibv_qp* const qp = rail.qp.get();
  Port port = rail.port;
  port.receive.dest_qp_num = qp->qp_num;
  // A subnet manager may have given the port another LID since, and an address may have come back
  // at another place of the table.
  const verbs::Rail& known = rail.device->rail();
  ibv_ah_attr& address = port.receive.ah_attr;
  if (!known.ethernet) address.dlid = verbs::current_lid(provider, known).value_or(known.lid);
  if (const std::optional<int> index = verbs::gid_index_now(provider, known, 0))
    address.grh.sgid_index = static_cast<std::uint8_t>(*index);
  int error = provider.modify_qp(qp, &port.init, kToInit);
  if (error == 0) error = provider.modify_qp(qp, &port.receive, kToReceive);
  if (error == 0) error = provider.modify_qp(qp, &port.send, kToSend);
  return error;
}

// Drops completions of the queue pair before, after a card has left: nobody waits for them.
void Flusher::drop_completions(Rail& rail) noexcept {
  DCHECK(rail.open == 0);
  std::array<ibv_wc, kPollBatch> completions;
  std::uint32_t rounds = kFlushDepth / kPollBatch + 1;
  while (rail.cq && rounds-- != 0 &&
         ibv_poll_cq(rail.cq.get(), kPollBatch, completions.data()) == kPollBatch) {
  }
}

// Makes the rail's queue pair anew, under the lock or before anybody knows the rail. Returns false
// if one line said why, or the card has left.
bool Flusher::make(Rail& rail) noexcept {
  rail.gone =
      rail.broken && verbs::port_now(rail.device->provider(), rail.device->rail()).card_left;
  if (rail.gone) return false;
  rail.qp.reset();
  rail.broken = false;
  drop_completions(rail);
  if (rail.cq) rail.qp = rail.device->make_loop_back(rail.cq.get(), kFlushDepth);
  const int error = rail.qp ? connect(rail) : errno;
  if (rail.qp && error == 0) return true;
  LOG_WARN("{}: cannot create the queue pair for flushes of GPU memory: {}", rail.device->name(),
           std::strerror(error));
  rail.qp.reset();
  rail.broken = true;  // the next flush tries again
  return false;
}

void Flusher::note_ports(std::span<const std::unique_ptr<DeviceContext>> devices) {
  const std::lock_guard providing(providing_);
  ports_.resize(devices.size());
  for (const auto& device : devices)
    if (!device->rail().gids.empty()) ports_[device->index()] = port_of(*device, settings_);
}

void Flusher::provide(DeviceContext& device) {
  const std::lock_guard providing(providing_);
  DCHECK(device.index() < rails_.size());
  if (rails_[device.index()].device != nullptr || !device.provide_probes().ok()) return;
  Rail made;
  made.device = &device;
  made.port = ports_.at(device.index());
  made.cq = verbs::CqHandle(device.provider(),
                            device.provider().create_cq(device.rail().context.get(), kFlushDepth));
  make(made);
  const Hold hold(*this);
  rails_[device.index()] = std::move(made);
}

void Flusher::give_up_silent(const Silence& silence) noexcept {
  std::uint64_t silent_rails = 0;
  {
    const Hold hold(*this);
    poll();
    for (Flush& flush : flushes_) {
      if (flush.open_rails == 0 || !std::exchange(flush.seen, true)) continue;
      const std::uint64_t silent_ms = flush.silent_ms + silence.elapsed_ns / kNsPerMs;
      flush.silent_ms = static_cast<std::uint16_t>(std::min<std::uint64_t>(silent_ms, UINT16_MAX));
      if (silent_ms >= silence.bound_ns / kNsPerMs) silent_rails |= flush.open_rails;
    }
    for (std::uint32_t at = 0; at < rails_.size(); ++at)
      if ((silent_rails & bit_of(at)) != 0) end_reads(at, Errc::Timeout);
  }
  for (std::uint32_t at = 0; at < rails_.size(); ++at) {
    if ((silent_rails & bit_of(at)) == 0) continue;
    LOG_WARN(
        "{}: flushes of GPU memory have not completed for {} s, and its device reports no "
        "error; they fail",
        rails_[at].device->name(), silence.bound_ns / kNsPerSecond);
  }
}

}  // namespace mesh::engine
