// os_faults: fails every call of the operating system that the plugin makes in a short life once,
// each in a process of its own. Prints the number of calls of each kind, and a line for every fault
// that leaves the process other than it was.

#include "tests/os_faults/child_run.h"

#include <CLI/CLI.hpp>

namespace mesh::testkit {
namespace {

using door::Kind, door::Mode;

constexpr std::array<const char*, 4> kModeNames{"once", "from-there", "hang", "empty"};
constexpr std::array<const char*, 2> kCompanyNames{"alone", "beside"};
constexpr int kCountingRuns = 3;          // threads make the number of calls vary a little
constexpr std::uint64_t kSpareCalls = 2;  // beyond the most that were counted

struct Options {
  std::vector<std::string> kinds{door::kKindNames.begin(), door::kKindNames.end()};
  std::vector<std::string> modes{kModeNames.begin(), kModeNames.end()};
  std::string library = MESH_PLUGIN_FILE;
  std::string fabric = MESH_FABRIC_DIR "/null.json";
  std::string stats;
  std::uint64_t n = 0;
  std::uint64_t every = 1, offset = 0;
  unsigned jobs = 2;
  std::vector<std::string> companies{kCompanyNames.begin(), kCompanyNames.end()};
  bool here = false;
};

template <std::size_t kCount>
std::size_t index_of(const std::array<const char*, kCount>& names, const std::string& name) {
  return static_cast<std::size_t>(
      std::distance(names.begin(), std::find(names.begin(), names.end(), name)));
}

const char* name_of(Kind kind) { return door::kKindNames[static_cast<std::size_t>(kind)]; }
const char* name_of(Mode mode) { return kModeNames[static_cast<std::size_t>(mode)]; }

// Returns whether a mode fits: only a file system hangs, only a list of interfaces is empty.
bool fits(Kind kind, Mode mode) {
  if (mode == Mode::Hang) return kind == Kind::File;
  if (mode == Mode::Empty) return kind == Kind::Address;
  return true;
}

const char* name_of(Company company) { return kCompanyNames[static_cast<std::size_t>(company)]; }

std::string text_of(const RunOrder& order, const RunReport& report) {
  const door::Fault& fault = order.fault;
  return fmt::format("--kind {} --mode {} --company {} --n {}: {}: {}; {:.2f} s; {}",
                     name_of(fault.kind), name_of(fault.mode), name_of(order.company), fault.n,
                     report.symbol.empty() ? "not reached" : report.symbol, report.end,
                     report.seconds,
                     report.complaint.empty() ? "well" : "WRONG: " + report.complaint);
}

class Runner {
 public:
  Runner(const Options& options, const nccl::NewestNet& net) : options_(options), net_(net) {}

  int run_all() {
    for (const std::string& kind : options_.kinds) {
      for (const std::string& mode : options_.modes) {
        const auto which = static_cast<Kind>(index_of(door::kKindNames, kind));
        const auto how = static_cast<Mode>(index_of(kModeNames, mode));
        for (const std::string& company : options_.companies) {
          if (fits(which, how))
            run_kind(which, how, static_cast<Company>(index_of(kCompanyNames, company)));
        }
      }
    }
    fmt::print("os_faults: {} faults, {} wrong\n", faults_, wrong_);
    return wrong_ == 0 ? 0 : 1;
  }

  int run_one(const RunOrder& order) const {
    if (options_.here) door::stop_at_fault();
    const RunReport report = options_.here ? run_here(net_, order) : run_in_child(net_, order);
    fmt::print("{}\n{}", text_of(order, report), report.log);
    return report.complaint.empty() ? 0 : 1;
  }

 private:
  void run_kind(Kind kind, Mode mode, Company company) {
    std::uint64_t calls = 0;
    for (int i = 0; i < kCountingRuns; ++i) {
      const RunReport report =
          run_in_child(net_, {.fault = {.kind = kind, .mode = mode}, .company = company});
      calls = std::max(calls, report.counts[static_cast<std::size_t>(kind)]);
      if (!report.complaint.empty())
        complain(fmt::format("--kind {}, nothing failing: {}", name_of(kind), report.complaint));
    }
    std::vector<std::uint64_t> chosen;
    for (std::uint64_t n = 1 + options_.offset % options_.every; n <= calls + kSpareCalls;
         n += options_.every)
      chosen.push_back(n);
    const int wrong_before = wrong_;
    double slowest = 0;
    std::uint64_t reached = 0;
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < options_.jobs; ++i) {
      workers.emplace_back([&] {
        for (std::size_t at = next++; at < chosen.size(); at = next++) {
          const RunOrder order{.fault = {.kind = kind, .mode = mode, .n = chosen[at]},
                               .company = company};
          const RunReport report = run_in_child(net_, order);
          const std::lock_guard lock(mutex_);
          ++faults_;
          slowest = std::max(slowest, report.seconds);
          reached += report.symbol.empty() ? 0 : 1;
          if (!report.complaint.empty()) complain(text_of(order, report));
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    fmt::print("{} {} {}: n = {}, tried {} ({} reached), {} wrong, the slowest took {:.2f} s\n",
               name_of(kind), name_of(mode), name_of(company), calls, chosen.size(), reached,
               wrong_ - wrong_before, slowest);
    std::fflush(stdout);
  }

  void complain(const std::string& text) {
    ++wrong_;
    fmt::print("{}\n", text);
    std::fflush(stdout);
  }

  const Options& options_;
  const nccl::NewestNet& net_;
  std::mutex mutex_;
  int faults_ = 0, wrong_ = 0;
};

void set_environment(const Options& options) {
  ::setenv("NCCL_MESH_FABRIC", ("soft:" + options.fabric).c_str(), 1);
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  ::setenv("NCCL_MESH_THREADS", "1", 1);
  ::setenv("NCCL_MESH_PATH_TIMEOUT", "1", 1);
  const std::string folder = options.stats.empty() ? std::string("/tmp") : options.stats;
  ::setenv("NCCL_MESH_STATS", (folder + "/mesh-os-faults-%p.prom:1").c_str(), 1);
}

int run(int argc, char** argv) {
  CLI::App app("Lets every call of the operating system that the plugin makes fail once");
  Options options;
  app.add_option("--kind", options.kinds, "which kinds")->check(CLI::IsMember(options.kinds));
  app.add_option("--mode", options.modes, "how they fail")->check(CLI::IsMember(options.modes));
  app.add_option("--company", options.companies,
                 "alone, or beside a communicator that keeps the engine")
      ->check(CLI::IsMember(options.companies));
  app.add_option("--library", options.library, "the plugin");
  app.add_option("--fabric", options.fabric, "the null fabric");
  app.add_option("--stats", options.stats, "folder for the page of metrics");
  app.add_option("--n", options.n,
                 "only the n-th call, with the plugin's lines; needs --kind and --mode");
  app.add_flag("--here", options.here,
               "with --n: in this process, which stops at the fault, for a debugger");
  app.add_option("--every", options.every, "only every k-th call")->check(CLI::PositiveNumber);
  app.add_option("--offset", options.offset, "beginning behind so many");
  app.add_option("--jobs", options.jobs, "processes at a time")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  set_environment(options);
  void* const library = ::dlopen(options.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fmt::print("{}\n", ::dlerror());
    return 2;
  }
  const std::string symbol = "ncclNetPlugin_v" + std::to_string(nccl::kNewestVersion);
  const auto* const net = static_cast<const nccl::NewestNet*>(::dlsym(library, symbol.c_str()));
  if (net == nullptr) return 2;
  Runner runner(options, *net);
  if (options.n == 0) return runner.run_all();
  return runner.run_one(
      {.fault = {.kind = static_cast<Kind>(index_of(door::kKindNames, options.kinds.front())),
                 .mode = static_cast<Mode>(index_of(kModeNames, options.modes.front())),
                 .n = options.n},
       .company = static_cast<Company>(index_of(kCompanyNames, options.companies.front()))});
}

}  // namespace
}  // namespace mesh::testkit

int main(int argc, char** argv) { return mesh::testkit::run(argc, argv); }
