#include "engine/data/send_queue_pair.h"

#include "engine/data/progress_loop_datapath.h"
#include "src/base/check.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mesh::engine {

void SendQueuePair::adopt(verbs::QpHandle qp, std::uint64_t id_base, const InlineBytes& granted) {
  QueuePair::adopt(std::move(qp), id_base, granted);
  single_.wr().opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
}

void SendQueuePair::renew() noexcept {
  full_probe_ = 0;
  QueuePair::renew();
}

// Gives a new reservation and takes one of it. Returns false if there is no room.
bool SendQueuePair::reserve_small() noexcept {
  DCHECK(loop_.held());
  DCHECK(counted_ == 0);
  reservation_.withdraw();
  if (!room_.window_open()) return false;
  reservation_.give(std::min(room_.left(), room_.window_left()));
  return reservation_.take();
}

std::uint32_t SendQueuePair::stripes_left() noexcept {
  DCHECK(counted_ != 0);
  make_chain_room(1);
  if (!room_.read_window()) return 0;
  return static_cast<std::uint32_t>(
      std::min({room_.left(), room_.window_left(), std::uint64_t{chain_.left()}}));
}

// ---- A lost path. Announcements of one queue pair arrive in the order in which they were posted,
// so the receiver's count of them tells exactly which stripes it has and which it will never see.

void SendQueuePair::retire(std::uint64_t at) noexcept {
  const Mark mark = ring_[at & ring_mask_];
  if (mark.is_row()) return;
  Request& request = *mark.request();
  if (mark.is_uniform()) return finish_stripe(request);
  if (!mark.is_whole()) return retire_part(at);
  DCHECK(request.channel->outstanding != 0);
  --request.channel->outstanding;
  request.complete_whole();
}

const SendQueuePair::PostedPart* SendQueuePair::part_at(std::uint64_t at) const noexcept {
  return ring_[at & ring_mask_].is_part() ? &parts_[at & ring_mask_] : nullptr;
}

bool SendQueuePair::announces_at(std::uint64_t at) const noexcept {
  const PostedPart* const part = part_at(at);
  return part != nullptr ? part->ends != Ends::Nothing : !ring_[at & ring_mask_].is_row();
}

// Counts a lost stripe of a uniform message by itself: the message's bytes are in flight no more,
// and every lost stripe is outstanding. The first one takes the message's place.
void SendQueuePair::count_apart(Request& request) noexcept {
  if (!request.cut.uniform) {
    ++request.channel->outstanding;
    return;
  }
  request.cut.uniform = false;
  DCHECK(request.bytes <= place_.path->inflight_bytes());
  place_.path->bulk_done += request.bytes;
}

std::uint64_t SendQueuePair::open_announcements() const noexcept {
  std::uint64_t open = 0;
  for (std::uint64_t at = room_.retired(); at != room_.posted(); ++at) {
    if (announces_at(at)) ++open;
  }
  return open;
}

bool SendQueuePair::may_have_taken(std::uint64_t taken) const noexcept {
  return taken >= room_.announced() - open_announcements() && taken <= room_.announced();
}

// Returns the lost stripe. It counts for itself from here on: in its channel's outstanding, and as
// an open stripe, until another queue pair has carried it.
Span SendQueuePair::lose(std::uint64_t at) noexcept {
  const Mark mark = ring_[at & ring_mask_];
  Request& request = *mark.request();
  const Span lost{.request = &request, .stripe = span_at(at)};
  if (mark.is_uniform()) count_apart(request);
  if (mark.is_shared()) place_.path->bulk_done += request.cut.stripe_bytes;
  if (mark.is_whole()) {
    request.cut.open = 1;
    request.cut.uniform = false;
  }
  if (const PostedPart* const part = part_at(at)) place_.path->bulk_done += part->counted_bytes;
  return lost;
}

void SendQueuePair::account_lost(std::uint64_t taken, std::vector<Span>* lost) {
  DCHECK(loop_.held());
  DCHECK(refused_);
  DCHECK(may_have_taken(taken));
  std::uint64_t landed = taken - (room_.announced() - open_announcements());
  for (std::uint64_t at = room_.retired(); at != room_.posted(); ++at) {
    const bool announces = announces_at(at);
    if (landed == 0 && announces) {
      lost->push_back(lose(at));
    } else {
      retire(at);
      if (announces) --landed;
    }
    room_.retire_through(at + 1);
  }
  DCHECK(landed == 0);
}

void SendQueuePair::post_timed(const Clock& clock) noexcept {
  DCHECK(loop_.held());
  DCHECK(!in_staged_list && chain_.staged() == 0);
  if (refused_ || !has_room(1)) return;
  place_.path->latency.begin(clock);
  post_empty(kTimedBit);
}

int SendQueuePair::post_probe(const verbs::LocalSource& source,
                              const verbs::RemoteTarget& target) noexcept {
  DCHECK(loop_.held());
  DCHECK(outstanding() == 0 && full_probe_ == 0);
  ibv_sge bytes{.addr = source.address, .length = source.bytes, .lkey = source.lkey};
  std::array<ibv_send_wr, SendRoom::kProbes> probes{};  // small and full
  const std::size_t count = source.bytes == 0 ? 1 : 2;
  for (std::size_t i = 0; i < count; ++i) {
    ibv_send_wr& wr = probes[i];
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    ring_[room_.posted() & ring_mask_] = {};
    room_.post_probe();
    wr.wr_id = id_base_ | static_cast<std::uint32_t>(room_.posted());
  }
  if (count == 2) {
    probes[0].next = &probes[1];
    probes[1].sg_list = &bytes;
    probes[1].num_sge = 1;
    probes[1].wr.rdma = {.remote_addr = target.address, .rkey = target.rkey};
    full_probe_ = room_.posted();
  }
  ++doorbells_;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp_.get(), probes.data(), &bad);
}

}  // namespace mesh::engine
