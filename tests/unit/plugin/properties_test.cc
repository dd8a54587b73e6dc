#include "plugin/properties.h"

#include "tests/unit/plugin/plugin_test.h"

namespace mesh::plugin {
namespace {

constexpr int kPoison = 0xab;

template <typename Properties>
Properties poisoned() {
  Properties properties;
  std::memset(static_cast<void*>(&properties), kPoison, sizeof(properties));
  return properties;
}

// Checks the values that are equal in every version.
template <typename Properties>
void expect_common(const Properties& p, const char* name) {
  EXPECT_STREQ(p.name, name);
  EXPECT_STREQ(p.pciPath, "/sys/devices/pci0000:00/0000:01:00.0");
  EXPECT_EQ(p.guid, 0x1122334455667788u);
  EXPECT_EQ(p.ptrSupport, NCCL_PTR_HOST);
  EXPECT_EQ(p.speed, 200000);
  EXPECT_EQ(p.port, 1);
  EXPECT_EQ(p.latency, 0.0f);
  EXPECT_EQ(p.maxComms, 8191);
  EXPECT_EQ(p.maxRecvs, 8);
  if constexpr (requires { p.netDeviceType; }) {
    EXPECT_EQ(p.netDeviceType, NCCL_NET_DEVICE_HOST);
    EXPECT_EQ(p.netDeviceVersion, 0);
  }
  if constexpr (requires { p.regIsGlobal; }) {
    EXPECT_EQ(p.regIsGlobal, 0);
  }
  if constexpr (requires { p.vProps; }) {
    EXPECT_EQ(p.forceFlush, 0);
    EXPECT_EQ(p.vProps.ndevs, 1);
    EXPECT_EQ(p.vProps.devs[0], 1);
    for (std::size_t i = 1; i < std::size(p.vProps.devs); ++i) EXPECT_EQ(p.vProps.devs[i], 0);
    EXPECT_EQ(p.maxP2pBytes, std::size_t{1} << 40);
    EXPECT_EQ(p.maxCollBytes, std::size_t{1} << 40);
  }
  if constexpr (requires { p.maxMultiRequestSize; }) {
    EXPECT_EQ(p.maxMultiRequestSize, 1);
  }
  if constexpr (requires { p.railId; }) {
    EXPECT_EQ(p.railId, -1);
    EXPECT_EQ(p.planeId, -1);
  }
}

template <typename Properties>
Properties ask(ncclResult_t (*get)(int, Properties*), int device) {
  auto properties = poisoned<Properties>();
  EXPECT_EQ(get(device, &properties), ncclSuccess);
  return properties;
}

class Properties : public PluginTest {
 protected:
  void SetUp() override {
    PluginTest::SetUp();
    ASSERT_EQ(ncclNetPlugin_v12.init(&context_, 1, nullptr, LogCatcher::log, nullptr), ncclSuccess);
  }
  void TearDown() override {
    if (context_ != nullptr) {
      EXPECT_EQ(ncclNetPlugin_v12.finalize(context_), ncclSuccess);
    }
    PluginTest::TearDown();
  }
  void* context_ = nullptr;
};

template <int kVersion>
void expect_properties() {
  expect_common(ask(nccl::Version<kVersion>::table().getProperties, 1), "fake1:1");
}

TEST_F(Properties, EveryFieldOfEveryVersionIsFilled) {
  constexpr int kCount = nccl::kNewestVersion - nccl::kOldestVersion + 1;
  [&]<int... kOffsets>(std::integer_sequence<int, kOffsets...>) {
    (expect_properties<nccl::kOldestVersion + kOffsets>(), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

TEST_F(Properties, OutOfRangeIsRefusedAndNothingWritten) {
  for (const int device : {-1, 2, 1 << 30}) {
    auto properties = poisoned<ncclNetProperties_v12_t>();
    EXPECT_EQ(ncclNetPlugin_v12.getProperties(device, &properties), ncclInvalidArgument);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&properties);
    EXPECT_EQ(std::count(bytes, bytes + sizeof(properties), kPoison),
              static_cast<std::ptrdiff_t>(sizeof(properties)));
    auto old = poisoned<ncclNetProperties_v5_t>();
    EXPECT_EQ(ncclNetPlugin_v5.getProperties(device, &old), ncclInvalidArgument);
  }
}

TEST_F(Properties, StringsSurviveFinalizeAndAreTheSameAgain) {
  const auto first = ask(ncclNetPlugin_v12.getProperties, 0);
  ASSERT_EQ(ncclNetPlugin_v12.finalize(std::exchange(context_, nullptr)), ncclSuccess);
  EXPECT_TRUE(all_engines_end());
  EXPECT_STREQ(first.name, "fake0:1");
  ASSERT_EQ(ncclNetPlugin_v12.init(&context_, 2, nullptr, LogCatcher::log, nullptr), ncclSuccess);
  const auto second = ask(ncclNetPlugin_v12.getProperties, 0);
  EXPECT_EQ(first.name, second.name);
  EXPECT_EQ(first.pciPath, second.pciPath);
}

TEST(PropertiesOf, NoPciParentIsANullPath) {
  RailInfo rail = fake::rail("bare:1");
  rail.pci_path.clear();
  EXPECT_EQ(properties_of(rail, 0).pciPath, nullptr);
}

TEST(PropertiesOf, RailAndPlaneAreThoseThatTheUserAssigned) {
  RailInfo rail = fake::rail("bare:1");
  rail.rail_id = 2;
  rail.plane_id = 1;
  EXPECT_EQ(properties_of(rail, 0).railId, 2);
  EXPECT_EQ(properties_of(rail, 0).planeId, 1);
}

TEST_F(PluginTest, MoreRailsThanNcclCanIndexAreNotShown) {
  state().rails.clear();
  for (int i = 0; i < 200; ++i)
    state().rails.push_back(fake::rail("fake" + std::to_string(i) + ":1"));
  void* context = nullptr;
  ASSERT_EQ(ncclNetPlugin_v12.init(&context, 1, nullptr, LogCatcher::log, nullptr), ncclSuccess);
  int count = 0;
  EXPECT_EQ(ncclNetPlugin_v12.devices(&count), ncclSuccess);
  EXPECT_EQ(count, 128);
  ncclNetProperties_v12_t properties;
  EXPECT_EQ(ncclNetPlugin_v12.getProperties(127, &properties), ncclSuccess);
  EXPECT_EQ(ncclNetPlugin_v12.getProperties(128, &properties), ncclInvalidArgument);
  EXPECT_EQ(ncclNetPlugin_v12.finalize(context), ncclSuccess);
}

}  // namespace
}  // namespace mesh::plugin
