#pragma once
// The operation that mesh_perf measures: a collective over the plugin's connections, in the ranks
// of one communicator. Thread: one owner; data moves in the communicator's progress thread. Bound:
// Team::timeout for every wait.

#include "perf/driver/bootstrap.h"
#include "perf/driver/communicator.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mesh::perf {

enum class Kind : std::uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  Broadcast,
  Reduce,
  SendRecv,
  AllToAll,
  Latency
};
// In NCCL's numbers (ncclDataType_t, ncclRedOp_t).
enum class DataType : std::uint8_t {
  Uint8 = 1,
  Int32 = 2,
  Int64 = 4,
  Half = 6,
  Float = 7,
  Double = 8,
  Bfloat16 = 9
};
enum class Reduction : std::uint8_t { Sum, Prod, Max, Min };
enum class Algorithm : std::uint8_t { Ring, OneShot };  // of AllReduce
enum class Placement : std::uint8_t { OutOfPlace, InPlace };
enum class Direction : std::uint8_t {
  Both,
  OneWay
};  // OneWay: rank 0 to rank 1 only, SendRecv of two ranks

struct DataTypeInfo {
  const char* name;
  std::size_t bytes;
};
DataTypeInfo info(DataType type) noexcept;

// Returns true if the operation is a ring's (perf/collectives/ring_collective.h), or could be.
constexpr bool on_ring(Kind kind) noexcept {
  return kind != Kind::SendRecv && kind != Kind::AllToAll && kind != Kind::Latency;
}
// Returns true if the operation has a root rank.
constexpr bool has_root(Kind kind) noexcept {
  return kind == Kind::Broadcast || kind == Kind::Reduce;
}
// Returns true if the operation reduces elements.
constexpr bool reduces(Kind kind) noexcept {
  return kind == Kind::AllReduce || kind == Kind::ReduceScatter || kind == Kind::Reduce;
}
// Returns true if every rank has a block of the data, so that the size is that of all blocks.
constexpr bool has_blocks(Kind kind) noexcept {
  return kind == Kind::AllGather || kind == Kind::ReduceScatter;
}

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
  // Returns how long all connections of an operation may take together. A run with a long time-out
  // is on slow hosts.
  std::chrono::milliseconds connect_timeout() const {
    constexpr std::chrono::milliseconds kUsual{30000};
    return std::min(timeout, std::max(kUsual, timeout / 10));
  }
};

struct CollectiveOptions {
  Kind kind = Kind::AllReduce;
  DataType type = DataType::Float;
  Reduction reduction = Reduction::Sum;
  Algorithm algorithm = Algorithm::Ring;
  int root = 0;
  Direction direction = Direction::Both;
  std::size_t bytes_max = 0;  // the largest size that will be requested
  // SendRecv and AllToAll: open messages of a connection; 8 is NCCL_STEPS.
  std::uint32_t outstanding = 8;
  std::chrono::microseconds pause{0};  // Latency: between an answer and the next message
};

// Returns why so many ranks cannot run this over so many channels; empty if they can.
std::string mistake_in(const CollectiveOptions& options, int world, int channels);

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
  virtual double bus_factor() const { return 1.0; }
  // Bytes that a rank really sends divided by the size.
  virtual double sent_factor() const { return bus_factor(); }

  // Messages that this rank sends in one iteration; 0 if that says nothing of the operation.
  virtual std::size_t messages() const { return 0; }
  // Chooses whether input and output are one array. Returns false if the operation has no such way.
  virtual bool set_placement(Placement placement) { return placement == Placement::OutOfPlace; }
  // Runs the collective `iterations` times. Returns an ncclResult_t.
  virtual int run(std::size_t count, int iterations) = 0;
  // Makes one verified run: fills, runs, and checks every byte. Adds the wrong elements to `wrong`.
  virtual int check(std::size_t count, std::uint64_t round, std::size_t& wrong) = 0;
  // Returns the latency of each message or all-reduce of the last run, in microseconds; null if
  // none is measured.
  virtual const std::vector<double>* samples_us() const { return nullptr; }
};

}  // namespace mesh::perf
