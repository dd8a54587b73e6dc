#pragma once
// The engine: rails, contexts, connections. One per process in the plugin; several in a simulator.
// Thread: every call here may come from any thread and may lock; none of it is on a message's way.

#include <mesh/channel.h>
#include <mesh/config.h>
#include <mesh/metrics.h>
#include <mesh/policy.h>
#include <mesh/status.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace mesh {

namespace verbs {
class Provider;
}
namespace engine {
class ControlNetwork;
}

struct EngineSnapshot;  // <mesh/snapshot.h>

inline constexpr std::size_t kHandleBytes = 128;  // NCCL_NET_HANDLE_MAXSIZE
using HandleBytes = std::array<std::byte, kHandleBytes>;

// One local RDMA port as one PCIe function shows it. Strings live as long as the engine.
struct RailInfo {
  std::string name;    // unique: "rocep1s0f0:1"
  std::string device;  // "rocep1s0f0"
  std::uint8_t port = 1;
  std::string pci_path;    // resolved sysfs path, last component the bus id; empty: no PCI parent
  std::string address;     // of the chosen GID, "10.0.12.1/24"
  std::uint64_t guid = 0;  // equal for the halves of one cable, different for different cables
  std::uint32_t speed_mbps = 0;
  std::uint32_t mtu = 0;  // path MTU in bytes
  int numa_node = -1;
};

// Who turns loops and control thread.
enum class Threading : std::uint8_t {
  Own,     // control thread always; pollers by Settings::threads
  Manual,  // nobody but the caller's poll_once (simulator, deterministic tests)
};

struct EngineOptions {
  Settings settings;
  TransferPolicy policy;
  // Asked once, when the rails are known, in the place of `policy`; none: `policy` it is.
  std::function<TransferPolicy(const FabricTraits&)> choose_policy;
  verbs::Provider* provider = nullptr;                          // outlives the engine
  const std::atomic<std::uint64_t>* manual_clock_ns = nullptr;  // null: wall clock
  Threading threading = Threading::Own;
  std::function<void()>
      while_waiting;  // Threading::Manual: turns the rest of the world while a bounded wait lasts
  engine::ControlNetwork* control_network =
      nullptr;  // null: the kernel's sockets; outlives the engine
};

struct ContextOptions {
  int traffic_class = kAuto;  // of the communicator; kAuto: the setting
};

class Context;
class Listener;

class Engine {
 public:
  // Opens every usable rail. NotFound: none is usable (one INFO line says what was looked at).
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options);
  virtual ~Engine() = default;  // closes what is left; bounded by 1 s

  virtual std::span<const RailInfo> rails() const noexcept = 0;
  virtual EngineStats stats() const = 0;
  virtual EngineSnapshot snapshot() const = 0;  // asks the devices about their ports too

  // A context is one communicator: one loop, no queue pair shared with another.
  virtual Result<Context*> open_context(const ContextOptions& options) = 0;
  virtual void close_context(Context* context) noexcept = 0;  // bounded by 1 s in all

  virtual Result<Listener*> listen(Context& context, int rail, HandleBytes& handle) = 0;
  virtual void close_listener(Listener* listener) noexcept = 0;  // also what was never accepted

  // WouldBlock: call again with the same handle bytes (they hold the stage). Never blocks.
  virtual Result<Channel*> connect(Context& context, int rail, HandleBytes& handle) = 0;
  virtual Result<Channel*> accept(Listener& listener) = 0;

  // Threading::Manual only. One turn of a context's loop; one pass of the control plane. True:
  // something was done.
  virtual bool poll_loop(Context& context) = 0;
  virtual bool poll_control() = 0;
};

}  // namespace mesh
