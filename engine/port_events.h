#pragma once
// Handles the asynchronous events of devices. The control thread wakes for them, so that a pulled
// cable is known long before the retries of the work requests on it have run out. With threads of
// the engine's own it also keeps the views of the rails' ports: a thread of the pool looks at a
// port after each event, and now and then while somebody asks for the port; a port that has come up
// is told when the device has answered. Thread: control mutex; watch() before there are threads;
// collect() by whoever polls the control plane, without the mutex.
// Bounds: kEventsPerPass events of one rail in one pass; one look at a rail's port at a time.

#include <mesh/snapshot.h>

#include "engine/link/link_host.h"
#include "engine/link/links.h"
#include "src/base/thread_pool.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mesh::engine {

class PortEvents {
 public:
  static constexpr int kEventsPerPass = 64;  // more events make the descriptor readable again

  PortEvents(LinkHost& host, Links& links) : host_(host), links_(links) {}
  ~PortEvents();
  PortEvents(const PortEvents&) = delete;
  PortEvents& operator=(const PortEvents&) = delete;

  // Watches the devices of all rails. If a device cannot be watched, only completions tell of its
  // trouble.
  void watch(ControlPlane& plane);
  void collect() noexcept;  // the events that devices have
  bool take_collected();    // returns true if there was one
  void take_answers();      // of looks at ports that have ended
  void look();              // at the ports whose views somebody wants newer
  // The card of the rail has left, and a new one has come into its place.
  void on_card_left(std::uint32_t rail);
  void on_card_back(std::uint32_t rail);
  bool is_away(std::uint32_t rail) const noexcept { return (away_ >> rail & 1) != 0; }
  // Adds how often each rail's port went down or its device failed, and the speed that its port
  // told last.
  void add_to(EngineSnapshot& shot) const noexcept;

 private:
  // A look at the port of one rail, and the events that wait for its answer.
  struct Look {
    struct Events {
      bool any = false, up = false, address = false, lid = false, speed = false;
    };
    ThreadPool::Task task{};
    std::atomic<bool> over{false};
    Events waiting{}, answers{};  // for the next look, for the one under way
    std::uint64_t began_ns = 0;
    bool failed = false;  // for want of memory: it is made again; written before `over`

    void keep_answers() noexcept {
      waiting.up |= answers.up;
      waiting.address |= answers.address;
      waiting.lid |= answers.lid;
      waiting.speed |= answers.speed;
      answers = {};
    }
  };
  void begin_look(std::uint32_t rail);
  void hear_up(std::uint32_t rail);
  void hear_down(std::uint32_t rail);
  void hear_address(std::uint32_t rail);
  void hear_lid(std::uint32_t rail);
  void hear_speed(std::uint32_t rail);
  void take(std::uint32_t rail, const verbs::DeviceEvent& event);
  void on_lid_change(std::uint32_t rail);
  void doubt_cables(bool up);
  void on_port_change(std::uint32_t rail, bool up);
  void see_speed(std::uint32_t rail);

  struct Collected {
    std::uint32_t rail = 0;
    verbs::DeviceEvent event;
  };

  LinkHost& host_;
  Links& links_;
  ControlPlane* plane_ = nullptr;  // set by watch()
  std::uint64_t away_ = 0;         // bits: rails whose card has left
  std::vector<Collected> collected_;
  std::vector<std::uint64_t> downs_;          // by rail
  std::vector<std::uint32_t> speeds_;         // by rail, in Mb/s; 0: its port has not been up yet
  std::vector<std::unique_ptr<Look>> looks_;  // by rail; empty: without views
};

}  // namespace mesh::engine
