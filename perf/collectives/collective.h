#pragma once
// The operation that mesh_perf measures: a collective over the plugin's connections, in the ranks
// of one communicator. Thread: one owner; data moves in the communicator's progress thread. Bound:
// Team::timeout for every wait.

#include "perf/driver/bootstrap.h"
#include "perf/driver/communicator.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mesh::perf {

enum class Kind : std::uint8_t { AllReduce, SendRecv, AllToAll, Latency };
enum class DataType : std::uint8_t { Uint8, Int32, Int64, Float, Double };
enum class Direction : std::uint8_t {
  Both,
  OneWay
};  // OneWay: rank 0 to rank 1 only, SendRecv of two ranks

struct DataTypeInfo {
  const char* name;
  std::size_t bytes;
};
DataTypeInfo info(DataType type) noexcept;

inline constexpr std::chrono::milliseconds kConnectPatience{30000};

// The rank's place in the run.
struct Team {
  driver::Communicator* communicator = nullptr;
  driver::Bootstrap* bootstrap = nullptr;
  int channels = 1;
  std::chrono::milliseconds timeout{60000};  // an operation that takes longer is an error
  int carriers = 0;  // the last ranks, which only carry messages of the others

  int rank() const { return bootstrap->rank(); }
  int world() const { return bootstrap->world() - carriers; }
  bool carries() const { return rank() >= world(); }
};

struct CollectiveOptions {
  Kind kind = Kind::AllReduce;
  DataType type = DataType::Float;
  Direction direction = Direction::Both;
  std::size_t bytes_max = 0;  // the largest size that will be requested
  // SendRecv and AllToAll: open messages of a connection; 8 is NCCL_STEPS.
  std::uint32_t outstanding = 8;
};

class Collective {
 public:
  // Connects. Every rank calls it at the same time. Returns null if that fails; `error` says why.
  static std::unique_ptr<Collective> create(const Team& team, const CollectiveOptions& options,
                                            std::string& error);
  virtual ~Collective() = default;

  // The number of elements that are really moved for a requested size, and the size of so many.
  virtual std::size_t count_for(std::size_t bytes) const = 0;
  virtual std::size_t size_of(std::size_t count) const = 0;
  // Bytes on the busiest wire divided by the size, as nccl-tests defines it.
  virtual double bus_factor() const = 0;

  // Runs the collective `iterations` times. Returns an ncclResult_t.
  virtual int run(std::size_t count, int iterations) = 0;
  // Makes one verified run: fills, runs, and checks every byte. Adds the wrong elements to `wrong`.
  virtual int check(std::size_t count, std::uint64_t round, std::size_t& wrong) = 0;
  // Returns the latency of each message of the last run, in microseconds; null if none is measured.
  virtual const std::vector<double>* samples_us() const { return nullptr; }
};

}  // namespace mesh::perf
