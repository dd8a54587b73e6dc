#pragma once
// The command line of mesh_perf. It uses the flags of nccl-tests where these exist, and our own for
// the rest. Thread: any (values).

#include "perf/collectives/collective.h"
#include "perf/driver/buffer.h"
#include "perf/driver/net_api.h"
#include "perf/driver/world.h"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace mesh::perf {

struct Options : driver::RankOptions {
  Kind kind = Kind::AllReduce;
  std::size_t bytes_min = std::size_t{32} << 20;
  std::size_t bytes_max = std::size_t{32} << 20;
  std::size_t step_factor = 1;  // above 1: multiply, else add step_bytes
  std::size_t step_bytes = std::size_t{1} << 20;
  int iterations = 20;
  int warmup = 5;
  int min_time_ms = 0;  // above 0: iterations are raised until a size takes about this long
  int checks = 1;       // verified runs per size, the least with until_file
  DataType type = DataType::Float;
  Reduction reduction = Reduction::Sum;
  Algorithm algorithm = Algorithm::Ring;
  bool compares = false;  // the algorithm was named: the table has latencies of single all-reduces
  int root = 0;
  driver::MemoryKind memory = driver::MemoryKind::Host;
  int channels = 1;
  int outstanding = 8;  // messages in flight per connection; 8 is NCCL_STEPS
  int net_version = driver::kNetVersionMax;
  double pause_ms = 0;  // latency: between an answer and the next message
  bool one_way = false;
  bool measure_memcpy = false;
  bool verbose = false;
  int timeout_s = 600;  // of the whole run
  // Verified runs go on until the host of some rank has this file. Empty: the length is fixed.
  std::string until_file;
  std::string fabric;              // file of the software fabric, or "rdma"
  std::vector<std::string> hosts;  // empty: every host of the file
  int ranks_per_host = 1;
  bool ranks_per_host_given = false;
  std::vector<std::string> via;  // further hosts, between the two, that only carry
  std::string plugin;
  std::string json_file;
  std::vector<std::string> arguments;  // as the user gave them

  bool soft() const noexcept { return fabric != "rdma"; }
  std::chrono::microseconds pause() const noexcept;
  CollectiveOptions collective() const;
};

std::string kind_name(Kind kind);
std::string reduction_name(const Options& options);  // "none" of a kind that does not reduce

// Finds this process's place among the ranks, and the fabric. Returns false, after a line on
// stderr, if the options do not fit one another or the place.
bool settle(Options& options);

// Returns false if the process must end with *exit_code; --help and mistakes have been printed.
bool parse_options(int argc, char** argv, Options& options, int* exit_code);

}  // namespace mesh::perf
