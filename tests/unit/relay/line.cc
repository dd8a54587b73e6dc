#include "tests/unit/relay/line.h"

#include "src/base/clock.h"
#include "tests/prelude.h"

namespace mesh::relay::testkit {
namespace {

constexpr std::uint64_t kPatienceNs = 50 * kNsPerSecond;
constexpr int kSettleTurns = 2000;
constexpr std::uint64_t kSettleNs = 20'000'000;
constexpr unsigned kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

}  // namespace

Line::Line(const LineOptions& options)
    : options_(options),
      fabric_(line_fabric(options.middles, options.link_fields)),
      end_hosts_{open_host(fabric_, 0, options.agent),
                 open_host(fabric_, options.middles + 1, options.agent)},
      hosts_(fabric_, options.middles, options.agent) {
  open_end(0);
  open_end(1);
  EXPECT_TRUE(connect());
}

Line::~Line() {
  for (LineEnd& end : ends_) end.qp.reset();
  chains_.clear();
}

void Line::open_end(std::size_t index) {
  LineEnd& end = ends_[index];
  end.nic = open_nic(*end_hosts_[index], index == 0 ? "right" : "left");
  end.device = std::make_unique<EndDevice>(*end.nic.provider, end.nic.context.get());
  end.maker = options_.raw_left && index == 0 ? end.nic.provider : end.device.get();
  verbs::Provider& device = *end.maker;
  const auto entries = static_cast<int>(options_.send_depth + options_.receive_depth);
  end.cq = verbs::CqHandle(device, device.create_cq(end.nic.context.get(), entries));
  ASSERT_TRUE(end.cq);
  end.memory.resize(kEndBytes);
  end.mr = verbs::MrHandle(
      device, device.reg_mr(end.nic.pd.get(), end.memory.data(), end.memory.size(), kAccess));
  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = attr.recv_cq = end.cq.get();
  attr.cap = {.max_send_wr = options_.send_depth,
              .max_recv_wr = options_.receive_depth,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = options_.inline_bytes};
  end.qp = verbs::QpHandle(device, device.create_qp(end.nic.pd.get(), &attr));
  ASSERT_TRUE(end.qp);
  EXPECT_EQ(attr.cap.max_send_wr, options_.send_depth);
}

CountsTarget Line::counts_of(std::size_t index) const {
  const LineEnd& end = ends_[index];
  if (end.maker == end.device.get()) return end.device->counts(end.qp.get());
  return {.address = end.address(), .rkey = end.mr->rkey};
}

bool Line::connect_end(std::size_t index) {
  LineEnd& end = ends_[index];
  const Side side = index == 0 ? Side::Left : Side::Right;
  const Chain& next = index == 0 ? *chains_.front() : *chains_.back();
  if (end.maker == end.device.get() && !end.device->set_ring(end.qp.get(), next.ring(side)).ok())
    return false;
  const Meeting meeting{.own = end.nic.gid,
                        .peer = hosts_.gid_towards(index),
                        .peer_qp_num = next.qp(side)->qp_num,
                        .timeout = options_.timeout,
                        .retry_count = options_.retry_count};
  return to_init(*end.maker, end.qp.get()) == 0 && to_rtr(*end.maker, end.qp.get(), meeting) == 0 &&
         to_rts(*end.maker, end.qp.get(), meeting) == 0;
}

bool Line::connect() {
  Result<Chains> made =
      hosts_.make({.slots = options_.slots != 0 ? options_.slots : options_.send_depth,
                   .payload_bytes = options_.payload_bytes,
                   .wr_bytes = options_.wr_bytes});
  if (!made.ok()) return false;
  chains_ = std::move(*made);
  std::array<Neighbour, 2> neighbours;
  for (std::size_t i = 0; i < 2; ++i) {
    neighbours[i] = {
        .gid = ends_[i].nic.gid.gid, .qp_num = ends_[i].qp->qp_num, .counts = counts_of(i)};
  }
  return hosts_.prepare(chains_, neighbours) &&
         hosts_.start(chains_,
                      {.timeout = options_.timeout, .retry_count = options_.retry_count}) &&
         connect_end(0) && connect_end(1);
}

int Line::post(std::size_t end, const LineWrite& write) {
  LineEnd &from = ends_[end], &to = ends_[1 - end];
  ibv_sge sge{.addr = from.address(write.from), .length = write.bytes, .lkey = from.mr->lkey};
  ibv_send_wr wr{};
  wr.wr_id = write.wr_id;
  wr.sg_list = &sge;
  wr.num_sge = write.bytes == 0 ? 0 : 1;
  wr.opcode = write.announced ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  wr.imm_data = write.imm;
  wr.send_flags = write.flags;
  wr.wr.rdma.remote_addr = to.address(write.to);
  wr.wr.rdma.rkey = to.mr->rkey + write.rkey_off_by;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(from.qp.get(), &wr, &bad);
}

int Line::post_receives(std::size_t end, std::uint32_t count) {
  ibv_recv_wr wr{};
  wr.wr_id = kReceiveId;
  ibv_recv_wr* bad = nullptr;
  int error = 0;
  for (std::uint32_t i = 0; i < count && error == 0; ++i)
    error = ibv_post_recv(ends_[end].qp.get(), &wr, &bad);
  return error;
}

void Line::poll(std::size_t index) {
  LineEnd& end = ends_[index];
  std::array<ibv_wc, 16> completions{};
  const int found =
      ibv_poll_cq(end.cq.get(), static_cast<int>(completions.size()), completions.data());
  EXPECT_GE(found, 0);
  for (int i = 0; i < found; ++i) {
    const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
    (completion.wr_id == kReceiveId ? end.received : end.sent).push_back(completion);
  }
}

void Line::turn_middles() {
  for (const auto& chain : chains_) {
    if (chain != nullptr) chain->turn();
  }
}

void Line::turn() {
  poll(0);
  turn_middles();
  poll(1);
  for (const auto& host : end_hosts_) host->turn();
  hosts_.turn();
}

bool Line::until_sent(std::size_t index, std::size_t count) {
  const Clock clock;
  const std::uint64_t until_ns = clock.now_ns() + kPatienceNs;
  while (ends_[index].sent.size() < count && clock.now_ns() < until_ns) turn();
  return ends_[index].sent.size() >= count;
}

bool Line::until_received(std::size_t index, std::size_t count) {
  const Clock clock;
  const std::uint64_t until_ns = clock.now_ns() + kPatienceNs;
  while (ends_[index].received.size() < count && clock.now_ns() < until_ns) turn();
  return ends_[index].received.size() >= count;
}

void Line::settle() {
  const Clock clock;
  const std::uint64_t until_ns = clock.now_ns() + kSettleNs;
  for (int i = 0; i < kSettleTurns || clock.now_ns() < until_ns; ++i) turn();
}

int Line::to_error(std::size_t end) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  return ends_[end].maker->modify_qp(ends_[end].qp.get(), &attr, IBV_QP_STATE);
}

int Line::to_error(std::size_t middle, Side side) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  return hosts_.host(middle).modify_qp(chains_[middle]->qp(side), &attr, IBV_QP_STATE);
}

bool Line::arm(const soft::Fault& fault) {
  bool armed = true;
  for (const auto& host : end_hosts_) armed &= host->faults().arm(fault).ok();
  for (std::size_t i = 0; i < hosts_.size(); ++i) armed &= hosts_.host(i).faults().arm(fault).ok();
  return armed;
}

}  // namespace mesh::relay::testkit
