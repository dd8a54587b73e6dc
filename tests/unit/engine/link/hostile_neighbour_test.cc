// A caller that has a queue pair of its own asks a host to relay and names itself as the neighbour.
// Keys outside its chain reach nothing, neither in the rings of others nor through the counts that
// the host writes. A chain that is joined cannot be joined again.
#include "engine/link/link_setup.h"
#include "engine/link/queue_pair_states.h"
#include "src/relay/wire.h"
#include "tests/unit/engine/link/hostile_relay.h"

namespace mesh {
namespace {

using engine::Chain, engine::Chained, engine::Cut, engine::Join, engine::Joined,
    engine::MessageType, engine::WireHop;
using testkit::BedHost, testkit::HostileRelay, testkit::hop_of, testkit::RawPeer;

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr std::size_t kMemoryBytes = 4096, kSlotAt = 2048;

// A queue pair on the first rail of a host, beside the host's engine. It has memory in the queue
// pair's protection domain, and memory in another domain.
class Neighbour {
 public:
  explicit Neighbour(BedHost& host) : provider_(*host.provider), rails_(found(provider_)) {
    ibv_context* const context = rails_[0].context.get();
    own_pd_ = verbs::PdHandle(provider_, provider_.alloc_pd(context));
    other_pd_ = verbs::PdHandle(provider_, provider_.alloc_pd(context));
    own_mr_ = registered(own_pd_, own);
    other_mr_ = registered(other_pd_, other);
    cq_ = verbs::CqHandle(provider_, provider_.create_cq(context, 16));
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_.get();
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = 8,
                .max_recv_wr = 8,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    qp_ = verbs::QpHandle(provider_, provider_.create_qp(own_pd_.get(), &attr));
  }

  // Describes this neighbour to the relaying host. The counts are to go to that memory.
  WireHop hop(bool foreign) const {
    WireHop hop = hop_of(1);
    hop.qps[0].qpn = qp_->qp_num;
    hop.qps[0].counts = {.address = reinterpret_cast<std::uintptr_t>(foreign ? &other : &own),
                         .rkey = foreign ? other_mr_->rkey : own_mr_->rkey};
    return hop;
  }
  bool connect(const WireHop& far) {
    const std::string name = "neighbour";
    const engine::PortEnd port{.provider = provider_,
                               .rail = rails_[0],
                               .gid_index = rails_[0].gids[0].index,
                               .settings = settings_,
                               .name = name};
    engine::ResolveTries tries;
    const engine::FarEnd end{.gid = engine::gid_of(far.address),
                             .qpn = far.qps[0].qpn,
                             .psn = far.psn,
                             .mtu = IBV_MTU_4096};
    return engine::to_init(port, qp_.get()).ok() &&
           engine::to_rtr(port, qp_.get(), end, tries).ok() &&
           engine::to_rts(port, qp_.get(), 1).ok();
  }
  // Writes an invalid slot into a ring. Returns the status of the completion.
  ibv_wc_status fill(testkit::Bed& bed, const relay::RingTarget& ring) {
    std::memset(own.data() + kSlotAt, 0xcc, relay::kSlotBytes);
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(own.data() + kSlotAt), relay::kSlotBytes,
                own_mr_->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {.remote_addr = ring.address, .rkey = ring.rkey};
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp_.get(), &wr, &bad), 0);
    ibv_wc completion{};
    EXPECT_TRUE(bed.until([&] { return ibv_poll_cq(cq_.get(), 1, &completion) == 1; }));
    return completion.status;
  }

  alignas(64) std::array<std::byte, kMemoryBytes> own{}, other{};

 private:
  static std::vector<verbs::Rail> found(verbs::Provider& provider) {
    Result<std::vector<verbs::Rail>> rails = verbs::discover(provider, {});
    EXPECT_TRUE(rails.ok());
    return std::move(*rails);
  }
  verbs::MrHandle registered(const verbs::PdHandle& pd,
                             std::array<std::byte, kMemoryBytes>& memory) {
    return {provider_, provider_.reg_mr(pd.get(), memory.data(), memory.size(), kAccess)};
  }

  verbs::Provider& provider_;
  const Settings settings_;
  std::vector<verbs::Rail> rails_;
  verbs::PdHandle own_pd_, other_pd_;
  verbs::MrHandle own_mr_, other_mr_;
  verbs::CqHandle cq_;
  verbs::QpHandle qp_;
};

// Describes host c as the far end.
WireHop far_hop() {
  WireHop hop = hop_of(1);
  hop.address.gid[14] = 2;
  hop.address.gid[15] = 3;
  return hop;
}

class HostileNeighbour : public HostileRelay {
 protected:
  HostileNeighbour() : neighbour_(std::make_unique<Neighbour>(bed_.hosts[0])) {
    bed_.tick_ns = 20'000;  // few rounds in 0.5 s, the interval of looks for broken chains
  }
  ~HostileNeighbour() override { neighbour_.reset(); }

  // Orders a chain of one queue pair. Returns the ends that the host names.
  std::vector<WireHop> chained(RawPeer& from) {
    Chain asked = order(1);
    asked.sizes.qps = 1;
    from.say(asked);
    const auto answer = from.hear<Chained>(MessageType::Chained);
    EXPECT_TRUE(answer && answer->result == Errc::Ok) << log_.joined();
    return answer ? answer->ends : std::vector<WireHop>(2, hop_of(1));
  }
  // Connects the neighbour to a chain and joins it. Returns the chain's near end at the host.
  WireHop joined(RawPeer& from, bool foreign) {
    WireHop near = chained(from).front();
    EXPECT_TRUE(neighbour_->connect(near));
    from.say(Join{.chain = 1, .near = neighbour_->hop(foreign), .far = far_hop()});
    const auto answer = from.hear<Joined>(MessageType::Joined);
    EXPECT_TRUE(answer && answer->result == Errc::Ok) << log_.joined();
    return near;
  }
  bool told(const std::array<std::byte, kMemoryBytes>& memory) const {
    return memory[relay::kLastWord * sizeof(std::uint64_t) + 7] != std::byte{0};  // a status
  }

  std::unique_ptr<Neighbour> neighbour_;
};

TEST_F(HostileNeighbour, ASecondJoinOfAChainThatCarriesEndsTheConnection) {
  const auto from = caller();
  joined(*from, false);
  EXPECT_EQ(relay().chains, 1u);
  from->say(Join{.chain = 1, .near = neighbour_->hop(false), .far = far_hop()});
  expect_dropped(*from);
}

TEST_F(HostileNeighbour, CountsGoToMemoryOfTheNeighboursOwnDomain) {
  const auto from = caller();
  const WireHop near = joined(*from, false);
  EXPECT_EQ(neighbour_->fill(bed_, near.qps[0].ring), IBV_WC_SUCCESS);
  EXPECT_TRUE(bed_.until([&] { return told(neighbour_->own); }));
  EXPECT_TRUE(from->hear<Cut>(MessageType::Cut));
}

// The asker may live and not know yet that its connection is lost, so the host tells neighbours.
TEST_F(HostileNeighbour, ItIsToldWhenTheConnectionOfTheAskerIsLost) {
  std::unique_ptr<RawPeer> from = caller();
  joined(*from, false);
  EXPECT_FALSE(told(neighbour_->own));
  from.reset();
  EXPECT_TRUE(bed_.until([&] { return told(neighbour_->own); }));
  EXPECT_TRUE(bed_.until([&] { return relay().chains == 0; }));
}

TEST_F(HostileNeighbour, CountsWithAForeignKeyReachNothing) {
  const auto from = caller();
  const WireHop near = joined(*from, true);
  EXPECT_EQ(neighbour_->fill(bed_, near.qps[0].ring), IBV_WC_SUCCESS);
  EXPECT_TRUE(from->hear<Cut>(MessageType::Cut));
  EXPECT_EQ(neighbour_->other, (std::array<std::byte, kMemoryBytes>{}));
}

TEST_F(HostileNeighbour, TheRingsOfOthersAreOutOfReach) {
  const auto from = caller(), somebody = caller();
  const relay::RingTarget theirs = chained(*somebody).front().qps[0].ring;
  joined(*from, false);
  EXPECT_EQ(neighbour_->fill(bed_, theirs), IBV_WC_REM_ACCESS_ERR);
  const auto* const slot = reinterpret_cast<const std::byte*>(theirs.address);
  EXPECT_EQ(*slot, std::byte{0});
  EXPECT_TRUE(bed_.until([&] { return relay().chains == 0; })) << "its own chain is broken";
}

}  // namespace
}  // namespace mesh
