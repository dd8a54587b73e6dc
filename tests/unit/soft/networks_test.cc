// Networks beyond one wire: routers, InfiniBand-like ports, and devices that are no rails.
#include "src/soft/soft_provider.h"
#include "src/verbs/gid_choice.h"
#include "tests/prelude.h"
#include "tests/unit/soft/open_host.h"

namespace mesh::soft {
namespace {

using verbs::RouteKind;

constexpr const char* kRouted = R"({"name": "routed",
  "hosts": [{"name": "a", "nics": [{"name": "n0", "address": "10.1.0.0/31"},
                                   {"name": "cable", "address": "10.9.0.1/24"},
                                   {"name": "lost", "address": "10.1.7.0/31", "routes": false}]},
            {"name": "b", "nics": [{"name": "n0", "address": "10.2.0.1/32"},
                                   {"name": "cable", "address": "10.8.0.1/24"},
                                   {"name": "lost", "address": "10.2.7.0/31"}]}],
  "routers": ["leaf", "spine"],
  "links": [{"ends": ["a/n0", "leaf"]}, {"switch": ["a/lost", "leaf", "spine"]},
            {"ends": ["spine", "b/n0"]}, {"ends": ["b/lost", "spine"]}]})";

constexpr const char* kInfiniBand = R"({"name": "ib",
  "hosts": [{"name": "a", "nics": [
      {"name": "n0", "layer": "infiniband", "address": "fec0:0:0:1::a/64", "lid": 7,
       "pkeys": ["0xffff", "0", "0x8002", "0x0003"]},
      {"name": "far", "layer": "infiniband", "address": "fec0:0:0:2::a/64"}]},
    {"name": "b", "nics": [
      {"name": "n0", "layer": "infiniband", "address": "fec0:0:0:1::b/64",
       "pkeys": ["0xffff", "0x8001", "0", "0x8003"]},
      {"name": "far", "layer": "infiniband", "address": "fec0:0:0:3::b/64",
       "global_header": true}]}],
  "routers": ["router"],
  "links": [{"ends": ["a/n0", "b/n0"]}, {"ends": ["a/far", "router"]},
            {"ends": ["b/far", "router"]}]})";

// Two hosts whose cables are crossed and share a subnet, and two cables with the same addresses.
constexpr const char* kCrossed = R"({"name": "crossed",
  "hosts": [{"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"},
                                   {"name": "n1", "address": "10.0.0.2/24"},
                                   {"name": "v6", "address": "fd00::1/64"},
                                   {"name": "w6", "address": "fd00::2/64"}]},
            {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.3/24"},
                                   {"name": "n1", "address": "10.0.0.4/24"},
                                   {"name": "v6", "address": "fd00::3/64"},
                                   {"name": "w6", "address": "fd00::4/64"}]}],
  "links": [{"ends": ["a/n0", "b/n1"]}, {"ends": ["a/n1", "b/n0"]},
            {"ends": ["a/v6", "b/w6"]}, {"ends": ["a/w6", "b/v6"]}]})";

constexpr const char* kTwins = R"({"name": "twins",
  "hosts": [{"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"},
                                   {"name": "n1", "address": "10.0.0.1/24"}]},
            {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.2/24"},
                                   {"name": "n1", "address": "10.0.0.2/24"}]}],
  "links": [{"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n1"]}]})";

// The queue pair of one host on one device, with memory for local and remote writes.
class Side {
 public:
  Side(SoftProvider& provider, const std::string& device) : provider_(provider) {
    context_ = provider_.open_device(device);
    pd_ = provider_.alloc_pd(context_);
    cq_ = provider_.create_cq(context_, 16);
    mr_ = provider_.reg_mr(pd_, memory_.data(), memory_.size(),
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    make();
  }
  ~Side() {
    if (qp_ != nullptr) provider_.destroy_qp(qp_);
    provider_.dereg_mr(mr_);
    provider_.destroy_cq(cq_);
    provider_.dealloc_pd(pd_);
    provider_.close_device(context_);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  bool make() {
    if (qp_ != nullptr) provider_.destroy_qp(qp_);
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {4, 4, 1, 1, 64};
    qp_ = provider_.create_qp(pd_, &attr);
    return qp_ != nullptr;
  }

  ibv_port_attr port() {
    ibv_port_attr attr{};
    EXPECT_EQ(provider_.query_port(context_, 1, &attr), 0);
    return attr;
  }
  verbs::GidEntry gid() {
    const bool ethernet = port().link_layer == IBV_LINK_LAYER_ETHERNET;
    return verbs::choose_gids(provider_.gids(context_, 1), {.ethernet = ethernet}).at(0);
  }
  ibv_ah_attr towards(Side& peer, int is_global) {
    ibv_ah_attr address{};
    address.port_num = 1;
    address.dlid = peer.port().lid;
    address.is_global = static_cast<std::uint8_t>(is_global);
    address.grh.dgid = peer.gid().gid;
    address.grh.sgid_index = static_cast<std::uint8_t>(gid().index);
    return address;
  }

  int init(std::uint16_t pkey_index) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.pkey_index = pkey_index;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    return provider_.modify_qp(
        qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  int connect(const ibv_ah_attr& address, const Side& peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qp_->qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.ah_attr = address;
    const int error =
        provider_.modify_qp(qp_, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error != 0) return error;
    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 8;
    attr.retry_cnt = 1;
    attr.max_rd_atomic = 1;
    return provider_.modify_qp(qp_, &attr,
                               IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  void write_to(Side& peer) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory_.data()), 64, mr_->lkey};
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {reinterpret_cast<std::uintptr_t>(peer.memory_.data()), peer.mr_->rkey};
    EXPECT_EQ(ibv_post_send(qp_, &wr, &bad), 0);
  }
  std::optional<ibv_wc_status> completion() {
    ibv_wc wc{};
    if (ibv_poll_cq(cq_, 1, &wc) != 1) return std::nullopt;
    return wc.status;
  }
  std::vector<verbs::DeviceEventKind> events() {
    std::vector<verbs::DeviceEventKind> kinds;
    verbs::DeviceEvent event;
    while (provider_.next_event(context_, &event)) kinds.push_back(event.kind);
    return kinds;
  }
  ibv_context* context() { return context_; }

 private:
  SoftProvider& provider_;
  std::array<std::byte, 64> memory_{};
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

class SoftNetworks : public testing::Test {
 protected:
  void open(const char* text) {
    const FabricFile fabric = parse(text).value();
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      hosts_[i] = testkit::open_host({.fabric = fabric,
                                      .host = fabric.hosts[i].name,
                                      .agent = Agent::None,
                                      .clock = Clock(&now_ns_)});
    }
  }
  SoftProvider& a() { return *hosts_[0]; }
  SoftProvider& b() { return *hosts_[1]; }

  // Returns the status with which a write from one side to another completes.
  ibv_wc_status status_of_write(Side& from, Side& to) {
    constexpr std::uint64_t kStepNs = 1'000'000;
    from.write_to(to);
    for (int step = 0; step < 1000; ++step, now_ns_ += kStepNs) {
      for (const auto& host : hosts_) static_cast<void>(host->turn());
      if (const auto status = from.completion()) return *status;
    }
    ADD_FAILURE() << "no completion";
    return IBV_WC_GENERAL_ERR;
  }
  // Connects both sides with these values. Returns the status of a write between them.
  ibv_wc_status status_between(Side& one, Side& two, int is_global, std::uint16_t pkey_index = 0) {
    EXPECT_TRUE(one.make() && two.make());
    EXPECT_EQ(one.init(pkey_index), 0);
    EXPECT_EQ(two.init(pkey_index), 0);
    EXPECT_EQ(one.connect(one.towards(two, is_global), two), 0);
    EXPECT_EQ(two.connect(two.towards(one, is_global), one), 0);
    return status_of_write(one, two);
  }

  std::atomic<std::uint64_t> now_ns_{1'000'000};
  std::array<std::unique_ptr<SoftProvider>, 2> hosts_;
};

TEST_F(SoftNetworks, PacketsPassRouters) {
  open(kRouted);
  Side one(a(), "n0"), two(b(), "n0");
  EXPECT_EQ(status_between(one, two, 1), IBV_WC_SUCCESS);
}

// Returns the way from one side to another by the k-th GID of both ports that `fits` takes.
template <typename Fits>
ibv_ah_attr by_gid(const std::vector<verbs::GidEntry>& own,
                   const std::vector<verbs::GidEntry>& peer, const Fits& fits) {
  ibv_ah_attr address{};
  address.port_num = 1;
  address.is_global = 1;
  address.grh.sgid_index =
      static_cast<std::uint8_t>(std::find_if(own.begin(), own.end(), fits)->index);
  address.grh.dgid = std::find_if(peer.begin(), peer.end(), fits)->gid;
  return address;
}

constexpr const char* kOneCable = R"({"name": "cable",
  "hosts": [{"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"}]},
            {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.2/24"}]}],
  "links": [{"ends": ["a/n0", "b/n0"]}]})";

// A port drops packets of the RoCE version that its queue pair does not speak.
TEST_F(SoftNetworks, OnlyPacketsOfOneRoceVersionArrive) {
  open(kOneCable);
  Side one(a(), "n0"), two(b(), "n0");
  const std::vector<verbs::GidEntry> own = a().gids(one.context(), 1);
  const std::vector<verbs::GidEntry> peer = b().gids(two.context(), 1);
  const auto way = [](const auto& from, const auto& to, verbs::GidType type) {
    return by_gid(from, to, [type](const verbs::GidEntry& entry) {
      return entry.type == type && verbs::address_of(entry.gid).family == AF_INET;
    });
  };
  using enum verbs::GidType;
  for (const verbs::GidType first : {RoceV1, RoceV2}) {
    for (const verbs::GidType second : {RoceV1, RoceV2}) {
      ASSERT_TRUE(one.make() && two.make());
      ASSERT_TRUE(one.init(0) == 0 && two.init(0) == 0);
      ASSERT_EQ(one.connect(way(own, peer, first), two), 0);
      ASSERT_EQ(two.connect(way(peer, own, second), one), 0);
      EXPECT_EQ(status_of_write(one, two), first == second ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR);
    }
  }
}

TEST_F(SoftNetworks, LinkLocalGidsReachTheOtherEndOfTheCableOnly) {
  open(kTwins);
  Side one(a(), "n0"), two(b(), "n0"), wrong(b(), "n1");
  const auto local = [](const verbs::GidEntry& entry) {
    return entry.type == verbs::GidType::RoceV2 && verbs::address_of(entry.gid).link_local();
  };
  const std::vector<verbs::GidEntry> own = a().gids(one.context(), 1);
  const std::vector<verbs::GidEntry> peer = b().gids(two.context(), 1);
  const std::vector<verbs::GidEntry> other = b().gids(wrong.context(), 1);
  for (Side* const side : {&one, &two}) ASSERT_EQ(side->init(0), 0);
  EXPECT_EQ(one.connect(by_gid(own, other, local), wrong), ETIMEDOUT);
  ASSERT_EQ(one.connect(by_gid(own, peer, local), two), 0);
  ASSERT_EQ(two.connect(by_gid(peer, own, local), one), 0);
  EXPECT_EQ(status_of_write(one, two), IBV_WC_SUCCESS);
}

TEST_F(SoftNetworks, WithoutARouteAnAddressIsNotResolved) {
  open(kRouted);
  Side cable(a(), "cable"), lost(a(), "lost"), far(b(), "cable"), two(b(), "lost");
  for (Side* const side : {&cable, &lost, &far, &two}) ASSERT_EQ(side->init(0), 0);
  EXPECT_EQ(cable.connect(cable.towards(far, 1), far), ETIMEDOUT);
  EXPECT_EQ(lost.connect(lost.towards(two, 1), two), ETIMEDOUT);
  EXPECT_EQ(two.connect(two.towards(lost, 1), lost), 0) << "the other way has one";
}

TEST_F(SoftNetworks, AHostTellsItsRoutes) {
  open(kRouted);
  Side n0(a(), "n0"), cable(a(), "cable"), lost(a(), "lost"), peer(b(), "n0"), far(b(), "cable");
  EXPECT_EQ(a().route(n0.gid(), peer.gid().gid).kind, RouteKind::ByPort);
  EXPECT_EQ(a().route(n0.gid(), far.gid().gid).kind, RouteKind::None);
  const verbs::Route elsewhere = a().route(cable.gid(), peer.gid().gid);
  EXPECT_EQ(elsewhere.kind, RouteKind::Elsewhere);
  EXPECT_EQ(elsewhere.netdev, "n0");
  EXPECT_EQ(a().route(lost.gid(), peer.gid().gid).kind, RouteKind::Elsewhere);
  EXPECT_EQ(a().route(peer.gid(), n0.gid().gid).kind, RouteKind::Unknown) << "not ours";
}

TEST_F(SoftNetworks, AWrongCableTakesAQueuePairAndBringsNothing) {
  open(kCrossed);
  Side one(a(), "n0"), wrong(b(), "n0"), right(b(), "n1");
  EXPECT_EQ(status_between(one, right, 1), IBV_WC_SUCCESS);
  EXPECT_EQ(status_between(one, wrong, 1), IBV_WC_RETRY_EXC_ERR)
      << "b answers for all of its addresses on each port";
  EXPECT_EQ(a().route(one.gid(), wrong.gid().gid).kind, RouteKind::ByPort);
}

TEST_F(SoftNetworks, AnIpv6HostAnswersOnTheRightCableOnly) {
  open(kCrossed);
  Side one(a(), "v6"), wrong(b(), "v6"), right(b(), "w6");
  EXPECT_EQ(status_between(one, right, 1), IBV_WC_SUCCESS);
  ASSERT_TRUE(one.make());
  ASSERT_EQ(one.init(0), 0);
  EXPECT_EQ(one.connect(one.towards(wrong, 1), wrong), ETIMEDOUT);
}

TEST_F(SoftNetworks, EqualAddressesLeadOverTheirOwnCables) {
  open(kTwins);
  for (const char* const name : {"n0", "n1"}) {
    Side one(a(), name), two(b(), name);
    EXPECT_EQ(status_between(one, two, 1), IBV_WC_SUCCESS) << name;
    EXPECT_EQ(b().counters(name).bytes, 0u);
    EXPECT_EQ(a().counters(name).bytes, 64u) << name;
  }
  Side one(a(), "n0"), other(b(), "n1");
  EXPECT_EQ(status_between(one, other, 1), IBV_WC_RETRY_EXC_ERR) << "n1 does not hear of it";
}

TEST_F(SoftNetworks, DatagramsGoOverTheirCableWhileItsPortsAreUp) {
  open(kCrossed);
  Side n0(a(), "n0"), wrong(b(), "n0"), right(b(), "n1");
  const auto from = a().open_datagrams(n0.context(), n0.gid(), verbs::DatagramEnd::Port);
  const auto to_wrong = b().open_datagrams(wrong.context(), wrong.gid(), verbs::DatagramEnd::Port);
  const auto to = b().open_datagrams(right.context(), right.gid(), verbs::DatagramEnd::Port);
  const std::array<std::byte, 2> words{std::byte{1}, std::byte{2}};
  from->send(to->place(), words);
  from->send(to_wrong->place(), words);
  const auto got = to->next();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->from, reached_from(to->place(), from->place()));
  EXPECT_EQ(got->bytes, words.size());
  EXPECT_FALSE(to_wrong->next().has_value());
  ASSERT_TRUE(b().faults().arm({.kind = FaultKind::PortDown, .nic = "n1"}, now_ns_).ok());
  from->send(to->place(), words);
  EXPECT_FALSE(to->next().has_value());
}

TEST_F(SoftNetworks, APortWithoutIpv6SpeaksIpv4AndHearsNoGroup) {
  std::string crossed = kCrossed;
  const std::size_t at = crossed.find(R"("name": "n0")");
  ASSERT_NE(at, std::string::npos);
  open(crossed.insert(at, R"("ipv6": false, )").c_str());
  Side n0(a(), "n0"), n1(b(), "n1");
  const auto from = a().open_datagrams(n0.context(), n0.gid(), verbs::DatagramEnd::Port);
  const auto to = b().open_datagrams(n1.context(), n1.gid(), verbs::DatagramEnd::Port);
  EXPECT_FALSE(from->place().has_ipv6());
  EXPECT_TRUE(to->place().has_ipv6() && to->place().has_ipv4());
  from->send(to->place(), std::array{std::byte{1}});
  const auto got = to->next();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->from, from->place());
  to->send(got->from, std::array{std::byte{2}});
  EXPECT_TRUE(from->next().has_value());
  EXPECT_EQ(a().open_datagrams(n0.context(), n0.gid(), verbs::DatagramEnd::Group), nullptr);
}

TEST_F(SoftNetworks, TheGroupIsHeardByEachProcessAtTheOtherEndOfTheCable) {
  open(kCrossed);
  Side n0(a(), "n0"), n1(a(), "n1"), wrong(b(), "n0"), right(b(), "n1");
  const auto from = a().open_datagrams(n0.context(), n0.gid(), verbs::DatagramEnd::Port);
  const auto own = a().open_datagrams(n1.context(), n1.gid(), verbs::DatagramEnd::Group);
  const auto at_wrong = b().open_datagrams(wrong.context(), wrong.gid(), verbs::DatagramEnd::Group);
  const auto one = b().open_datagrams(right.context(), right.gid(), verbs::DatagramEnd::Group);
  const auto other = b().open_datagrams(right.context(), right.gid(), verbs::DatagramEnd::Group);
  from->send(verbs::kCableGroup, std::array{std::byte{1}});
  for (const auto& end : {&one, &other}) {
    const auto got = (*end)->next();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->from, reached_from(verbs::kCableGroup, from->place()));
  }
  one->send(from->place(), std::array{std::byte{2}});
  const auto answer = from->next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->from.port, verbs::kCableGroup.port);
  for (const auto& end : {&own, &at_wrong, &one, &other}) EXPECT_FALSE((*end)->next().has_value());
}

TEST_F(SoftNetworks, AnInfiniBandPortSpeaksByLidOrGid) {
  open(kInfiniBand);
  Side one(a(), "n0"), two(b(), "n0");
  EXPECT_EQ(one.port().lid, 7);
  EXPECT_EQ(two.port().lid, 1) << "the first that is free";
  EXPECT_EQ(one.port().link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_EQ(status_between(one, two, 0), IBV_WC_SUCCESS);
  EXPECT_EQ(status_between(one, two, 1), IBV_WC_SUCCESS);
}

TEST_F(SoftNetworks, ALidThatNobodyHasGetsNothing) {
  open(kInfiniBand);
  Side one(a(), "n0"), two(b(), "n0");
  ibv_ah_attr address = one.towards(two, 0);
  address.dlid = 99;
  ASSERT_EQ(one.init(0), 0);
  ASSERT_EQ(one.connect(address, two), 0) << "nothing is asked on the way";
  EXPECT_EQ(status_of_write(one, two), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(SoftNetworks, AnotherPrefixNeedsAGlobalHeaderAndARouter) {
  open(kInfiniBand);
  Side one(a(), "far"), two(b(), "far");
  EXPECT_EQ(two.port().flags & IBV_QPF_GRH_REQUIRED, IBV_QPF_GRH_REQUIRED);
  EXPECT_EQ(status_between(one, two, 1), IBV_WC_SUCCESS);
  ASSERT_TRUE(two.make());
  ASSERT_EQ(two.init(0), 0);
  EXPECT_EQ(two.connect(two.towards(one, 0), one), EINVAL);
}

TEST_F(SoftNetworks, OnlyMembersOfOnePartitionHearEachOther) {
  open(kInfiniBand);
  Side one(a(), "n0"), two(b(), "n0");
  std::uint16_t key = 0;
  EXPECT_EQ(a().query_pkey(one.context(), 1, 3, &key), 0);
  EXPECT_EQ(key, 0x0003);
  EXPECT_EQ(a().query_pkey(one.context(), 1, 4, &key), EINVAL);
  EXPECT_EQ(one.init(1), EINVAL) << "an empty place";
  EXPECT_EQ(one.init(4), EINVAL);
  EXPECT_EQ(status_between(one, two, 0, 3), IBV_WC_SUCCESS) << "one of them is a full member";
  ASSERT_TRUE(one.make() && two.make());
  ASSERT_EQ(one.init(2), 0);
  ASSERT_EQ(two.init(3), 0);
  ASSERT_EQ(one.connect(one.towards(two, 0), two), 0);
  ASSERT_EQ(two.connect(two.towards(one, 0), one), 0);
  EXPECT_EQ(status_of_write(one, two), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(SoftNetworks, AfterALidChangeOnlyNewQueuePairsSpeak) {
  open(kInfiniBand);
  Side one(a(), "n0"), two(b(), "n0");
  ASSERT_EQ(status_between(one, two, 0), IBV_WC_SUCCESS);
  ASSERT_TRUE(b().faults().arm({.kind = FaultKind::LidChange, .nic = "n0"}).ok());
  EXPECT_EQ(two.port().lid, 1 + 4096);
  EXPECT_EQ(two.events(), std::vector{verbs::DeviceEventKind::LidChange});
  EXPECT_TRUE(one.events().empty());
  EXPECT_EQ(status_of_write(one, two), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(status_between(one, two, 0), IBV_WC_SUCCESS);
}

TEST_F(SoftNetworks, ADeviceWithoutReliableQueuePairsSaysSo) {
  open(R"({"name": "efa",
    "hosts": [{"name": "a", "nics": [{"name": "n0", "address": "fe80::a/64",
                                      "layer": "unspecified", "reliable": false}]},
              {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.2/24"}]}]})");
  Side one(a(), "n0");
  EXPECT_EQ(one.port().link_layer, IBV_LINK_LAYER_UNSPECIFIED);
  EXPECT_FALSE(one.make());
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(SoftNetworks, ABondTellsTheSpeedOfAllItsCables) {
  open(R"({"name": "bond",
    "hosts": [{"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"}]},
              {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.2/24"}]}],
    "links": [{"ends": ["a/n0", "b/n0"], "gbps": 50, "port_gbps": 25, "bond": true}]})");
  Side one(a(), "n0");
  EXPECT_EQ(verbs::link_speed_mbps(one.port().active_speed, one.port().active_width), 25'000u);
  EXPECT_EQ(a().port_speed_mbps(one.context(), 1), 50'000u);
}

}  // namespace
}  // namespace mesh::soft
