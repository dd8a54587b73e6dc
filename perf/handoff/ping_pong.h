#pragma once
// Two hosts of a software fabric in one process, each with an engine and one thread that calls it
// as NCCL's proxy does, and a small message that goes back and forth between them. Thread: one
// owner. Every wait is bounded.

#include <mesh/engine.h>

#include "src/soft/soft_provider.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mesh::perf {

struct HandoffOptions {
  int threads = kAuto;  // NCCL_MESH_THREADS
  std::string cpus;     // NCCL_MESH_CPUS
  std::size_t bytes = 8;
};

class HandoffPair {
 public:
  // Returns null if it fails; `why` says why. `fabric` is this run's own.
  static std::unique_ptr<HandoffPair> open(const soft::FabricFile& fabric,
                                           const HandoffOptions& options, std::string& why);
  ~HandoffPair();
  HandoffPair(const HandoffPair&) = delete;
  HandoffPair& operator=(const HandoffPair&) = delete;

  // Returns the one-way times in nanoseconds (half of each exchange), in order. Empty if it failed;
  // `why` says how.
  std::vector<double> run(std::size_t exchanges, std::string& why);

 private:
  struct Host {
    std::unique_ptr<soft::SoftProvider> provider;
    std::unique_ptr<Engine> engine;
    Context* context = nullptr;
    Channel* send = nullptr;
    Channel* receive = nullptr;
    std::vector<std::byte> memory;
    Registration* send_region = nullptr;
    Registration* receive_region = nullptr;
  };

  explicit HandoffPair(const HandoffOptions& options) : options_(options) {}
  bool open_host(const soft::FabricFile& fabric, std::size_t index, std::string& why);
  bool connect(Host& from, Host& to, std::string& why);
  bool register_all(std::string& why);
  enum class Side : std::uint8_t { Send, Receive };
  Request* begin(Host& host, Side side);  // null if it was not accepted
  static bool end(Request* request);
  bool echo(std::size_t exchanges);

  const HandoffOptions options_;
  // Sends one message to the other host and back, timed. Returns false if none came.
  bool exchange_one(std::vector<double>& one_way_ns);

  Host hosts_[2];
};

}  // namespace mesh::perf
