#include "engine/data/queue_pair.h"

#include "engine/data/progress_loop_datapath.h"
#include "src/base/check.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace mesh::engine {

namespace {
// A connector posts these receives so that, when they come back, the peer's writes are over.
constexpr std::uint32_t kQuietReceives = kWindowShares;
// An acceptor's bulk queue pair sends a window word for each quarter of its receives.
constexpr std::uint32_t kWindowWordSends = 16;
static_assert(kWindowWordSends >= kWindowShares * kWindowWords);
constexpr std::uint32_t kRowsAtOnce = 16;  // credits and window words of one doorbell
}  // namespace

QueueDepths depths_of(const TransferPolicy& policy, LinkRole role, std::uint32_t index) noexcept {
  if (role == LinkRole::Connector)
    return {.send = policy.sq_depth, .receive = std::min(policy.rq_depth, kQuietReceives)};
  return {.send = index == 0 ? policy.sq_depth : std::min(policy.sq_depth, kWindowWordSends),
          .receive = policy.rq_depth};
}

namespace {
// The chains of a path over other hosts are made for both depths of the policy.
QueueDepths depths_at(const TransferPolicy& policy, const QueuePairPlace& place) noexcept {
  if (place.path->ends.relayed) return {.send = policy.sq_depth, .receive = policy.rq_depth};
  return depths_of(policy, place.link->identity().role, place.index);
}
}  // namespace

QueuePair::QueuePair(const TransferPolicy& policy, const QueuePairPlace& place)
    : place_(place),
      loop_(place.link->loop()),
      depths_(depths_at(policy, place)),
      signal_interval_(std::min(policy.signal_interval, depths_.send)),
      row_interval_(depths_.send / kWindowShares),
      ring_mask_(depths_.send - 1),
      counted_(place.index == 0 ? 0 : UINT32_MAX),
      rows_only_(place.link->identity().role == LinkRole::Acceptor),
      room_({.send = depths_.send, .window = policy.rq_depth},
            place.index == 0 ? reservation_ : place.link->paths().bulk().reservation()),
      receives_(depths_.receive),
      ring_(depths_.send),
      parts_(rows_only_ ? 0 : depths_.send),
      chain_(rows_only_ ? kRowsAtOnce : verbs::WrChain::kCapacity) {
  DCHECK(std::has_single_bit(depths_.send));
  DCHECK(signal_interval_ != 0 && signal_interval_ <= depths_.send);
  DCHECK(row_interval_ != 0);
}

void QueuePair::adopt(verbs::QpHandle qp, std::uint64_t id_base, const InlineBytes& granted) {
  DCHECK(qp && !qp_);
  DCHECK(low_of(id_base) == 0 && (id_base & (kReceiveBit | kTimedBit)) == 0);
  DCHECK(granted.rows >= kCreditHalfBytes);
  DCHECK(room_.posted() == 0 && room_.announced() == 0);
  qp_ = std::move(qp);
  id_base_ = id_base;
  inline_bytes_ = granted.data;
  cts_bytes_max_ = granted.rows;
  receives_.begin(id_base_ | kReceiveBit);
  chain_.set_silent_id(id_base_);
  chain_.set_interval(signal_interval_);
}

void QueuePair::quarantine() noexcept {
  DCHECK(loop_.held());
  refused_ = true;  // what is staged goes nowhere
  room_.close();
  receives_.end();
}

void QueuePair::renew() noexcept {
  DCHECK(!qp_);
  DCHECK(outstanding() == 0);
  DCHECK(!in_staged_list && !window_due);
  chain_.clear();
  signal_next_ = started_ = stopped_ = false;
  signaled_ = bytes_posted_ = doorbells_ = completions_ = 0;
  receives_.renew();
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

bool SendRoom::read_window() noexcept {
  DCHECK(window_words_ != nullptr);
  // The count only moves forward, an older one landing late is ignored.
  const std::uint64_t end = read_window_words(window_words_) + rq_depth_;
  if (static_cast<std::int64_t>(end - window_end_) > 0) window_end_ = end;
  DCHECK(announced_ <= window_end_);
  return announced_ != window_end_;
}

void QueuePair::empty_chain() noexcept {
  ring();
  loop_.unstage(*this);
}

void QueuePair::signal_between() noexcept {
  const std::uint32_t staged = chain_.staged();
  for (std::uint32_t i = signal_interval_; i < staged; i += signal_interval_)
    chain_.signal(i - 1, id_base_ | static_cast<std::uint32_t>(room_.posted() - staged + i));
}

void QueuePair::retire_part(std::uint64_t at) noexcept {
  const Mark mark = ring_[at & ring_mask_];
  Request& request = *mark.request();
  if ((mark.word & Mark::kTags) != 0) return finish_shared(request);
  const PostedPart& part = parts_[at & ring_mask_];
  DCHECK(part.counted_bytes <= place_.path->inflight_bytes());
  DCHECK(request.channel->outstanding != 0);
  place_.path->bulk_done += part.counted_bytes;
  --request.channel->outstanding;
  if (part.ends != Ends::Nothing) finish_stripe(request);
}

bool QueuePair::ring_full() noexcept {
  ring();
  return true;
}

// Notes the failure for the end of the turn: staging may be in the middle of a channel's work.
void QueuePair::refuse(int error) noexcept {
  refused_ = true;
  loop_.add_refused({.queue_pair = this, .error = error});
}

// A connector is told nothing: its peer announces nothing, unless it makes mistakes.
void QueuePair::ask_for_return() noexcept {
  if (rows_only_) loop_.add_window_due(RecvQueuePair::of(*this));
}

std::size_t QueuePair::note_bytes(LinkRole role, const QueueDepths& depths) noexcept {
  const bool rows_only = role == LinkRole::Acceptor;
  return depths.send * (sizeof(Mark) + (rows_only ? 0 : sizeof(PostedPart))) +
         verbs::WrChain::bytes(rows_only ? kRowsAtOnce : verbs::WrChain::kCapacity);
}

StripeSpan QueuePair::span_at(std::uint64_t at) const noexcept {
  const Mark mark = ring_[at & ring_mask_];
  DCHECK(!mark.is_row());
  if (mark.is_whole()) return {.offset = 0, .bytes = mark.request()->bytes};
  if (mark.is_part()) return parts_[at & ring_mask_].stripe;
  const std::uint64_t bytes = mark.request()->cut.stripe_bytes;
  if (mark.is_shared()) return {.offset = mark.shared_number() * bytes, .bytes = bytes};
  const std::uint64_t offset = mark.number() * bytes;
  DCHECK(offset < mark.request()->bytes);
  return {.offset = offset, .bytes = std::min(bytes, mark.request()->bytes - offset)};
}

bool QueuePair::carries(const Request& request) const noexcept {
  for (std::uint64_t at = room_.retired(); at != room_.posted(); ++at) {
    if (ring_[at & ring_mask_].request() == &request) return true;
  }
  return false;
}

void QueuePair::add_to(PathCounters* counters) const noexcept {
  counters->bytes_sent += bytes_posted_;
  counters->work_requests += room_.posted();
  counters->doorbells += doorbells_;
  counters->send_completions += completions_;
  counters->announcements += receives_.taken();
}

void QueuePair::drop_outstanding() noexcept {
  DCHECK(loop_.held());
  DCHECK(!qp_);
  for (std::uint64_t at = room_.retired(); at != room_.posted(); ++at) {
    const Mark mark = ring_[at & ring_mask_];
    if (mark.is_row()) continue;
    Request& request = *mark.request();
    DCHECK(request.channel->outstanding != 0);
    DCHECK(!mark.is_uniform() || request.cut.open != 0);
    if (!mark.is_uniform() || --request.cut.open == 0) --request.channel->outstanding;
  }
  room_.retire_through(room_.posted());
  room_.close();  // nobody posts to it any more
}

// An acceptor's rows complete only behind a signaled one.
void QueuePair::ask_answer() noexcept {
  DCHECK(loop_.held());
  reservation_.withdraw();
  if (rows_only_ && in_staged_list) signal_next_ = true;
  const bool shows = in_staged_list || chain_.staged() != 0 || (!rows_only_ && outstanding() != 0);
  if (shows || refused_ || !has_room(1)) return;
  post_empty(0);
}

void QueuePair::post_empty(std::uint64_t mark) noexcept {
  ibv_send_wr empty{};
  empty.opcode = IBV_WR_RDMA_WRITE;
  empty.send_flags = IBV_SEND_SIGNALED;
  ring_[room_.post() & ring_mask_] = {};
  signaled_ = room_.posted();
  empty.wr_id = id_base_ | mark | static_cast<std::uint32_t>(signaled_);
  ++doorbells_;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(qp_.get(), &empty, &bad); error != 0) refuse(error);
}

}  // namespace mesh::engine
