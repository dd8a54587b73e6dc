#pragma once
// Brings up a test's queue pair of any provider. Thread: the test's.

#include "src/verbs/provider.h"

#include <cstdint>

namespace mesh::relay::testkit {

struct Meeting {
  verbs::GidEntry own{};
  ibv_gid peer{};
  std::uint32_t peer_qp_num = 0;
  std::uint8_t timeout = 8, retry_count = 1, rnr_retry = 7;  // 2.1 ms
};

inline constexpr std::uint32_t kPsn = 77;

inline int to_init(verbs::Provider& provider, ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  return provider.modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

inline int to_rtr(verbs::Provider& provider, ibv_qp* qp, const Meeting& meeting) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = meeting.peer_qp_num;
  attr.rq_psn = kPsn;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = meeting.peer;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(meeting.own.index);
  attr.ah_attr.grh.hop_limit = 64;
  return provider.modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

inline int to_rts(verbs::Provider& provider, ibv_qp* qp, const Meeting& meeting) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = meeting.timeout;
  attr.retry_cnt = meeting.retry_count;
  attr.rnr_retry = meeting.rnr_retry;
  attr.sq_psn = kPsn;
  attr.max_rd_atomic = 1;
  return provider.modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

}  // namespace mesh::relay::testkit
