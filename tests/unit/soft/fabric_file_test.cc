#include "src/soft/fabric_file.h"

#include "src/base/random.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"

namespace mesh::soft {
namespace {

using testkit::LogCapture;

// Returns the one line that a refusal logs, or an empty text if the file was accepted.
std::string refusal(const std::string& text) {
  const LogCapture log;
  const Result<FabricFile> file = parse(text);
  EXPECT_EQ(log.all().size(), file.ok() ? 0u : 1u) << log.joined();
  EXPECT_TRUE(file.ok() || file.code() == Errc::InvalidArgument);
  return log.joined();
}

std::string file_with(const std::string& nics_a, const std::string& nics_b,
                      const std::string& links) {
  return R"({"name": "t", "hosts": [{"name": "a", "nics": [)" + nics_a +
         R"(]}, {"name": "b", "nics": [)" + nics_b + R"(]}], "links": [)" + links + "]}";
}

const std::string kNicA = R"({"name": "n0", "address": "10.0.12.1/24"})";
const std::string kNicB = R"({"name": "n0", "address": "10.0.12.2/24"})";
const std::string kLink = R"({"ends": ["a/n0", "b/n0"]})";

TEST(FabricFile, EachCableHasAddressesOfItsOwn) {
  const std::string second = R"({"name": "n1", "address": "10.0.12.1/24"})";
  const std::string other = R"({"name": "n1", "address": "10.0.12.2/24"})";
  EXPECT_EQ(refusal(file_with(kNicA + ", " + second, kNicB + ", " + other,
                              kLink + R"(, {"ends": ["a/n1", "b/n1"]})")),
            "");
}

TEST(FabricFile, ReadsEveryField) {
  const Result<FabricFile> file = parse(file_with(
      R"({"name": "n0", "address": "10.0.12.1/24", "guid": "abc123", )"
      R"("pci": "/sys/devices/x", "numa": 1})",
      kNicB,
      R"({"ends": ["a/n0", "b/n0"], "gbps": 100, "delay_us": 1.5, "mtu": 1024, "qp_gbps": 64})"));
  ASSERT_TRUE(file.ok());
  const NicSpec& nic = file->hosts[0].nics[0];
  EXPECT_EQ(nic.guid, 0xabc123u);
  EXPECT_EQ(nic.pci, "/sys/devices/x");
  EXPECT_EQ(nic.numa, 1);
  EXPECT_EQ(nic.prefix_len, 24);
  EXPECT_EQ(nic.gid.raw[10], 0xff);
  EXPECT_EQ(nic.gid.raw[15], 1);
  EXPECT_EQ(nic.link, 0);
  const LinkSpec& link = file->links[0];
  EXPECT_DOUBLE_EQ(link.gbps, 100);
  EXPECT_EQ(link.delay_ns, 1500u);
  EXPECT_EQ(link.mtu, 1024u);
  EXPECT_DOUBLE_EQ(link.qp_gbps, 64);
}

TEST(FabricFile, APortShowsNoMoreThanTheMtuOfItsLink) {
  const auto with = [](const std::string& mtu) {
    return file_with(R"({"name": "n0", "address": "10.0.1.1/24", "mtu": )" + mtu + "}",
                     R"({"name": "n0", "address": "10.0.1.2/24"})",
                     R"({"ends": ["a/n0", "b/n0"], "mtu": 2048})");
  };
  const Result<FabricFile> file = parse(with("1024"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->hosts[0].nics[0].mtu, 1024u);
  EXPECT_EQ(file->hosts[1].nics[0].mtu, 2048u);
  EXPECT_NE(refusal(with("4096")).find("NIC a/n0 has mtu 4096, more than the link's 2048"),
            std::string::npos);
  EXPECT_NE(refusal(with("1500")).find("mtu is 1500; wanted: 256, 512"), std::string::npos);
}

TEST(FabricFile, ReadsWhatANicCosts) {
  const std::string text =
      file_with(kNicA, kNicB, R"({"ends": ["a/n0", "b/n0"], "gbps": 100, "port_gbps": 200})");
  const Result<FabricFile> plain = parse(text);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->costs.quantum_bytes, 16384u);
  EXPECT_EQ(plain->costs.fetch_ns + plain->costs.post_ns + plain->costs.doorbell_ns +
                plain->costs.completion_ns,
            0u);
  EXPECT_DOUBLE_EQ(plain->links[0].port_gbps, 200);
  const std::string head = text.substr(0, text.size() - 1) + R"(, "nic_costs": )";
  const Result<FabricFile> file =
      parse(head + R"({"quantum_bytes": 4096, "fetch_ns": 350, "post_ns": 75, "doorbell_ns": 40, )"
                   R"("completion_ns": 20}})");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->costs.quantum_bytes, 4096u);
  EXPECT_EQ(file->costs.fetch_ns, 350u);
  EXPECT_EQ(file->costs.post_ns, 75u);
  EXPECT_EQ(file->costs.doorbell_ns, 40u);
  EXPECT_EQ(file->costs.completion_ns, 20u);
  EXPECT_NE(
      refusal(head + R"({"quantum_bytes": 1}})").find("nic_costs: quantum_bytes is 1; wanted"),
      std::string::npos);
  EXPECT_NE(refusal(head + R"({"fetch": 1}})").find("nic_costs has the unknown key \"fetch\""),
            std::string::npos);
}

std::string halves(const std::string& nic_gbps, const std::string& second_cable) {
  const std::string own = nic_gbps.empty() ? "" : R"(, "gbps": )" + nic_gbps;
  const auto nic = [&](const std::string& name, const std::string& address) {
    return R"({"name": ")" + name + R"(", "address": ")" + address + "\"" + own + "}";
  };
  return file_with(
      nic("n0", "10.0.1.1/24") + "," + nic("n1", "10.0.2.1/24"),
      nic("n0", "10.0.1.2/24") + "," + nic("n1", "10.0.2.2/24"),
      R"({"ends": ["a/n0", "b/n0"], "gbps": 200, "cable": "c"}, {"ends": ["a/n1", "b/n1"], )" +
          second_cable + "}");
}

TEST(FabricFile, HalvesShareACable) {
  EXPECT_TRUE(parse(halves("109", R"("gbps": 200, "cable": "c")")).ok());
  EXPECT_TRUE(parse(halves("109", R"("gbps": 100)")).ok()) << "a cable of its own";
  EXPECT_NE(refusal(halves("", R"("gbps": 200, "cable": "c")"))
                .find("needs a gbps of its own or a slot's below the cable's 200"),
            std::string::npos);
  EXPECT_NE(refusal(halves("200", R"("gbps": 200, "cable": "c")")).find("NIC n0 on cable"),
            std::string::npos);
  EXPECT_NE(refusal(halves("90", R"("gbps": 100, "cable": "c")")).find("differ in gbps or hosts"),
            std::string::npos);
}

// Host a has these slots, and two NICs with these fields.
std::string slots(const std::string& list, const std::string& first, const std::string& second) {
  const auto nic = [](int number, const std::string& fields) {
    return fmt::format(R"({{"name": "n{}", "address": "10.0.{}.1/24"{}}})", number, number, fields);
  };
  return R"({"name": "t", "hosts": [{"name": "a", "slots": )" + list + R"(, "nics": [)" +
         nic(0, first) + ", " + nic(1, second) + "]}]}";
}
const std::string kInX = R"(, "slot": "x")";

TEST(FabricFile, NicsShareASlot) {
  const auto file = parse(slots(R"([{"name": "y", "gbps": 1}, {"name": "x", "gbps": 218}])",
                                R"(, "slot": "x")", R"(, "slot": "y")"));
  ASSERT_TRUE(file.ok());
  const HostSpec& host = file->hosts[0];
  EXPECT_EQ(host.nics[0].slot, 1);
  EXPECT_EQ(host.nics[1].slot, 0);
  EXPECT_DOUBLE_EQ(host.slots[1].gbps, 218);
  EXPECT_TRUE(file->has_slots());
  const auto without = parse(slots("[]", "", ""));
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->hosts[0].nics[0].slot, -1);
  EXPECT_FALSE(without->has_slots());
}

TEST(FabricFile, GuidsDifferUnlessTheFileSaysOtherwise) {
  const Result<FabricFile> file = parse(file_with(
      R"({"name": "n0", "address": "10.0.1.1/24"}, {"name": "n1", "address": "10.0.2.1/24",
         "guid": "7"},
         {"name": "n2", "address": "10.0.3.1/24", "guid": "7"})",
      kNicB, ""));
  ASSERT_TRUE(file.ok());
  const std::vector<NicSpec>& nics = file->hosts[0].nics;
  EXPECT_NE(nics[0].guid, nics[1].guid);
  EXPECT_EQ(nics[1].guid, nics[2].guid);
  EXPECT_NE(nics[0].guid, file->hosts[1].nics[0].guid);
  EXPECT_EQ(nics[0].link, -1) << "nothing is plugged in";
}

TEST(FabricFile, ReadsIpv6AndSwitches) {
  const Result<FabricFile> file = parse(file_with(
      R"({"name": "n0", "address": "fd00::1/64"}, {"name": "n1", "address": "fd00::3/64"})",
      R"({"name": "n0", "address": "fd00::2/64"})", R"({"switch": ["a/n0", "b/n0", "a/n1"]})"));
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(file->hosts[0].nics[0].ipv4);
  EXPECT_EQ(file->links[0].ends.size(), 3u);
}

TEST(FabricFile, EveryReadyFileIsGood) {
  for (const char* name :
       {"pair", "pair2", "triangle", "switched3", "ring4", "line3", "alltoall8", "capped",
        "model-spark-pair", "model-spark-pair2", "model-spark-triangle", "model-spark-ring4",
        "model-x16-pair2", "model-cards4-pair"})
    EXPECT_TRUE(load(std::string(MESH_SOURCE_DIR "/perf/fabrics/") + name + ".json").ok()) << name;
}

TEST(FabricFile, IdentityTellsFilesAndProcessesApart) {
  const std::string path = MESH_SOURCE_DIR "/perf/fabrics/";
  EXPECT_EQ(load(path + "pair.json")->identity, load(path + "pair.json")->identity);
  EXPECT_NE(load(path + "pair.json")->identity, load(path + "pair2.json")->identity);
}

TEST(FabricFile, MissingFileIsNamed) {
  const LogCapture log;
  EXPECT_EQ(load("/nowhere/fabric.json").code(), Errc::NotFound);
  EXPECT_NE(log.joined().find("/nowhere/fabric.json"), std::string::npos);
}

std::string new_path() {
  return testing::TempDir() + "mesh_fabric_" + std::to_string(random_u64());
}

// Nobody ever writes to this pipe, so that a wait for its text would never end.
TEST(FabricFile, APipeIsRefusedAndNotWaitedFor) {
  const LogCapture log;
  const std::string path = new_path();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::future<Errc> answer = std::async(std::launch::async, [&] { return load(path).code(); });
  const bool came = answer.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  EXPECT_TRUE(came) << "load() waits for a writer";
  const int writer = came ? -1 : ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (writer >= 0) ::close(writer);  // ends the wait
  EXPECT_EQ(answer.get(), Errc::InvalidArgument);
  EXPECT_EQ(log.joined(), "soft fabric: " + path + " is not a regular file\n");
  std::filesystem::remove(path);
}

TEST(FabricFile, AFolderAndADeviceAreRefusedByName) {
  for (const char* path : {"/proc", "/dev/null"}) {
    const LogCapture log;
    EXPECT_EQ(load(path).code(), Errc::InvalidArgument);
    EXPECT_EQ(log.joined(), std::string("soft fabric: ") + path + " is not a regular file\n");
  }
}

TEST(FabricFile, ALongFileIsNotReadToItsEnd) {
  const std::string path = new_path();
  std::ofstream(path) << "x";
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);  // a hole, which takes no disk space
  const LogCapture log;
  EXPECT_EQ(load(path).code(), Errc::InvalidArgument);
  EXPECT_EQ(log.joined(), "soft fabric: file " + path + " has more than 4194304 bytes\n");
  std::filesystem::remove(path);
  EXPECT_NE(refusal(std::string(kFileBytesMax + 1, ' ')).find("4194305 bytes"), std::string::npos);
}

TEST(FabricFile, PlugsOfTwoCablesChangePlaces) {
  FabricFile file = parse(R"({"name": "x", "hosts": [
      {"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"},
                             {"name": "n1", "address": "10.0.0.2/24"}]},
      {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.3/24"},
                             {"name": "n1", "address": "10.0.0.4/24"}]}],
      "links": [{"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n1"]}]})")
                        .value();
  const auto far_end = [&file](const char* nic) {
    NicRef end;
    EXPECT_TRUE(file.other_end("a", nic, &end));
    return end;
  };
  file.swap_plugs({1, 0}, {1, 1});
  EXPECT_EQ(far_end("n0"), (NicRef{1, 1}));
  EXPECT_EQ(far_end("n1"), (NicRef{1, 0}));
  EXPECT_TRUE(file.joins(file.nic({0, 0}), file.nic({1, 1})));
  EXPECT_FALSE(file.joins(file.nic({0, 0}), file.nic({1, 0})));
  file.swap_plugs({0, 0}, {0, 1});
  EXPECT_EQ(far_end("n0"), (NicRef{1, 0}));
}

TEST(FabricFile, ARefusalIsShortAndHoldsNoControlCharacter) {
  const std::string line =
      refusal(R"({"name": "t", "\u001b[31m\n)" + std::string(10'000, 'x') + R"(": 1})");
  EXPECT_NE(line.find(R"(unknown key "\u001b[31m\n)"), std::string::npos) << line;
  EXPECT_LT(line.size(), 1000u);
}

struct Bad {
  const char* name;
  std::string text;
  const char* says;  // a part of the line
};

class FabricFileRefuses : public ::testing::TestWithParam<Bad> {};

TEST_P(FabricFileRefuses, WithAReason) {
  const std::string line = refusal(GetParam().text);
  EXPECT_NE(line.find(GetParam().says), std::string::npos) << line;
}

INSTANTIATE_TEST_SUITE_P(
    Contradictions, FabricFileRefuses,
    ::testing::Values(
        Bad{"NotJson", "{", "is not JSON"}, Bad{"NotAnObject", "[]", "wanted: an object"},
        Bad{"NoHosts", R"({"name": "t"})", "0 hosts"},
        Bad{"FieldTwice", R"({"name": "t", "name": "u"})",
            "line 1, column 15: the key \"name\" stands twice in one object"},
        Bad{"FieldTwiceInALink",
            file_with(kNicA, kNicB, R"({"ends": ["a/n0", "b/n0"], "gbps": 1, "gbps": 100})"),
            "the key \"gbps\" stands twice"},
        Bad{"FieldTwiceInANic",
            file_with(R"({"name": "n0", "address": "10.0.12.1/24", "name": "n1"})", kNicB, ""),
            "the key \"name\" stands twice"},
        Bad{"UnknownField", R"({"name": "t", "hots": []})", "unknown key \"hots\""},
        Bad{"HostTwice",
            R"({"name": "t", "hosts": [{"name": "a",
            "nics": [{"name": "n0", "address": "10.0.0.1/8"}]},
            {"name": "a", "nics": [{"name": "n0", "address": "10.0.0.2/8"}]}]})",
            "host a is there twice"},
        Bad{"NicTwice",
            file_with(kNicA + ", " + R"({"name": "n0", "address": "10.0.1.9/24"})", kNicB, ""),
            "NIC a/n0 is there twice"},
        Bad{"AddressTwiceOnACable", file_with(kNicA, kNicA, kLink),
            "link 0: address 10.0.12.1 is there twice, at a/n0 and b/n0"},
        Bad{"AddressTwiceBehindRouters",
            R"({"name": "t", "routers": ["r"], "hosts": [{"name": "a", "nics": [)" + kNicA +
                R"(]}, {"name": "b", "nics": [)" + kNicA +
                R"(]}], "links": [{"ends": ["a/n0", "r"]}, {"ends": ["b/n0", "r"]}]})",
            "link 1: address 10.0.12.1 is there twice, at a/n0 and b/n0"},
        Bad{"NoPrefix", file_with(R"({"name": "n0", "address": "10.0.12.1"})", kNicB, ""),
            "wanted: an address and its prefix"},
        Bad{"PrefixTooLong", file_with(R"({"name": "n0", "address": "10.0.12.1/33"})", kNicB, ""),
            "wanted: a prefix in 1..32"},
        Bad{"PrefixZero", file_with(R"({"name": "n0", "address": "fd00::1/0"})", kNicB, ""),
            "wanted: a prefix in 1..128"},
        Bad{"PrefixNoNumber", file_with(R"({"name": "n0", "address": "10.0.12.1/x"})", kNicB, ""),
            "address is \"10.0.12.1/x\""},
        Bad{"NoAddress", file_with(R"({"name": "n0", "address": "host/24"})", kNicB, ""),
            "wanted: an address of IPv4 or IPv6"},
        Bad{"UnknownNic", file_with(kNicA, kNicB, R"({"ends": ["a/n0", "b/n7"]})"),
            "\"b/n7\" is no NIC"},
        Bad{"OneEnd", file_with(kNicA, kNicB, R"({"ends": ["a/n0"]})"), "1 ends, not 2"},
        Bad{"InTwoLinks", file_with(kNicA, kNicB, kLink + ", " + kLink), "already in a link"},
        Bad{"OwnCable", file_with(kNicA, kNicB, R"({"ends": ["a/n0", "a/n0"]})"),
            "already in a link"},
        Bad{"TwoSubnets", file_with(kNicA, R"({"name": "n0", "address": "10.0.13.2/24"})", kLink),
            "different subnets"},
        Bad{"TwoPrefixes", file_with(kNicA, R"({"name": "n0", "address": "10.0.12.2/25"})", kLink),
            "different subnets"},
        Bad{"RateZero", file_with(kNicA, kNicB, R"({"ends": ["a/n0", "b/n0"], "gbps": 0})"),
            "link 0: gbps is 0; wanted: 0.001..10000"},
        Bad{"RateNegative", file_with(kNicA, kNicB, R"({"ends": ["a/n0", "b/n0"], "qp_gbps": -1})"),
            "qp_gbps is -1; wanted"},
        Bad{"RateText", file_with(kNicA, kNicB, R"({"ends": ["a/n0", "b/n0"], "gbps": "x"})"),
            "gbps is \"x\"; wanted: 0.001"},
        Bad{"Mtu", file_with(kNicA, kNicB, R"({"ends": ["a/n0", "b/n0"], "mtu": 1500})"),
            "mtu is 1500; wanted: 256"},
        Bad{"CableAndSwitch",
            file_with(kNicA, kNicB, R"({"ends": ["a/n0", "b/n0"], "switch": []})"), "exactly one"},
        Bad{"Guid",
            file_with(R"({"name": "n0", "address": "10.0.12.1/24", "guid": "xyz"})", kNicB, ""),
            "guid is \"xyz\""},
        Bad{"DeviceMemory",
            file_with(R"({"name": "n0", "address": "10.0.12.1/24", "device_memory": "all"})", kNicB,
                      ""),
            "device_memory is \"all\"; wanted: dma_buffers, peer or both"},
        Bad{"HostName", R"({"name": "t", "hosts": [{"name": "a/b", "nics": []}]})",
            "name is \"a/b\""}),
    [](const auto& bad) { return std::string(bad.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Slots, FabricFileRefuses,
    ::testing::Values(
        Bad{"Unknown", slots(R"([{"name": "x", "gbps": 1}])", kInX, R"(, "slot": "z")"),
            "NIC a/n1: slot is \"z\"; wanted: the name of one of the host's slots"},
        Bad{"NoName", slots("[]", R"(, "slot": "")", ""), "NIC a/n0: slot is \"\"; wanted"},
        Bad{"OfNoNic", slots(R"([{"name": "x", "gbps": 1}, {"name": "y", "gbps": 1}])", kInX, ""),
            "slot a/y has no NIC"},
        Bad{"Twice", slots(R"([{"name": "x", "gbps": 1}, {"name": "x", "gbps": 1}])", kInX, ""),
            "slot a/x is there twice"},
        Bad{"RateZero", slots(R"([{"name": "x", "gbps": 0}])", kInX, ""),
            "slot a/x: gbps is 0; wanted: 0.001..10000"},
        Bad{"NoRate", slots(R"([{"name": "x"}])", kInX, ""), "slot a/x: gbps is missing"},
        Bad{"Key", slots(R"([{"name": "x", "gbps": 1, "lanes": 4}])", kInX, ""),
            "a slot of host a has the unknown key \"lanes\""},
        Bad{"NoObject", slots(R"(["x"])", kInX, ""), "wanted: an object"},
        Bad{"TooMany", slots("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "", ""),
            "host a: 17 slots are not in 0..16"},
        Bad{"OfTheNullFabric",
            R"({"name": "t", "null": {}, "hosts": [{"name": "a",
            "slots": [{"name": "x", "gbps": 1}],
            "nics": [{"name": "n0", "address": "10.0.0.1/8", "slot": "x"}]}]})",
            "neither links nor faults nor slots"}),
    [](const auto& bad) { return std::string(bad.param.name); });

INSTANTIATE_TEST_SUITE_P(
    RoutersAndInfiniBand, FabricFileRefuses,
    ::testing::Values(
        Bad{"RouterOnly",
            R"({"name": "t", "routers": ["r", "q"], "hosts": [{"name": "a", "nics": [)" + kNicA +
                R"(]}], "links": [{"ends": ["r", "q"]}]})",
            "joins routers only"},
        Bad{"RouterTwice",
            R"({"name": "t", "routers": ["r", "r"], "hosts": [{"name": "a", "nics": [)" + kNicA +
                "]}]}",
            "router r is there twice"},
        Bad{"RouterName",
            R"({"name": "t", "routers": ["a/n0"], "hosts": [{"name": "a", "nics": [)" + kNicA +
                "]}]}",
            "a router's name \"a/n0\""},
        Bad{"Layers",
            file_with(R"({"name": "n0", "address": "fe80::1/64"})",
                      R"({"name": "n0", "address": "fe80::2/64", "layer": "infiniband"})", kLink),
            "different link layers"},
        Bad{"Layer",
            file_with(R"({"name": "n0", "address": "fe80::1/64", "layer": "x"})", kNicB, ""),
            "layer is \"x\"; wanted: ethernet"},
        Bad{"InfiniBandAddress",
            file_with(R"({"name": "n0", "address": "10.0.0.1/24", "layer": "infiniband"})", kNicB,
                      ""),
            "with the prefix /64"},
        Bad{"EthernetLid",
            file_with(R"({"name": "n0", "address": "10.0.0.1/24", "lid": 3})", kNicB, ""),
            "are for the layer infiniband"},
        Bad{"Pkey",
            file_with(R"({"name": "n0", "address": "fe80::1/64", "layer": "infiniband",
                      "pkeys": ["0x10000"]})",
                      kNicB, ""),
            "pkeys is [\"0x10000\"]"},
        Bad{"LidTwice",
            file_with(R"({"name": "n0", "address": "fe80::1/64", "layer": "infiniband", "lid": 3})",
                      R"({"name": "n0", "address": "fe80::2/64", "layer": "infiniband", "lid": 3})",
                      kLink),
            "has lid 3 twice"}),
    [](const auto& bad) { return std::string(bad.param.name); });

INSTANTIATE_TEST_SUITE_P(
    FaultsAndTheNullFabric, FabricFileRefuses,
    ::testing::Values(
        Bad{"FaultKind",
            R"({"name": "t", "hosts": [{"name": "a",
            "nics": [{"name": "n0", "address": "10.0.0.1/8"}]}],
            "faults": [{"kind": "fire"}]})",
            "kind is \"fire\""},
        Bad{"NullOfTwoHosts",
            R"({"name": "t", "null": {}, "hosts": [{"name": "a", "nics": [)" + kNicA +
                R"(]}, {"name": "b", "nics": [)" + kNicB + "]}]}",
            "2 hosts, not 1"},
        Bad{"NullPolls",
            R"({"name": "t", "null": {"delivery_polls": 1001}, "hosts": [{"name": "a", "nics": [)" +
                kNicA + "]}]}",
            "delivery_polls is 1001; wanted: 0..1000"},
        Bad{"NullNoObject",
            R"({"name": "t", "null": true, "hosts": [{"name": "a", "nics": [)" + kNicA + "]}]}",
            "wanted: an object"},
        Bad{"BothEndsOfNothing",
            R"({"name": "t", "hosts": [{"name": "a",
            "nics": [{"name": "n0", "address": "10.0.0.1/8"}]}],
            "faults": [{"kind": "port_down", "host": "a", "nic": "n0", "both_ends": true}]})",
            "both_ends needs port_down with host and nic of a cable"},
        Bad{"FaultDelay",
            R"({"name": "t", "hosts": [{"name": "a",
            "nics": [{"name": "n0", "address": "10.0.0.1/8"}]}],
            "faults": [{"kind": "write_delay", "delay_ns": 6000000000}]})",
            "delay_ns"}),
    [](const auto& bad) { return std::string(bad.param.name); });

}  // namespace
}  // namespace mesh::soft
