#include "tests/unit/relay/line.h"

#include "src/base/clock.h"
#include "src/base/log.h"

#include <gtest/gtest.h>

#include <utility>

namespace mesh::relay::testkit {

namespace {

constexpr std::uint64_t kPatienceNs = 50 * kNsPerSecond;
constexpr int kSettleTurns = 2000;
constexpr std::uint64_t kSettleNs = 20'000'000;
constexpr unsigned kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

std::string nic_text(const std::string& name, std::size_t cable, int side) {
  return fmt::format(R"({{"name": "{}", "address": "10.0.{}.{}/24"}})", name, cable + 1, side);
}

// Hosts h0 to h<n>, each with a NIC "right" to the next and one "left" to the one before.
std::string fabric_text(const LineOptions& options) {
  const std::size_t hosts = options.middles + 2;
  std::string text = R"({"name": "line", "hosts": [)", links = R"("links": [)";
  for (std::size_t i = 0; i < hosts; ++i) {
    std::string nics = i == 0 ? "" : nic_text("left", i - 1, 2);
    if (i > 0 && i + 1 < hosts) nics += ", ";
    if (i + 1 < hosts) nics += nic_text("right", i, 1);
    text += fmt::format(R"({}{{"name": "h{}", "nics": [{}]}})", i == 0 ? "" : ", ", i, nics);
    if (i + 1 < hosts) {
      links += fmt::format(R"({}{{"ends": ["h{}/right", "h{}/left"]{}}})", i == 0 ? "" : ", ", i,
                           i + 1, options.link_fields);
    }
  }
  return text + "], " + links + "]}";
}

const verbs::GidEntry& speaking(const std::vector<verbs::GidEntry>& gids) { return gids.back(); }

}  // namespace

Line::Line(const LineOptions& options) : options_(options) {
  const Result<soft::FabricFile> fabric = soft::parse(fabric_text(options));
  EXPECT_TRUE(fabric.ok());
  for (std::size_t i = 0; i < options.middles + 2; ++i) {
    soft::SoftOptions soft;
    soft.fabric = *fabric;
    soft.host = fmt::format("h{}", i);
    soft.agent = options.agent;
    Result<std::unique_ptr<soft::SoftProvider>> host = soft::SoftProvider::open(std::move(soft));
    EXPECT_TRUE(host.ok());
    hosts_.push_back(std::move(*host));
  }
  open_end(0);
  open_end(1);
  made_ = make_chains();
  if (made_.ok()) made_ = connect();
  EXPECT_TRUE(made_.ok());
}

Line::~Line() {
  for (LineEnd& end : ends_) end.qp.reset();
  chains_.clear();
}

LineNic Line::open_nic(std::size_t host, const std::string& name) {
  verbs::Provider& provider = *hosts_[host];
  LineNic nic;
  nic.provider = &provider;
  nic.context = verbs::ContextHandle(provider, provider.open_device(name));
  nic.pd = verbs::PdHandle(provider, provider.alloc_pd(nic.context.get()));
  nic.gid = speaking(provider.gids(nic.context.get(), 1));
  return nic;
}

void Line::open_end(std::size_t index) {
  LineEnd& end = ends_[index];
  end.nic = open_nic(index == 0 ? 0 : hosts_.size() - 1, index == 0 ? "right" : "left");
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

Status Line::make_chains() {
  const std::uint32_t slots = options_.slots != 0 ? options_.slots : options_.send_depth;
  const RingShape shape{
      .slots = slots, .payload_bytes = options_.payload_bytes, .wr_bytes = options_.wr_bytes};
  for (std::size_t i = 0; i < options_.middles; ++i) {
    std::array<LineNic, 2>& nics = middle_nics_.emplace_back();
    nics[0] = open_nic(i + 1, "left");
    nics[1] = open_nic(i + 1, "right");
    ChainOptions options;
    for (std::size_t side = 0; side < 2; ++side) {
      options.rails[side] = {.provider = nics[side].provider,
                             .context = nics[side].context.get(),
                             .pd = nics[side].pd.get()};
      options.rings[side] = shape;
    }
    Result<std::unique_ptr<Chain>> chain = Chain::create(options);
    if (!chain.ok()) return chain.status();
    chains_.push_back(std::move(*chain));
  }
  return {};
}

Status Line::bring_up(verbs::Provider& provider, ibv_qp* qp, const Meeting& meeting) {
  const bool good = to_rtr(provider, qp, meeting) == 0 && to_rts(provider, qp, meeting) == 0;
  return good ? Status{} : Status{Errc::Transport};
}

CountsTarget Line::counts_of(std::size_t index) const {
  const LineEnd& end = ends_[index];
  if (end.maker == end.device.get()) return end.device->counts(end.qp.get());
  return {.address = end.address(), .rkey = end.mr->rkey};
}

// The chain's left neighbour: the left end, or the middle host before.
Status Line::meet_left(std::size_t middle) {
  Chain& chain = *chains_[middle];
  const bool first = middle == 0;
  if (first) {
    chain.set_counts(Side::Left, counts_of(0));
  } else {
    chain.set_counts(Side::Left, chains_[middle - 1]->counts(Side::Right));
    const Status next = chain.set_next_ring(Side::Left, chains_[middle - 1]->ring(Side::Right));
    if (!next.ok()) return next;
  }
  const LineNic& peer = first ? ends_[0].nic : middle_nics_[middle - 1][1];
  const ibv_qp* const peer_qp = first ? ends_[0].qp.get() : chains_[middle - 1]->qp(Side::Right);
  return bring_up(*hosts_[middle + 1], chain.qp(Side::Left),
                  {.own = middle_nics_[middle][0].gid,
                   .peer = peer.gid.gid,
                   .peer_qp_num = peer_qp->qp_num,
                   .timeout = options_.timeout,
                   .retry_count = options_.retry_count});
}

Status Line::meet_right(std::size_t middle) {
  Chain& chain = *chains_[middle];
  const bool last = middle + 1 == chains_.size();
  if (last) {
    chain.set_counts(Side::Right, counts_of(1));
  } else {
    chain.set_counts(Side::Right, chains_[middle + 1]->counts(Side::Left));
    const Status next = chain.set_next_ring(Side::Right, chains_[middle + 1]->ring(Side::Left));
    if (!next.ok()) return next;
  }
  const LineNic& peer = last ? ends_[1].nic : middle_nics_[middle + 1][0];
  const ibv_qp* const peer_qp = last ? ends_[1].qp.get() : chains_[middle + 1]->qp(Side::Left);
  return bring_up(*hosts_[middle + 1], chain.qp(Side::Right),
                  {.own = middle_nics_[middle][1].gid,
                   .peer = peer.gid.gid,
                   .peer_qp_num = peer_qp->qp_num,
                   .timeout = options_.timeout,
                   .retry_count = options_.retry_count});
}

Status Line::connect() {
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    for (const Side side : kSides) {
      if (to_init(*hosts_[i + 1], chains_[i]->qp(side)) != 0) return Errc::Transport;
      if (const Status filled = chains_[i]->fill_receive_queue(side); !filled.ok()) return filled;
    }
  }
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    if (const Status status = meet_left(i); !status.ok()) return status;
    if (const Status status = meet_right(i); !status.ok()) return status;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    LineEnd& end = ends_[i];
    Chain& chain = i == 0 ? *chains_.front() : *chains_.back();
    const Side side = i == 0 ? Side::Left : Side::Right;
    const LineNic& peer = i == 0 ? middle_nics_.front()[0] : middle_nics_.back()[1];
    if (end.maker == end.device.get()) {
      const Status set = end.device->set_ring(end.qp.get(), chain.ring(side));
      if (!set.ok()) return set;
    }
    if (to_init(*end.maker, end.qp.get()) != 0) return Errc::Transport;
    const Status up = bring_up(*end.maker, end.qp.get(),
                               {.own = end.nic.gid,
                                .peer = peer.gid.gid,
                                .peer_qp_num = chain.qp(side)->qp_num,
                                .timeout = options_.timeout,
                                .retry_count = options_.retry_count});
    if (!up.ok()) return up;
  }
  return {};
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
  for (const auto& host : hosts_) host->turn();
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
  return hosts_[middle + 1]->modify_qp(chains_[middle]->qp(side), &attr, IBV_QP_STATE);
}

}  // namespace mesh::relay::testkit
