#include "src/verbs/gid_choice.h"

#include "tests/prelude.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh::verbs {
namespace {

using testkit::gid_of;

int chosen_index(const std::vector<GidEntry>& entries, const GidWish& wish = {}) {
  const std::vector<GidEntry> gids = choose_gids(entries, wish);
  return gids.empty() ? -1 : gids.front().index;
}

// Returns a usual GID table: most addresses appear once as RoCE v1 and once as v2.
std::vector<GidEntry> usual_table() {
  return {gid_of(0, "fe80::1", GidType::RoceV1),
          gid_of(1, "fe80::1"),
          gid_of(2, "10.0.12.1", GidType::RoceV1),
          gid_of(3, "10.0.12.1"),
          gid_of(4, "2001:db8::1", GidType::RoceV1),
          gid_of(5, "2001:db8::1"),
          gid_of(6, "169.254.3.4"),
          gid_of(7, "10.0.99.1")};
}

TEST(GidChoice, PrefersIpv4ThenGlobalIpv6ThenLinkLocalInAnyOrder) {
  std::vector<GidEntry> table = usual_table();
  const auto by_index = [](const GidEntry& a, const GidEntry& b) { return a.index < b.index; };
  const auto without = [&](int index) {
    std::erase_if(table, [&](const GidEntry& entry) { return entry.index == index; });
  };
  for (const int expected : {3, 7, 5, 6, 1, -1}) {
    std::sort(table.begin(), table.end(), by_index);
    for (std::size_t turn = 0; turn < table.size(); ++turn) {
      EXPECT_EQ(chosen_index(table), expected) << "rotation " << turn;
      std::rotate(table.begin(), table.begin() + 1, table.end());
    }
    std::reverse(table.begin(), table.end());
    EXPECT_EQ(chosen_index(table), expected);
    without(expected);
  }
}

std::vector<int> chosen_indices(const std::vector<GidEntry>& entries, const GidWish& wish = {}) {
  std::vector<int> indices;
  for (const GidEntry& gid : choose_gids(entries, wish)) indices.push_back(gid.index);
  return indices;
}

TEST(GidChoice, KeepsEveryAddressThatCouldReachAPeer) {
  EXPECT_EQ(chosen_indices(usual_table()), (std::vector<int>{3, 7, 5}));
  EXPECT_EQ(chosen_indices(usual_table(), {.ethernet = true, .index = 7}), (std::vector<int>{7}));
}

TEST(GidChoice, LinkLocalOnlyWhereThereIsNoOther) {
  EXPECT_EQ(chosen_indices({gid_of(0, "fe80::1"), gid_of(1, "169.254.3.4")}),
            (std::vector<int>{1, 0}));
  EXPECT_EQ(chosen_indices({gid_of(0, "fe80::1"), gid_of(1, "fd00::1")}), (std::vector<int>{1}));
}

// A device that network namespaces share shows the addresses of all of them, also of those that
// were made first.
TEST(GidChoice, AddressesOfOtherNetworkNamespacesAreLeftOut) {
  std::vector<GidEntry> table = usual_table();
  table[7].prefix_len = 24;
  EXPECT_EQ(chosen_indices(table), std::vector<int>{7});
  table[7].prefix_len = -1;
  table[6].prefix_len = 16;
  EXPECT_EQ(chosen_indices(table), std::vector<int>{6}) << "our own is link-local";
  table[6].prefix_len = -1;
  table[2].prefix_len = 24;
  EXPECT_EQ(chosen_indices(table), (std::vector<int>{3, 7, 5})) << "ours is of another type";
}

TEST(GidChoice, NeverMoreThanARailHolds) {
  std::vector<GidEntry> table;
  table.reserve(20);
  for (int i = 0; i < 20; ++i)
    table.push_back(gid_of(i, ("10.0." + std::to_string(i) + ".1").c_str()));
  EXPECT_EQ(chosen_indices(table), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(GidChoice, NeverTakesVersionOneByItself) {
  EXPECT_EQ(
      chosen_index({gid_of(0, "10.0.0.1", GidType::RoceV1), gid_of(1, "10.0.0.1", GidType::Ib)}),
      -1);
  EXPECT_EQ(chosen_index({}), -1);
}

TEST(GidChoice, WishedIndexIsObeyedWhateverItsType) {
  EXPECT_EQ(chosen_index(usual_table(), {.ethernet = true, .index = 2}), 2);
  EXPECT_EQ(chosen_index(usual_table(), {.ethernet = true, .index = 0}), 0);
  EXPECT_EQ(chosen_index(usual_table(), {.ethernet = true, .index = 12}), -1);
}

TEST(GidChoice, InfiniBandTakesIndexZeroWhateverIsWished) {
  const std::vector<GidEntry> table{gid_of(1, "fe80::2", GidType::Ib),
                                    gid_of(0, "fe80::1", GidType::Ib)};
  EXPECT_EQ(chosen_index(table, {.ethernet = false}), 0);
  EXPECT_EQ(chosen_index(table, {.ethernet = false, .index = 1}), 0);
  EXPECT_EQ(chosen_index(table, {.ethernet = false, .index = 9, .family = AF_INET}), 0);
}

GidWish wish_of(const Settings& settings) { return gid_wish(settings, true); }

TEST(GidChoice, FamilyRangeAndVersionOfTheSettingsAreObeyed) {
  Settings settings;
  settings.addr_family = "AF_INET6";
  EXPECT_EQ(chosen_indices(usual_table(), wish_of(settings)), (std::vector<int>{5}));
  settings.addr_family = "AF_INET";
  EXPECT_EQ(chosen_indices(usual_table(), wish_of(settings)), (std::vector<int>{3, 7}));
  settings.addr_range = "10.0.99.0/24";
  EXPECT_EQ(chosen_indices(usual_table(), wish_of(settings)), (std::vector<int>{7}));
  settings.addr_range = "10.0.12.0/24";
  settings.roce_version = 1;
  EXPECT_EQ(chosen_indices(usual_table(), wish_of(settings)), (std::vector<int>{2}));
  settings.addr_range = "10.7.0.0/16";
  EXPECT_EQ(chosen_indices(usual_table(), wish_of(settings)), (std::vector<int>{}));
}

TEST(GidChoice, ARangeAloneNamesItsFamily) {
  Settings settings;
  settings.addr_range = "2001:db8::/32";
  EXPECT_EQ(chosen_indices(usual_table(), wish_of(settings)), (std::vector<int>{5}));
}

TEST(GidChoice, InfiniBandTakesTheGidThatRoutersKnow) {
  const std::vector<GidEntry> table{gid_of(0, "fe80::1", GidType::Ib),
                                    gid_of(1, "fec0:0:4d2:7::1", GidType::Ib)};
  EXPECT_EQ(chosen_index(table, {.ethernet = false}), 1);
  EXPECT_EQ(routable_lid(table[0].gid), 0);
  EXPECT_EQ(routable_lid(table[1].gid), 0x4d2);
  EXPECT_EQ(routable_lid(gid_of(0, "fd00:0:4d2:7::1").gid), 0) << "not a site-local one";
}

TEST(PortDecoding, SpeedIsLaneTimesWidth) {
  EXPECT_EQ(link_speed_mbps(1, 1), 2'500u);
  EXPECT_EQ(link_speed_mbps(32, 1), 25'000u);
  EXPECT_EQ(link_speed_mbps(32, 2), 100'000u);
  EXPECT_EQ(link_speed_mbps(64, 2), 200'000u);
  EXPECT_EQ(link_speed_mbps(128, 2), 400'000u);
  EXPECT_EQ(link_speed_mbps(256, 2), 800'000u);
  EXPECT_EQ(link_speed_mbps(128, 16), 200'000u);
  EXPECT_EQ(link_speed_mbps(16, 8), 168'000u);
  EXPECT_EQ(link_speed_mbps(3, 2), 0u);
  EXPECT_EQ(link_speed_mbps(32, 3), 0u);
}

TEST(PortDecoding, MtuInBytes) {
  EXPECT_EQ(mtu_bytes(IBV_MTU_256), 256u);
  EXPECT_EQ(mtu_bytes(IBV_MTU_1024), 1024u);
  EXPECT_EQ(mtu_bytes(IBV_MTU_4096), 4096u);
  EXPECT_EQ(mtu_bytes(static_cast<ibv_mtu>(0)), 0u);
  EXPECT_EQ(mtu_bytes(static_cast<ibv_mtu>(6)), 0u);
}

// A GB10 has one adapter with four functions: two cables, each seen through two PCIe links.
TEST(CableGuid, HalvesOfOneCableShareItDifferentCablesDoNot) {
  const auto guid_at = [](const char* path) { return cable_guid(0x4cbb470300a1b2c3, path); };
  const std::uint64_t first = guid_at("/sys/devices/pci0000:00/0000:01:00.0");
  EXPECT_EQ(first, guid_at("/sys/devices/pci0002:00/0002:01:00.0"));
  EXPECT_NE(first, guid_at("/sys/devices/pci0000:00/0000:01:00.1"));
  EXPECT_EQ(guid_at("/sys/devices/pci0000:00/0000:01:00.1"),
            guid_at("/sys/devices/pci0002:00/0002:01:00.1"));
  EXPECT_EQ(guid_at(""), 0x4cbb470300a1b2c3u);
}

}  // namespace
}  // namespace mesh::verbs
