#include "tests/e2e/scenario.h"

#include "perf/driver/plugin_log.h"
#include "perf/driver/soft_fabric.h"
#include "perf/driver/world.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/memory_mode.h"
#include "tests/e2e/middle_hosts.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

// The words that the fabric prints at finalize if a receiver was not ready even once: a mistake in
// the plugin's protocol.
constexpr const char* kNotReady = "receiver-not-ready";
constexpr std::size_t kNowhere = std::string::npos;
constexpr std::chrono::minutes kJoinTime{2};

std::vector<const Scenario*>& scenarios() {
  static std::vector<const Scenario*> known;
  return known;
}

std::string dump(const std::vector<RankEnd>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::string how = ranks[i].finished ? ranks[i].end.text() : "not done in time";
    text += "---- rank " + std::to_string(i) + ": " + how + "\n" + ranks[i].output;
  }
  return text;
}

// Runs the scenario on ranks 0 and 1; the hosts between them stand by.
void run_over_middle_hosts(const Scenario& scenario, Peer& everybody) {
  MiddleHosts hosts(everybody, middle_hosts());
  if (hosts.ends()) {
    Peer peer(std::move(*hosts.ends()), MESH_PLUGIN_FILE, everybody.argument());
    scenario.run(peer);
  }
  hosts.finish();
}

// The arguments are flag, scenario, rank, world, address, fd, argument.
int run_rank(char** argv) {
  const std::string name = argv[0];
  const int rank = std::atoi(argv[1]);
  const auto found = std::find_if(scenarios().begin(), scenarios().end(),
                                  [&](const Scenario* s) { return name == s->name; });
  if (found == scenarios().end()) return 3;
  choose_memory_of(rank);
  driver::PluginLog::instance().set_echo(driver::Echo::Everything, "");
  auto bootstrap = driver::Bootstrap::join(
      {rank, std::atoi(argv[2]), argv[3], std::atoi(argv[4]), scaled(kJoinTime)});
  if (!bootstrap.ok()) {
    std::fprintf(stderr, "bootstrap: %s\n", errc_name(bootstrap.code()));
    return 3;
  }
  Peer peer(std::move(*bootstrap), MESH_PLUGIN_FILE, argv[5]);
  try {
    if (middle_hosts() != 0) {
      run_over_middle_hosts(**found, peer);
    } else {
      (*found)->run(peer);
    }
  } catch (const Failure& failure) {
    std::fprintf(stderr, "FAILED in rank %d: %s\n", rank, failure.what());
    return 1;
  }
  return 0;
}

std::string file_text(const RunOptions& options) {
  std::stringstream text;
  text << std::ifstream(MESH_FABRIC_DIR "/" + options.fabric).rdbuf();
  return text.str();
}

std::string fabric_text(const RunOptions& options) {
  return options.fabric_text.empty() ? file_text(options) : options.fabric_text;
}

// Returns the fabric as this run's flags change it; empty if they do not fit this test.
std::string fabric_of_run(const RunOptions& options) {
  const std::string own = fabric_text(options);
  const std::string text =
      middle_hosts() == 0 ? own : fabric_with_middle_hosts(own, middle_hosts());
  return has_device_memory() && !text.empty() ? fabric_with_device_memory(text) : text;
}

void skip(const std::string& reason) { GTEST_SKIP() << reason; }

std::vector<RankEnd> run_between_hosts(Cluster& cluster, const Scenario& scenario,
                                       const RunOptions& options) {
  if (middle_hosts() != 0) skip("the hosts between are those of the software fabric");
  if (middle_hosts() != 0) return {};
  const auto wanted = Shape::of_fabric(fabric_text(options), options.hosts);
  if (!wanted.ok() || (!options.fabric_text.empty() && options.software_only.empty())) {
    ADD_FAILURE()
        << "no fabric, or one of its own without a reason why only the software fabric can be it";
    return {};
  }
  Placement placement = place(*wanted, cluster.shape());
  if (options.ranks_per_host != 1) placement = {{}, "a cluster has one rank on a host"};
  if (!options.software_only.empty())
    placement = {{}, "needs the software fabric: " + options.software_only};
  if (!placement.ranks.empty()) return cluster.run(scenario, options, placement.ranks);
  skip(placement.reason);
  return {};
}

}  // namespace

void require(bool condition, const std::string& what) {
  if (!condition) throw Failure(what);
}

void require_success(int result, const std::string& call) {
  require(result == driver::kNetSuccess, call + " answered " + driver::net_result_name(result));
}

void Peer::barrier() { require(bootstrap_.barrier().ok(), "a barrier was not reached by all"); }

std::vector<std::string> Peer::all_gather(const std::string& blob) {
  auto all = bootstrap_.all_gather(blob);
  require(all.ok(), "an exchange was not reached by all");
  return std::move(*all);
}

std::unique_ptr<driver::NetApi> Peer::load(int version) const {
  std::string error;
  auto api = driver::NetApi::load(plugin_, version, error);
  require(api != nullptr, error);
  return api;
}

Scenario::Scenario(const char* scenario_name, ScenarioFunction function)
    : name(scenario_name), run(function) {
  scenarios().push_back(this);
}

std::vector<RankEnd> run(const Scenario& scenario, const RunOptions& options) {
  if (current_cluster() != nullptr) return run_between_hosts(*current_cluster(), scenario, options);
  const std::string text = fabric_of_run(options);
  if (text.empty()) skip("no two hosts that other hosts could be put between");
  if (text.empty()) return {};
  auto fabric = driver::SoftFabric::make(text, options.hosts, options.ranks_per_host);
  auto rendezvous = driver::open_loopback_rendezvous();
  if (!fabric.ok() || !rendezvous.ok()) {
    ADD_FAILURE() << "no fabric or no rendezvous";
    return {};
  }
  driver::Launcher launcher;
  const std::size_t world = fabric->hosts().size();
  for (std::size_t rank = 0; rank < world; ++rank) {
    driver::ProcessSpec spec;
    const int fd = rank == 0 ? rendezvous->socket.get() : -1;
    spec.arguments = {
        driver::own_program(), kRankFlag,           scenario.name,      std::to_string(rank),
        std::to_string(world), rendezvous->address, std::to_string(fd), options.argument};
    spec.inherited_fd = fd;
    spec.environment = fabric->environment(rank);
    for (const auto& addition : options.environment) spec.environment.push_back(addition);
    spec.capture = true;
    EXPECT_TRUE(launcher.start(spec).ok());
  }
  rendezvous->socket.reset();
  launcher.wait({.timeout = scaled(options.timeout)});
  std::vector<RankEnd> ranks(launcher.count());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    ranks[i] = {launcher.end(i), !launcher.running(i), launcher.output(i)};
  return ranks;
}

std::string unbroken(const std::string& output) {
  std::string text, subject;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t plugin = line.find(" NET/Mesh : ");
    const std::size_t colon = plugin == std::string::npos ? plugin : line.find(": ", plugin + 12);
    const std::string own = colon == std::string::npos ? "" : line.substr(0, colon + 2);
    const bool goes_on = !own.empty() && own == subject;
    text += goes_on ? " " + line.substr(own.size()) : (text.empty() ? "" : "\n") + line;
    subject = own;
  }
  return text;
}

void expect_success(const std::vector<RankEnd>& ranks) {
  if (testing::Test::IsSkipped()) return;
  bool good = !ranks.empty();
  for (const RankEnd& rank : ranks)
    good = good && rank.finished && rank.end.success() && rank.output.find(kNotReady) == kNowhere;
  EXPECT_TRUE(good) << dump(ranks);
}

void expect_run(const Scenario& scenario, const RunOptions& options) {
  expect_success(run(scenario, options));
}

void expect_run_says(const Scenario& scenario, const RunOptions& options,
                     const std::string& sentence) {
  const std::vector<RankEnd> ranks = run(scenario, options);
  expect_success(ranks);
  if (testing::Test::IsSkipped()) return;
  const bool said = std::any_of(ranks.begin(), ranks.end(), [&](const RankEnd& rank) {
    return rank.output.find(sentence) != std::string::npos;
  });
  EXPECT_TRUE(said) << "nobody said \"" << sentence << "\"\n" << dump(ranks);
}

void report_figure(const std::string& name, double value) {
  std::printf("e2e: %s=%.9g\n", name.c_str(), value);
}

double figure(const RankEnd& rank, const std::string& name) {
  const std::string key = "e2e: " + name + "=";
  const std::size_t at = rank.output.find(key);
  return at == std::string::npos ? std::nan("")
                                 : std::strtod(rank.output.c_str() + at + key.size(), nullptr);
}

int scenario_main(int argc, char** argv) {
  if (argc == 8 && std::strcmp(argv[1], kRankFlag) == 0) return run_rank(argv + 2);
  if (!take_memory_mode(argc, argv) || !take_middle_hosts(argc, argv)) return 2;
  testing::InitGoogleTest(&argc, argv);
  std::string why;
  const auto world = driver::find_world({}, process_environment(), why);
  if (!world.ok()) std::fprintf(stderr, "e2e: %s\n", why.c_str());
  if (!world.ok()) return 1;
  const bool alone = world.value().rendezvous.empty() || GTEST_FLAG_GET(list_tests);
  return alone ? RUN_ALL_TESTS() : run_cluster_tests(world.value());
}

}  // namespace mesh::e2e

int main(int argc, char** argv) { return mesh::e2e::scenario_main(argc, argv); }
