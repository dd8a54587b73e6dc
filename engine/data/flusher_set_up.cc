// The queue pairs of flushes: each is connected to itself, and one that hangs is given up.
#include "engine/data/flusher.h"

#include "engine/data/device_context.h"
#include "engine/data/device_refusal.h"
#include "src/base/check.h"
#include "src/base/held_locks.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"
#include "src/verbs/discovery.h"

#include <algorithm>
#include <array>
#include <cerrno>
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

int Flusher::connect(const Rail& rail, ibv_qp* qp) noexcept {
  verbs::Provider& provider = rail.device->provider();
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
void Flusher::drop_completions(const Rail& rail) noexcept {
  DCHECK(rail.open == 0);
  std::array<ibv_wc, kPollBatch> completions;
  std::uint32_t rounds = kFlushDepth / kPollBatch + 1;
  while (rail.cq && rounds-- != 0 &&
         ibv_poll_cq(rail.cq.get(), kPollBatch, completions.data()) == kPollBatch) {
  }
}

// Waits for the device. Returns nothing if one line said why, or the card has left.
verbs::QpHandle Flusher::make(const Rail& rail) noexcept {
  if (!rail.cq) return {};
  verbs::QpHandle made = rail.device->make_loop_back(rail.cq.get(), rail.depth);
  const int error = made ? connect(rail, made.get()) : errno;
  if (made && error == 0) return made;
  rail.device->note_error(error);
  if (rail.device->gone()) return {};  // and owes no flush
  static_cast<void>(
      tell_refused(rail.device->name(), "the queue pair for flushes of GPU memory", error));
  return {};
}

void Flusher::install(Rail& rail, verbs::QpHandle made) noexcept {
  rail.qp = std::move(made);
  rail.broken = rail.refused = !rail.qp;  // the next flush but one tries again
  rail.making = false;
}

// Under the lock: has a broken queue pair without open reads made anew, unless its card has left or
// the device has just refused one.
void Flusher::renew(std::uint32_t at) noexcept {
  Rail& rail = rails_[at];
  rail.gone = rail.device->gone() ||
              verbs::port_now(rail.device->provider(), rail.device->rail()).card_left;
  if (std::exchange(rail.refused, false) || rail.gone) return;
  rail.making = rail.device->call_later({.function = renew_later, .self = this, .argument = at});
  if (rail.making) return;
  const WaitsUnderLocks no_thread;
  rail.qp.reset();
  drop_completions(rail);
  install(rail, make(rail));
  rail.refused = false;  // this flush has tried
}

// Nobody touches the queue pair of a rail that is `making`.
void Flusher::renew_later(void* self, std::uint32_t at) noexcept {
  Flusher& flusher = *static_cast<Flusher*>(self);
  Rail& rail = flusher.rails_[at];
  rail.qp.reset();
  drop_completions(rail);
  verbs::QpHandle made = make(rail);
  const Hold hold(flusher.lock_);
  install(rail, std::move(made));
}

void Flusher::note_ports(std::span<const std::unique_ptr<DeviceContext>> devices) {
  const std::lock_guard guard(ports_mutex_);
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
  {
    const std::lock_guard guard(ports_mutex_);
    made.port = ports_.at(device.index());
  }
  const auto most = static_cast<std::uint32_t>(std::max(device.rail().qp_wr_max, 0));
  if (most != 0) made.depth = std::min(kFlushDepth, most);
  made.cq = device.make_queue(static_cast<int>(made.depth));
  if (!made.cq) {
    const int error = errno;
    static_cast<void>(
        tell_refused(device.name(), "the completion queue for flushes of GPU memory", error));
  }
  install(made, make(made));
  made.refused = false;
  const Hold hold(lock_);
  rails_[device.index()] = std::move(made);
}

Status Flusher::renew_card(DeviceContext& device, Former* former) {
  const std::lock_guard providing(providing_);
  Rail& rail = rails_[device.index()];
  if (rail.device == nullptr) return {};
  verbs::CqHandle queue = device.make_queue(static_cast<int>(rail.depth));
  if (!queue) return Errc::System;
  const Hold hold(lock_);
  DCHECK(!rail.making);
  end_reads(device.index(), Errc::Ok);
  former->qp = std::move(rail.qp);
  former->cq = std::exchange(rail.cq, std::move(queue));
  rail.gone = rail.refused = false;
  return {};
}

std::uint64_t Flusher::making_rails() const noexcept {
  std::uint64_t making = 0;
  for (std::uint32_t at = 0; at < rails_.size(); ++at)
    if (rails_[at].making) making |= bit_of(at);
  return making;
}

void Flusher::give_up_silent(const Silence& silence) noexcept {
  std::uint64_t silent_rails = 0;
  {
    const Hold hold(lock_);
    poll();
    for (Flush& flush : flushes_) {
      const std::uint64_t waits = flush.open_rails | (flush.owed_rails & making_rails());
      if (waits == 0 || !std::exchange(flush.seen, true)) continue;
      const std::uint64_t silent_ms = flush.silent_ms + silence.elapsed_ns / kNsPerMs;
      flush.silent_ms = static_cast<std::uint32_t>(std::min<std::uint64_t>(silent_ms, UINT32_MAX));
      if (silent_ms >= silence.bound_ns / kNsPerMs) silent_rails |= waits;
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
