// sim: the product's deterministic simulator. One seed is one run, the same on every machine.

#include "tests/sim/jobs.h"

#include <CLI/CLI.hpp>

namespace mesh::sim {
namespace {

constexpr std::size_t kHostsLimit = 64;

struct Arguments {
  std::uint64_t seed = 0;
  std::string seeds;
  std::string regressions;
  Options options;
  unsigned jobs = std::max(1u, static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN)));
  bool verbose = false, twice = false;
  std::uint64_t failures_max = 5;
};

const std::map<std::string, Level> kLevels{
    {"none", Level::None}, {"slow", Level::Slow}, {"ends", Level::Ends}, {"all", Level::Faults}};

std::string level_name(Level level) {
  const auto found = std::find_if(kLevels.begin(), kLevels.end(),
                                  [&](const auto& each) { return each.second == level; });
  return found->first;
}

std::string replay(std::uint64_t seed, const Options& options) {
  std::string text = fmt::format("sim --seed {} --faults {}", seed, level_name(options.level));
  if (options.hosts != 0) text += fmt::format(" --hosts {}", options.hosts);
  if (options.all_to_all) text += " --all-to-all";
  if (options.reorder) text += " --reorder";
  if (options.standby) text += " --standby";
  if (options.device) text += " --device";
  if (options.outages) text += " --outages";
  if (options.mute) text += " --mute";
  if (options.pessimistic) text += " --pessimistic";
  if (options.both_ways) text += " --both-ways";
  if (options.shapes) text += " --shapes";
  if (options.strange) text += " --strange";
  if (options.shared && !options.recabled) text += " --shared-subnet";
  if (options.recabled) text += " --recabled";
  if (options.relays && !options.both_ways && !options.shapes && !options.strange)
    text += " --relays";
  if (options.groups) text += " --groups";
  if (options.late) text += " --late";
  if (options.timed) text += " --timed";
  if (options.one_shot) text += " --oneshot";
  if (options.siblings) text += " --siblings";
  if (options.any_fabric) text += " --any-fabric";
  return text + " --verbose";
}

bool read_range(const std::string& text, std::vector<std::uint64_t>& seeds) {
  unsigned long long first = 0, count = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%llu:%llu%c", &first, &count, &rest) != 2 || count == 0 ||
      count > 100'000'000)
    return false;
  seeds.resize(count);
  std::iota(seeds.begin(), seeds.end(), first);
  return true;
}

// Reads one seed from the start of each line; the rest of a line is for the reader.
bool read_regressions(const std::string& path, std::vector<std::uint64_t>& seeds) {
  std::ifstream file(path);
  if (!file) return false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::uint64_t seed = 0;
    if (words >> seed) seeds.push_back(seed);
  }
  return true;
}

void show(const Report& report, const Options& options) {
  std::printf("\nseed %llu: %s\n%s", static_cast<unsigned long long>(report.seed), report.violation,
              report.last_events);
  std::printf("again: %s\n", replay(report.seed, options).c_str());
  std::fflush(stdout);
}

int run_one(const Arguments& arguments) {
  const Verdict verdict = run_seed(arguments.seed, arguments.options, arguments.verbose);
  const Tally& tally = verdict.tally;
  std::printf(
      "seed %llu: %llu hosts, %llu channels, %llu messages, %llu faults, %llu aborts, %llu "
      "requests failed, %.3f s simulated, "
      "%llu steps, %llu events, hash %016llx\n",
      static_cast<unsigned long long>(arguments.seed),
      static_cast<unsigned long long>(verdict.hosts),
      static_cast<unsigned long long>(verdict.channels),
      static_cast<unsigned long long>(tally.received),
      static_cast<unsigned long long>(tally.faults), static_cast<unsigned long long>(tally.aborts),
      static_cast<unsigned long long>(tally.failed),
      static_cast<double>(verdict.simulated_ns) / 1e9, static_cast<unsigned long long>(tally.steps),
      static_cast<unsigned long long>(verdict.events),
      static_cast<unsigned long long>(verdict.hash));
  if (verdict.violation.empty()) return 0;
  std::printf("%s\n%sagain: %s\n", verdict.violation.c_str(),
              arguments.verbose ? "" : verdict.last_events.c_str(),
              replay(arguments.seed, arguments.options).c_str());
  return 1;
}

struct Sum {
  std::uint64_t seeds = 0, hash = 0, simulated_ns = 0;
  Tally tally;
  void add(const Report& report) {
    ++seeds;
    hash ^= report.hash * (2 * report.seed + 1);
    simulated_ns += report.simulated_ns;
    tally.steps += report.tally.steps;
    tally.received += report.tally.received;
    tally.faults += report.tally.faults;
    tally.aborts += report.tally.aborts;
    tally.failed += report.tally.failed;
    tally.fences += report.tally.fences;
  }
};

std::uint64_t run_all(const Batch& batch, Sum& sum) {
  const bool shown = ::isatty(STDERR_FILENO) != 0;
  const std::uint64_t failures = run_batch(batch, [&](const Report& report) {
    sum.add(report);
    if (report.failed) show(report, batch.options);
    if (shown && sum.seeds % 16 == 0)
      std::fprintf(stderr, "\r%llu of %zu seeds\033[K", static_cast<unsigned long long>(sum.seeds),
                   batch.seeds.size());
  });
  if (shown) std::fprintf(stderr, "\r\033[K");
  return failures;
}

int run_many(const Arguments& arguments, std::vector<std::uint64_t> seeds) {
  const auto begin = std::chrono::steady_clock::now();
  const Batch batch{.seeds = std::move(seeds),
                    .options = arguments.options,
                    .jobs = arguments.jobs,
                    .failures_max = arguments.failures_max};
  Sum sum, again;
  std::uint64_t failures = run_all(batch, sum);
  if (arguments.twice && failures == 0) {
    failures += run_all(batch, again);
    if (again.hash != sum.hash) {
      std::printf("the same seeds gave another run: hash %016llx, then %016llx\n",
                  static_cast<unsigned long long>(sum.hash),
                  static_cast<unsigned long long>(again.hash));
      ++failures;
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const Tally& tally = sum.tally;
  std::printf(
      "sim: %llu seeds, %llu failed; %llu messages, %llu faults, %llu aborts, %llu requests failed "
      "with a reason, %llu links cut, "
      "%.1f s simulated in %.1f s, hash %016llx\n",
      static_cast<unsigned long long>(sum.seeds), static_cast<unsigned long long>(failures),
      static_cast<unsigned long long>(tally.received),
      static_cast<unsigned long long>(tally.faults), static_cast<unsigned long long>(tally.aborts),
      static_cast<unsigned long long>(tally.failed), static_cast<unsigned long long>(tally.fences),
      static_cast<double>(sum.simulated_ns) / 1e9, took.count(),
      static_cast<unsigned long long>(sum.hash));
  return failures == 0 ? 0 : 1;
}

int run(const Arguments& arguments) {
  if (arguments.seed != 0) return run_one(arguments);
  std::vector<std::uint64_t> seeds;
  if (!arguments.regressions.empty() && !read_regressions(arguments.regressions, seeds)) {
    std::fprintf(stderr, "sim: --regressions %s: cannot be read\n", arguments.regressions.c_str());
    return 2;
  }
  std::vector<std::uint64_t> range;
  if (!arguments.seeds.empty() && !read_range(arguments.seeds, range)) {
    std::fprintf(stderr, "sim: --seeds %s: wanted FIRST:COUNT, COUNT from 1 to 100000000\n",
                 arguments.seeds.c_str());
    return 2;
  }
  seeds.insert(seeds.end(), range.begin(), range.end());
  return run_many(arguments, std::move(seeds));
}

void add_cabling_flags(CLI::App& app, Options& options) {
  app.add_flag("--relays", options.relays,
               "Not every host is cabled to every other: others carry their messages on");
  app.add_flag("--shared-subnet", options.shared,
               "All cables in one subnet, ports in any order; up to six hosts");
  app.add_flag("--siblings", options.siblings,
               "Hosts have up to eight processes each, on the same ports; some "
               "die alone");
  app.add_flag("--recabled", options.recabled, "As --shared-subnet, and cables move in mid job");
  app.add_flag("--shapes", options.shapes,
               "As --relays, in longer rings and tori with several cables and untidy ports");
  app.add_flag("--strange", options.strange,
               "As --relays, and no host has a link with a neighbour before");
  app.add_flag("--any-fabric", options.any_fabric,
               "All to all over any shape, subnets and odd ports, without settings and faults");
  app.add_flag("--both-ways", options.both_ways,
               "As --relays, in rings whose hosts send to their neighbours both ways round");
}
}  // namespace
}  // namespace mesh::sim

int main(int argc, char** argv) {
  mesh::sim::Arguments arguments;
  CLI::App app(
      "The deterministic simulator: engines on the software fabric, one thread, one clock, one "
      "seed.");
  app.add_option("--seed", arguments.seed, "Run this seed, here")->check(CLI::PositiveNumber);
  app.add_option("--seeds", arguments.seeds, "FIRST:COUNT: run these, in processes of their own");
  app.add_option("--regressions", arguments.regressions, "And those of this file, a seed a line");
  app.add_option("--jobs", arguments.jobs, "Processes (default: as many as there are cores)")
      ->check(CLI::Range(1, 256));
  app.add_option("--faults", arguments.options.level,
                 "none, slow, ends or all (default): each includes those before")
      ->transform(CLI::CheckedTransformer(mesh::sim::kLevels));
  app.add_option("--hosts", arguments.options.hosts, "So many hosts (default: the seed's choice)")
      ->check(CLI::Range(std::size_t{2}, mesh::sim::kHostsLimit));
  app.add_flag("--all-to-all", arguments.options.all_to_all,
               "A channel from every context to every other");
  app.add_flag("--reorder", arguments.options.reorder,
               "In every seed writes of one queue pair overtake one another");
  app.add_flag("--standby", arguments.options.standby,
               "In every seed the cable that is asked for carries alone, and others stand by");
  app.add_flag("--device", arguments.options.device,
               "In every seed receives are into memory of GPUs, and are flushed");
  mesh::sim::add_cabling_flags(app, arguments.options);
  app.add_flag("--outages", arguments.options.outages,
               "In every seed the control network is silent for up to two minutes");
  app.add_flag("--mute", arguments.options.mute,
               "In every seed a card hangs without a word, or hosts stand still");
  app.add_flag("--pessimistic", arguments.options.pessimistic,
               "Control runs over the cables, which are cut, and threads take turns anywhere");
  app.add_flag("--groups", arguments.options.groups,
               "In every seed receives are started in groups");
  app.add_flag("--oneshot", arguments.options.one_shot, "Groups of one-shot all-reduce");
  app.add_flag("--late", arguments.options.late,
               "Bulk queue pairs are made with the first message that wants them");
  app.add_flag("--timed", arguments.options.timed,
               "The latency of paths is measured up to 50,000 times a second, not 10 times");
  app.add_option("--failures", arguments.failures_max,
                 "Stop after so many failed seeds (default 5)")
      ->check(CLI::PositiveNumber);
  app.add_flag("--twice", arguments.twice, "Run all twice: both must be the same");
  app.add_flag("--verbose", arguments.verbose, "With --seed: every event");
  CLI11_PARSE(app, argc, argv);
  arguments.options.shared |= arguments.options.recabled;
  arguments.options.relays |=
      arguments.options.both_ways || arguments.options.shapes || arguments.options.strange;
  if (arguments.seed == 0 && arguments.seeds.empty() && arguments.regressions.empty()) {
    std::fprintf(stderr, "sim: wanted --seed, --seeds or --regressions; --help says more\n");
    return 2;
  }
  return mesh::sim::run(arguments);
}
