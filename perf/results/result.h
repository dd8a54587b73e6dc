#pragma once
// The results of a performance tool: series of points, with all that is needed to read them right.
// Every rate is in 10^9 bytes of payload a second, every latency in microseconds one way. Result
// files are versioned JSON; README.md in this folder has the format. The programs in C++ write
// them, and perf/suite/results.py reads them. Thread: any (values).

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mesh::results {

inline constexpr const char* kFormat = "nccl-mesh-results";
inline constexpr int kVersion = 1;

// Figures of different kinds are marked wherever they are drawn or compared together.
enum class Kind : std::uint8_t { Model, Soft, Rdma };
const char* kind_name(Kind kind) noexcept;  // "model", "soft", "rdma"

struct Bandwidth {
  double gbytes_per_s = 0;  // size over time
  // The rate on the busiest wire, as nccl-tests defines it; point to point equals gbytes_per_s.
  double bus_gbytes_per_s = 0;
  std::optional<double> ceiling_gbytes_per_s;  // the link's goodput, where it is known; to be
                                               // compared with the bus bandwidth
  bool slots_bind = false;  // the ceiling is that of the cards' slots, below the cables'
};

struct Latency {
  double min = 0, median = 0, p99 = 0, p999 = 0;
  std::uint64_t samples = 0;
  double mean = 0;  // of the samples, without what lies between them; not in the file
};

struct Point {
  std::uint64_t bytes = 0;
  std::uint64_t iterations = 0;
  std::optional<bool> verified;  // true: every byte looked at and right; nothing: not looked at
  std::optional<Bandwidth> bandwidth;
  std::optional<Latency> latency_us;
  // User and system time of all ranks together for 10^9 bytes of payload.
  std::optional<double> cpu_seconds_per_gb;
  // Other figures of the tool, with the unit last: "memcpy_gbytes_per_s".
  std::map<std::string, double> extra;
};

// The settings with which a series was taken. Nothing: the default, as the plugin chose it.
struct Settings {
  std::optional<std::uint64_t> qps, signal_interval, inline_bytes;
  std::uint64_t channels = 1;
  std::uint64_t outstanding = 1;  // messages in flight per channel
  std::uint64_t via = 0;          // hosts on the way, which carry
  std::uint64_t pause_us = 0;     // between two messages of latency
};

struct Series {
  // "all_reduce", "sendrecv", "sendrecv one way", "latency", "ib_write_bw", ...
  std::string operation;
  Settings settings;
  std::vector<Point> points;  // by rising size, each size once
};

// The place of the measurement; empty or 0: not known (a model has no host).
struct Place {
  std::string host, cpu, kernel;
  std::uint64_t cpus = 0;
  std::string topology;  // "pair.json", "two hosts, one cable of 100 Gb/s"
  std::uint64_t ranks = 0;
};

struct File {
  Kind kind = Kind::Soft;
  std::string label;  // for people: "software fabric on this host, not RDMA (pair.json)"
  std::string tool;
  std::vector<std::string> arguments;
  Place place;
  std::vector<std::string> notes;  // "taken on a busy machine"
  std::vector<Series> series;
};

std::string to_json(const File& file);

// Returns false if the file cannot be written; `why` says why not, with the path.
bool write_file(const std::string& path, const File& file, std::string& why);

// Returns this machine's facts, as far as it tells them.
Place this_place();

// Returns the nearest rank: the smallest sample that at least `share` of all do not exceed. Samples
// rising, at least one; share 0..1.
double quantile(const std::vector<double>& rising, double share);

// Returns nothing without samples. With fewer than 1000, p99.9 is the largest.
std::optional<Latency> latency_of(std::vector<double> samples_us);

}  // namespace mesh::results
