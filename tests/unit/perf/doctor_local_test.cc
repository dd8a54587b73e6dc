// mesh_doctor on one host. Each fault is planted into the files of a healthy host, and exactly its
// finding is reported.
#include "perf/mesh_doctor/checks.h"
#include "tests/prelude.h"
#include "tests/unit/perf/planted_host.h"

namespace mesh::doctor {
namespace {

using Names = std::vector<std::string>;

struct Plant {
  const char* finding;
  void (*spoil)(PlantedHost& host);
  const char* evidence;  // a part of the evidence
};

constexpr const char* kWheel = "usr/local/lib/python3.12/dist-packages/nvidia/nccl/lib/";
constexpr const char* kLimits = "proc/self/limits";

void plant_old_nccl(const PlantedHost& host) {
  for (const std::string& folder : {std::string(kWheel), std::string("opt/nccl/")})
    host.write(folder + "libnccl.so.2", "NCCL version 2.26.6+cuda12.8");
}

const std::vector<Plant> kPlants{
    {"no-provider",
     [](PlantedHost& host) {
       host.unseen = {"rocep1s0f0:1", "roceP2p1s0f0:1"};
       host.remove("usr/lib/x86_64-linux-gnu/libibverbs");
     },
     "libibverbs has no user-space driver (provider) in its folder"},
    {"no-provider",
     [](PlantedHost& host) {
       host.unseen = {"rocep1s0f0:1", "rocep1s0f1:1", "roceP2p1s0f0:1", "roceP2p1s0f1:1"};
     },
     "takes it: /usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so"},
    {"no-provider",
     [](PlantedHost& host) {
       host.unseen = {"roceP2p1s0f1:1"};
       host.remove("dev/infiniband");
     },
     "there is no file for it in /dev/infiniband"},
    {"port-not-used",
     [](PlantedHost& host) {
       // The card has only one socket, and the plugin takes neither of its halves.
       host.no_rails = {"rocep1s0f1:1", "roceP2p1s0f1:1"};
       host.remove("sys/class/infiniband/roceP2p1s0f1");
       host.remove("sys/bus/pci/devices/0002:01:00.1");
       host.remove("sys/class/infiniband/roceP2p1s0f0");
       host.remove("sys/bus/pci/devices/0002:01:00.0");
     },
     "plugin does not offer it"},
    {"half-gone",
     [](PlantedHost& host) {
       host.remove("sys/class/infiniband/roceP2p1s0f1");
       host.remove("sys/bus/pci/devices/0002:01:00.1");
     },
     "another socket of this card shows both"},
    {"half-unused", [](PlantedHost& host) { host.no_rails = {"roceP2p1s0f0:1"}; },
     "the two PCIe halves of one socket"},
    {"half-unused",
     [](PlantedHost& host) { host.write(host.port("roceP2p1s0f0") + "state", "1: DOWN"); },
     "its state is DOWN"},
    {"pcie-low",
     [](PlantedHost& host) {
       host.write(PlantedHost::function("0002:01:00.0") + "current_link_width", "2");
     },
     "The PCIe link is x2 at 32 GT/s; the card and its slot both support x4"},
    {"pcie-low",
     [](PlantedHost& host) {
       host.write(PlantedHost::function("0000:01:00.1") + "current_link_speed", "8.0 GT/s PCIe");
     },
     "x4 at 8 GT/s"},
    {"card-without-device",
     [](PlantedHost& host) {
       host.remove("sys/class/infiniband/rocep1s0f1");
       host.remove("sys/class/infiniband/roceP2p1s0f1");
       host.remove("sys/bus/pci/devices/0002:01:00.1");
     },
     "it has no RDMA device"},
    {"gid-none",
     [](PlantedHost& host) {
       host.no_rails = {"rocep1s0f0:1"};
       host.remove(host.port("rocep1s0f0") + "gids");
       host.remove(host.port("rocep1s0f0") + "gid_attrs");
     },
     "its GID table is empty"},
    {"gid-old-type",
     [](PlantedHost& host) {
       host.no_rails = {"rocep1s0f0:1"};
       host.write(host.port("rocep1s0f0") + "gid_attrs/types/1", "IB/RoCE v1");
     },
     "None of the port's 2 GIDs has the type RoCE v2; the first has the type IB/RoCE v1"},
    {"nccl-too-old",
     [](PlantedHost& host) {
       host.remove("usr/local/lib/python3.12/dist-packages/nvidia");
       host.write("opt/nccl/libnccl.so.2", "NCCL version 2.10.3+cuda11.4");
     },
     "2.10.3 (found by ld.so.cache)"},
    {"nccl-hangs",
     [](PlantedHost& host) {
       host.write("processor", "aarch64");
       host.remove("etc/ld.so.cache");
       host.write(std::string(kWheel) + "libnccl.so.2", "NCCL version 2.28.9+cuda13.0");
     },
     "2.28.9 (found by torch) can hang"},
    {"two-nccl",
     [](PlantedHost& host) { host.write("opt/nccl/libnccl.so.2", "NCCL version 2.27.3+cuda12.8"); },
     "2.27.3 (found by ld.so.cache), and /usr/local/lib/python3.12"},
    {"two-nccl",
     [](PlantedHost& host) {
       host.write("opt/old/libnccl.so.2", "NCCL version 2.30.1+cuda13.0");
       host.environment["LD_LIBRARY_PATH"] = "/nowhere:/opt/old";
     },
     "2.30.1 (found by LD_LIBRARY_PATH)"},
    {"plugin-missing",
     [](PlantedHost& host) { host.environment["NCCL_NET_PLUGIN"] = "/gone/libnccl-net-mesh.so"; },
     "the loader does not find it"},
    {"plugin-not-chosen", [](PlantedHost& host) { host.environment.erase("NCCL_NET_PLUGIN"); },
     "A job started from here runs without nccl-mesh, and NCCL says nothing"},
    {"plugin-off", [](PlantedHost& host) { host.environment["NCCL_NET_PLUGIN"] = "none"; },
     "keeps NCCL from loading any plugin"},
    {"plugin-off", [](PlantedHost& host) { host.environment["NCCL_NET_PLUGIN"] = ""; },
     "NCCL_NET_PLUGIN= (from the environment) keeps NCCL from loading any plugin: NCCL 2.27"},
    {"plugin-off",
     [](PlantedHost& host) {
       host.environment.erase("NCCL_NET_PLUGIN");
       host.write("etc/nccl.conf", "NCCL_NET_PLUGIN=");
       host.write("usr/lib/libnccl-net.so", "NET/Mesh : %s");
     },
     "NCCL_NET_PLUGIN= (from /etc/nccl.conf)"},
    {"plugin-off", [](PlantedHost& host) { host.environment["NCCL_NET_PLUGIN"] = ","; },
     "takes a list without a name for none"},
    {"plugin-not-chosen",
     [](PlantedHost& host) {
       host.environment["NCCL_NET_PLUGIN"] = "";
       plant_old_nccl(host);
     },
     "NCCL_NET_PLUGIN is empty, which this NCCL takes for not set, in the environment"},
    {"foreign-plugin",
     [](PlantedHost& host) {
       host.environment["NCCL_NET_PLUGIN"] = "";
       host.write("usr/lib/libnccl-net.so", "NET/IBext");
       plant_old_nccl(host);
     },
     "NCCL_NET_PLUGIN is empty"},
    {"foreign-plugin",
     [](PlantedHost& host) {
       host.environment.erase("NCCL_NET_PLUGIN");
       host.write("usr/lib/libnccl-net.so", "NET/IBext");
     },
     "NCCL_NET_PLUGIN is not set (found by the loader's own folders)"},
    {"foreign-plugin",
     [](PlantedHost& host) {
       host.environment["NCCL_NET_PLUGIN"] = "aws-ofi";
       host.write("usr/lib/libnccl-net-aws-ofi.so", "NET/OFI");
     },
     "NCCL_NET_PLUGIN=aws-ofi in the environment"},
    {"other-net", [](PlantedHost& host) { host.environment["NCCL_NET"] = "IB"; },
     "NCCL_NET=IB (from the environment)"},
    {"other-net", [](PlantedHost& host) { host.environment["NCCL_NET"] = ""; },
     "NCCL_NET= (from the environment) is the name of no network, so NCCL fails at the start"},
    {"other-net",
     [](PlantedHost& host) {
       host.environment["NCCL_NET"] = "";  // the file does not count
       host.write("etc/nccl.conf", "NCCL_NET=Mesh");
     },
     "NCCL_NET= (from the environment)"},
    {"other-net",
     [](PlantedHost& host) { host.write("home/u/.nccl.conf", "# old\nNCCL_NET=Socket"); },
     "NCCL_NET=Socket (from /home/u/.nccl.conf)"},
    {"hca-names-none", [](PlantedHost& host) { host.environment["NCCL_IB_HCA"] = "mlx5"; },
     "selects none of this host's ports: roceP2p1s0f0:1"},
    {"interface-names-none",
     [](PlantedHost& host) { host.environment["NCCL_SOCKET_IFNAME"] = "bond0"; },
     "NCCL_SOCKET_IFNAME=bond0"},
    {"setting-unknown", [](PlantedHost& host) { host.environment["NCCL_MESH_RELAYS"] = "1"; },
     "NCCL_MESH_RELAYS=1"},
    {"setting-idle", [](PlantedHost& host) { host.environment["NCCL_IB_DISABLE"] = "1"; },
     "has no effect with nccl-mesh"},
    {"conf-leftover",
     [](PlantedHost& host) { host.write("etc/nccl.conf", "NCCL_IB_HCA=rocep1s0f0"); },
     "This file sets NCCL_IB_HCA=rocep1s0f0 for every job"},
    {"gid-pinned", [](PlantedHost& host) { host.environment["NCCL_IB_GID_INDEX"] = "0"; },
     "names a GID of type IB/RoCE v1"},
};

// Faults of the machine, not of its cards.
const std::vector<Plant> kMachinePlants{
    {"mtu-small",
     [](PlantedHost& host) {
       host.rail_mtu = 1024;
       for (const char* const name : {"enp1s0f0", "enp1s0f1", "enP2p1s0f0", "enP2p1s0f1"})
         host.write(std::string("sys/class/net/") + name + "/mtu", "1500");
     },
     "is 1500, so RDMA packets carry 1024 bytes instead of 4096"},
    {"mtu-not-taken", [](PlantedHost& host) { host.rail_mtu = 1024; },
     "is 9000, which allows 4096 bytes"},
    {"same-subnet",
     [](PlantedHost& host) {
       host.addresses["rocep1s0f0:1"] = "10.0.9.1/24";
       host.addresses["rocep1s0f1:1"] = "10.0.9.2/24";
     },
     "rocep1s0f0:1 (10.0.9.1/24), rocep1s0f1:1 (10.0.9.2/24)"},
    {"traffic-class-slow",
     [](PlantedHost& host) {
       host.write("traffic_classes/enp1s0f0", "3 10000");
       host.environment["NCCL_IB_SL"] = "3";
     },
     "have priority 3 and traffic class 3, which this port limits to 10 of its 200 Gb/s"},
    {"port-slow",
     [](PlantedHost& host) {
       host.write(host.port("rocep1s0f0") + "link_layer", "InfiniBand");
       host.write(host.port("rocep1s0f0") + "rate", "50 Gb/sec (1X HDR)");
     },
     "runs at 50 Gb/s; the port supports 200 Gb/s"},
    {"memlock-small",
     [](PlantedHost& host) {
       host.write(kLimits, "Max locked memory         65536                65536      bytes");
     },
     "may lock 64 KiB"},
    {"no-contiguous-memory",
     [](PlantedHost& host) {
       host.write("proc/sys/kernel/osrelease", "7.0.0-31-generic");
       host.write("proc/meminfo",
                  "MemTotal: 127535104 kB\nCmaTotal: 32768 kB\nCmaFree: 9784320 kB");
     },
     "CmaFree (9784320 kB) is above CmaTotal (32768 kB) on kernel 7.0.0-31-generic"},
    {"no-contiguous-memory",
     [](PlantedHost& host) {
       host.write("proc/meminfo", "MemTotal: 127535104 kB\nCmaTotal: 0 kB\nCmaFree: 9784320 kB");
     },
     "CmaFree (9784320 kB) is above CmaTotal (0 kB)"},
    {"huge-pages-idle",
     [](PlantedHost& host) {
       host.write("proc/meminfo",
                  "MemTotal:       125000000 kB\nHugePages_Total:   40000\nHugePages_Free:    "
                  "40000\nHugepagesize:       2048 kB");
     },
     "80000 of 122070 MiB of memory are reserved"},
    {"no-gpu-memory", [](PlantedHost& host) { host.plant_gpu(); }, "Loaded modules: none"},
    {"iommu-translates",
     [](PlantedHost& host) {
       host.plant_gpu();
       host.pointers = 7;
       host.write(PlantedHost::function("0000:01:00.0") + "iommu_group/type", "DMA-FQ");
     },
     "has the type DMA-FQ"},
    {"acs-redirects",
     [](PlantedHost& host) {
       host.plant_gpu();
       host.pointers = 7;
       std::string config(4096, '\0');
       config[256] = 0x01;  // error reporting; the next capability is at 0x140
       config[259] = 0x14;
       config[0x140] = 0x0d;
       config[0x146] = 0x1d;
       const std::string bridge = "sys/devices/pci0000:40/0000:40:01.0/";
       for (const char* const place :
            {"0000:40:01.0", "0000:40:01.0/0000:42:00.0", "0000:40:01.0/0000:43:00.0"}) {
         const std::string path = place;
         host.link("sys/bus/pci/devices/" + path.substr(path.rfind('/') + 1),
                   "../../../devices/pci0000:40/" + path);
       }
       host.write(bridge + "class", "0x060400");
       host.write(bridge + "config", config);
       host.write(bridge + "0000:42:00.0/class", "0x030200");
       host.write(bridge + "0000:42:00.0/vendor", "0x10de");
       host.write(bridge + "0000:43:00.0/class", "0x020000");
     },
     "on 1 bridges"},
};

std::vector<Plant> all_plants() {
  std::vector<Plant> all = kPlants;
  all.insert(all.end(), kMachinePlants.begin(), kMachinePlants.end());
  return all;
}

TEST(DoctorLocal, AHealthyHostHasNoFinding) {
  const PlantedHost host;
  const HostFacts facts = host.facts();
  EXPECT_EQ(names_of(check_host(facts)), Names{});
  ASSERT_EQ(facts.ports.size(), 4u);
  EXPECT_EQ(facts.ports[0].name, "roceP2p1s0f0:1");
  EXPECT_EQ(facts.ports[0].other_half, "rocep1s0f0:1");
  EXPECT_EQ(facts.ports[0].netdev_mtu, 9000);
  ASSERT_EQ(facts.ports[0].gids.size(), 2u);
  EXPECT_EQ(facts.pcie.size(), 4u);
  ASSERT_EQ(facts.software.nccl.size(), 2u);
  EXPECT_EQ(facts.software.nccl[1].version, "2.29.7");
}

// Without CMA memory a DGX Spark is healthy: so it is after kho=off.
TEST(DoctorLocal, OnlyCmaMemoryThatIsNotCountedIsAFault) {
  for (const char* const counts :
       {"CmaTotal: 0 kB\nCmaFree: 0 kB", "CmaTotal: 32768 kB\nCmaFree: 32768 kB",
        "CmaTotal: 32768 kB\nCmaFree: 98304 kB", "CmaFree: 9784320 kB"}) {
    PlantedHost host;
    host.write("sys/class/dmi/id/product_name", "NVIDIA_DGX_Spark");
    host.write("proc/meminfo", std::string("MemTotal: 127535104 kB\n") + counts);
    host.write("proc/cmdline", "ro quiet kho=off");
    EXPECT_EQ(names_of(check_host(host.facts())), Names{}) << counts;
  }
}

// A limit of another class, or one above the port's rate, harms no job.
TEST(DoctorLocal, OnlyTheLimitOfAJobsOwnClassCounts) {
  PlantedHost host;
  host.write("traffic_classes/enp1s0f0", "3 10000\n0 200000");
  EXPECT_EQ(names_of(check_host(host.facts())), Names{});
  HostFacts facts = host.facts();
  for (PortFacts& port : facts.ports) port.classes.priority_of_dscp = {{0, 0}, {26, 3}};
  EXPECT_EQ(names_of(check_host(facts)), Names{});
  facts.software.settings.push_back({"NCCL_IB_TC", "106", "the environment"});  // DSCP 26
  EXPECT_EQ(names_of(check_host(facts)), Names{"traffic-class-slow"});
}

// NCCL takes the value of an empty variable from no file, and so does the doctor.
TEST(DoctorLocal, AnEmptyVariableIsAsUnsetWhereNcclTakesItSo) {
  PlantedHost host;
  host.environment["NCCL_IB_HCA"] = "";
  host.environment["NCCL_SOCKET_IFNAME"] = "";
  host.environment["NCCL_IB_DISABLE"] = "";
  host.write("etc/nccl.conf", "NCCL_IB_HCA=mlx5\nNCCL_SOCKET_IFNAME=bond0");
  EXPECT_EQ(names_of(check_host(host.facts())), Names{});
  plant_old_nccl(host);
  host.environment["NCCL_NET_PLUGIN"] = "";
  host.write("usr/lib/libnccl-net.so", "NET/Mesh : %s");
  EXPECT_EQ(host.facts().software.plugins.size(), 1u);
}

// The plugin stops before it looks for devices: that it names none says nothing of libibverbs.
TEST(DoctorLocal, AWrongInterfaceHidesNoDevice) {
  PlantedHost host;
  host.environment["NCCL_SOCKET_IFNAME"] = "bond0";
  HostFacts facts = host.facts();
  facts.rails.clear();
  facts.plugin_error = "it does not start: no interface is up that fits NCCL_SOCKET_IFNAME=bond0";
  EXPECT_EQ(names_of(check_host(facts)), Names{"interface-names-none"});
  facts.plugin_error = "it does not start: NCCL_MESH_QPS: '99' is not usable";
  EXPECT_EQ(names_of(check_host(facts)), (Names{"interface-names-none", "no-plugin"}));
}

TEST(DoctorLocal, APortThatTheUserLeavesOutNeedsNoProvider) {
  PlantedHost host;
  host.unseen = {"roceP2p1s0f1:1"};
  host.environment["NCCL_IB_HCA"] = "=rocep1s0f0,rocep1s0f1,roceP2p1s0f0";
  EXPECT_EQ(names_of(check_host(host.facts())), Names{"half-unused"});
}

TEST(DoctorLocal, PortsThatTheUserLeavesOutNeedNoGids) {
  PlantedHost host;
  host.no_rails = {"rocep1s0f0:1", "roceP2p1s0f0:1"};
  for (const char* const device : {"rocep1s0f0", "roceP2p1s0f0"}) {
    host.write(host.port(device) + "gid_attrs/types/1", "IB/RoCE v1");
  }
  HostFacts facts = host.facts();
  for (RefusalFacts& each : facts.refused) each.kind = RefusalKind::LeftOut;
  EXPECT_EQ(names_of(check_host(facts)), Names{});
}

struct Harmless {
  const char* what;
  void (*plant)(PlantedHost& host);
};

TEST(DoctorLocal, WhatHarmsNoJobIsNoFinding) {
  for (const Harmless& each : {
           Harmless{"an iWARP port without RoCE's GIDs",
                    [](PlantedHost& host) {
                      const std::string folder = "sys/class/infiniband/irdma0/";
                      host.write(folder + "node_type", "4: RNIC");
                      host.write(folder + "ports/1/state", "4: ACTIVE");
                      host.write(folder + "ports/1/link_layer", "Ethernet");
                      host.write(folder + "ports/1/gids/0",
                                 "0202:c9ff:fe00:0001:0000:0000:0000:0000");
                      host.write(folder + "ports/1/gid_attrs/types/0", "IB/RoCE v1");
                    }},
           Harmless{"ports of one subnet that answer each for itself",
                    [](PlantedHost& host) {
                      for (auto& [port, address] : host.addresses) address = "10.0.9.1/24";
                      host.write("proc/sys/net/ipv4/conf/all/arp_ignore", "1");
                    }},
           Harmless{"a virtual function without a device",
                    [](PlantedHost& host) {
                      const std::string function = PlantedHost::function("0003:01:00.0");
                      host.write(function + "class", "0x020000");
                      host.write(function + "vendor", "0x15b3");
                      host.write(function + "physfn/vendor", "0x15b3");
                      host.link("sys/bus/pci/devices/0003:01:00.0", "../../../../" + function);
                    }},
           Harmless{"an old GID type that the user wants",
                    [](PlantedHost& host) {
                      for (const auto& [port, address] : host.addresses)
                        host.write(host.port(port.substr(0, port.find(':'))) + "gid_attrs/types/1",
                                   "IB/RoCE v1");
                      host.environment["NCCL_IB_ROCE_VERSION_NUM"] = "1";
                      host.environment["NCCL_IB_GID_INDEX"] = "0";
                    }},
           Harmless{"a small limit for a user who may lock all memory",
                    [](PlantedHost& host) {
                      host.write(kLimits,
                                 "Max locked memory         65536                65536      bytes");
                      host.write("proc/self/status", "CapEff:\t0000000000004000");
                    }},
           Harmless{"a Spark's GPU without peer memory",
                    [](PlantedHost& host) {
                      host.plant_gpu();
                      host.write("sys/class/dmi/id/product_name", "NVIDIA DGX Spark");
                    }},
       }) {
    PlantedHost host;
    each.plant(host);
    EXPECT_EQ(names_of(check_host(host.facts())), Names{}) << each.what;
  }
}

TEST(DoctorLocal, EachPlantedFaultIsNamedAndNoOther) {
  for (const Plant& plant : all_plants()) {
    PlantedHost host;
    plant.spoil(host);
    const std::vector<Finding> found = check_host(host.facts());
    const std::set<std::string> names = [&found] {
      const Names all = names_of(found);
      return std::set<std::string>(all.begin(), all.end());
    }();
    EXPECT_EQ(names, std::set<std::string>{plant.finding}) << plant.evidence;
    if (found.empty()) continue;
    EXPECT_NE(found.front().evidence.find(plant.evidence), std::string::npos)
        << plant.finding << ": " << found.front().evidence;
    EXPECT_FALSE(found.front().remedy.empty()) << plant.finding;
  }
}

// Findings with a test of their own are in doctor_facts_test.cc and doctor_cards_test.cc.
TEST(DoctorLocal, EachKindOfOneHostIsPlanted) {
  std::set<std::string> planted{"card-silent", "no-plugin", "no-rail", "errors-move",
                                "plugin-other-version"};
  for (const Plant& plant : all_plants()) planted.insert(plant.finding);
  for (const FindingKind& kind : finding_kinds()) {
    if (std::string(kind.name) == "host-missing") break;  // the first between hosts
    EXPECT_TRUE(planted.contains(kind.name)) << kind.name;
  }
}

}  // namespace
}  // namespace mesh::doctor
