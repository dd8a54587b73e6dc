#pragma once
// The real engine on modelled links and NICs: one thread, a manual clock, no time of this machine's
// anywhere. Every host has one CPU, its proxy, whose calls cost modelled time; a host calls when
// its CPU is free, and time jumps to the next thing that happens. The same fabric, policy and
// traffic give the same figures on any machine. The handshake alone goes through the kernel's
// loopback; the clock is set anew after it. Thread: one. Bounds: two hosts or more, kStuckSteps
// calls without progress while no NIC has anything to do.

#include <mesh/engine.h>
#include <mesh/policy.h>

#include "perf/model/driven.h"
#include "perf/model/flow.h"
#include "perf/model/group_run.h"
#include "perf/model/span_memory.h"
#include "src/soft/soft_provider.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mesh::model {

struct WorldOptions {
  soft::FabricFile fabric;
  TransferPolicy policy;
  CallCosts calls;
  bool sites = false;   // each host is a site of its own
  bool relays = false;  // neighbours know each other, and hosts between two hosts carry
  std::vector<std::pair<std::size_t, std::size_t>> cables{};  // of these; empty: a row's
  bool both_ways = false;  // of a ring: messages to a neighbour go the other way round, too
};

class World {
 public:
  // Returns null if it fails; `why` says what failed.
  static std::unique_ptr<World> open(const WorldOptions& options, std::string& why);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Returns a connected channel with this load, or null (`why`); with relays its path is open.
  Flow* add_flow(const Load& load, std::size_t sender, std::size_t receiver, std::string& why);
  // Returns the all-reduces of a group of all hosts, or null (`why`).
  GroupRun* add_group(const GroupLoad& load, std::string& why);
  // Exchanges messages until each flow has its second path (both_ways), once all flows are there,
  // or for as long as that takes at most. Returns false if a message fails; `why` says why.
  bool open_both_ways(std::string& why);

  // Runs until every flow has finished, or `done` says so (asked after every call). Returns false
  // if a request failed or nothing moves; `why` says which.
  bool run(const std::function<bool()>& done, std::string& why);

  std::uint64_t now_ns() const noexcept { return clock_.load(std::memory_order_relaxed); }
  EngineStats stats(std::size_t host) const { return hosts_[host].engine->stats(); }
  std::size_t host_count() const noexcept { return hosts_.size(); }
  std::uint64_t rnr_events() const;

 private:
  struct Host;
  // A thread of a host, with a processor of its own, which makes round after round.
  struct Cpu {
    std::uint64_t free_at_ns = 0;
    std::uint64_t round_ns = 0;  // time of the present round
    bool round_idle = true;      // the present round has achieved nothing so far
    // Above 0: the last round achieved nothing and took this time. Rounds like it can be skipped.
    std::uint64_t idle_round_ns = 0;
    void begin(std::uint64_t now_ns) noexcept { *this = {.free_at_ns = now_ns}; }
    void end_round() noexcept;
    void skip_until(std::uint64_t due_ns) noexcept;
  };
  // The next one to act: a host's proxy, or its relay.
  struct Actor {
    Host* host = nullptr;
    Cpu* cpu = nullptr;
  };
  struct Host {
    std::unique_ptr<soft::SoftProvider> provider;
    std::unique_ptr<Engine> engine;
    Context* context = nullptr;
    std::vector<std::string> nics;
    std::vector<Driven*> driven;  // by the host's proxy
    std::size_t at = 0;           // the one whose turn it is
    bool tests = false;           // and whether it starts or tests
    std::uint64_t chains = 0;     // that the host's relay turns
    Cpu proxy, relay;
    bool over() const noexcept;
  };

  World() = default;
  bool open_hosts(const WorldOptions& options, std::string& why);
  bool connect(Flow& flow, std::string& why);
  bool introduce(std::size_t from, std::size_t to, std::string& why);
  bool wake(Flow& flow, std::string& why);
  bool register_memory(Flow::End& end, std::string& why);
  void settle();  // lets the NICs do everything that is due now
  void handshake_step(std::uint64_t ns);
  bool exchange_one(Flow& flow);
  void start_clock();
  std::uint64_t next_due_ns() const;
  void skip_idle(std::uint64_t due_ns);
  template <typename Visitor>
  void each_cpu(Visitor&& visit);
  Actor next_actor();
  bool act(Host& host);
  void turn_relay(Host& host);

  std::atomic<std::uint64_t> clock_{1'000'000};
  CallCosts calls_;
  bool relays_ = false, both_ways_ = false;
  std::vector<std::unique_ptr<Flow>> flows_;
  std::unique_ptr<GroupRun> group_;
  std::vector<SpanMemory> memory_;
  std::vector<Host> hosts_;
};

}  // namespace mesh::model
