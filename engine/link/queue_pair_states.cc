#include "engine/link/queue_pair_states.h"

#include "src/base/log.h"
#include "src/verbs/gid_choice.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mesh::engine {

namespace {
// A receiver-not-ready NAK is a bug of ours, which is counted; it must not end a job.
constexpr std::uint8_t kRnrRetryForever = 7;
// Code 1 is 0.01 ms. With code 12 (0.64 ms) flows became ten times slower when it happened.
constexpr std::uint8_t kRnrTimer = 1;
constexpr std::uint8_t kHopLimit = 255;  // the most routers that there may be

// Returns the LID to send to for a peer under another subnet prefix. Its port is behind a router,
// and its own LID means nothing here. Its GID may name the LID that its subnet has in all others.
std::uint16_t lid_towards(const ibv_gid& peer, std::uint16_t lid) {
  const std::uint16_t routable = verbs::routable_lid(peer);
  return routable != 0 ? routable : lid;
}

// Returns what the errno value says about the way to the peer, and nothing where it says nothing.
const char* way_hint(int error) noexcept {
  const bool no_way = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  return no_way ? " (the peer's address is not reachable over this port)" : "";
}

ibv_ah_attr address_of(const PortEnd& own, const FarEnd& far) {
  const Settings& settings = own.settings;
  ibv_ah_attr address{};
  const verbs::Rail& rail = own.rail;
  const bool routed = !rail.ethernet && !verbs::same_ib_subnet(rail.gids[own.address].gid, far.gid);
  address.sl = static_cast<std::uint8_t>(std::max(settings.service_level, 0));
  address.port_num = rail.info.port;  // our own port, not the peer's
  if (!rail.ethernet) address.dlid = routed ? lid_towards(far.gid, far.lid) : far.lid;
  if (!rail.ethernet && !routed && !rail.global_header_required) return address;
  address.is_global = 1;
  address.grh.dgid = far.gid;
  address.grh.sgid_index = static_cast<std::uint8_t>(own.gid_index);
  address.grh.hop_limit = kHopLimit;
  if (rail.ethernet)
    address.grh.traffic_class = static_cast<std::uint8_t>(std::max(settings.traffic_class, 0));
  return address;
}
}  // namespace

Status to_init(const PortEnd& own, ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = own.rail.pkey_index;
  attr.port_num = own.rail.info.port;
  attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;  // no peer reads from us
  const int error = own.provider.modify_qp(
      qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error == 0) return {};
  LOG_WARN("{}: queue pair to INIT: {}", own.name, std::strerror(error));
  return Errc::Transport;
}

Status to_rtr(const PortEnd& own, ibv_qp* qp, const FarEnd& far, ResolveTries& tries) {
  constexpr int kMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = far.mtu;
  attr.rq_psn = far.psn;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = kRnrTimer;
  attr.ah_attr = address_of(own, far);
  attr.dest_qp_num = far.qpn;
  int error = ETIMEDOUT;
  while (error == ETIMEDOUT && tries.left > 0) {
    if (tries.is_abandoned()) return Errc::PeerClosed;
    ibv_qp_attr copy = attr;
    error = own.provider.modify_qp(qp, &copy, kMask);
    if (error == ETIMEDOUT) --tries.left;
  }
  if (error == 0) return {};
  if (tries.is_abandoned()) return Errc::PeerClosed;
  MESH_LOG(tries.level, "{}: queue pair to RTR: {}{}", own.name, std::strerror(error),
           way_hint(error));
  return Errc::Transport;
}

Status to_rts(const PortEnd& own, ibv_qp* qp, std::uint32_t psn) {
  const Settings& settings = own.settings;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = static_cast<std::uint8_t>(settings.timeout);
  attr.retry_cnt = static_cast<std::uint8_t>(settings.retry_count);
  attr.rnr_retry = kRnrRetryForever;
  attr.sq_psn = psn;
  attr.max_rd_atomic = 1;
  const int error =
      own.provider.modify_qp(qp, &attr,
                             IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error == 0) return {};
  LOG_WARN("{}: queue pair to RTS: {}", own.name, std::strerror(error));
  return Errc::Transport;
}

}  // namespace mesh::engine
