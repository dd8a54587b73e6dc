#pragma once
// One side of a chain in a middle host: the queue pair to that neighbour with a completion queue of
// its own, the receives for what the neighbour announces, and the words with counts for it. Thread:
// the chain's. Bounds: the depths that it was made with.

#include <mesh/status.h>

#include "src/base/pages.h"
#include "src/base/yielding.h"
#include "src/relay/bell.h"
#include "src/relay/count_words.h"
#include "src/relay/ring_writer.h"
#include "src/verbs/handle.h"

#include <cstdint>
#include <vector>

namespace mesh::relay {

// Limits what chains have under way over one rail of a middle host, so that the host's own messages
// keep the rail's cable. A NIC serves its queue pairs in turn, and our own messages use several: if
// only one chain at a time has payloads under way, the traffic carried for others gets the part of
// one queue pair. A chain keeps the rail for a quantum while others wait, and the others get it in
// turn. With nobody else on the cable this costs the little time between two chains. Thread: any.
// Bound: none; a holder whose NIC is silent loses the rail after kPatience questions of others.
class RailShare {
 public:
  static constexpr std::uint64_t kFreeBytes = 8192;  // a payload up to this goes without asking
  static constexpr std::uint64_t kUnderWayBytes = 512u << 10;
  static constexpr std::uint64_t kQuantumBytes = 1u << 20;
  static constexpr std::uint64_t kHandOverBytes = 64u
                                                  << 10;  // may be under way when the next begins
  static constexpr std::uint32_t kPatience = 20'000;

  RailShare() = default;
  RailShare(const RailShare&) = delete;
  RailShare& operator=(const RailShare&) = delete;

  // Returns true if `who`, one direction of a chain, may post so many bytes more. under_way: the
  // bytes that it has under way.
  bool try_post(const void* who, std::uint64_t under_way, std::uint64_t bytes) noexcept;
  // look() is called before try_post(), and rest() when there is no more to post. Both return false
  // if `who` does not hold the rail any more.
  bool look(const void* who, std::uint64_t under_way) noexcept;
  bool rest(const void* who, std::uint64_t under_way) noexcept;
  void leave(const void* who) noexcept;

 private:
  bool may_take(const void* who) noexcept;
  void release() noexcept;

  ShortLock lock_;
  const void* holder_ = nullptr;
  const void* last_ = nullptr;  // the holder before, which gave the rail up
  bool others_wait_ = false;    // others have asked meanwhile
  std::uint64_t spent_ = 0;     // by the holder
  std::uint64_t under_way_ = 0;
  std::uint32_t asked_ = 0;  // by others, since something of the holder's was done
};

// The parts of a rail that a chain uses. All of them outlive the chain.
struct RailUse {
  verbs::Provider* provider = nullptr;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  RailShare* share = nullptr;  // shared by all chains over the rail; null: there is no bound
  Bell* bell = nullptr;        // null or mute: nothing wakes the thread of the chains
  bool has_bell() const noexcept { return bell != nullptr && !bell->mute(); }
};

// The kind of work that has completed, in the high half of its id; the low half is a count or the
// index of a word.
enum class ChainWork : std::uint32_t { Receive = 1, Forward = 2, Count = 3 };
constexpr std::uint64_t chain_id(ChainWork work) noexcept {
  return std::uint64_t{static_cast<std::uint32_t>(work)} << 32;
}

class ChainSide {
 public:
  struct Depths {
    std::uint32_t receives = 0;  // slots of the ring that the neighbour fills
    std::uint32_t sends = 0;     // work requests on their way to the neighbour, without counts
  };
  // Returns System if something was refused; one line says what.
  Status create(const RailUse& rail, const Depths& depths);

  ibv_qp* qp() const noexcept { return qp_.get(); }
  ibv_cq* cq() const noexcept { return cq_.get(); }
  const RailUse& rail() const noexcept { return rail_; }

  // Posts so many receives, within the depth. Returns false if they are refused.
  bool post_receives(std::uint64_t count) noexcept;

  // Has the next completion ring the bell, which must be there. Returns false if the device
  // refuses.
  bool arm() noexcept { return ibv_req_notify_cq(cq_.get(), 0) == 0; }

  // counts() is where the neighbour writes its counts, if it is a middle host; counted() has them.
  CountsTarget counts() const noexcept;
  CountLine& counted() noexcept { return page().counted; }

  SendBatch batch;
  CountWriter words;

 private:
  struct Page {
    CountLine source;   // of the words that go to the neighbour
    CountLine counted;  // written by the neighbour
  };
  Page& page() const noexcept { return *reinterpret_cast<Page*>(memory_.get()); }
  ibv_cq* make_completion_queue(std::uint32_t entries) const;
  bool make_queue_pair(const Depths& depths, std::uint32_t* inline_bytes);

  RailUse rail_;
  Pages memory_;
  verbs::MrHandle mr_;
  verbs::CqHandle cq_;
  verbs::QpHandle qp_;
  std::vector<ibv_recv_wr> receives_;  // linked to one another, posted again and again
};

}  // namespace mesh::relay
