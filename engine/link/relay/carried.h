#pragma once
// The chains of another host's path, on their middle host: made on a thread, told to the host that
// asked, joined to their neighbours on a thread, and then turned. They are destroyed on a thread
// too, because a device may take long for that. Thread: control mutex; a step that runs on its
// thread owns the chains until it is over. Bound: 1 + kQpsMax chains.

#include "engine/control/control_plane.h"
#include "engine/control/relay_frames.h"
#include "engine/link/link_host.h"
#include "engine/link/queue_pair_states.h"
#include "src/base/thread_pool.h"
#include "src/relay/bell.h"
#include "src/relay/chain.h"
#include "src/verbs/handle.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mesh::engine {

class Carried {
 public:
  enum class Step : std::uint8_t { Waiting, Making, Made, Joining, Carrying, Destroying };

  // `shares`: by side, what all chains over that side's rail share.
  Carried(LinkHost& host, ConnectionId connection, const Chain& order,
          const std::array<relay::RailShare*, 2>& shares);
  ~Carried();  // waits for a step under way
  Carried(const Carried&) = delete;
  Carried& operator=(const Carried&) = delete;

  ConnectionId connection() const noexcept { return connection_; }
  std::uint64_t number() const noexcept { return order_.chain; }
  Step step() const noexcept { return step_; }
  void set_step(Step step) noexcept { step_ = step; }

  void make();                  // begins the step Making
  void join(const Join& body);  // begins the step Joining; the numbers of queue pairs fit
  // Ends the chains with a last count to their neighbours, until `by_ns` at the latest.
  void part(std::uint64_t by_ns) noexcept;
  std::uint64_t parts_by_ns() const noexcept { return parts_by_ns_; }  // 0: part() was not called
  bool parted() const noexcept;
  void abandon() noexcept { abandoned_.store(true, std::memory_order_relaxed); }
  // Destroys the chains on a thread, when the step under way is over. Returns true if they are
  // destroyed; after false call it again when the control thread has been woken.
  bool destroy() noexcept;
  bool running() const noexcept { return under_way_ && !over_.load(std::memory_order_acquire); }
  bool take_over() noexcept;  // returns true once, when a begun step is over
  const std::string& why() const noexcept { return why_; }  // why it failed; empty if not
  std::vector<WireHop> ends();                              // near and far
  const std::vector<std::unique_ptr<relay::Chain>>& chains() const noexcept { return chains_; }
  const std::string& rail_name(relay::Side side) const noexcept;  // our rail that faces that side
  std::uint64_t ring_bytes() const noexcept;
  std::string port_down() const;  // a rail of it whose port is down; empty if none

 private:
  template <typename Work>
  void begin(Work work);
  bool make_domains();
  void make_all();
  void join_all(const Join& body);
  Status raise(relay::Side side, const PortEnd& own, const WireHop& neighbour);
  const verbs::Rail& rail(relay::Side side) const noexcept;
  void look_at_port(relay::Side side) const;
  PortEnd port(relay::Side side) const;
  WireHop end(relay::Side side);

  LinkHost& host_;
  const ConnectionId connection_;
  const Chain order_;
  std::array<relay::RailUse, 2> uses_;
  std::array<std::string, 2> names_;  // for log lines
  std::uint32_t psn_ = 0;
  Settings settings_;
  Step step_ = Step::Waiting;
  // By side. Only these chains use them, so a peer that fills their rings reaches no other memory.
  std::array<verbs::OpenDevice::Hold, 2> devices_;  // while something of ours is on them
  std::array<verbs::PdHandle, 2> domains_;
  std::array<relay::Bell, 2> bells_;
  std::vector<std::unique_ptr<relay::Chain>> chains_;
  std::string why_;
  std::uint64_t parts_by_ns_ = 0;
  bool under_way_ = false;
  std::atomic<bool> over_{false};       // released after the step's work
  std::atomic<bool> abandoned_{false};  // the step ends before its next try
  ThreadPool::Task task_;
};

inline constexpr std::uint64_t kCarriedWrBytesMax = relay::kPayloadBytesMax / 4;
// Returns the sizes of a queue pair's rings, by the side that fills them: the connector's ring
// carries messages, the acceptor's CTS entries.
std::array<relay::RingShape, 2> ring_shapes(const ChainSizes& sizes, std::uint32_t queue_pair);

}  // namespace mesh::engine
