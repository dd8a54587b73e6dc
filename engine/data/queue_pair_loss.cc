// Accounts for a queue pair's work when its path is lost. Announcements of one queue pair arrive in
// the order in which they were posted, so the receiver's count of them tells exactly which stripes
// it has and which it will never see.
#include "engine/data/queue_pair.h"

#include "engine/data/progress_loop_datapath.h"
#include "src/base/check.h"

#include <array>

namespace mesh::engine {

void QueuePair::quarantine() noexcept {
  DCHECK(loop_.held());
  refused_ = true;  // what is staged goes nowhere
  room_.close();
  set_return_at(announcements_taken() + INT64_MAX);  // never
}

void QueuePair::retire(std::uint64_t at) noexcept {
  const Mark mark = ring_[at & ring_mask_];
  if (mark.is_row()) return;
  Request& request = *mark.request();
  if (mark.is_uniform()) return finish_stripe(request);
  if (!mark.is_whole()) return retire_part(at);
  DCHECK(request.channel->outstanding != 0);
  --request.channel->outstanding;
  request.complete_whole();
}

const QueuePair::PostedPart* QueuePair::part_at(std::uint64_t at) const noexcept {
  return ring_[at & ring_mask_].is_part() ? &parts_[at & ring_mask_] : nullptr;
}

bool QueuePair::announces_at(std::uint64_t at) const noexcept {
  const PostedPart* const part = part_at(at);
  return part != nullptr ? part->ends != Ends::Nothing : !ring_[at & ring_mask_].is_row();
}

StripeSpan QueuePair::span_at(std::uint64_t at) const noexcept {
  const Mark mark = ring_[at & ring_mask_];
  if (mark.is_whole()) return {.offset = 0, .bytes = mark.request()->bytes};
  if (mark.is_part()) return parts_[at & ring_mask_].stripe;
  if (mark.is_shared()) {
    const std::uint64_t bytes = mark.request()->stripes;
    return {.offset = mark.shared_number() * bytes, .bytes = bytes};
  }
  const TransferPolicy& policy = place_.link->policy();
  const StripePlan plan = plan_stripes(mark.request()->bytes, policy,
                                       policy.qps);  // uniform messages go over the only path
  return plan.span(mark.number());
}

// Counts a lost stripe of a uniform message by itself: the message's bytes are in flight no more,
// and every lost stripe is outstanding. The first one takes the message's place.
void QueuePair::count_apart(Request& request) noexcept {
  if (!request.uniform) {
    ++request.channel->outstanding;
    return;
  }
  request.uniform = false;
  DCHECK(request.bytes <= place_.path->inflight_bytes());
  place_.path->bulk_done += request.bytes;
}

std::uint64_t QueuePair::open_announcements() const noexcept {
  std::uint64_t open = 0;
  for (std::uint64_t at = room_.retired(); at != room_.posted(); ++at) {
    if (announces_at(at)) ++open;
  }
  return open;
}

bool QueuePair::may_have_taken(std::uint64_t taken) const noexcept {
  return taken >= room_.announced() - open_announcements() && taken <= room_.announced();
}

// Returns the lost stripe. It counts for itself from here on: in its channel's outstanding, and as
// an open stripe, until another queue pair has carried it.
Span QueuePair::lose(std::uint64_t at) noexcept {
  const Mark mark = ring_[at & ring_mask_];
  Request& request = *mark.request();
  const Span lost{.request = &request, .stripe = span_at(at)};
  if (mark.is_uniform()) count_apart(request);
  if (mark.is_shared()) place_.path->bulk_done += request.stripes;
  if (mark.is_whole()) request.open_stripes = 1, request.uniform = false;
  if (const PostedPart* const part = part_at(at)) place_.path->bulk_done += part->counted_bytes;
  return lost;
}

void QueuePair::account_lost(std::uint64_t taken, std::vector<Span>* lost) {
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

void QueuePair::renew() noexcept {
  DCHECK(!qp_);
  DCHECK(outstanding() == 0);
  DCHECK(!in_staged_list && !window_due);
  chain_.clear();
  signal_next_ = started_ = stopped_ = false;
  reposted_ = flushed_ = signaled_ = window_round_end_ = 0;
  return_at_ = 0;
  to_return_ = -1;
  bytes_posted_ = doorbells_ = completions_ = full_probe_ = 0;
  room_.renew();
  quarantine();
}

void QueuePair::open() noexcept {
  DCHECK(loop_.held());
  DCHECK(refused_);
  DCHECK(qp_ && started_);
  refused_ = false;
  room_.open();
}

int QueuePair::post_probe(const verbs::LocalSource& source,
                          const verbs::RemoteTarget& target) noexcept {
  DCHECK(loop_.held());
  DCHECK(!rows_only_ && outstanding() == 0 && full_probe_ == 0);
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
