#include "perf/mesh_perf/options.h"

#include "perf/driver/command_line.h"
#include "perf/driver/own_process.h"
#include "perf/driver/rank_options.h"
#include "src/soft/host_state.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace mesh::perf {
namespace {

const std::map<std::string, Kind> kKinds{{"all_reduce", Kind::AllReduce},
                                         {"all_gather", Kind::AllGather},
                                         {"reduce_scatter", Kind::ReduceScatter},
                                         {"broadcast", Kind::Broadcast},
                                         {"reduce", Kind::Reduce},
                                         {"sendrecv", Kind::SendRecv},
                                         {"alltoall", Kind::AllToAll},
                                         {"latency", Kind::Latency}};
const std::map<std::string, DataType> kTypes{
    {"uint8", DataType::Uint8}, {"int32", DataType::Int32},  {"int", DataType::Int32},
    {"int64", DataType::Int64}, {"half", DataType::Half},    {"bfloat16", DataType::Bfloat16},
    {"float", DataType::Float}, {"double", DataType::Double}};
const std::map<std::string, Reduction> kReductions{{"sum", Reduction::Sum},
                                                   {"prod", Reduction::Prod},
                                                   {"min", Reduction::Min},
                                                   {"max", Reduction::Max}};

const std::map<std::string, Algorithm> kAlgorithms{{"ring", Algorithm::Ring},
                                                   {"oneshot", Algorithm::OneShot}};

template <typename E>
std::string name_of(const std::map<std::string, E>& names, E value) {
  for (const auto& [name, one] : names)
    if (one == value) return name;
  return "unknown";
}

const std::map<std::string, driver::MemoryKind> kMemories{{"host", driver::MemoryKind::Host},
                                                          {"device", driver::MemoryKind::Device}};

constexpr std::int64_t kBytesLimit = std::int64_t{1} << 34;
constexpr double kPauseLimitMs = 60000;
constexpr const char* kFooter =
    "Without --fabric the run uses perf/fabrics/triangle.json: software fabric on this host, not "
    "RDMA.\nWith a rendezvous this process is one rank of a run between hosts, over RDMA unless "
    "NCCL_MESH_FABRIC says otherwise.\nRANK and WORLD_SIZE, mpirun or srun tell which rank: "
    "MESH_RENDEZVOUS=HOST0:29500 RANK=0 WORLD_SIZE=2 mesh_perf all_reduce\nlatency is a ping-pong "
    "between 2 ranks, one message at a time, from 8 bytes up. Each round trip is timed, and one "
    "way is half of it.\nThe plugin reads its settings (NCCL_MESH_*) from the environment.";

void add_sizes(CLI::App& app, Options& options) {
  app.add_option("-b,--minbytes", options.bytes_min, "Smallest size; K, M, G are powers of 1024")
      ->transform(driver::size_in(0, kBytesLimit))
      ->option_text("SIZE=" + bytes_text(static_cast<std::int64_t>(options.bytes_min)));
  app.add_option("-e,--maxbytes", options.bytes_max, "Largest size")
      ->transform(driver::size_in(0, kBytesLimit))
      ->option_text("SIZE=" + bytes_text(static_cast<std::int64_t>(options.bytes_max)));
  app.add_option("-f,--stepfactor", options.step_factor,
                 "Factor between one size and the next (1: add --stepbytes)")
      ->check(driver::in_range(1, 1024));
  app.add_option("-i,--stepbytes", options.step_bytes, "Bytes to add between one size and the next")
      ->transform(driver::size_in(1, kBytesLimit))
      ->option_text("SIZE=" + bytes_text(static_cast<std::int64_t>(options.step_bytes)));
}

void add_run(CLI::App& app, Options& options) {
  app.add_option("-n,--iters", options.iterations, "Timed iterations per size")
      ->check(driver::in_range(1, 1000000));
  app.add_option("-w,--warmup_iters", options.warmup, "Iterations before the timed ones")
      ->check(driver::in_range(0, 1000000));
  app.add_option("--min-time", options.min_time_ms,
                 "Milliseconds: raise --iters for each size until the size takes about that long")
      ->check(driver::in_range(0, 600000));
  app.add_option("-c,--check", options.checks,
                 "Verified runs per size, in which every byte is compared")
      ->check(driver::in_range(0, 1000000));
  app.add_option("--until", options.until_file,
                 "Continue with verified runs beyond --check until this file exists on the host of "
                 "any rank")
      ->check(CLI::Validator(
          [](const std::string& name) {
            return std::string(name.empty() ? "needs a file name" : "");
          },
          "FILE"));
  app.add_option("-d,--datatype", options.type,
                 "uint8, int32, int64, half, bfloat16, float, double")
      ->transform(driver::one_of(kTypes))
      ->option_text("NAME=" + name_of(kTypes, options.type));
  app.add_option("-o,--op", options.reduction, "Reduction: sum, prod, min, max")
      ->transform(driver::one_of(kReductions))
      ->option_text("NAME=" + name_of(kReductions, options.reduction));
  app.add_option("--algorithm", options.algorithm,
                 "all_reduce: ring, or oneshot: one exchange between 2 to 16 ranks, which the "
                 "plugin computes behind NCCL's CollNet. If it is given, the table ends with "
                 "latencies of single all-reduces on rank 0")
      ->transform(driver::one_of(kAlgorithms))
      ->option_text("NAME=" + name_of(kAlgorithms, options.algorithm));
  app.add_option("-r,--root", options.root, "Root rank of broadcast and reduce")
      ->check(driver::in_range(0, static_cast<int>(driver::kWorldMax) - 1));
  app.add_option("--memory", options.memory,
                 "host, or device: memory in the place of a GPU's, which no CPU touches and whose "
                 "receives are flushed; perf/fabrics/gpus.json has NICs that can register it")
      ->transform(driver::one_of(kMemories))
      ->option_text("NAME=" + name_of(kMemories, options.memory));
  app.add_option("--channels", options.channels,
                 "Connections per pair of ranks, over which the data is spread")
      ->check(driver::in_range(1, 64));
  app.add_option("--outstanding", options.outstanding,
                 "Messages in flight per connection (sendrecv and alltoall)")
      ->check(driver::in_range(1, 32));
  app.add_option("--pause", options.pause_ms,
                 "latency: milliseconds between an answer and the next message, such as 0.1; both "
                 "ranks test their open receives meanwhile")
      ->check(driver::in_range(0.0, kPauseLimitMs));
  app.add_flag("--one-way", options.one_way, "sendrecv of 2 ranks: only rank 0 sends");
  app.add_flag("--memcpy", options.measure_memcpy,
               "Measure this host's one-thread memcpy of each size in this run too");
  app.add_option("--timeout", options.timeout_s,
                 "Seconds for the whole run, from the start of its first rank")
      ->check(driver::in_range(1, 1000000));
  app.add_option("--json", options.json_file,
                 "Write the results to this file too (format: perf/results/README.md)");
  app.add_flag("-v,--verbose", options.verbose, "Print the plugin's INFO lines (to stderr)");
}

void add_place(CLI::App& app, Options& options) {
  app.add_option("--fabric", options.fabric,
                 "Fabric file of the software fabric, or rdma for real devices");
  app.add_option("--hosts", options.hosts,
                 "Hosts of the file to run on, in the order of ranks (default: every host)")
      ->delimiter(',')
      ->default_str("");
  app.add_option("--ranks-per-host", options.ranks_per_host,
                 "Ranks on each host, one after the other, each a process; each takes another NIC "
                 "of the host first. Between hosts the launcher decides, and this must agree "
                 "(Env: LOCAL_WORLD_SIZE, or the variable of mpirun or srun)")
      ->check(driver::in_range(1, soft::kSlotsMax));
  app.add_option("--via", options.via,
                 "Hosts of the file between the first and the second of --hosts that only carry "
                 "the messages of these two (latency, sendrecv)")
      ->delimiter(',')
      ->default_str("");
  app.add_option("--plugin", options.plugin, "The plugin's library");
  app.add_option("--net-version", options.net_version, "Version of ncclNet to call the plugin with")
      ->check(driver::in_range(driver::kNetVersionMin, driver::kNetVersionMax));
  driver::add_rank_options(app, options);
}

constexpr int kLatencyIterations = 1000;  // perftest's
constexpr int kLatencyWarmup = 100;

void set_defaults(const CLI::App& app, Options& options) {
  if (options.kind == Kind::Latency) {
    if (app.count("--minbytes") == 0) options.bytes_min = 8;
    if (app.count("--maxbytes") == 0) options.bytes_max = options.bytes_min;
    if (app.count("--iters") == 0) options.iterations = kLatencyIterations;
    if (app.count("--warmup_iters") == 0) options.warmup = kLatencyWarmup;
  }
  options.ranks_per_host_given = app.count("--ranks-per-host") != 0;
  options.compares = app.count("--algorithm") != 0;
  if (options.plugin.empty()) options.plugin = driver::own_plugin_file();
  if (app.count("--maxbytes") == 0)
    options.bytes_max = std::max(options.bytes_min, options.bytes_max);
}

}  // namespace

std::chrono::microseconds Options::pause() const noexcept {
  return std::chrono::microseconds(std::llround(pause_ms * 1000));
}

CollectiveOptions Options::collective() const {
  return {.kind = kind,
          .type = type,
          .reduction = reduction,
          .algorithm = algorithm,
          .root = root,
          .direction = one_way ? Direction::OneWay : Direction::Both,
          .bytes_max = bytes_max,
          .outstanding = static_cast<std::uint32_t>(outstanding),
          .pause = pause()};
}

std::string kind_name(Kind kind) { return name_of(kKinds, kind); }

std::string reduction_name(const Options& options) {
  return reduces(options.kind) ? name_of(kReductions, options.reduction) : "none";
}

bool parse_options(int argc, char** argv, Options& options, int* exit_code) {
  CLI::App app(
      "Drives the nccl-mesh plugin as NCCL does, with processes as ranks, and prints nccl-tests' "
      "table.",
      "mesh_perf");
  app.footer(kFooter);
  app.option_defaults()->always_capture_default();
  app.add_option("collective", options.kind,
                 "all_reduce, all_gather, reduce_scatter, broadcast, reduce, sendrecv, alltoall or "
                 "latency")
      ->required()
      ->transform(driver::one_of(kKinds))
      ->option_text("REQUIRED");
  add_sizes(app, options);
  add_run(app, options);
  add_place(app, options);
  if (const auto end = driver::parse(app, argc, argv)) {
    *exit_code = *end;
    return false;
  }
  set_defaults(app, options);
  options.arguments = driver::own_arguments(argc, argv, options);
  *exit_code = driver::kUsage;
  return settle(options);
}

}  // namespace mesh::perf
