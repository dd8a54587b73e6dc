// The provider as a device: its results, the objects that it leaves behind, and a turn without
// system calls.

#include "src/soft/soft_provider.h"
#include "tests/contract/endpoint_pair.h"
#include "tests/prelude.h"
#include "tests/unit/soft/manual_fabric.h"
#include "tests/unit/soft/open_host.h"

#include <linux/seccomp.h>

namespace mesh::soft {
namespace {

std::unique_ptr<SoftProvider> open_host(const FabricFile& fabric, const char* host,
                                        Agent agent = Agent::None) {
  return testkit::open_host({.fabric = fabric, .host = host, .agent = agent, .clock = Clock()});
}

// Parses the file as a fabric of its own, because tests that run in parallel must not meet.
FabricFile own_file(const std::string& name) {
  std::ifstream stream(MESH_SOURCE_DIR "/perf/fabrics/" + name + ".json");
  return *parse(std::string(std::istreambuf_iterator<char>(stream), {}));
}

TEST(SoftProvider, AHostAndItsCloneHaveOneNameAndTwoIds) {
  const FabricFile fabric = testkit::parsed(R"({"name": "clones", "hosts": [
      {"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"}]},
      {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.2/24"}], "clone_of": "a"}],
      "links": [{"ends": ["a/n0", "b/n0"]}]})");
  const auto clone = open_host(fabric, "b");
  std::uint64_t id = 0;
  for (int process = 0; process < 2; ++process) {
    const auto host = open_host(fabric, "a");
    EXPECT_EQ(host->host_name(), clone->host_name());
    EXPECT_NE(host->host_id(), clone->host_id());
    if (process == 1) {
      EXPECT_EQ(host->host_id(), id);
    }
    id = host->host_id();
  }
}

TEST(SoftProvider, TheAddressIsNeverAtAFixedIndex) {
  const std::unique_ptr<SoftProvider> a = open_host(own_file("triangle"), "a");
  std::set<int> indices;
  for (const verbs::DeviceEntry& device : a->devices()) {
    ibv_context* context = a->open_device(device.name);
    ASSERT_NE(context, nullptr);
    int found = 0;
    for (const verbs::GidEntry& entry : a->gids(context, 1)) {
      if (entry.type != verbs::GidType::RoceV2 || entry.gid.raw[0] == 0xfe) continue;
      ++found;
      indices.insert(entry.index);
      EXPECT_NE(entry.index, 0);
      EXPECT_NE(entry.index, 3);
      EXPECT_EQ(entry.prefix_len, device.name == "mesh0" ? 24 : 30);
    }
    EXPECT_EQ(found, 1);
    EXPECT_EQ(a->close_device(context), 0);
  }
  EXPECT_EQ(indices.size(), 2u) << "it differs from NIC to NIC";
  EXPECT_EQ(a->open_device("nope"), nullptr);
  EXPECT_EQ(errno, ENODEV);
}

TEST(SoftProvider, PortSaysWhatTheLinkIs) {
  const Result<FabricFile> fabric = parse(R"({"name": "t", "hosts": [
      {"name": "a", "nics": [{"name": "n0", "address": "10.0.1.1/24"}, {"name": "n1",
         "address": "10.0.2.1/24"}]},
      {"name": "b", "nics": [{"name": "n0", "address": "10.0.1.2/24"}]}],
      "links": [{"ends": ["a/n0", "b/n0"], "gbps": 200, "mtu": 1024}]})");
  const std::unique_ptr<SoftProvider> a = open_host(*fabric, "a");
  ibv_context* context = a->open_device("n0");
  ibv_port_attr port{};
  ASSERT_EQ(a->query_port(context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.active_mtu, IBV_MTU_1024);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(a->query_port(context, 2, &port), EINVAL);
  ibv_device_attr device{};
  ASSERT_EQ(a->query_device(context, &device), 0);
  EXPECT_EQ(device.max_qp_wr, 16384);
  EXPECT_EQ(device.max_cqe, 32767);
  EXPECT_EQ(device.max_sge, 4);
  a->close_device(context);
  context = a->open_device("n1");
  ASSERT_EQ(a->query_port(context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN) << "nothing is plugged in";
  a->close_device(context);
}

TEST(SoftProvider, ADeviceStaysOpenWhileSomethingIsThatWasMadeOnIt) {
  const std::unique_ptr<SoftProvider> a = open_host(own_file("pair"), "a");
  ibv_context* const context = a->open_device("mesh0");
  ASSERT_NE(context, nullptr);
  ibv_pd* const pd = a->alloc_pd(context);
  EXPECT_EQ(a->close_device(context), EBUSY) << "a domain";
  EXPECT_EQ(a->dealloc_pd(pd), 0);
  ibv_cq* const queue = a->create_cq(context, 1);
  EXPECT_EQ(a->close_device(context), EBUSY) << "a completion queue";
  EXPECT_EQ(a->destroy_cq(queue), 0);
  EXPECT_EQ(a->close_device(context), 0);
}

TEST(SoftProvider, ANicReachesItself) {
  const std::unique_ptr<SoftProvider> a = open_host(own_file("pair"), "a");
  contract::Endpoint one, two;
  ASSERT_TRUE(open_pair(one, *a, two, *a));
  std::memset(one.memory.data(), 5, 1000);
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    contract::SendRequest request = write_request(one, two, 1, 1000);
    request.wr.opcode = opcode;
    ASSERT_EQ(post(one, request), 0);
    ibv_wc wc{};
    for (int i = 0; i < 10 && ibv_poll_cq(one.send_cq, 1, &wc) == 0; ++i) {
    }
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(two.memory[999], std::byte{5});
  }
  // A queue pair may be connected to itself, as for a loop-back READ on a rail.
  contract::Endpoint self;
  ASSERT_TRUE(open_endpoint(self, *a, {}));
  EXPECT_TRUE(connect_endpoint(self, self.gid.gid, self.qp->qp_num, {}));
  close_endpoint(self);
  close_endpoint(one);
  close_endpoint(two);
}

TEST(SoftProvider, FaultsOfTheFileAreArmedOnTheirHost) {
  FabricFile fabric = own_file("pair");
  fabric.faults.push_back({.kind = FaultKind::WriteDelay, .host = "b", .delay_ns = 10});
  EXPECT_FALSE(open_host(fabric, "a")->faults().armed());
  EXPECT_TRUE(open_host(fabric, "b")->faults().armed());
}

NicRef other_end(const FabricFile& fabric, const std::string& host, const std::string& nic) {
  NicRef end;
  EXPECT_TRUE(fabric.other_end(host, nic, &end));
  return end;
}

TEST(SoftProvider, APulledCableIsDownAtBothEnds) {
  FabricFile fabric = own_file("triangle");
  const std::string nic = fabric.hosts[0].nics[0].name;
  const NicRef other = other_end(fabric, "a", nic);
  const std::string far = fabric.nic(other).name;
  fabric.faults.push_back(
      {.kind = FaultKind::PortDown, .host = "a", .nic = nic, .both_ends = true});
  for (const HostSpec& host : fabric.hosts) {
    const std::unique_ptr<SoftProvider> provider = open_host(fabric, host.name.c_str());
    for (const NicSpec& spec : host.nics) {
      const bool end =
          (host.name == "a" && spec.name == nic) ||
          (&host == &fabric.hosts[static_cast<std::size_t>(other.host)] && spec.name == far);
      EXPECT_EQ(provider->faults().port_down(spec.name, 0), end) << host.name << "/" << spec.name;
    }
  }
}

TEST(SoftProvider, CountsWhatHappened) {
  ManualFabric fabric("", 1);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(fabric.announce(0, i, 100), 0);
  fabric.run();
  EXPECT_EQ(fabric.a->counters("mesh0").work_requests, 3u);
  EXPECT_EQ(fabric.a->counters("mesh0").bytes, 300u);
  EXPECT_EQ(fabric.a->counters("mesh0").doorbells, 3u);
  EXPECT_EQ(fabric.b->counters("mesh0").rnr_events, 0u);
  contract::Endpoint& from = fabric.left[0];
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(from.qp, &wr, &bad), 0);
  fabric.run(fabric.now_ns() + 1);
  EXPECT_EQ(fabric.b->counters("mesh0").rnr_events, 1u);
}

std::ptrdiff_t entries(const char* directory) {
  return std::distance(std::filesystem::directory_iterator(directory),
                       std::filesystem::directory_iterator());
}
std::ptrdiff_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::ptrdiff_t shared = 0;
  for (std::string line; std::getline(maps, line);)
    shared += line.find("mesh-soft") != std::string::npos ? 1 : 0;
  return shared;
}

TEST(SoftProvider, LeavesNothingBehind) {
  const FabricFile fabric = own_file("pair");
  std::ptrdiff_t fds = 0, threads = 0;
  for (int cycle = 0; cycle < 10; ++cycle) {
    {
      const std::unique_ptr<SoftProvider> a = open_host(fabric, "a", Agent::Thread),
                                          b = open_host(fabric, "b", Agent::Thread);
      contract::Endpoint one, two;
      ASSERT_TRUE(open_pair(one, *a, two, *b));
      close_endpoint(one);
      close_endpoint(two);
    }
    if (cycle == 2) {
      fds = entries("/proc/self/fd");
      threads = entries("/proc/self/task");
    }
  }
  EXPECT_EQ(entries("/proc/self/fd"), fds);
  EXPECT_EQ(entries("/proc/self/task"), threads);
  EXPECT_EQ(mappings(), 0);
}

// Runs in the child: strict seccomp allows only read, write and exit. The exit code is the result.
[[noreturn]] void messages_without_kernel() {
  ManualFabric fabric("", 1);
  contract::Endpoint& from = fabric.left[0];
  contract::Endpoint& to = fabric.right[0];
  int good = 0;
  ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  for (int i = 0; i < 10'000; ++i) {
    if (fabric.announce(0, 1, 4096) != 0) break;
    ibv_wc wc{};
    int found = 0;
    for (int turn = 0; turn < 8 && found < 2; ++turn)
      found += ibv_poll_cq(to.receive_cq, 1, &wc) + ibv_poll_cq(from.send_cq, 1, &wc);
    if (found == 2) ++good;
  }
  ::syscall(SYS_exit, good == 10'000 ? 0 : 1);
  __builtin_unreachable();
}

TEST(SoftProvider, AHealthyTurnDoesNotEnterTheKernel) {
#if defined(MESH_SANITIZE_ADDRESS) || defined(MESH_SANITIZE_THREAD)
  GTEST_SKIP() << "the sanitizers' own calls are not ours";
#endif
  const pid_t child = ::fork();
  if (child == 0) messages_without_kernel();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace mesh::soft
