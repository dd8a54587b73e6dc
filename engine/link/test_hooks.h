#pragma once
// Hooks of a simulator or a test: they stand in the place of time, threads and the network, and set
// numbers otherwise. Thread: constant while the engine lives; whoever turns the engine makes the
// calls. Bound: none.

#include <mesh/engine.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>

namespace mesh::engine {

class ControlNetwork;
class DeviceContext;

struct TestHooks {
  // Threading::Manual: called to turn the rest of the world while a bounded wait lasts.
  std::function<void()> while_waiting{};
  // Threading::Manual: called wherever the control path has let go of a progress lock, so that a
  // simulator can do what other threads may do at that moment.
  std::function<void()> between_guards{};
  // Threading::Manual: devices work beside the engine, as if they took their time to stop and to
  // destroy queue pairs. Asked at each pass of the control path for each device that has something
  // to do: returns true if the device does one thing now. Empty: it does all at once.
  std::function<bool()> device_works{};
  // With device_works: returns true if the device does nothing until something else has happened.
  // No bring-up that opens a path on it again ends meanwhile.
  std::function<bool(const DeviceContext&)> device_hangs{};
  // Whether the credits of a receive that has waited for 1 s are written again. Only a simulation
  // in which that may never be needed turns it off.
  bool rewrites_late = true;
  // Threading::Manual: a bring-up ends no earlier than so long after it was asked for, as if the
  // device took its time for queue pairs.
  std::uint64_t bring_up_ns = 0;
  // Time between two looks at the latency of paths, also without NCCL_MESH_STATS; 0: the usual one,
  // with it. A simulation looks more often.
  std::uint64_t timed_ns = 0;
  // NCCL_MESH_BOTH_WAYS: bytes that a link must have sent in large messages before its path the
  // other way round is opened. A path over other hosts costs them memory.
  std::uint64_t both_ways_bytes = std::uint64_t{16} << 20;
  // Null: the kernel's sockets. Outlives the engine.
  ControlNetwork* control_network = nullptr;
};

// Returns those of the options, or the usual ones.
inline const TestHooks& hooks_of(const EngineOptions& options) noexcept {
  alignas(TestHooks) static std::byte place[sizeof(TestHooks)];
  static const auto* const usual = new (place) TestHooks;  // threads may outlive static destructors
  return options.hooks == nullptr ? *usual : *options.hooks;
}

}  // namespace mesh::engine
