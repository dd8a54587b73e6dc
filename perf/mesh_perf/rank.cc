#include "perf/mesh_perf/rank.h"

#include "perf/collectives/carriers.h"
#include "perf/driver/plugin_log.h"
#include "perf/driver/rank_options.h"
#include "perf/mesh_perf/ceiling.h"
#include "perf/mesh_perf/ground.h"
#include "perf/mesh_perf/report.h"
#include "perf/mesh_perf/run_end.h"
#include "perf/results/result.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace mesh::perf {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kWrongData = 3;
constexpr int kIterationsMax = 1000000;

int fail(RunLimit& limit, const std::string& what, const std::string& why) {
  limit.tell(what + ": " + why);
  return 1;
}

// The data about one size that every rank sends to the others.
struct Measure {
  double seconds = 0;
  double cpu_seconds = 0;  // of the process, all timed iterations
  std::uint64_t wrong = 0;
};

double process_cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

class Session {
 public:
  Session(const Options& options, const Team& team, Collective& collective, RunLimit& limit)
      : options_(options), team_(team), collective_(collective), limit_(limit) {}

  int run(const Ground& ground);

 private:
  bool reports() const { return team_.rank() == 0; }
  int choose_iterations(std::size_t count, int& iterations);
  int pass(const Row& row, Figures& figures);
  int verify(const Row& row, Figures& figures);
  int measure(const Row& row, Measure& own);
  int share(const Row& row, const Measure& own, Figures& figures);
  int one_size(std::size_t bytes);
  void show_progress(std::size_t bytes) const;

  const Options& options_;
  const Team& team_;
  Collective& collective_;
  RunLimit& limit_;
  std::vector<Row> rows_;
};

// Chooses the number of iterations: those that were requested, and with a least time as many more
// as that needs, by the time of the slowest rank.
int Session::choose_iterations(std::size_t count, int& iterations) {
  iterations = options_.iterations;
  if (options_.min_time_ms == 0) return driver::kNetSuccess;
  const auto start = SteadyClock::now();
  const int result = collective_.run(count, iterations);
  if (result != driver::kNetSuccess) return result;
  const auto spent =
      std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock::now() - start).count();
  const auto all = team_.bootstrap->all_gather(std::to_string(spent));
  if (!all.ok()) return driver::kDriverTimeout;
  double slowest = 1;
  for (const std::string& one : all.value()) slowest = std::max(slowest, std::atof(one.c_str()));
  const double wanted = iterations * (options_.min_time_ms * 1e6 / slowest);
  iterations = static_cast<int>(std::clamp<double>(wanted, iterations, kIterationsMax));
  return driver::kNetSuccess;
}

// Makes the requested rounds, and with --until further ones until the file exists.
int Session::verify(const Row& row, Figures& figures) {
  EndMark end(options_.until_file, *team_.bootstrap);
  for (;;) {
    if (figures.checks >= options_.checks) {
      const auto over = end.seen();
      if (!over.ok()) return driver::kDriverTimeout;
      if (*over) return driver::kNetSuccess;
    }
    const int result =
        collective_.check(row.count, static_cast<std::uint64_t>(figures.checks), figures.wrong);
    if (result != driver::kNetSuccess) return result;
    ++figures.checks;
  }
}

int Session::measure(const Row& row, Measure& own) {
  if (options_.warmup > 0) {
    const int result = collective_.run(row.count, options_.warmup);
    if (result != driver::kNetSuccess) return result;
  }
  if (!team_.bootstrap->barrier().ok()) return driver::kDriverTimeout;
  const double cpu_before = process_cpu_seconds();
  const auto start = SteadyClock::now();
  const int result = collective_.run(row.count, row.iterations);
  own.seconds = std::chrono::duration<double>(SteadyClock::now() - start).count() / row.iterations;
  own.cpu_seconds = process_cpu_seconds() - cpu_before;
  return result;
}

int Session::share(const Row& row, const Measure& own, Figures& figures) {
  auto all = team_.bootstrap->all_gather({reinterpret_cast<const char*>(&own), sizeof(own)});
  if (!all.ok()) return driver::kDriverTimeout;
  double sum = 0, slowest = 0, cpu_seconds = 0;
  figures.wrong = 0;
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    const std::string& blob = (*all)[rank];
    Measure measure;
    if (blob.size() != sizeof(measure)) return driver::kNetInternalError;
    std::memcpy(&measure, blob.data(), sizeof(measure));
    cpu_seconds += measure.cpu_seconds;
    if (static_cast<int>(rank) >= team_.world()) continue;  // it only carries
    sum += measure.seconds;
    slowest = std::max(slowest, measure.seconds);
    figures.wrong += measure.wrong;
  }
  const double seconds = sum / team_.world();
  figures.time_us = seconds * 1e6;
  figures.time_us_max = slowest * 1e6;
  figures.algbw_gbps = seconds > 0 ? static_cast<double>(row.bytes) / seconds / 1e9 : 0;
  figures.busbw_gbps = figures.algbw_gbps * collective_.bus_factor();
  const bool chain = options_.one_way || has_root(options_.kind);  // its last rank sends nothing
  const double sent = collective_.sent_factor() * static_cast<double>(row.bytes) * row.iterations *
                      (team_.world() - (chain ? 1 : 0));
  figures.cpu_seconds_per_gb = sent > 0 ? cpu_seconds / sent * 1e9 : 0;
  return driver::kNetSuccess;
}

// Verifies and measures one size with the arrays as they are now.
int Session::pass(const Row& row, Figures& figures) {
  Measure own;
  int result = verify(row, figures);
  own.wrong = figures.wrong;
  if (result == driver::kNetSuccess) result = measure(row, own);
  return result == driver::kNetSuccess ? share(row, own, figures) : result;
}

void Session::show_progress(std::size_t bytes) const {
  if (reports() && ::isatty(STDERR_FILENO) != 0)
    std::fprintf(stderr, "\r# running %zu bytes ...\033[K\r", bytes);
}

int Session::one_size(std::size_t bytes) {
  show_progress(bytes);
  Row row;
  row.count = collective_.count_for(bytes);
  row.bytes = collective_.size_of(row.count);
  int result = choose_iterations(row.count, row.iterations);
  if (result == driver::kNetSuccess) result = pass(row, row);
  row.messages_per_us = static_cast<double>(collective_.messages()) / row.time_us;
  if (collective_.samples_us() != nullptr)
    row.latency_us = results::latency_of(*collective_.samples_us());
  if (result == driver::kNetSuccess && collective_.set_placement(Placement::InPlace)) {
    result = pass(row, row.in_place.emplace());
    collective_.set_placement(Placement::OutOfPlace);
  }
  if (result != driver::kNetSuccess)
    return fail(limit_, "run failed", driver::net_result_name(result));
  // The others wait in the next exchange, asleep, while rank 0 has the memory for itself.
  if (options_.measure_memcpy && reports()) row.memcpy_gbps = measure_memcpy(row.bytes);
  if (reports()) print_row(options_, row);
  rows_.push_back(row);
  return team_.bootstrap->barrier().ok() ? 0 : fail(limit_, "run failed", "a rank was lost");
}

int Session::run(const Ground& ground) {
  if (reports()) print_header(options_, ground);
  for (std::size_t bytes = options_.bytes_min;;) {
    const int failed = one_size(bytes);
    if (failed != 0) return failed;
    const std::size_t next = options_.step_factor > 1
                                 ? std::max(bytes * options_.step_factor, bytes + 1)
                                 : bytes + options_.step_bytes;
    if (next > options_.bytes_max) break;
    bytes = next;
  }
  bool written = true;
  if (reports()) {
    print_footer(options_, rows_);
    if (!options_.json_file.empty()) written = write_json(options_, ground, rows_);
  }
  if (!team_.bootstrap->barrier().ok())
    return fail(limit_, "run failed", "a rank was lost at the end");
  if (total_wrong(rows_) != 0) return kWrongData;
  return written ? 0 : 1;
}

int run_collective(const Options& options, const Team& team, RunLimit& limit) {
  limit.enter("connecting");
  std::string error;
  driver::ConnectionSet neighbours(*team.communicator);
  if (team.carriers > 0 && connect_neighbours(team, neighbours) != driver::kNetSuccess)
    return fail(limit, "no connections", "between neighbours");
  const std::unique_ptr<Collective> collective =
      Collective::create(team, options.collective(), error);
  if (collective == nullptr) return fail(limit, "no connections", error);
  limit.enter("measuring");
  Ground ground;
  if (!find_ground(options, team, ground)) return fail(limit, "run failed", "a rank was lost");
  return Session(options, team, *collective, limit).run(ground);
}

// Gives all ranks the earliest deadline of any rank. Returns false if a rank was lost.
bool agree_on_end(driver::Bootstrap& bootstrap, RunLimit& limit) {
  const auto all = bootstrap.all_gather(std::to_string(limit.left().count()));
  if (!all.ok()) return false;
  for (const std::string& left : all.value())
    limit.shorten_to(std::chrono::milliseconds(std::atoll(left.c_str())));
  return true;
}

}  // namespace

int run_rank(const Options& options) {
  const std::chrono::seconds patience(options.timeout_s);
  RunLimit limit(options.world.rank, patience);
  // Our launcher ends its ranks itself.
  if (!options.launched) limit.enforce();
  limit.enter("rendezvous");
  driver::use_memory(options.memory);
  if (options.verbose) driver::PluginLog::instance().set_filter({NCCL_LOG_INFO, NCCL_ALL});
  driver::PluginLog::instance().set_echo(
      options.verbose ? driver::Echo::Everything : driver::Echo::Warnings,
      "mesh_perf: rank " + std::to_string(options.world.rank) + ": ");
  std::string error;
  auto bootstrap = driver::Bootstrap::join(driver::bootstrap_options(options, patience, &error));
  if (!bootstrap.ok()) return fail(limit, "the ranks do not meet", error);
  if (!agree_on_end(*bootstrap, limit)) return fail(limit, "rendezvous failed", "a rank was lost");
  limit.enter("plugin start");
  const std::unique_ptr<driver::NetApi> api =
      driver::NetApi::load(options.plugin, options.net_version, error);
  if (api == nullptr) return fail(limit, "no plugin", error);
  driver::Communicator communicator(*api, {.id = 1, .device = options.world.local_rank});
  int result = communicator.open();
  if (result != driver::kNetSuccess)
    return fail(limit, "init failed", driver::net_result_name(result));
  const Team team{&communicator, &*bootstrap, options.channels, patience,
                  static_cast<int>(options.via.size())};
  const int code = run_collective(options, team, limit);
  limit.enter("closing");
  result = communicator.close();
  if (result != driver::kNetSuccess)
    return fail(limit, "finalize failed", driver::net_result_name(result));
  return code;
}

}  // namespace mesh::perf
