// Facts that mesh_doctor reads and prints, beside the faults of doctor_local_test.cc.
#include "perf/mesh_doctor/checks.h"

#include "perf/mesh_doctor/libraries.h"
#include "perf/mesh_doctor/read_host.h"
#include "perf/mesh_doctor/report.h"
#include "tests/prelude.h"
#include "tests/unit/perf/planted_host.h"

#include <nlohmann/json.hpp>

namespace mesh::doctor {
namespace {

using Names = std::vector<std::string>;

TEST(DoctorFacts, TravelAsText) {
  const PlantedHost host;
  const HostFacts facts = host.facts();
  const auto back = facts_from(to_text(facts));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(to_text(*back), to_text(facts));
  EXPECT_EQ(facts_from("{}").code(), Errc::Protocol);
  EXPECT_EQ(facts_from("no JSON").code(), Errc::Protocol);
}

TEST(DoctorFacts, CountersThatMoveAreNamedWithBothValues) {
  const PlantedHost host;
  HostFacts facts = host.facts();
  const auto port = std::find_if(facts.ports.begin(), facts.ports.end(),
                                 [](const PortFacts& each) { return each.name == "rocep1s0f0:1"; });
  ASSERT_NE(port, facts.ports.end());
  host.write(host.port("rocep1s0f0") + "hw_counters/packet_seq_err", "12");
  port->counters_later = read_counters(Tree(host.root()), *port);
  const std::vector<Finding> found = check_host(facts);
  ASSERT_EQ(names_of(found), Names{"errors-move"});
  EXPECT_EQ(found[0].about, "rocep1s0f0:1");
  EXPECT_NE(found[0].evidence.find("packet_seq_err from 7 to 12"), std::string::npos);
}

TEST(DoctorFacts, APluginThatDoesNotLoadIsTheOnlyFinding) {
  const PlantedHost host;
  HostFacts facts = host.facts();
  facts.plugin_error = "cannot open shared object file";
  facts.rails.clear();
  EXPECT_EQ(names_of(check_host(facts)), Names{"no-plugin"});
}

TEST(DoctorFacts, WithoutARailThePluginsLineIsTheEvidence) {
  const PlantedHost host;
  host.remove_cards();
  HostFacts facts = host.facts();
  facts.notes = {"no usable rail on spark1 (fabric rdma): there is no device"};
  const std::vector<Finding> found = check_host(facts);
  ASSERT_EQ(names_of(found), Names{"no-rail"});
  EXPECT_EQ(found[0].evidence, facts.notes.front());
}

// The kernel's devices have their providers, so that none is blamed.
TEST(DoctorFacts, WithoutLibibverbsNothingElseIsBlamed) {
  const PlantedHost host;
  HostFacts facts = host.facts();
  facts.rails.clear();
  facts.no_rdma = "libibverbs.so.1 does not load";
  facts.notes = {"no RDMA: " + facts.no_rdma};
  const std::vector<Finding> found = check_host(facts);
  ASSERT_EQ(names_of(found), Names{"no-rail"});
  EXPECT_EQ(found[0].evidence, facts.notes.front());
  EXPECT_NE(found[0].remedy.find("Install rdma-core"), std::string::npos) << found[0].remedy;
  facts.no_rdma.clear();
  EXPECT_EQ(names_of(check_host(facts)).front(), "no-provider");
}

TEST(DoctorFacts, APluginOfAnotherVersionIsNamed) {
  const PlantedHost host;
  HostFacts facts = host.facts();
  facts.plugin_version = "0.0.1";
  EXPECT_EQ(names_of(check_host(facts)), Names{"plugin-other-version"});
}

TEST(DoctorFacts, TheReasonIsThePluginsOwn) {
  PlantedHost host;
  host.no_rails = {"roceP2p1s0f0:1"};
  HostFacts facts = host.facts();
  facts.refused = {{.port = "other:1", .kind = RefusalKind::Down, .reason = "is down"},
                   {.port = "roceP2p1s0f0:1",
                    .kind = RefusalKind::NoAddress,
                    .reason = "has no GID with an address"}};
  const std::vector<Finding> found = check_host(facts);
  ASSERT_EQ(names_of(found), Names{"half-unused"});
  EXPECT_NE(found[0].evidence.find("roceP2p1s0f0:1 has no GID with an address"), std::string::npos)
      << found[0].evidence;
}

TEST(DoctorFacts, AMachineWithASparksChipIsASparkWhateverItsMakerCallsIt) {
  const PlantedHost host;
  host.plant_gpu();
  host.write("sys/class/dmi/id/product_name", "GX10");
  host.write(PlantedHost::function("0000:41:00.0") + "device", "0x2e12");
  EXPECT_EQ(names_of(check_host(host.facts())), Names{});
  host.write(PlantedHost::function("0000:41:00.0") + "device", "0x2e40");
  EXPECT_EQ(names_of(check_host(host.facts())), Names{"no-gpu-memory"});
}

TEST(DoctorLoader, TheCacheIsReadAsTheLoaderDoes) {
  const PlantedHost host;
  const Tree tree(host.root());
  const std::string cache = loader_cache("libnccl.so.2", "/opt/nccl/libnccl.so.2");
  EXPECT_EQ(find_in_cache(tree, cache, "libnccl.so.2"), "/opt/nccl/libnccl.so.2");
  EXPECT_EQ(find_in_cache(tree, cache, "libnccl.so"), "");
  EXPECT_EQ(find_in_cache(tree, "an older cache" + cache, "libnccl.so.2"),
            "/opt/nccl/libnccl.so.2");
  const std::string gone = loader_cache("libnccl.so.2", "/gone/libnccl.so.2");
  EXPECT_EQ(find_in_cache(tree, gone, "libnccl.so.2"), "");
  for (std::size_t bytes = 0; bytes < cache.size(); ++bytes)
    (void)find_in_cache(tree, cache.substr(0, bytes), "libnccl.so.2");  // reads no further
}

TEST(DoctorLoader, AnEnvironmentOfPythonHidesThatOfTheHost) {
  PlantedHost host;
  host.write("home/u/venv/pyvenv.cfg", "home = /usr/bin");
  host.write("home/u/venv/lib/python3.12/site-packages/torch/__init__.py", "");
  host.link("home/u/venv/bin/python3", "../../../../usr/bin/python3.12");
  host.environment["PATH"] = "/home/u/venv/bin:/usr/bin";
  EXPECT_EQ(python_folders(Tree(host.root()), host.environment),
            Names{"/home/u/venv/lib/python3.12/site-packages"});
}

TEST(DoctorSettings, TheEnvironmentGoesBeforeFilesAndTheUsersBeforeTheHosts) {
  PlantedHost host;
  host.environment["NCCL_ALGO"] = "Ring";
  host.write("home/u/.nccl.conf", "NCCL_ALGO=Tree\nNCCL_PROTO=LL");
  host.write("etc/nccl.conf", "NCCL_PROTO=Simple\n#NCCL_NET=IB\nNCCL_DEBUG=INFO");
  const Environment whole = with_conf_files(Tree(host.root()), host.environment);
  EXPECT_EQ(whole.at("NCCL_ALGO"), "Ring");
  EXPECT_EQ(whole.at("NCCL_PROTO"), "LL");
  EXPECT_EQ(whole.at("NCCL_DEBUG"), "INFO");
  EXPECT_FALSE(whole.contains("NCCL_NET"));
  EXPECT_EQ(names_of(check_host(host.facts())), Names{});
}

TEST(DoctorReport, TheExitStatusIsTheWorstFinding) {
  Report report;
  report.hosts.resize(1);
  EXPECT_EQ(exit_status(report), kHealthy);
  EXPECT_NE(text(report).find("healthy: nothing wrong was found on 1 host\n"), std::string::npos);
  report.findings.push_back(
      finding("mtu-small", "a", {.about = "x", .evidence = "e", .remedy = "r"}));
  EXPECT_EQ(exit_status(report), kWarnings);
  report.findings.push_back(finding("no-rail", "b", {.about = "", .evidence = "f", .remedy = "s"}));
  EXPECT_EQ(exit_status(report), kBroken);
  const std::string all = text(report);
  EXPECT_NE(all.find("BROKEN  no-rail: b\n  f\n  Remedy: s\n"), std::string::npos) << all;
  EXPECT_NE(all.find("WARNING mtu-small: a, x\n"), std::string::npos) << all;
  EXPECT_LT(all.find("BROKEN"), all.find("WARNING"));
  EXPECT_NE(all.find("1 broken, 1 warning on 1 host\n"), std::string::npos) << all;
}

TEST(DoctorReport, WhatOnlyRootSeesIsSaid) {
  const PlantedHost host;
  Report report{.hosts = {host.facts()}, .findings = {}, .sections = {}};
  EXPECT_EQ(text(report).find("only root can see"), std::string::npos);
  report.hosts[0].machine.acs_known = false;
  EXPECT_NE(text(report).find("only root can see"), std::string::npos);
}

TEST(DoctorReport, JsonHasFindingsAndFacts) {
  const PlantedHost host;
  Report report{.hosts = {host.facts()}, .findings = {}, .sections = {}};
  const auto root = nlohmann::json::parse(json(report, R"({"cables": []})"));
  EXPECT_EQ(root["verdict"], "healthy");
  EXPECT_EQ(root["hosts"][0]["rails"].size(), 4u);
  EXPECT_TRUE(root["cables"].is_array());
}

// "Bring a port up" helps nobody whose device has no memory or speaks another protocol.
TEST(DoctorFacts, WithoutARailTheRemedyFitsWhatTheDeviceSaid) {
  struct Case {
    RefusalKind kind;
    const char* remedy;
  };
  const std::vector<Case> cases{{RefusalKind::NoMemory, "ulimit -l"},
                                {RefusalKind::IWarp, "Switch the card to RoCE"},
                                {RefusalKind::Limited, "Use another card"},
                                {RefusalKind::NoPartition, "NCCL_IB_PKEY"},
                                {RefusalKind::NoAddress, "give it an address"},
                                {RefusalKind::Down, "Bring the port up"},
                                {RefusalKind::LeftOut, "NCCL_IB_HCA"},
                                {RefusalKind::Unusable, "dmesg"}};
  for (const Case& each : cases) {
    const PlantedHost host;
    host.remove_cards();
    HostFacts facts = host.facts();
    facts.refused = {{.port = "mlx5_0:1", .kind = each.kind, .reason = "says why"},
                     {.port = "mlx5_1:1", .kind = each.kind, .reason = "says why"}};
    facts.notes = {"no usable rail on spark1: mlx5_0:1 says why, mlx5_1:1 says why"};
    const std::vector<Finding> found = check_host(facts);
    ASSERT_EQ(names_of(found), Names{"no-rail"});
    EXPECT_EQ(found[0].evidence, facts.notes.front());
    EXPECT_NE(found[0].remedy.find(each.remedy), std::string::npos) << found[0].remedy;
    EXPECT_EQ(found[0].remedy, remedy_of(each.kind)) << "once";
    for (const Case& other : cases) {
      if (other.kind == each.kind) continue;
      EXPECT_NE(found[0].remedy, remedy_of(other.kind));
    }
  }
}

}  // namespace
}  // namespace mesh::doctor
