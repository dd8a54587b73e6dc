#include "perf/mesh_perf/options.h"

#include "perf/driver/own_process.h"
#include "perf/driver/rank_options.h"
#include "src/base/version.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <map>

namespace mesh::perf {
namespace {

const std::map<std::string, Kind> kKinds{{"all_reduce", Kind::AllReduce},
                                         {"sendrecv", Kind::SendRecv},
                                         {"alltoall", Kind::AllToAll},
                                         {"latency", Kind::Latency}};
const std::map<std::string, DataType> kTypes{
    {"uint8", DataType::Uint8}, {"int32", DataType::Int32}, {"int", DataType::Int32},
    {"int64", DataType::Int64}, {"float", DataType::Float}, {"double", DataType::Double}};

const std::map<std::string, driver::MemoryKind> kMemories{{"host", driver::MemoryKind::Host},
                                                          {"device", driver::MemoryKind::Device}};

constexpr std::size_t kBytesLimit = std::size_t{1} << 34;
constexpr const char* kFooter =
    "Without --fabric the run uses perf/fabrics/triangle.json: software fabric on this host, not "
    "RDMA.\nWith a rendezvous this process is one rank of a run between hosts, over RDMA unless "
    "NCCL_MESH_FABRIC says otherwise.\nRANK and WORLD_SIZE, mpirun or srun tell which rank: "
    "MESH_RENDEZVOUS=HOST0:29500 RANK=0 WORLD_SIZE=2 mesh_perf all_reduce\nlatency is a ping-pong "
    "between 2 ranks, one message at a time, from 8 bytes up. Each round trip is timed, and one "
    "way is half of it.\nThe plugin reads its settings (NCCL_MESH_*) from the environment.\nExit "
    "status: 0 success; 1 error; 2 wrong data.";

void add_sizes(CLI::App& app, Options& options) {
  app.add_option("-b,--minbytes", options.bytes_min, "Smallest size; K, M, G are powers of 1024")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::size_t{0}, kBytesLimit))
      ->option_text("SIZE");
  app.add_option("-e,--maxbytes", options.bytes_max, "Largest size")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::size_t{0}, kBytesLimit))
      ->option_text("SIZE");
  app.add_option("-f,--stepfactor", options.step_factor,
                 "Factor between one size and the next (1: add --stepbytes)")
      ->check(CLI::Range(1, 1024));
  app.add_option("-i,--stepbytes", options.step_bytes, "Bytes to add between one size and the next")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::size_t{1}, kBytesLimit))
      ->option_text("SIZE");
}

void add_run(CLI::App& app, Options& options) {
  app.add_option("-n,--iters", options.iterations, "Timed iterations per size")
      ->check(CLI::Range(1, 1000000));
  app.add_option("-w,--warmup_iters", options.warmup, "Iterations before the timed ones")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--min-time", options.min_time_ms,
                 "Milliseconds: raise --iters for each size until the size takes about that long")
      ->check(CLI::Range(0, 600000));
  app.add_option("-c,--check", options.checks,
                 "Verified runs per size, in which every byte is compared")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--until", options.until_file,
                 "Continue with verified runs beyond --check until this file exists on the host of "
                 "any rank")
      ->check(CLI::Validator(
          [](const std::string& name) {
            return std::string(name.empty() ? "needs a file name" : "");
          },
          "FILE"));
  app.add_option("-d,--datatype", options.type, "uint8, int32, int64, float, double")
      ->transform(CLI::CheckedTransformer(kTypes))
      ->option_text("NAME");
  static std::string operation = "sum";
  app.add_option("-o,--op", operation, "Reduction")->check(CLI::IsMember({"sum"}));
  app.add_option("--memory", options.memory,
                 "host, or device: memory in the place of a GPU's, which no CPU touches and whose "
                 "receives are flushed; perf/fabrics/gpus.json has NICs that can register it")
      ->transform(CLI::CheckedTransformer(kMemories))
      ->option_text("NAME");
  app.add_option("--channels", options.channels,
                 "Connections per pair of ranks, over which the data is spread")
      ->check(CLI::Range(1, 64));
  app.add_option("--outstanding", options.outstanding,
                 "Messages in flight per connection (sendrecv and alltoall)")
      ->check(CLI::Range(1, 32));
  app.add_flag("--one-way", options.one_way, "sendrecv of 2 ranks: only rank 0 sends");
  app.add_flag("--memcpy", options.measure_memcpy,
               "Measure this host's one-thread memcpy of each size in this run too");
  app.add_option("--timeout", options.timeout_s,
                 "Seconds for the whole run, from the start of its first rank")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--json", options.json_file,
                 "Write the results to this file too (format: perf/results/README.md)");
  app.add_flag("-v,--verbose", options.verbose, "Print the plugin's INFO lines (to stderr)");
}

void add_place(CLI::App& app, Options& options) {
  app.add_option("--fabric", options.fabric,
                 "Fabric file of the software fabric, or rdma for real devices");
  app.add_option("--hosts", options.hosts,
                 "Hosts of the file to run on, by rank (default: every host)")
      ->delimiter(',');
  app.add_option("--via", options.via,
                 "Hosts of the file between the first and the second of --hosts that only carry "
                 "the messages of these two (latency, sendrecv)")
      ->delimiter(',');
  app.add_option("--plugin", options.plugin, "The plugin's library");
  app.add_option("--net-version", options.net_version, "Version of ncclNet to call the plugin with")
      ->check(CLI::Range(driver::kNetVersionMin, driver::kNetVersionMax));
  driver::add_rank_options(app, options);
}

constexpr std::string_view kSoft = "soft:";

// Chooses the fabric, or returns a mistake. A rank that our launcher did not start uses the fabric
// that its environment names, and --fabric may only name that one.
std::string choose_fabric(const Environment& environment, Options& options) {
  const std::string setting = driver::variable(environment, "NCCL_MESH_FABRIC");
  const std::string chosen = setting.starts_with(kSoft) ? setting.substr(kSoft.size()) : "rdma";
  if (options.is_rank() && !options.launched) {
    if (!options.fabric.empty() && options.fabric != chosen) {
      return "--fabric is " + options.fabric + ", but this rank runs over " + chosen +
             ", as NCCL_MESH_FABRIC (rdma or soft:FILE) says";
    }
    options.fabric = chosen;
  }
  if (options.fabric.empty()) options.fabric = driver::own_fabric_file("triangle.json");
  if (options.is_rank() || options.soft()) return {};
  return "start the ranks on RDMA devices one per host, with MESH_RENDEZVOUS=HOST0:29500 RANK=0 "
         "WORLD_SIZE=2 mesh_perf ..., or with mpirun or srun";
}

std::string check_via(const Options& options) {
  if (options.via.empty()) return {};
  const bool pair = options.kind == Kind::Latency || options.kind == Kind::SendRecv;
  if (pair && options.soft() && options.hosts.size() == 2) return {};
  return "--via needs latency or sendrecv on the software fabric, between two --hosts";
}

// Returns the mistake; empty if there is none.
std::string find_place(Options& options) {
  const Environment environment = process_environment();
  std::string why;
  auto world = driver::find_world(options.world, environment, why);
  if (!world.ok()) return why;
  options.world = std::move(*world);
  return choose_fabric(environment, options);
}

constexpr int kLatencyIterations = 1000;  // perftest's
constexpr int kLatencyWarmup = 100;

void set_defaults(const CLI::App& app, Options& options) {
  if (options.kind == Kind::Latency) {
    if (app.count("--minbytes") == 0) options.bytes_min = options.bytes_max = 8;
    if (app.count("--maxbytes") == 0) options.bytes_max = options.bytes_min;
    if (app.count("--iters") == 0) options.iterations = kLatencyIterations;
    if (app.count("--warmup_iters") == 0) options.warmup = kLatencyWarmup;
  }
  if (options.plugin.empty()) options.plugin = driver::own_plugin_file();
  if (options.bytes_max < options.bytes_min) options.bytes_max = options.bytes_min;
}

}  // namespace

const char* kind_name(Kind kind) noexcept {
  switch (kind) {
    case Kind::AllReduce: return "all_reduce";
    case Kind::SendRecv: return "sendrecv";
    case Kind::AllToAll: return "alltoall";
    case Kind::Latency: return "latency";
  }
  return "unknown";
}

bool parse_options(int argc, char** argv, Options& options, int* exit_code) {
  CLI::App app(
      "Drives the nccl-mesh plugin as NCCL does, one process per host, and prints nccl-tests' "
      "table.",
      "mesh_perf");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("nccl-mesh ") + version());
  app.add_option("collective", options.kind, "all_reduce, sendrecv, alltoall or latency")
      ->required()
      ->transform(CLI::CheckedTransformer(kKinds))
      ->option_text("REQUIRED");
  add_sizes(app, options);
  add_run(app, options);
  add_place(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error) == 0 ? 0 : 1;
    return false;
  }
  set_defaults(app, options);
  options.arguments = driver::own_arguments(argc, argv, options);
  std::string mistake = find_place(options);
  if (mistake.empty()) mistake = check_via(options);
  if (!mistake.empty()) {
    std::fprintf(stderr, "mesh_perf: %s\n", mistake.c_str());
    *exit_code = 1;
    return false;
  }
  return true;
}

}  // namespace mesh::perf
