// mesh_handoff measures the latency of 8 bytes with a dedicated poller, with callers that turn the
// loop, and with the rule of NCCL_MESH_THREADS=auto. All run in one process and in turns, so that a
// disturbance hits all of them.
#include "perf/driver/command_line.h"
#include "perf/handoff/ping_pong.h"
#include "perf/mesh_tune/sweep.h"
#include "perf/results/result.h"
#include "src/base/log.h"
#include "src/base/setting_grammar.h"
#include "src/topo/host_topology.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace mesh::perf {
namespace {

struct Mode {
  const char* name;
  int threads;
};
constexpr std::array<Mode, 3> kModes{
    {{"dedicated poller", 1}, {"callers turn", 0}, {"default (auto)", kAuto}}};
constexpr std::size_t kDefault = 2;
constexpr double kBar = 1.10;
constexpr int kMissed = 3;  // exit status

struct Options {
  int rounds = 15;
  std::size_t exchanges = 3000;
  std::size_t bytes = 8;
  std::string cpus, json_file;
  bool check = false;
  std::vector<std::string> arguments;
};

struct Figures {
  std::vector<double> medians;  // of each round, ns
  std::vector<double> samples;  // of all
};

soft::FabricFile own_fabric() {
  const std::string text = fmt::format(R"({{"name": "handoff-{}",
    "hosts": [{{"name": "a", "nics": [{{"name": "mesh0", "address": "10.0.12.1/24"}}]}},
              {{"name": "b", "nics": [{{"name": "mesh0", "address": "10.0.12.2/24"}}]}}],
    "links": [{{"ends": ["a/mesh0", "b/mesh0"]}}]}})",
                                       ::getpid());
  return soft::parse(text).value();
}

bool run_block(const Options& options, const Mode& mode, Figures& figures) {
  std::string why;
  const auto ping_pong = HandoffPair::open(
      own_fabric(), {.threads = mode.threads, .cpus = options.cpus, .bytes = options.bytes}, why);
  std::vector<double> samples;
  if (ping_pong != nullptr && !ping_pong->run(options.exchanges / 10 + 1, why).empty())  // warm
    samples = ping_pong->run(options.exchanges, why);
  if (samples.empty()) {
    std::fprintf(stderr, "mesh_handoff: %s: %s\n", mode.name, why.c_str());
    return false;
  }
  figures.medians.push_back(tune::median(samples));
  figures.samples.insert(figures.samples.end(), samples.begin(), samples.end());
  return true;
}

bool run_all(const Options& options, std::array<Figures, kModes.size()>& figures) {
  for (int round = 0; round < options.rounds; ++round) {
    if (::isatty(STDERR_FILENO) != 0)
      std::fprintf(stderr, "\r# round %d of %d ...\033[K\r", round + 1, options.rounds);
    // The order differs in each round, so that it does not decide.
    for (std::size_t i = 0; i < kModes.size(); ++i) {
      const std::size_t mode = (i + static_cast<std::size_t>(round)) % kModes.size();
      if (!run_block(options, kModes[mode], figures[mode])) return false;
    }
  }
  return true;
}

void print_open_questions(int cores) {
  std::printf("#\n# %d usable core(s) carry both hosts here", cores);
  if (cores >= 8) {
    std::printf(": each poller and caller can have a core of its own.\n");
    return;
  }
  std::printf(
      ", each with a caller and, in the first row, a poller. What they cannot show, and what\n"
      "# therefore stays open: a poller on a core of its own beside its NIC, what a hand-off "
      "between two cores costs then, and\n"
      "# from how many cores on a poller pays; auto's rule there (one poller from 8 usable cores "
      "on) is not measured here.\n");
}

// Returns the ratio of the default to the better of the two other modes.
double print_table(const Options& options, const std::array<Figures, kModes.size()>& figures) {
  const topo::HostTopology host = topo::read_host_topology();
  std::printf(
      "# mesh_handoff: %zu-byte messages back and forth, software fabric, real time, both hosts in "
      "one process\n",
      options.bytes);
  std::printf("# %d rounds of %zu exchanges each, in turns; one-way time in us\n#\n",
              options.rounds, options.exchanges);
  std::printf("# %-18s %10s %10s %10s %10s\n", "", "median", "q1 rounds", "q3 rounds", "p99");
  for (std::size_t i = 0; i < kModes.size(); ++i) {
    const Figures& of = figures[i];
    std::printf("  %-18s %10.3f %10.3f %10.3f %10.3f\n", kModes[i].name,
                tune::median(of.medians) / 1e3, tune::quantile(of.medians, 0.25) / 1e3,
                tune::quantile(of.medians, 0.75) / 1e3, tune::quantile(of.samples, 0.99) / 1e3);
  }
  std::printf("#\n# ratios, round by round      median         q1         q3\n");
  const auto show = [&](std::size_t a, std::size_t b) {
    const tune::Comparison ratio = tune::compare(figures[a].medians, figures[b].medians);
    std::printf("  %-14.14s / %-10.10s %10.3f %10.3f %10.3f\n", kModes[a].name, kModes[b].name,
                ratio.ratio, ratio.low, ratio.high);
    return ratio.ratio;
  };
  show(0, 1);
  const double to_poller = show(kDefault, 0);
  const double to_callers = show(kDefault, 1);
  const double worst = std::max(to_poller, to_callers);
  std::printf("# the default takes %.3f times the better of the two (bar %.2f)\n", worst, kBar);
  print_open_questions(host.usable_cores());
  return worst;
}

bool write_json(const Options& options, const std::array<Figures, kModes.size()>& figures) {
  results::File file;
  file.kind = results::Kind::Soft;
  file.label = "software fabric, both hosts in one process, not RDMA";
  file.tool = "mesh_handoff";
  file.arguments = options.arguments;
  file.place = results::this_place();
  for (std::size_t i = 0; i < kModes.size(); ++i) {
    results::Series series;
    series.operation = fmt::format("latency, {}", kModes[i].name);
    results::Point point;
    point.bytes = options.bytes;
    point.iterations = figures[i].samples.size();
    const auto at = [&](double share) { return tune::quantile(figures[i].samples, share) / 1e3; };
    point.latency_us =
        results::Latency{at(0), at(0.5), at(0.99), at(0.999), figures[i].samples.size()};
    point.extra["median_of_rounds_us"] = tune::median(figures[i].medians) / 1e3;
    series.points.push_back(point);
    file.series.push_back(series);
  }
  std::string why;
  if (results::write_file(options.json_file, file, why)) return true;
  std::fprintf(stderr, "mesh_handoff: %s\n", why.c_str());
  return false;
}

// Returns the mistake in --cpus; empty if there is none.
std::string mistake_in_cpus(const std::string& cpus) {
  if (cpus.empty()) return {};
  const std::vector<int> usable = topo::read_host_topology().allowed_on(-1);
  const std::optional<std::vector<int>> named = read_cpu_list(cpus);
  const auto may = [&usable](int cpu) {
    return std::find(usable.begin(), usable.end(), cpu) != usable.end();
  };
  if (named && std::all_of(named->begin(), named->end(), may)) return {};
  return "--cpus: " + driver::not_usable(
                          cpus, fmt::format("a list such as 2,4-7 of {}", fmt::join(usable, ", ")));
}

int run(const Options& options) {
  set_log_level(LogLevel::Warn);
  std::array<Figures, kModes.size()> figures;
  if (!run_all(options, figures)) return 1;
  const double ratio = print_table(options, figures);
  if (!options.json_file.empty() && !write_json(options, figures)) return 1;
  return options.check && ratio > kBar ? kMissed : 0;
}

}  // namespace
}  // namespace mesh::perf

int main(int argc, char** argv) {
  mesh::perf::Options options;
  CLI::App app(
      "Measures the latency of small messages with a dedicated poller, with callers that turn the "
      "loop, and with the default,\nover the software fabric in one process. With --check a "
      "default that "
      "is more than 10 % slower\nthan the better of the two is a bad result.",
      "mesh_handoff");
  app.add_option("--rounds", options.rounds, "Rounds, each with a block of every mode")
      ->check(mesh::driver::in_range(1, 1000))
      ->capture_default_str();
  app.add_option("--exchanges", options.exchanges, "Exchanges in a block")
      ->check(mesh::driver::in_range(10, 1000000))
      ->capture_default_str();
  app.add_option("-b,--bytes", options.bytes, "Bytes of a message")
      ->transform(mesh::driver::size_in(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--cpus", options.cpus, "CPUs of the pollers, as NCCL_MESH_CPUS has them");
  app.add_option("--json", options.json_file, "Write the figures to this file too");
  app.add_flag("--check", options.check, "Fail if the default misses the bar");
  if (const auto end = mesh::driver::parse(app, argc, argv)) return *end;
  std::string why = mesh::driver::unwritable(options.json_file);
  if (why.empty()) why = mesh::perf::mistake_in_cpus(options.cpus);
  if (!why.empty())
    return std::fprintf(stderr, "mesh_handoff: %s\n", why.c_str()), mesh::driver::kUsage;
  options.arguments.assign(argv + 1, argv + argc);
  return mesh::perf::run(options);
}
