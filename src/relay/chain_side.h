#pragma once
// One side of a chain in a middle host: the queue pair to that neighbour with a completion queue of
// its own, the receives for what the neighbour announces, and the words with counts for it. Thread:
// the chain's. Bounds: the depths that it was made with.

#include <mesh/status.h>

#include "src/base/pages.h"
#include "src/relay/count_words.h"
#include "src/relay/rail_share.h"
#include "src/relay/send_batch.h"
#include "src/verbs/handle.h"

#include <cstdint>
#include <vector>

namespace mesh::relay {

// The parts of a rail that a chain uses. All of them outlive the chain.
struct RailUse {
  verbs::Provider* provider = nullptr;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  RailShare* share = nullptr;  // shared by all chains over the rail; null: there is no bound
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
  bool make_queue_pair(const Depths& depths, std::uint32_t* inline_bytes);

  RailUse rail_;
  Pages memory_;
  verbs::MrHandle mr_;
  verbs::CqHandle cq_;
  verbs::QpHandle qp_;
  std::vector<ibv_recv_wr> receives_;  // linked to one another, posted again and again
};

}  // namespace mesh::relay
