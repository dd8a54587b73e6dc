// The files that NCCL_MESH_STATS names hold what a run of mesh_perf has really sent: read as
// strictly as Prometheus would, and compared with what the collective sends by its definition, on
// every rank.
#include "perf/driver/launcher.h"
#include "perf/driver/world.h"
#include "src/base/snapshot_json.h"
#include "tests/e2e/pace.h"
#include "tests/prelude.h"
#include "tests/unit/plugin/prometheus_text.h"

namespace mesh::e2e {
namespace {

using testkit::metric, testkit::MetricsPage;

constexpr int kChecks = 2, kWarmups = 3, kIterations = 20;
constexpr std::uint64_t kBytes = 6 << 17;  // divided by 2 and by 3

class Metrics : public testing::Test {
 protected:
  void SetUp() override {
    if (!driver::variable(process_environment(), "MESH_RENDEZVOUS").empty())
      GTEST_SKIP() << "starts the ranks of one machine";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Returns each host's last page, by host name.
  std::map<std::string, MetricsPage> all_reduce(const std::string& fabric) {
    return run_of("all_reduce", MESH_FABRIC_DIR "/" + fabric, "all");
  }
  // Returns false if a rank says that it could not wait for its last files.
  bool run_to_last_pages(const driver::ProcessSpec& spec) const {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    driver::Launcher launcher;
    EXPECT_TRUE(launcher.start(spec).ok());
    launcher.wait({.timeout = scaled(std::chrono::seconds(300))});
    EXPECT_TRUE(launcher.end(0).success()) << launcher.output(0);
    return launcher.output(0).find("its last page may be missing") == std::string::npos;
  }
  std::map<std::string, MetricsPage> run_of(const char* collective, const std::string& fabric,
                                            const char* rails) {
    driver::ProcessSpec spec;
    spec.arguments = {MESH_PERF_FILE, collective,
                      "--fabric",     fabric,
                      "-b",           std::to_string(kBytes),
                      "-e",           std::to_string(kBytes),
                      "-c",           std::to_string(kChecks),
                      "-w",           std::to_string(kWarmups),
                      "-n",           std::to_string(kIterations)};
    spec.environment = {{"NCCL_MESH_STATS", (folder_ / "%h-%p.prom").string() + ":1"},
                        {"NCCL_MESH_RAILS", rails}};
    spec.capture = true;
    for (int more = 4; !run_to_last_pages(spec) && more != 0; --more) continue;
    std::map<std::string, MetricsPage> pages;
    std::map<std::string, Snapshot> snapshots;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      const std::string host = name.substr(0, name.find('-'));
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      if (entry.path().extension() == ".json") {
        std::string why;
        const Result<Snapshot> snapshot = snapshot_from(text.str(), &why);
        EXPECT_TRUE(snapshot.ok()) << name << ": " << why;
        if (snapshot.ok()) snapshots[host] = *snapshot;
        continue;
      }
      EXPECT_EQ(entry.path().extension(), ".prom") << "half written: " << entry.path();
      EXPECT_TRUE(pages.emplace(host, testkit::parse_metrics(text.str())).second) << name;
    }
    EXPECT_EQ(snapshots.size(), pages.size()) << "one beside each page";
    for (const auto& [host, snapshot] : snapshots) expect_same(snapshot, pages.at(host));
    return pages;
  }

  // A page and the snapshot beside it are of one moment.
  static void expect_same(const Snapshot& shot, const MetricsPage& page) {
    SCOPED_TRACE(shot.engine.host);
    EXPECT_EQ(shot.start, "ok");
    EXPECT_FALSE(shot.process.running);
    EXPECT_EQ(metric(page, "mesh_page_time_seconds"), static_cast<double>(shot.process.now_s));
    for (const RailSnapshot& rail : shot.engine.rails)
      EXPECT_EQ(metric(page, "mesh_rail_up", {{"rail", rail.name}}), rail.active ? 1 : 0);
    for (const PeerSnapshot& peer : shot.engine.peers) {
      for (const PathSnapshot& path : peer.paths) {
        EXPECT_EQ(metric(page, "mesh_path_bytes_total",
                         {{"peer", peer.peer},
                          {"direction", peer.sends ? "send" : "receive"},
                          {"path", path.name}}),
                  static_cast<double>(path.counters.bytes_sent));
      }
    }
  }

  const std::filesystem::path folder_ =
      testing::TempDir() + "mesh-metrics-" + std::to_string(::getpid());
};

struct Ring {
  std::vector<std::string> hosts;
  std::size_t paths = 1;  // from each host to the next one
};

// Every rank of a ring sends 2 (n - 1) pieces of an n-th to the next rank, out of place and in
// place.
void expect_ring(const std::map<std::string, MetricsPage>& pages, const Ring& ring) {
  const std::size_t world = ring.hosts.size();
  const std::uint64_t runs = 2 * (kChecks + kWarmups + kIterations);
  const std::uint64_t piece = kBytes / world;
  const auto sent = static_cast<double>(runs * 2 * (world - 1) * piece);
  for (std::size_t rank = 0; rank < world; ++rank) {
    SCOPED_TRACE(ring.hosts[rank]);
    const std::string& next = ring.hosts[(rank + 1) % world];
    const MetricsPage& ours = pages.at(ring.hosts[rank]);
    const MetricsPage& theirs = pages.at(next);
    EXPECT_EQ(metric(ours, "mesh_running"), 0) << "the last page says that it is";
    EXPECT_EQ(metric(ours, "mesh_open_requests") + metric(ours, "mesh_registrations"), 0);
    EXPECT_EQ(metric(ours, "mesh_errors_total") + metric(ours, "mesh_revokes_total") +
                  metric(ours, "mesh_resumes_total"),
              0);
    const testkit::MetricLabels sends{{"peer", next}, {"direction", "send"}};
    const testkit::MetricLabels receives{{"peer", ring.hosts[rank]}, {"direction", "receive"}};
    EXPECT_EQ(metric(ours, "mesh_bytes_total", sends), sent);
    EXPECT_EQ(metric(theirs, "mesh_bytes_total", receives), sent);
    EXPECT_EQ(metric(ours, "mesh_messages_total", sends),
              metric(theirs, "mesh_messages_total", receives));
    EXPECT_EQ(metric(ours, "mesh_path_bytes_total", sends), sent)
        << "paths carry all of it, and once";
    EXPECT_EQ(metric(ours, "mesh_path_failures_total", sends), 0);
    std::size_t used = 0;
    for (const testkit::MetricSample& path : ours.at("mesh_path_bytes_total").samples) {
      if (path.labels.at("direction") == "send" && path.value > 0) ++used;
    }
    EXPECT_EQ(used, ring.paths);
  }
}

TEST_F(Metrics, ARingOfThreeHosts) {
  const auto pages = all_reduce("triangle.json");
  ASSERT_EQ(pages.size(), 3u);
  expect_ring(pages, {.hosts = {"a", "b", "c"}});
}

TEST_F(Metrics, TwoHostsOverTwoCables) {
  const auto pages = all_reduce("pair2.json");
  ASSERT_EQ(pages.size(), 2u);
  expect_ring(pages, {.hosts = {"a", "b"}, .paths = 2});
}

// On a line a - b - c, b counts what a and c send each other, and not a byte of anybody else's.
TEST_F(Metrics, AMiddleHostCountsWhatItCarriesAndTheEndsNameIt) {
  const auto pages = run_of("alltoall", MESH_FABRIC_DIR "/line3.json", "auto");
  ASSERT_EQ(pages.size(), 3u);
  const MetricsPage& middle = pages.at("b");
  for (const auto& [from, to] : {std::pair{"a", "c"}, std::pair{"c", "a"}}) {
    SCOPED_TRACE(from);
    const testkit::MetricLabels sends{{"peer", to}, {"direction", "send"}};
    const MetricsPage& sender = pages.at(from);
    EXPECT_EQ(metric(pages.at("a"), "mesh_path_route_info", {{"via", "b"}}),
              static_cast<double>(pages.at("a").at("mesh_path_route_info").samples.size()));
    const double sent = metric(sender, "mesh_bytes_total", sends);
    EXPECT_GT(sent, 0);
    const char* const rail = from == std::string("a") ? "mesh1:1" : "mesh0:1";  // towards c, or a
    const double carried = metric(middle, "mesh_relay_bytes_total", {{"rail", rail}});
    EXPECT_GE(carried, sent);
    EXPECT_LT(carried, 1.1 * sent) << "credits and windows of the way back";
    EXPECT_GT(metric(middle, "mesh_relay_work_requests_total", {{"rail", rail}}), 0);
    EXPECT_TRUE(sender.at("mesh_relay_bytes_total").samples.empty()) << "it carries nothing";
  }
  EXPECT_EQ(metric(middle, "mesh_relay_refused_total"), 0);
  EXPECT_TRUE(middle.at("mesh_path_route_info").samples.empty());
}

struct Samples {
  double all = 0, quick = 0;  // quick: within 20 ms
};
Samples samples_of(const MetricsPage& page, const std::string& peer) {
  const testkit::MetricLabels sends{{"peer", peer}};
  return {
      .all = metric(page, "mesh_path_latency_seconds_count", sends),
      .quick = metric(page, "mesh_path_latency_seconds_bucket", {{"peer", peer}, {"le", "0.02"}})};
}

// The cable between a and b delays all packets by 30 ms, so no sample over it can be quick. Over
// the others a machine that stands still for 20 ms makes some of them slow.
TEST_F(Metrics, ASlowCableShowsInTheLatencyOfItsPathAndOfNoOther) {
  const std::string fabric = folder_.string() + "-fabric.json";
  std::ostringstream text;
  text << std::ifstream(MESH_FABRIC_DIR "/triangle.json").rdbuf();
  const std::string cable = R"(["a/mesh0", "b/mesh0"])";
  std::string slow_text = text.str();
  slow_text.insert(slow_text.find(cable) + cable.size(), R"(, "delay_us": 30000)");
  std::ofstream(fabric) << slow_text;
  const auto pages = run_of("all_reduce", fabric, "auto");
  std::filesystem::remove(fabric);
  ASSERT_EQ(pages.size(), 3u);
  const Samples slow = samples_of(pages.at("a"), "b");
  EXPECT_GE(slow.all, 20);
  EXPECT_EQ(slow.quick, 0);
  for (const auto& [host, next] : {std::pair{"b", "c"}, std::pair{"c", "a"}}) {
    SCOPED_TRACE(host);
    const Samples others = samples_of(pages.at(host), next);
    EXPECT_GE(others.all, 20);
    EXPECT_GE(others.quick, 0.8 * others.all);
  }
}

}  // namespace
}  // namespace mesh::e2e
