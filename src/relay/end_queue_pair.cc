#include "src/relay/end_queue_pair.h"

#include "src/base/check.h"
#include "src/base/held_locks.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"
#include "src/relay/end_completion_queue.h"
#include "src/relay/end_device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

namespace mesh::relay {

namespace {

// Returns an error on the way to the ring as the user may see it. An error local to this host
// stays; an address that the next host refused is not the user's, and counts as a lost path.
ibv_wc_status as_users(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR: return status;
    default: return IBV_WC_RETRY_EXC_ERR;
  }
}

bool is_write(ibv_wr_opcode opcode) noexcept {
  return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

std::uint32_t bytes_of(const ibv_send_wr& wr) noexcept {
  return wr.num_sge == 0 ? 0 : wr.sg_list[0].length;
}

}  // namespace

EndQueuePair::EndQueuePair(Parts parts) : parts_(std::move(parts)), entries_(parts_.depth) {
  DCHECK(parts_.depth != 0 && parts_.real_depth > RingWriter::kRequestsMax);
}

std::byte* EndQueuePair::place(std::uint64_t number) const noexcept {
  return parts_.memory.get() + sizeof(CountLine) + number % parts_.depth * kSlotBytes;
}

CountsTarget EndQueuePair::counts() const noexcept {
  return {.address = reinterpret_cast<std::uintptr_t>(parts_.memory.get()),
          .rkey = parts_.mr->rkey};
}

// Opens the batch. One entry of the send queue is left for the mark of the end.
void EndQueuePair::open_batch() noexcept {
  batch_.open({.qp = parts_.real.get(),
               .depth = parts_.real_depth - 1,
               .inline_bytes = parts_.real_inline,
               .id_base = end_id(index_, life_)});
}

bool EndQueuePair::set_ring(const RingTarget& ring) {
  if (has_ring()) return false;
  writer_.open(ring);
  open_batch();
  return true;
}

void EndQueuePair::reset() noexcept {
  ++life_;
  writer_.close();
  line() = {};
  look_.forget();
  posted_ = given_ = done_ = told_ = freed_ = 0;
  status_ = IBV_WC_SUCCESS;
  stopped_ = quiet_ = false;
  flushed_.store(false, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  publish();
}

void EndQueuePair::publish() noexcept {
  outstanding_.store(failed() ? 0 : posted_ - done_, std::memory_order_relaxed);
}

std::uint64_t EndQueuePair::outstanding() const noexcept {
  return outstanding_.load(std::memory_order_relaxed);
}

int EndQueuePair::check(const ibv_send_wr& wr) const noexcept {
  if (!is_write(wr.opcode) || wr.num_sge < 0 || wr.num_sge > 1) return EINVAL;
  if (posted_ - freed_ >= parts_.depth) return ENOMEM;
  const std::uint32_t bytes = bytes_of(wr);
  if (bytes > writer_.ring().wr_bytes) return EINVAL;
  return (wr.send_flags & IBV_SEND_INLINE) != 0 && bytes > parts_.inline_bytes ? EINVAL : 0;
}

void EndQueuePair::take(const ibv_send_wr& wr) noexcept {
  QueuedRequest& entry = at(posted_);
  const bool with_imm = wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  entry.wr_id = wr.wr_id;
  entry.header = {
      .address = wr.wr.rdma.remote_addr,
      .rkey = wr.wr.rdma.rkey,
      .bytes = bytes_of(wr),
      .imm = with_imm ? wr.imm_data : 0,
      .kind = static_cast<std::uint8_t>(with_imm ? SlotKind::WriteWithImm : SlotKind::Write)};
  entry.signaled = parts_.signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  entry.joined = (wr.send_flags & IBV_SEND_INLINE) != 0;
  entry.payload = {};
  if (entry.header.bytes != 0) {
    const ibv_sge& sge = wr.sg_list[0];
    entry.payload = {.address = sge.addr, .bytes = sge.length, .lkey = sge.lkey};
    if (entry.joined) {
      std::memcpy(place(posted_) + sizeof(SlotHeader),
                  reinterpret_cast<const void*>(static_cast<std::uintptr_t>(sge.addr)), sge.length);
    }
  }
  ++posted_;
}

int EndQueuePair::post(ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  int error = verbs.state == IBV_QPS_RTS || verbs.state == IBV_QPS_ERR ? 0 : EINVAL;
  if (error != 0) *bad = wr;
  for (; wr != nullptr && error == 0; wr = wr->next) {
    error = check(*wr);
    if (error != 0) {
      *bad = wr;
    } else {
      take(*wr);
    }
  }
  move_on();
  publish();
  return error;
}

void EndQueuePair::ring() noexcept {
  if (const int error = batch_.ring(); error != 0) {
    LOG_INFO("relay: posting to the next host on queue pair {:#x} was refused: {}", verbs.qp_num,
             std::strerror(error));
    fail(IBV_WC_RETRY_EXC_ERR);
  }
}

void EndQueuePair::move_on() noexcept {
  while (!failed() && given_ != posted_) {
    QueuedRequest& entry = at(given_);
    if (!writer_.fits(entry.header.bytes)) break;
    if (!batch_.has_room(RingWriter::kRequestsMax)) {
      if (batch_.empty()) break;  // the send queue is full
      ring();
      continue;
    }
    writer_.write(batch_, {.header = entry.header,
                           .place = place(given_),
                           .place_lkey = parts_.mr->lkey,
                           .payload = entry.payload,
                           .joined = entry.joined});
    ++given_;
  }
  if (!failed()) ring();
}

void EndQueuePair::take_counts() noexcept {
  const Counts counts = read_counts(line(), {.free = writer_.freed(), .done = done_});
  const std::int32_t more = ahead(counts.done, done_);
  DCHECK(more >= 0);
  const bool possible =
      static_cast<std::uint64_t>(more) <= given_ - done_ && writer_.take_freed(counts.free);
  if (!possible) {
    LOG_WARN("relay: the next host of queue pair {:#x} acknowledges more than was sent to it",
             verbs.qp_num);
    return fail(IBV_WC_RETRY_EXC_ERR);
  }
  if (more != 0) {
    done_ += static_cast<std::uint64_t>(more);
    moved_.fetch_add(1, std::memory_order_relaxed);
  }
  if (counts.status != 0) fail(told_status(counts));
}

void EndQueuePair::turn() noexcept {
  if (!has_ring() || failed()) return;
  if (flushed_.load(std::memory_order_acquire)) return fail(IBV_WC_WR_FLUSH_ERR);
  if (look_.finds_news(line())) {
    const std::uint64_t freed = writer_.freed();
    take_counts();
    if (freed != writer_.freed()) moved_.fetch_add(1, std::memory_order_relaxed);
    publish();
  }
  if (given_ != posted_) move_on();
}

// Posts a mark that completes after all that was posted before it, signaled or not.
void EndQueuePair::mark_end() noexcept {
  ibv_send_wr wr{};
  wr.wr_id = end_id(index_, life_) | kMarkBit;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  quiet_ = ibv_post_send(parts_.real.get(), &wr, &bad) != 0;
}

// The caller may be in a turn of a loop, which must not wait for the device.
void EndQueuePair::stop_real() noexcept {
  if (parts_.stopper != nullptr && parts_.stopper->stop_soon(&verbs)) return;
  std::optional<WaitsUnderLocks> no_threads;
  if (parts_.stopper == nullptr || !parts_.stopper->has_threads()) no_threads.emplace();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  static_cast<void>(parts_.provider->modify_qp(parts_.real.get(), &attr, IBV_QP_STATE));
}

void EndQueuePair::fail(ibv_wc_status status) noexcept {
  DCHECK(status != IBV_WC_SUCCESS);
  if (failed()) return;
  failed_.store(true, std::memory_order_relaxed);
  // With nothing outstanding, no work request can report the status.
  status_ = posted_ == done_ ? IBV_WC_WR_FLUSH_ERR : status;
  if (!stopped_ && parts_.real->state != IBV_QPS_RESET) stop_real();
  verbs.state = IBV_QPS_ERR;
  mark_end();
  publish();
}

void EndQueuePair::on_completion(const ibv_wc& completion) noexcept {
  if ((completion.wr_id & ~kMarkBit) >> 32 != end_id(index_, life_) >> 32) return;  // another life
  if ((completion.wr_id & kMarkBit) != 0) {
    quiet_ = true;
    return;
  }
  const auto count = static_cast<std::uint32_t>(completion.wr_id);
  if (completion.status == IBV_WC_SUCCESS) {
    static_cast<void>(batch_.retire_through(count));
    return;
  }
  if (failed()) return;
  take_counts();  // what was done before completes as done
  fail(as_users(completion.status));
}

int EndQueuePair::poll(int count, ibv_wc* wc) noexcept {
  const bool over = failed();
  std::uint64_t settled =
      over ? done_ : std::min(done_, writer_.is_open() ? writer_.sent(batch_) : 0);
  if (over && quiet_) settled = posted_;
  int found = 0;
  for (; told_ != settled && found < count; ++told_) {
    const QueuedRequest& entry = at(told_);
    const bool good = !over || told_ < done_;
    if (good && !entry.signaled) continue;
    ibv_wc& answer = wc[found++];
    answer = {};
    answer.wr_id = entry.wr_id;
    answer.status = good ? IBV_WC_SUCCESS : told_ == done_ ? status_ : IBV_WC_WR_FLUSH_ERR;
    answer.opcode = IBV_WC_RDMA_WRITE;
    answer.byte_len = entry.header.bytes;
    answer.qp_num = verbs.qp_num;
    freed_ = told_ + 1;
  }
  return found;
}

bool EndQueuePair::stuck(std::uint64_t now_ns) noexcept {
  const std::uint64_t moved_now = moved();
  // A card that hangs shows no completion of what the far end has.
  const bool waits = outstanding() != 0 || (told_ != done_ && !failed());
  if (!waits || !watch_.waited || watch_.moved != moved_now)
    watch_ = {.waited = waits, .moved = moved_now, .since_ns = now_ns};
  return waits && now_ns - watch_.since_ns >= kRelayWorkToCountNs;
}

// ---- Making one.

namespace {

// Returns the depth of the real send queue: two work requests for each of the user's, a few that
// wait to be polled, and the mark of the end.
constexpr std::uint32_t real_depth(std::uint32_t depth, std::uint32_t device_limit) noexcept {
  return std::min(RingWriter::kRequestsMax * depth + kSpareRequests, device_limit);
}

// Inline bytes to ask for: a whole slot at best, and none at worst, as headers can go out of
// registered memory.
constexpr std::uint32_t kInlineTries[] = {kSlotBytes, 128, 0};

bool is_asked_right(const ibv_qp_init_attr& attr, const ibv_device_attr& device) noexcept {
  return attr.cap.max_send_sge <= 1 && attr.cap.max_inline_data <= kSlotPayloadBytes &&
         attr.cap.max_send_wr <= static_cast<std::uint32_t>(device.max_qp_wr) &&
         attr.cap.max_send_wr <= kRingSlotsMax;
}

// Makes the real queue pair. Returns false with errno.
bool make_real(verbs::Provider& real, ibv_pd* pd, const ibv_qp_init_attr& asked,
               EndQueuePair::Parts* parts) {
  for (const std::uint32_t tried : kInlineTries) {
    ibv_qp_init_attr attr = asked;
    attr.send_cq = parts->sends->real_sends();
    attr.recv_cq = parts->receives->real_receives();
    attr.sq_sig_all = 0;
    attr.cap.max_send_wr = parts->real_depth;
    attr.cap.max_send_sge = SendBatch::kElements;
    attr.cap.max_inline_data = tried;
    parts->real = verbs::QpHandle(real, real.create_qp(pd, &attr));
    if (!parts->real) continue;
    parts->real_inline = std::min(attr.cap.max_inline_data, kSlotBytes);
    parts->granted = attr.cap;
    return true;
  }
  return false;
}

bool make_memory(verbs::Provider& real, ibv_pd* pd, EndQueuePair::Parts* parts) {
  const std::size_t bytes = EndQueuePair::memory_bytes(parts->depth);
  parts->memory = make_pages(bytes);
  if (parts->memory == nullptr) {
    errno = ENOMEM;
    return false;
  }
  parts->mr = verbs::MrHandle(real, real.reg_mr(pd, parts->memory.get(), whole_pages(bytes),
                                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  return static_cast<bool>(parts->mr);
}

void fill_in(ibv_qp& qp, const EndQueuePair& end, const ibv_qp_init_attr& attr) {
  const ibv_qp& real = *end.parts().real.get();
  qp.qp_context = attr.qp_context;
  qp.pd = real.pd;
  qp.send_cq = attr.send_cq;
  qp.recv_cq = attr.recv_cq;
  qp.qp_num = real.qp_num;
  qp.qp_type = IBV_QPT_RC;
  qp.state = IBV_QPS_RESET;
}

// Joins both completion queues or none.
bool join(EndQueuePair& end) {
  EndCompletionQueue &sends = *end.parts().sends, &receives = *end.parts().receives;
  if (!receives.add_receiver(end)) return false;
  bool joined = false;
  try {
    joined = sends.add_sender(end);
  } catch (const std::bad_alloc&) {
  }
  if (!joined) receives.remove_receiver(end);
  return joined;
}

}  // namespace

std::unique_ptr<EndQueuePair> make_end(const EndMaker& by, ibv_pd* pd, const EndQueues& queues,
                                       ibv_qp_init_attr* attr) try {
  verbs::Provider& real = by.real;
  ibv_device_attr device{};
  const int error = real.query_device(pd->context, &device);
  if (error != 0 || !is_asked_right(*attr, device))
    return verbs::null_with_errno(error != 0 ? error : EINVAL);
  EndQueuePair::Parts parts;
  parts.provider = &real;
  parts.stopper = by.stopper;
  parts.sends = queues.sends;
  parts.receives = queues.receives;
  parts.depth = std::max(attr->cap.max_send_wr, 1u);
  parts.real_depth = real_depth(parts.depth, static_cast<std::uint32_t>(device.max_qp_wr));
  parts.inline_bytes = attr->cap.max_inline_data;
  parts.signal_all = attr->sq_sig_all != 0;
  if (!make_memory(real, pd, &parts) || !make_real(real, pd, *attr, &parts)) return nullptr;
  const ibv_qp_cap granted = parts.granted;
  auto end = std::make_unique<EndQueuePair>(std::move(parts));
  fill_in(end->verbs, *end, *attr);
  if (!join(*end)) return verbs::null_with_errno(ENOMEM);
  attr->cap.max_send_wr = end->parts().depth;
  attr->cap.max_recv_wr = granted.max_recv_wr;
  attr->cap.max_send_sge = 1;
  attr->cap.max_recv_sge = granted.max_recv_sge;
  return end;
} catch (const std::bad_alloc&) {
  return verbs::null_with_errno(ENOMEM);  // as a device that has no memory
}

}  // namespace mesh::relay
