// No thread may wait for a device while it holds a lock that traffic over every rail needs. A
// device of the software fabric ends a process that tries, in tests that have locks noted: all that
// have engines of their own. The calls here are all that a provider has.

#include <mesh/snapshot.h>

#include "tests/prelude.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/held_here.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/engine/sick_rail.h"
#include "tests/unit/soft/open_host.h"

namespace mesh {
namespace {

using testkit::Call, testkit::held_here;

constexpr const char* kOneDevice = R"({"name":"one","hosts":[
    {"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"}]},
    {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24"}]}],
  "links":[{"ends":["a/n0","b/n0"]}]})";

// These ask no device: what they return never changes, or is the kernel's, of net devices and of
// completion events that have come.
constexpr std::array<std::string_view, 9> kOfNoDevice = {
    "fabric",   "host_name",      "host_id",
    "devices",  "route",          "acknowledges_alone",
    "event_fd", "open_datagrams", "next_completion_event"};

bool asks_no_device(std::string_view call) {
  return std::find(kOfNoDevice.begin(), kOfNoDevice.end(), call) != kOfNoDevice.end();
}

std::vector<Call> calls_of_devices() {
  std::vector<Call> calls = testkit::all_calls();
  std::erase_if(calls, [](Call call) { return asks_no_device(testkit::name_of(call)); });
  return calls;
}

// A device, and one object of each kind.
class DeviceCalls : public testing::TestWithParam<Call> {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    device_ = provider_->open_device("n0");
    pd_ = provider_->alloc_pd(device_);
    mr_ = provider_->reg_mr(pd_, bytes_.data(), bytes_.size(), IBV_ACCESS_LOCAL_WRITE);
    channel_ = provider_->create_channel(device_);
    ASSERT_NE(channel_, nullptr);
    cq_ = provider_->create_cq(device_, 16);
    ibv_qp_init_attr init = wishes();
    qp_ = provider_->create_qp(pd_, &init);
    ASSERT_NE(qp_, nullptr);
  }
  void TearDown() override {
    provider_->destroy_qp(qp_);
    provider_->destroy_cq(cq_);
    provider_->destroy_channel(channel_);
    provider_->dereg_mr(mr_);
    provider_->dealloc_pd(pd_);
    provider_->close_device(device_);
  }
  ibv_qp_init_attr wishes() const {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap.max_send_wr = init.cap.max_recv_wr = 4;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.qp_type = IBV_QPT_RC;
    return init;
  }
  void modify(ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    provider_->modify_qp(qp_, &attr, IBV_QP_STATE);
  }
  void call(Call call) {
    ibv_device_attr device{};
    ibv_port_attr port{};
    std::uint16_t pkey = 0;
    verbs::DeviceEvent event;
    ibv_ece ece{};
    ibv_qp_init_attr init = wishes();
    switch (call) {
      case Call::OpenDevice: provider_->open_device("n0"); break;
      case Call::CloseDevice: provider_->close_device(device_); break;
      case Call::QueryDevice: provider_->query_device(device_, &device); break;
      case Call::QueryPort: provider_->query_port(device_, 1, &port); break;
      case Call::Gids: provider_->gids(device_, 1); break;
      case Call::QueryPkey: provider_->query_pkey(device_, 1, 0, &pkey); break;
      case Call::PortSpeed: provider_->port_speed_mbps(device_, 1); break;
      case Call::OpenDatagrams: provider_->open_datagrams(device_, {}, {}); break;
      case Call::NextEvent: provider_->next_event(device_, &event); break;
      case Call::AllocPd: provider_->alloc_pd(device_); break;
      case Call::DeallocPd: provider_->dealloc_pd(pd_); break;
      case Call::RegMr: provider_->reg_mr(pd_, bytes_.data(), bytes_.size(), 0); break;
      case Call::RegDmabufMr: provider_->reg_dmabuf_mr(pd_, {}, 0); break;
      case Call::HasPeerMemory: provider_->has_peer_memory(device_); break;
      case Call::DeregMr: provider_->dereg_mr(mr_); break;
      case Call::CreateCq: provider_->create_cq(device_, 1); break;
      case Call::DestroyCq: provider_->destroy_cq(cq_); break;
      case Call::CreateQp: provider_->create_qp(pd_, &init); break;
      case Call::ModifyToInit: modify(IBV_QPS_INIT); break;
      case Call::ModifyToRtr: modify(IBV_QPS_RTR); break;
      case Call::ModifyToRts: modify(IBV_QPS_RTS); break;
      case Call::ModifyToErr: modify(IBV_QPS_ERR); break;
      case Call::DestroyQp: provider_->destroy_qp(qp_); break;
      case Call::QueryEce: provider_->query_ece(qp_, &ece); break;
      case Call::SetEce: provider_->set_ece(qp_, &ece); break;
      case Call::CreateChannel: provider_->create_channel(device_); break;
      case Call::DestroyChannel: provider_->destroy_channel(channel_); break;
      case Call::CreateReportingCq: provider_->create_reporting_cq(channel_, 1); break;
    }
  }

 private:
  std::unique_ptr<soft::SoftProvider> provider_ =
      testkit::open_host({.fabric = testkit::parsed(kOneDevice),
                          .host = "a",
                          .agent = soft::Agent::Thread,
                          .clock = Clock()});
  std::array<std::byte, 64> bytes_{};
  ibv_context* device_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

TEST_P(DeviceCalls, EndAProcessWhoseCallerHoldsALock) {
  held_here() = {.control_mutexes = 1};
  EXPECT_DEATH(call(GetParam()), "holds_locks");
  held_here() = {.progress_locks = 1};
  EXPECT_DEATH(call(GetParam()), "holds_locks");
  held_here() = {};
}

INSTANTIATE_TEST_SUITE_P(Each, DeviceCalls, testing::ValuesIn(calls_of_devices()),
                         [](const auto& call) { return testkit::test_name_of(call.param); });

TEST(WaitsUnderLocks, AllowsCallsWhileItLives) {
  held_here() = {.control_mutexes = 1, .progress_locks = 2};
  {
    const WaitsUnderLocks no_thread;
    EXPECT_FALSE(holds_locks());
  }
  EXPECT_EQ(held_here().control_mutexes, 1u);
  EXPECT_EQ(held_here().progress_locks, 2u);
  held_here() = {};
}

TEST(AllCalls, AreAllThatAProviderHas) {
  std::ifstream file(MESH_PROVIDER_HEADER);
  std::stringstream text;
  text << file.rdbuf();
  const std::string header = text.str();
  const std::size_t begin = header.find("class Provider {"), end = header.find("\n};", begin);
  ASSERT_NE(end, std::string::npos);
  const std::string body = header.substr(begin, end - begin);
  const std::regex function(R"(virtual [^;~(]*?(\w+)\()");
  std::size_t found = 0;
  for (std::sregex_iterator at(body.begin(), body.end(), function), none; at != none; ++at) {
    const std::string name = (*at)[1];
    ++found;
    const bool known = std::any_of(
        testkit::kCallNames.begin(), testkit::kCallNames.end(),
        [&name](std::string_view call) { return call.substr(0, call.find(' ')) == name; });
    EXPECT_TRUE(asks_no_device(name) || known)
        << "sick_rail.h needs a Call for Provider::" << name << ", and SoftHost a check in it";
  }
  EXPECT_GE(found, 25u);
}

// A page of metrics and a snapshot have what was seen of a port last.
TEST(DeviceCallsOfAnEngine, ASnapshotWaitsForNoDevice) {
  testkit::EngineHost<testkit::SickRail> host;
  host.open(std::make_unique<testkit::SickRail>(testkit::open_host(kOneDevice, 0)),
            testkit::on_loopback(0), 1);
  for (const Call call : calls_of_devices()) {
    SCOPED_TRACE(testkit::name_of(call));
    host.provider->slow_down(call);
    EngineSnapshot shot;
    std::atomic<bool> over{false};
    std::thread reader([&] {
      shot = host.engine->snapshot();
      over.store(true);
    });
    EXPECT_TRUE(testkit::wait_until([&] { return over.load(); }));
    host.provider->heal();
    reader.join();
    EXPECT_EQ(shot.rails.at(0).state, "active");
  }
  host.close();
}

}  // namespace
}  // namespace mesh
