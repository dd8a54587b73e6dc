// mesh_scale measures what one process of a communicator of many hosts holds, and how long it takes
// to connect and to close.
#include "perf/driver/command_line.h"
#include "perf/mesh_scale/parts.h"
#include "perf/mesh_scale/report.h"
#include "tuning/derive.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <string>
#include <vector>

namespace mesh::scale {
namespace {

constexpr int kMissed = 3;  // exit status

struct Options {
  std::vector<std::size_t> peers{16, 64, 256, 1023};
  std::size_t at_once = Order{}.at_once, processes = Order{}.processes;
  bool as_json = false, parts = false, check = false, check_times = false;
};

// Returns nothing, after a line, if that fails.
std::vector<Figures> measured(const Order& order) {
  std::vector<Figures> figures;
  const std::string why = measure(order, figures);
  if (why.empty()) return figures;
  std::fprintf(stderr, "mesh_scale: %zu peers: %s\n", order.peers, why.c_str());
  return {};
}

// Measures a host of several processes beside one of them alone.
int run_host(const Options& options) {
  bool missed = false;
  for (const std::size_t peers : options.peers) {
    Order order{.peers = peers, .at_once = options.at_once};
    const std::vector<Figures> alone = measured(order);
    order.processes = options.processes;
    const std::vector<Figures> together = alone.empty() ? alone : measured(order);
    if (together.empty()) return 1;
    std::fputs(host_lines(together, alone.front()).c_str(), stdout);
    if (!options.check || heap_of(together, alone.front()).ratio() <= kHostBar) continue;
    std::fprintf(stderr, "mesh_scale: heap of a host with %zu peers: more than %.2f of the sum\n",
                 peers, kHostBar);
    missed = true;
  }
  return missed ? kMissed : 0;
}

int run(const Options& options) {
  if (options.processes != 1) return run_host(options);
  std::vector<Figures> all;
  for (const std::size_t peers : options.peers) {
    const std::vector<Figures> one = measured({.peers = peers, .at_once = options.at_once});
    if (one.empty()) return 1;
    all.push_back(one.front());
  }
  std::fputs((options.as_json ? json(all) : table(all)).c_str(), stdout);
  if (options.parts) std::fputs(parts_table(tuning::derive_policy({}, {})).c_str(), stdout);
  if (!options.check && !options.check_times) return 0;
  const std::vector<std::string> lines =
      out_of_proportion(all, options.check_times ? Judge::CountsAndTimes : Judge::Counts);
  for (const std::string& line : lines) std::fprintf(stderr, "mesh_scale: %s\n", line.c_str());
  return lines.empty() ? 0 : kMissed;
}

}  // namespace
}  // namespace mesh::scale

int main(int argc, char** argv) {
  mesh::scale::Options options;
  CLI::App app(
      "Measures what one process of a communicator of many hosts holds for each peer, and how long "
      "it takes to connect\nand to close, on the software fabric. Then it sends large messages to "
      "some peers. With --check a\nfigure per peer that is more than 20 % above that of 64 peers, "
      "or a heap of more than 160 KiB, is a\nbad result.",
      "mesh_scale");
  app.add_option("--peers", options.peers, "Numbers of peers")
      ->delimiter(',')
      ->check(mesh::driver::in_range(std::size_t{1}, mesh::scale::kPeersMax))
      ->capture_default_str();
  app.add_option("--at-once", options.at_once,
                 "Peers that are connected in one round, as NCCL_CONNECT_ROUND_MAX_PEERS")
      ->check(mesh::driver::in_range(std::size_t{1}, mesh::scale::kPeersMax))
      ->capture_default_str();
  CLI::Option* const processes =
      app.add_option("--processes", options.processes,
                     "Processes on the host, each with so many peers; prints their memory together")
          ->check(mesh::driver::in_range(std::size_t{1}, mesh::scale::kProcessesMax))
          ->capture_default_str();
  CLI::Option* const json_flag = app.add_flag("--json", options.as_json, "Print JSON");
  json_flag->excludes(processes);
  app.add_flag("--parts", options.parts, "Print also what the parts of a link take")
      ->excludes(json_flag)
      ->excludes(processes);
  app.add_flag("--check", options.check, "Check counts and memory");
  app.add_flag("--check-times", options.check_times, "Check times too; needs an idle machine")
      ->excludes(processes);
  if (const auto end = mesh::driver::parse(app, argc, argv)) return *end;
  return mesh::scale::run(options);
}
