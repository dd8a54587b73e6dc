#pragma once
// The engine: rails, contexts, connections. The plugin has one in a process, a simulator several.
// Thread: every call may come from any thread and may lock; no message passes here. Bounds: at the
// calls.

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
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mesh {

namespace verbs {
class Provider;
}
namespace engine {
struct TestHooks;
}

struct EngineSnapshot;  // <mesh/snapshot.h>
struct RefusedPort;

inline constexpr std::size_t kHandleBytes = 128;  // NCCL_NET_HANDLE_MAXSIZE
using HandleBytes = std::array<std::byte, kHandleBytes>;

inline constexpr std::int16_t kUnassigned = -1;  // NCCL_NET_ID_UNDEF

// One local RDMA port as one PCIe function shows it. Strings live as long as the engine.
struct RailInfo {
  std::string name;    // unique: "rocep1s0f0:1"
  std::string device;  // "rocep1s0f0"
  std::uint8_t port = 1;
  std::string pci_path;    // resolved sysfs path that ends in the bus id; empty: no PCI parent
  std::string address;     // address of the chosen GID, "10.0.12.1/24"
  std::uint64_t guid = 0;  // equal for the halves of one cable, different for different cables
  std::uint32_t speed_mbps = 0;
  std::uint32_t mtu = 0;  // path MTU in bytes
  int numa_node = -1;
  std::int16_t rail_id = kUnassigned;  // what NCCL_IB_HCA assigns to the port
  std::int16_t plane_id = kUnassigned;
  // Whether memory of a GPU may be registered, as a DMA buffer and by address (peer memory). All
  // rails of a host agree.
  bool dma_buffers = false, peer_memory = false;
};

// The threads that turn the loops and the control plane.
enum class Threading : std::uint8_t {
  Own,     // a control thread of the engine's, and pollers by Settings::threads
  Manual,  // only the caller, by poll_loop() and poll_control() (simulator, deterministic tests)
};

struct EngineOptions {
  Settings settings;
  TransferPolicy policy;
  // Called once when the rails are known; its result replaces `policy`. Empty: `policy` is used.
  std::function<TransferPolicy(const FabricTraits&)> choose_policy;
  verbs::Provider* provider = nullptr;                          // outlives the engine
  const std::atomic<std::uint64_t>* manual_clock_ns = nullptr;  // null: the wall clock
  Threading threading = Threading::Own;
  // Hooks that only a simulator or a test sets (engine/link/test_hooks.h). Null: none.
  std::shared_ptr<const engine::TestHooks> hooks;
  // Filled in by open(), also if it fails: the ports that are no rails. Null: nobody asks.
  std::vector<RefusedPort>* refused_ports = nullptr;
};

struct ContextOptions {
  int traffic_class = kAuto;  // the communicator's; kAuto: the setting's
  // The communicator's id, which NCCL gives to all of its processes; no value: it tells none.
  std::optional<std::uint64_t> communicator_id{};
};

class Context;
class Listener;

class Engine {
 public:
  // Opens every usable rail. Returns NotFound if there is none; one INFO line says what it looked
  // at.
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options);
  // Calls end(), and waits for the devices to give up all that was made on them.
  virtual ~Engine() = default;
  // Closes what is left, within 1 s, and then waits for messages of other hosts
  // (carries_for_others). Waits for no device. Afterwards only the destructor may be called.
  virtual void end() noexcept = 0;

  virtual std::span<const RailInfo> rails() const noexcept = 0;
  virtual EngineStats stats() const = 0;
  virtual EngineSnapshot snapshot() const = 0;  // also queries the ports of the devices

  // A context is one communicator. It has one loop and shares no queue pair with another.
  virtual Result<Context*> open_context(const ContextOptions& options) = 0;
  // Does not wait for peers: the links send their last frames afterwards, within 1 s.
  virtual void close_context(Context* context) noexcept = 0;
  // Replaces ContextOptions::traffic_class for the links that are made from now on.
  virtual void set_traffic_class(Context& context, int traffic_class) = 0;
  // Returns true if the destructor would wait: closed contexts still say goodbye or are being
  // destroyed, or chains of other hosts are.
  virtual bool waits_for_peers() const = 0;
  // Returns true if messages of other hosts pass through this process. The destructor would wait
  // for them, and then cut them.
  virtual bool carries_for_others() const = 0;
  // For a process that exits with contexts open. If messages of other hosts pass through it, ends
  // its own links, and waits for these messages as the destructor would. Threads of the process may
  // be in any call meanwhile.
  virtual void exit_process() noexcept = 0;

  virtual Result<Listener*> listen(Context& context, int rail, HandleBytes& handle) = 0;
  // Also closes the channels that were never accepted.
  virtual void close_listener(Listener* listener) noexcept = 0;

  // connect() and accept() never block. They return WouldBlock until they are done: call again,
  // connect() with the same handle bytes, which hold its stage.
  virtual Result<Channel*> connect(Context& context, int rail, HandleBytes& handle) = 0;
  virtual Result<Channel*> accept(Listener& listener) = 0;

  // For Threading::Manual only: one turn of a context's loop, and one pass of the control plane.
  // Each returns true if something was done.
  virtual bool poll_loop(Context& context) = 0;
  virtual bool poll_control() = 0;
};

}  // namespace mesh
