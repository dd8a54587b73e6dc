#pragma once
// The chains of one path of somebody else's, as their middle host has them: made on a thread, told
// to who asked, joined to their neighbours on a thread, and then turned. They are destroyed on a
// thread too, because a device may take long for that. Thread: control mutex; a step that runs on
// its thread owns the chains until it is over. Bound: 1 + kQpsMax chains.

#include "engine/control/control_plane.h"
#include "engine/control/relay_frames.h"
#include "engine/link/link_host.h"
#include "engine/link/queue_pair_states.h"
#include "src/relay/chain.h"
#include "src/verbs/handle.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace mesh::engine {

class Carried {
 public:
  enum class Step : std::uint8_t { Waiting, Making, Made, Joining, Carrying, Destroying };

  // shares: by side, of all chains over its rail.
  Carried(LinkHost& host, ConnectionId connection, const Chain& order,
          const std::array<relay::RailShare*, 2>& shares);
  ~Carried();  // waits for the step under way
  Carried(const Carried&) = delete;
  Carried& operator=(const Carried&) = delete;

  ConnectionId connection() const noexcept { return connection_; }
  std::uint64_t number() const noexcept { return order_.chain; }
  Step step() const noexcept { return step_; }
  void set_step(Step step) noexcept { step_ = step; }

  void make();                  // begins it
  void join(const Join& body);  // begins it; the number of queue pairs fits
  // What it carries ends with a last count to its neighbours, by then at the latest.
  void part(std::uint64_t by_ns) noexcept;
  std::uint64_t parts_by_ns() const noexcept { return parts_by_ns_; }  // 0: it does not
  bool parted() const noexcept;
  void abandon() noexcept { abandoned_.store(true, std::memory_order_relaxed); }
  // Destroys the chains on a thread, when the step under way is over. True: they are destroyed.
  // False: call again when the control thread has been woken.
  bool destroy() noexcept;
  bool running() const noexcept { return under_way_ && !over_.load(std::memory_order_acquire); }
  bool take_over() noexcept;  // true, once: the step that was begun is over
  const std::string& why() const noexcept { return why_; }  // it failed; empty: it did not
  std::vector<WireHop> ends();                              // near and far
  const std::vector<std::unique_ptr<relay::Chain>>& chains() const noexcept { return chains_; }
  const std::string& rail_name(relay::Side side) const noexcept;  // ours, that faces that side
  std::uint64_t ring_bytes() const noexcept;
  std::string port_down() const;  // the name of a rail of its whose port is; empty: none is

 private:
  template <typename Work>
  void begin(Work work);
  bool make_domains();
  void make_all();
  void join_all(const Join& body);
  Status raise(relay::Side side, const PortEnd& own, const WireHop& neighbour);
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
  // By side, and of these chains alone: whoever fills their rings reaches no others.
  std::array<verbs::PdHandle, 2> domains_;
  std::vector<std::unique_ptr<relay::Chain>> chains_;
  std::string why_;
  std::uint64_t parts_by_ns_ = 0;
  bool under_way_ = false;
  std::atomic<bool> over_{false};       // released after what the step did
  std::atomic<bool> abandoned_{false};  // ends before the next try
  std::thread thread_;
};

// How large the rings of one path's queue pairs are, by the side that fills them: the connector's
// carries messages, the other one rows.
inline constexpr std::uint64_t kCarriedWrBytesMax = relay::kPayloadBytesMax / 4;
std::array<relay::RingShape, 2> ring_shapes(const ChainSizes& sizes, std::uint32_t queue_pair);

}  // namespace mesh::engine
