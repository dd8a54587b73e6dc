#include "src/verbs/rdma_provider.h"

#include "src/verbs/gid_choice.h"
#include "src/verbs/rdma_sysfs.h"
#include "tests/prelude.h"
#include "tests/unit/base/folder.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh::verbs {
namespace {

namespace fs = std::filesystem;
using mesh::testkit::LogCapture, testkit::gid_bytes;

// The results of the fake library below. One test at a time uses it.
struct FakeLibrary {
  std::vector<ibv_device> devices = std::vector<ibv_device>(2);
  ibv_context context{};
  std::map<int, std::string> gids;     // by index, for query_gid
  std::vector<ibv_gid_entry> table;    // for query_gid_table
  ssize_t table_answer = -EOPNOTSUPP;  // 0: returns the table
  std::uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  int lists_held = 0;
  int close_answer = 0;
  int fork_inits = 0;
  int plain_reg_access = -1;
  unsigned iova2_access = 0;
  std::deque<ibv_async_event> events;
  int events_taken = 0, events_acknowledged = 0;
  ibv_comp_channel channel{};
  ibv_cq cq{};
  int channel_pipe[2] = {-1, -1};
  unsigned completion_events_acknowledged = 0;
  int channels_destroyed = 0;
};
FakeLibrary* g_library = nullptr;

ibv_device** fake_list(int* count) {
  ++g_library->lists_held;
  auto** list = new ibv_device* [2] { &g_library->devices[0], &g_library->devices[1] };
  *count = 2;
  return list;
}
void fake_free_list(ibv_device** list) {
  --g_library->lists_held;
  errno = EBADF;
  delete[] list;
}
int fake_query_device(ibv_context*, ibv_device_attr* attr) {
  *attr = {};
  attr->phys_port_cnt = 2;
  return 0;
}
int fake_query_port(ibv_context*, std::uint8_t port, _compat_ibv_port_attr* compat) {
  auto* attr = reinterpret_cast<ibv_port_attr*>(compat);
  if (port < 1 || port > 2) return EINVAL;
  attr->gid_tbl_len = 8;
  attr->link_layer = g_library->link_layer;
  return 0;
}
int fake_query_gid(ibv_context*, std::uint8_t, int index, ibv_gid* gid) {
  const auto found = g_library->gids.find(index);
  if (found == g_library->gids.end()) {
    *gid = {};
    return 0;
  }
  *gid = gid_bytes(found->second);
  return 0;
}
ibv_mr* fake_reg(ibv_pd*, void*, std::size_t, int access) {
  g_library->plain_reg_access = access;
  return nullptr;
}

int fake_get_event(ibv_context*, ibv_async_event* event) {
  errno = EAGAIN;
  if (g_library->events.empty()) return -1;
  *event = g_library->events.front();
  g_library->events.pop_front();
  ++g_library->events_taken;
  return 0;
}

// A channel whose descriptor is a pipe's: one byte is one event.
ibv_comp_channel* fake_create_channel(ibv_context* context) {
  ibv_comp_channel& channel = g_library->channel;
  channel.context = context;
  channel.fd = g_library->channel_pipe[0];
  return &channel;
}
int fake_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void**) {
  char byte = 0;
  if (::read(channel->fd, &byte, 1) != 1) return -1;
  *cq = &g_library->cq;
  return 0;
}

VerbsApi fake_api() {
  VerbsApi api;
  api.get_async_event = fake_get_event;
  api.ack_async_event = [](ibv_async_event*) { ++g_library->events_acknowledged; };
  api.fork_init = [] { return ++g_library->fork_inits, 0; };
  api.get_device_list = fake_list;
  api.free_device_list = fake_free_list;
  api.get_device_name = [](ibv_device* device) -> const char* { return device->name; };
  api.open_device = [](ibv_device* device) -> ibv_context* {
    g_library->context.device = device;
    return &g_library->context;
  };
  api.close_device = [](ibv_context*) {
    errno = EBUSY;
    return g_library->close_answer;
  };
  api.query_device = fake_query_device;
  api.query_port = fake_query_port;
  api.query_gid = fake_query_gid;
  api.query_gid_table = [](ibv_context*, ibv_gid_entry* out, std::size_t room,
                           auto... flags_and_size) -> ssize_t {
    EXPECT_EQ(std::get<1>(std::tuple(flags_and_size...)), sizeof(ibv_gid_entry));
    EXPECT_EQ(room, 16u) << "eight entries for each of two ports";
    if (g_library->table_answer < 0) return g_library->table_answer;
    std::copy(g_library->table.begin(), g_library->table.end(), out);
    return static_cast<ssize_t>(g_library->table.size());
  };
  api.reg_mr = fake_reg;
  api.reg_mr_iova2 = [](ibv_pd*, void* address, auto... rest) -> ibv_mr* {
    const auto [bytes, iova, access] = std::tuple(rest...);
    EXPECT_EQ(bytes, 8u);
    EXPECT_EQ(iova, reinterpret_cast<std::uint64_t>(address));
    g_library->iova2_access = access;
    return nullptr;
  };
  return api;
}

class RdmaProviderTest : public testing::Test {
 protected:
  RdmaProviderTest() {
    g_library = &library_;
    library_.context.async_fd = -1;
    std::strcpy(library_.devices[0].name, "mlx5_0");
    std::strcpy(library_.devices[1].name, "rxe0");
    options_.api = fake_api();
    options_.sysfs_root = sysfs_.root();
    options_.addresses = [this] { return addresses_; };
  }
  ~RdmaProviderTest() override { g_library = nullptr; }

  Provider& provider() {
    if (!provider_) provider_ = make_rdma_provider(options_);
    return *provider_;
  }
  std::vector<GidEntry> gids_of_port_1() {
    return provider().gids(provider().open_device("mlx5_0"), 1);
  }
  void address(const char* interface, const char* text, int prefix_len) {
    addresses_.push_back({interface, *SocketAddress::from_text(text), prefix_len});
  }

  mesh::testkit::Folder sysfs_;
  FakeLibrary library_;
  RdmaOptions options_;
  std::vector<InterfaceAddress> addresses_;
  std::unique_ptr<Provider> provider_;
};

TEST_F(RdmaProviderTest, AHostsIdIsTheOneOfItsBoot) {
  options_.boot_id_file = sysfs_.path("boot_id");
  sysfs_.write("boot_id", "0123abcd-4567-4b9a-8cde-f00112233445");
  EXPECT_EQ(provider().host_id(), 0x0123abcd45674b9au);
  for (const char* const none : {"", "0123abcd-4567-4b9", "0123abcd-4567-4b9g-8cde-f00112233445"}) {
    sysfs_.write("boot_id", none);
    EXPECT_EQ(make_rdma_provider(options_)->host_id(), 0u) << none;
  }
  options_.boot_id_file = sysfs_.path("none");
  EXPECT_EQ(make_rdma_provider(options_)->host_id(), 0u);
}

TEST_F(RdmaProviderTest, DevicesCarryWhatSysfsSays) {
  sysfs_.link("class/infiniband/mlx5_0/device", "devices/pci0000:00/0000:00:01.0/0000:01:00.1");
  sysfs_.write("devices/pci0000:00/0000:00:01.0/0000:01:00.1/numa_node", "1");
  sysfs_.write("class/infiniband/mlx5_0/sys_image_guid", "4cbb:4703:00a1:b2c3");
  sysfs_.write("class/infiniband/rxe0/node_guid", "5054:00ff:fe12:3456");
  const std::vector<DeviceEntry> devices = provider().devices();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].name, "mlx5_0");
  EXPECT_EQ(devices[0].pci_path,
            fs::canonical(sysfs_.path("devices/pci0000:00/0000:00:01.0/0000:01:00.1")).string());
  EXPECT_EQ(devices[0].numa_node, 1);
  EXPECT_EQ(devices[0].guid, cable_guid(0x4cbb470300a1b2c3u, devices[0].pci_path));
  EXPECT_NE(devices[0].guid, 0x4cbb470300a1b2c3u);
  EXPECT_EQ(devices[1].name, "rxe0");
  EXPECT_EQ(devices[1].pci_path, "");
  EXPECT_EQ(devices[1].numa_node, -1);
  EXPECT_EQ(devices[1].guid, 0x505400fffe123456u);
  EXPECT_EQ(library_.lists_held, 0);
}

TEST_F(RdmaProviderTest, PciPathIsTheNearestFunctionAbove) {
  sysfs_.link("class/infiniband/rxe0/device", "devices/pci0000:00/0000:00:03.0/virtio0");
  sysfs_.link("class/infiniband/mlx5_0/device", "devices/virtual/net/br0");
  const std::vector<DeviceEntry> devices = provider().devices();
  EXPECT_EQ(fs::path(devices[1].pci_path).filename(), "0000:00:03.0");
  EXPECT_EQ(devices[0].pci_path, "");
}

TEST_F(RdmaProviderTest, OpensByNameOrSaysNoSuchDevice) {
  ibv_context* context = provider().open_device("rxe0");
  ASSERT_NE(context, nullptr);
  EXPECT_STREQ(context->device->name, "rxe0");
  EXPECT_EQ(provider().open_device("mlx5_9"), nullptr);
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(library_.lists_held, 0);
}

TEST_F(RdmaProviderTest, GidTableIsSiftedByPortAndZero) {
  library_.table_answer = 0;
  library_.table = {{gid_bytes("fe80::1"), 0, 1, IBV_GID_TYPE_ROCE_V1, 0},
                    {gid_bytes("10.0.12.1"), 3, 1, IBV_GID_TYPE_ROCE_V2, 0},
                    {gid_bytes("10.0.13.1"), 3, 2, IBV_GID_TYPE_ROCE_V2, 0},
                    {gid_bytes("::"), 4, 1, IBV_GID_TYPE_ROCE_V2, 0}};
  sysfs_.write("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/3", "eth2");
  address("eth1", "10.0.12.1", 16);
  address("eth2", "10.0.12.1", 30);
  const std::vector<GidEntry> gids = gids_of_port_1();
  ASSERT_EQ(gids.size(), 2u);
  EXPECT_EQ(gids[0].type, GidType::RoceV1);
  EXPECT_EQ(gids[0].prefix_len, -1);
  EXPECT_EQ(gids[1].type, GidType::RoceV2);
  EXPECT_EQ(gids[1].index, 3);
  EXPECT_EQ(gids[1].netdev, "eth2");
  EXPECT_EQ(gids[1].prefix_len, 30) << "the GID's own interface is the better witness";
}

// The cable was out, or the device had another name, when the GID was read.
TEST_F(RdmaProviderTest, DatagramsAreOfTheDeviceThatHasTheAddressNow) {
  GidEntry gid;
  gid.gid = gid_bytes("10.0.12.1");
  gid.netdev = "nosuch0";
  EXPECT_EQ(provider().open_datagrams(&library_.context, gid, DatagramEnd::Port), nullptr);
  address("lo", "10.0.12.1", 24);
  EXPECT_NE(provider().open_datagrams(&library_.context, gid, DatagramEnd::Port), nullptr);
}

TEST_F(RdmaProviderTest, WithoutTheTableCallSysfsTellsTypes) {
  library_.gids = {{0, "fe80::1"}, {1, "fe80::1"}, {3, "10.0.12.1"}, {6, "10.0.12.2"}};
  sysfs_.write("class/infiniband/mlx5_0/ports/1/gid_attrs/types/0", "IB/RoCE v1");
  sysfs_.write("class/infiniband/mlx5_0/ports/1/gid_attrs/types/1", "RoCE v2");
  sysfs_.write("class/infiniband/mlx5_0/ports/1/gid_attrs/types/3", "RoCE v2");
  address("eth9", "10.0.12.1", 31);
  for (const bool refused : {true, false}) {
    if (!refused) options_.api.query_gid_table = nullptr;
    provider_.reset();
    const std::vector<GidEntry> gids = gids_of_port_1();
    ASSERT_EQ(gids.size(), 4u);
    EXPECT_EQ(gids[0].type, GidType::RoceV1);
    EXPECT_EQ(gids[1].type, GidType::RoceV2);
    EXPECT_EQ(gids[2].index, 3);
    EXPECT_EQ(gids[2].prefix_len, 31);
    EXPECT_EQ(gids[3].type, GidType::RoceV1) << "a type nobody tells is no RoCE v2";
  }
}

TEST_F(RdmaProviderTest, InfiniBandGidsHaveNoPrefixAndNoRoceType) {
  library_.link_layer = IBV_LINK_LAYER_INFINIBAND;
  library_.gids = {{0, "fe80::1"}};
  const std::vector<GidEntry> gids = gids_of_port_1();
  ASSERT_EQ(gids.size(), 1u);
  EXPECT_EQ(gids[0].type, GidType::Ib);
  EXPECT_EQ(gids[0].prefix_len, -1);
}

TEST_F(RdmaProviderTest, OptionalAccessFlagsTakeTheNewerCall) {
  provider().reg_mr(nullptr, &library_, 8, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(library_.plain_reg_access, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(library_.iova2_access, 0u);
  provider().reg_mr(nullptr, &library_, 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  EXPECT_EQ(library_.iova2_access,
            static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING));
  options_.api.reg_mr_iova2 = nullptr;
  provider_.reset();
  provider().reg_mr(nullptr, &library_, 8, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  EXPECT_EQ(library_.plain_reg_access, IBV_ACCESS_REMOTE_WRITE)
      << "an old library would refuse the flag";
}

TEST_F(RdmaProviderTest, ANullWithoutAnErrorIsNoErrorOfAnEarlierCall) {
  errno = ENOENT;
  EXPECT_EQ(provider().reg_mr(nullptr, &library_, 8, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EIO);
}

TEST_F(RdmaProviderTest, MinusOneBecomesErrno) {
  library_.close_answer = -1;
  EXPECT_EQ(provider().close_device(&library_.context), EBUSY);
  library_.close_answer = EINVAL;
  EXPECT_EQ(provider().close_device(&library_.context), EINVAL);
  library_.close_answer = 0;
  EXPECT_EQ(provider().close_device(&library_.context), 0);
}

TEST_F(RdmaProviderTest, AnOldLibraryHasNoOptionsOfADevicesMaker) {
  ibv_ece ece{};
  EXPECT_EQ(provider().query_ece(nullptr, &ece), EOPNOTSUPP);
  EXPECT_EQ(provider().set_ece(nullptr, &ece), EOPNOTSUPP);
}

TEST_F(RdmaProviderTest, ForkInitRunsOncePerProcess) {
  make_rdma_provider(options_);
  const int after_first = library_.fork_inits;
  make_rdma_provider(options_);
  EXPECT_EQ(library_.fork_inits, after_first);
}

ibv_async_event event_of(ibv_event_type type, int port = 0, ibv_qp* qp = nullptr) {
  ibv_async_event event{};
  event.event_type = type;
  if (qp != nullptr) {
    event.element.qp = qp;
  } else {
    event.element.port_num = port;
  }
  return event;
}

TEST_F(RdmaProviderTest, EventsAreTakenWithoutBlockingAndAcknowledged) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  library_.context.async_fd = ends[0];
  ibv_context* const context = provider().open_device("mlx5_0");
  EXPECT_EQ(provider().event_fd(context), ends[0]);
  EXPECT_NE(::fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
  ibv_qp qp{};
  qp.qp_num = 0x1234;
  ibv_cq cq{};
  ibv_async_event queue_failed = event_of(IBV_EVENT_CQ_ERR);
  queue_failed.element.cq = &cq;
  const auto speed_change = static_cast<ibv_event_type>(20);  // of rdma-core 62
  library_.events = {event_of(IBV_EVENT_PORT_ERR, 2),
                     event_of(IBV_EVENT_PORT_ACTIVE, 1),
                     event_of(IBV_EVENT_GID_CHANGE, 1),
                     event_of(IBV_EVENT_QP_FATAL, 0, &qp),
                     event_of(IBV_EVENT_QP_ACCESS_ERR, 0, &qp),
                     event_of(IBV_EVENT_DEVICE_FATAL),
                     event_of(IBV_EVENT_LID_CHANGE, 1),
                     event_of(speed_change),
                     queue_failed};
  using Kind = DeviceEventKind;
  DeviceEvent event;
  std::vector<Kind> kinds;
  std::vector<unsigned> ports, numbers;
  while (provider().next_event(context, &event)) {
    kinds.push_back(event.kind);
    ports.push_back(event.port);
    numbers.push_back(event.qp_num);
  }
  EXPECT_EQ(event.cq, &cq);
  EXPECT_EQ(kinds, (std::vector{Kind::PortError, Kind::PortActive, Kind::GidChange, Kind::QpFatal,
                                Kind::QpFatal, Kind::DeviceFatal, Kind::LidChange,
                                Kind::SpeedChange, Kind::CqError}));
  EXPECT_EQ(ports, (std::vector{2u, 1u, 1u, 0u, 0u, 0u, 1u, 0u, 0u}));
  EXPECT_EQ(numbers, (std::vector{0u, 0u, 0u, 0x1234u, 0x1234u, 0u, 0u, 0u, 0u}));
  EXPECT_EQ(library_.events_acknowledged, 9) << "else destroying a queue pair waits for ever";
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(RdmaProviderTest, CompletionEventsAreTakenWithoutBlockingAndAcknowledgedAtOnce) {
  ASSERT_EQ(::pipe(library_.channel_pipe), 0);
  options_.api.create_comp_channel = fake_create_channel;
  options_.api.destroy_comp_channel = [](ibv_comp_channel*) {
    return ++g_library->channels_destroyed, 0;
  };
  options_.api.get_cq_event = fake_get_cq_event;
  options_.api.ack_cq_events = [](ibv_cq* cq, unsigned count) {
    EXPECT_EQ(cq, &g_library->cq);
    g_library->completion_events_acknowledged += count;
  };
  options_.api.create_cq = [](ibv_context*, int, void*, ibv_comp_channel* channel, int) {
    return g_library->cq.channel = channel, &g_library->cq;
  };
  ibv_comp_channel* const channel = provider().create_channel(provider().open_device("mlx5_0"));
  ASSERT_NE(channel, nullptr);
  ASSERT_NE(provider().create_reporting_cq(channel, 8), nullptr);
  EXPECT_EQ(library_.cq.channel, channel);
  EXPECT_FALSE(provider().next_completion_event(channel)) << "and nothing blocks";
  ASSERT_EQ(::write(library_.channel_pipe[1], "12", 2), 2);
  EXPECT_TRUE(provider().next_completion_event(channel));
  EXPECT_TRUE(provider().next_completion_event(channel));
  EXPECT_FALSE(provider().next_completion_event(channel));
  EXPECT_EQ(library_.completion_events_acknowledged, 2u);
  EXPECT_EQ(provider().destroy_channel(channel), 0);
  EXPECT_EQ(library_.channels_destroyed, 1);
  for (const int fd : library_.channel_pipe) ::close(fd);
}

TEST_F(RdmaProviderTest, ALibraryWithoutChannelsMakesNone) {
  EXPECT_EQ(provider().create_channel(provider().open_device("mlx5_0")), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(RdmaProviderTest, AContextWithoutADescriptorHasNoEvents) {
  ibv_context* const context = provider().open_device("mlx5_0");
  library_.events = {event_of(IBV_EVENT_PORT_ERR, 1)};
  DeviceEvent event;
  EXPECT_LT(provider().event_fd(context), 0);
  EXPECT_FALSE(provider().next_event(context, &event));
}

TEST(RdmaApi, MissingLibraryIsNotFoundAndOneLine) {
  const LogCapture log;
  std::string why;
  EXPECT_EQ(load_verbs_api("libibverbs-of-nobody.so.1", why).code(), Errc::NotFound);
  EXPECT_TRUE(why.starts_with("libibverbs-of-nobody.so.1 does not load (")) << why;
  ASSERT_EQ(log.all().size(), 1u) << log.joined();
  EXPECT_TRUE(log.said(LogLevel::Info, "libibverbs-of-nobody.so.1 does not load"));
}

TEST(RdmaApi, LibraryWithoutOurFunctionsIsNotFoundAndNamesOne) {
  const LogCapture log;
  std::string why;
  EXPECT_EQ(load_verbs_api("libc.so.6", why).code(), Errc::NotFound);
  EXPECT_TRUE(why.starts_with("libc.so.6 has no function ibv_fork_init; ")) << why;
  EXPECT_TRUE(log.said(LogLevel::Info, "has no function ibv_fork_init"));
}

TEST(RdmaApi, RealLibraryBindsEveryFunction) {
  std::string why;
  const Result<VerbsApi> api = load_verbs_api(kVerbsLibrary, why);
  if (!api.ok()) GTEST_SKIP() << "no libibverbs here";
  EXPECT_NE(api->destroy_qp, nullptr);
  EXPECT_NE(api->query_gid_table, nullptr);
  EXPECT_NE(api->reg_mr_iova2, nullptr);
  EXPECT_NE(api->query_ece, nullptr);
  EXPECT_NE(api->set_ece, nullptr);
  Result<std::unique_ptr<Provider>> provider = open_rdma(&why);
  EXPECT_EQ(why, "");
  ASSERT_TRUE(provider.ok());
  for (const DeviceEntry& device : (*provider)->devices()) EXPECT_FALSE(device.name.empty());
  EXPECT_EQ((*provider)->open_device("no such device"), nullptr);
}

}  // namespace
}  // namespace mesh::verbs
