#include "tests/contract/endpoint_pair.h"

#include "src/verbs/gid_choice.h"

namespace mesh::contract {
namespace {

bool open_on(Endpoint& endpoint, verbs::Provider& provider, const std::string& device,
             const PairOptions& options) {
  endpoint.provider = &provider;
  endpoint.context = provider.open_device(device);
  EXPECT_NE(endpoint.context, nullptr);
  if (endpoint.context == nullptr) return false;
  ibv_port_attr port{};
  EXPECT_EQ(provider.query_port(endpoint.context, 1, &port), 0);
  const std::vector<verbs::GidEntry> gids = verbs::choose_gids(
      provider.gids(endpoint.context, 1), {.ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET});
  EXPECT_FALSE(gids.empty());
  if (gids.empty()) return false;
  endpoint.gid = gids.front();
  endpoint.mtu = port.active_mtu;
  endpoint.pd = provider.alloc_pd(endpoint.context);
  endpoint.send_cq = provider.create_cq(endpoint.context, 256);
  if (options.reports) endpoint.channel = provider.create_channel(endpoint.context);
  endpoint.receive_cq = endpoint.channel == nullptr
                            ? provider.create_cq(endpoint.context, 256)
                            : provider.create_reporting_cq(endpoint.channel, 256);
  endpoint.memory.resize(kEndpointBytes);
  endpoint.mr =
      provider.reg_mr(endpoint.pd, endpoint.memory.data(), endpoint.memory.size(), kAllAccess);
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = endpoint.send_cq;
  init.recv_cq = endpoint.receive_cq;
  init.cap.max_send_wr = options.send_depth;
  init.cap.max_recv_wr = options.receive_depth;
  init.cap.max_send_sge = init.cap.max_recv_sge = 4;
  init.cap.max_inline_data = options.max_inline;
  endpoint.qp = provider.create_qp(endpoint.pd, &init);
  EXPECT_NE(endpoint.qp, nullptr);
  EXPECT_NE(endpoint.mr, nullptr);
  endpoint.cap = init.cap;
  return endpoint.qp != nullptr && endpoint.mr != nullptr;
}

}  // namespace

bool open_endpoint(Endpoint& endpoint, const Host& host, const PairOptions& options) {
  return open_on(endpoint, *host.provider, host.device, options);
}

bool open_endpoint(Endpoint& endpoint, verbs::Provider& provider, const PairOptions& options,
                   std::size_t device) {
  const std::vector<verbs::DeviceEntry> devices = provider.devices();
  EXPECT_LT(device, devices.size());
  return device < devices.size() && open_on(endpoint, provider, devices[device].name, options);
}

bool connect_endpoint(Endpoint& endpoint, const ibv_gid& peer_gid, std::uint32_t peer_qp_num,
                      const PairOptions& options) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = options.access;
  const int init = endpoint.provider->modify_qp(
      endpoint.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(init, 0);
  attr = ibv_qp_attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = endpoint.mtu;
  attr.dest_qp_num = peer_qp_num;
  attr.rq_psn = 77;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = options.min_rnr_timer;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer_gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(endpoint.gid.index);
  attr.ah_attr.grh.hop_limit = 64;
  const int rtr = endpoint.provider->modify_qp(
      endpoint.qp, &attr,
      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  EXPECT_EQ(rtr, 0);
  attr = ibv_qp_attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_count;
  attr.rnr_retry = options.rnr_retry;
  attr.sq_psn = 77;
  attr.max_rd_atomic = 1;
  const int rts =
      endpoint.provider->modify_qp(endpoint.qp, &attr,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  EXPECT_EQ(rts, 0);
  return init == 0 && rtr == 0 && rts == 0;
}

bool connect_endpoints(Endpoint& one, Endpoint& other, const PairOptions& options) {
  return connect_endpoint(one, other.gid.gid, other.qp->qp_num, options) &&
         connect_endpoint(other, one.gid.gid, one.qp->qp_num, options);
}

bool open_pair(Endpoint& one, verbs::Provider& provider_of_one, Endpoint& other,
               verbs::Provider& provider_of_other, const PairOptions& options) {
  return open_endpoint(one, provider_of_one, options) &&
         open_endpoint(other, provider_of_other, options) && connect_endpoints(one, other, options);
}

void close_endpoint(Endpoint& endpoint) {
  if (endpoint.provider == nullptr || endpoint.context == nullptr) return;
  verbs::Provider& provider = *endpoint.provider;
  EXPECT_TRUE(endpoint.qp == nullptr || provider.destroy_qp(endpoint.qp) == 0);
  EXPECT_TRUE(endpoint.mr == nullptr || provider.dereg_mr(endpoint.mr) == 0);
  EXPECT_TRUE(endpoint.send_cq == nullptr || provider.destroy_cq(endpoint.send_cq) == 0);
  EXPECT_TRUE(endpoint.receive_cq == nullptr || provider.destroy_cq(endpoint.receive_cq) == 0);
  EXPECT_TRUE(endpoint.channel == nullptr || provider.destroy_channel(endpoint.channel) == 0);
  EXPECT_EQ(provider.dealloc_pd(endpoint.pd), 0);
  EXPECT_EQ(provider.close_device(endpoint.context), 0);
  endpoint = Endpoint{};
}

SendRequest write_request(const Endpoint& from, const Endpoint& to, std::uint64_t wr_id,
                          std::uint32_t bytes) {
  SendRequest request;
  request.sge = {from.address(), bytes, from.mr->lkey};
  request.wr.wr_id = wr_id;
  request.wr.num_sge = bytes == 0 ? 0 : 1;
  request.wr.opcode = IBV_WR_RDMA_WRITE;
  request.wr.send_flags = IBV_SEND_SIGNALED;
  request.wr.wr.rdma.remote_addr = to.address();
  request.wr.wr.rdma.rkey = to.mr->rkey;
  return request;
}

int to_error(Endpoint& endpoint) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  return endpoint.provider->modify_qp(endpoint.qp, &attr, IBV_QP_STATE);
}

int post(Endpoint& from, SendRequest request) {
  request.wr.sg_list = &request.sge;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(from.qp, &request.wr, &bad);
}

int post_receive(Endpoint& endpoint, std::uint64_t wr_id, std::uint32_t bytes, std::size_t offset) {
  ibv_sge sge{endpoint.address(offset), bytes, endpoint.mr->lkey};
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = bytes == 0 ? 0 : 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(endpoint.qp, &wr, &bad);
}

}  // namespace mesh::contract
