// mesh_instructions moves messages between two communicators of this process in one thread, over
// the fabric that the environment names, so that callgrind can count. Use it by
// perf/instructions/run.
#include "perf/driver/command_line.h"
#include "perf/driver/own_process.h"
#include "perf/driver/plugin_log.h"
#include "perf/instructions/patterns.h"
#include "perf/instructions/report.h"

#include <CLI/CLI.hpp>

#include <valgrind/callgrind.h>

#include <time.h>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

namespace mesh::instructions {
namespace {

using driver::NetApi, driver::PluginLog;

struct Options {
  std::string plugin = driver::own_plugin_file();
  ChannelsOptions channels;
  Work work{.messages = 4096};
  std::uint64_t warm_up = 2048;
  std::uint32_t repetitions = 1;
  bool verbose = false;
};

int fail(const std::string& why) {
  std::fprintf(stderr, "mesh_instructions: %s\n", why.c_str());
  return 1;
}

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Only this thread is counted, between the two toggles. Callgrind writes the counts of each
// repetition to a file of its own.
std::string measure_once(Channels& channels, const Work& work, Report& report) {
  const double before = cpu_seconds();
  CALLGRIND_TOGGLE_COLLECT;
  std::string error = move_messages(channels, work);
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_DUMP_STATS;
  if (!error.empty()) return error;
  report.cpu_ns.push_back((cpu_seconds() - before) * 1e9 / static_cast<double>(work.messages));
  report.messages += work.messages;
  return {};
}

// Under callgrind the set-up runs without instrumentation, and the warm-up fills the simulated
// caches.
std::string measure(Channels& channels, const Options& options, Report& report) {
  Work warm_up = options.work;
  warm_up.messages = options.warm_up;
  CALLGRIND_START_INSTRUMENTATION;
  if (std::string error = move_messages(channels, warm_up); !error.empty()) return error;
  report.messages = options.warm_up;
  for (std::uint32_t i = 0; i < options.repetitions; ++i) {
    if (std::string error = measure_once(channels, options.work, report); !error.empty())
      return error;
  }
  return {};
}

// Returns the null fabric's counts; another fabric logs none. The last finalize leaves the end of
// the engine, and with it the fabric's line, to a thread, and nothing is logged from then on. The
// next init turns the log on again, and waits for that thread.
std::map<std::string, std::uint64_t> counts_of_fabric(NetApi& api, const PluginLog& log) {
  void* context = nullptr;
  if (api.init(1, &context) != driver::kNetSuccess) return {};
  auto counts = fabric_counts(log.texts());
  api.finalize(context);
  return counts;
}

int run(const Options& options) {
  PluginLog& log = PluginLog::instance();
  log.set_filter({NCCL_LOG_INFO, NCCL_ALL});
  log.set_echo(options.verbose ? driver::Echo::Everything : driver::Echo::Warnings,
               "mesh_instructions: ");
  std::string error;
  const std::unique_ptr<NetApi> api = NetApi::load(options.plugin, driver::kNetVersionMax, error);
  if (api == nullptr) return fail(error);
  Report report;
  {
    Channels channels(*api);
    if (error = channels.open(options.channels); !error.empty()) return fail(error);
    if (error = measure(channels, options, report); !error.empty()) return fail(error);
    report.channels = channels.count();
    report.grown_bytes = channels.grown_bytes();
    report.user_bytes = options.channels.bytes * 2 * channels.count();
  }
  report.fabric = counts_of_fabric(*api, log);
  std::fputs(json(report).c_str(), stdout);
  return 0;
}

int parse_and_run(int argc, char** argv) {
  Options options;
  bool marker = false, one_context = false, device = false;
  CLI::App app(
      "Moves messages within this process over the fabric that NCCL_MESH_FABRIC names. Run it by "
      "perf/instructions/run.",
      "mesh_instructions");
  const std::map<std::string, Pattern> patterns = {{"one", Pattern::One},
                                                   {"burst8", Pattern::Burst8},
                                                   {"rolling8", Pattern::Rolling8},
                                                   {"group8", Pattern::Group8},
                                                   {"every", Pattern::Every}};
  app.add_option("--pattern", options.work.pattern, "one, burst8, rolling8, group8 or every")
      ->transform(CLI::CheckedTransformer(patterns));
  app.add_option("--bytes", options.work.bytes, "Bytes of a message")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1} << 30));
  app.add_option("--channels", options.channels.channels, "Channels, used in turn")
      ->check(CLI::Range(1u, 4096u));
  app.add_option("--messages", options.work.messages, "Messages that count")
      ->check(CLI::Range(1ull, 1ull << 40));
  app.add_option("--warm-up", options.warm_up, "Messages before those that count")
      ->check(CLI::Range(0ull, 1ull << 40));
  app.add_option("--repetitions", options.repetitions, "Repetitions, each with figures of its own")
      ->check(CLI::Range(1u, 1000u));
  app.add_flag("--marker", marker,
               "Mark the completion of receives as optional (0x1), as LL and LL128 do");
  app.add_flag("--device", device, "Declare the memory to the plugin as a GPU's");
  app.add_flag("--flush", options.work.flush, "Flush after each receive");
  app.add_flag("--one-context", one_context, "Use one communicator as both ends");
  app.add_option("--plugin", options.plugin, "The plugin's library");
  app.add_flag("-v,--verbose", options.verbose, "Print the plugin's lines (to stderr)");
  if (const auto end = driver::parse(app, argc, argv)) return *end;
  options.channels.bytes = options.work.bytes;
  options.channels.contexts = one_context ? Contexts::One : Contexts::Two;
  options.channels.memory = device ? Memory::Device : Memory::Host;
  options.work.completion = marker ? Completion::Optional : Completion::Wanted;
  return run(options);
}

}  // namespace
}  // namespace mesh::instructions

int main(int argc, char** argv) { return mesh::instructions::parse_and_run(argc, argv); }
