#include "src/soft/target.h"

#include "src/base/check.h"
#include "src/soft/copy.h"
#include "src/verbs/wr_chain.h"

#include <algorithm>
#include <array>
#include <new>

namespace mesh::soft {

namespace {

static_assert(verbs::WrChain::kRowBytesMax <= kAtomicBytes);

// Bytes copied between two looks at whether the source was closed.
constexpr std::size_t kChunkBytes = 256 * 1024;
constexpr std::uint8_t kRnrRetryForEver = 7;
constexpr std::uint64_t kAheadMax = 60;  // fewer than the bits of Incoming::landed_early

// InfiniBand specification, encoding of the RNR NAK timer, in units of 10 us.
constexpr std::array<std::uint32_t, 32> kRnrTimer10Us = {
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

bool with_imm(const RingRequest& request) {
  return request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM || request.opcode == IBV_WR_SEND_WITH_IMM;
}

}  // namespace

bool Target::serve(QueuePair& qp, TurnTime& time, TurnBudget& budget) noexcept {
  DCHECK(core_.turning());
  Incoming& in = qp.in;
  if (in.ring != nullptr && in.peer->lost()) incoming_.detach(qp);
  const std::uint64_t tail =
      in.ring == nullptr ? in.next : in.ring->header().tail.load(std::memory_order_acquire);
  core_.posts.acquire();  // the peer may have seen a post that came after our turn began
  const bool late = in.late != nullptr && land_late(qp, time);
  if (in.next == tail || in.ring->closed()) {
    if (!late) core_.serving.erase(qp.index);
    return false;
  }
  if (tail - in.next > in.ring->slots()) {  // our own initiator never writes such a tail
    incoming_.detach(qp);
    return false;
  }
  if (stalled(qp, time)) return false;
  Ring& ring = *in.ring;
  const std::uint64_t next_before = in.next, bytes_before = in.done_bytes;
  Outcome outcome;
  // Pairs with Ring::close(), which sets closed and then waits for busy. We set busy and then look
  // at closed.
  ring.header().busy.store(1, std::memory_order_seq_cst);
  while (in.next != tail && budget.requests > 0 && budget.bytes > 0 && !ring.closed()) {
    outcome = execute(qp, time, budget);
    if (outcome.verdict != Verdict::Done) break;
    --budget.requests;
    respond(qp, IBV_WC_SUCCESS);
  }
  ring.header().busy.store(0, std::memory_order_release);
  // We act on an error after busy is cleared, because to_error() waits for the busy of others.
  if (outcome.verdict == Verdict::Fail || outcome.verdict == Verdict::FailBoth)
    respond(qp, outcome.status);
  const bool moved = in.next != next_before || in.done_bytes != bytes_before;
  if (Board* board = in.peer->board(); moved && board != nullptr)
    board->ring_response(in.peer_nic, in.peer_index);
  if (outcome.verdict == Verdict::FailBoth) initiator_.to_error(qp, IBV_WC_WR_FLUSH_ERR);
  if (outcome.verdict == Verdict::Fail || outcome.verdict == Verdict::Drop) incoming_.detach(qp);
  return moved;
}

std::uint64_t Target::due_ns(QueuePair& qp, TurnTime& time) noexcept {
  DCHECK(core_.turning() && qp.in.ring != nullptr);
  Incoming& in = qp.in;
  const std::uint64_t tail = in.ring->header().tail.load(std::memory_order_acquire);
  const std::uint64_t late_ns = in.late == nullptr ? UINT64_MAX : in.late->due_ns();
  if (in.next == tail || in.ring->closed()) return late_ns == UINT64_MAX ? 0 : late_ns;
  return std::min(late_ns, request_due_ns(qp, time));
}

std::uint64_t Target::request_due_ns(QueuePair& qp, TurnTime& time) noexcept {
  const Incoming& in = qp.in;
  if (in.ring->state() == TargetState::Stalled) return time.now_ns() + kStalledLookNs;
  const RingRequest& request = in.ring->request(in.next);
  if (in.retry_at_ns != 0 &&
      qp.receives.posted.load(std::memory_order_acquire) == qp.receives.taken)
    return in.retry_at_ns;
  if (in.waits_for_stream) {
    const RingHeader& header = in.ring->header();
    const bool there = header.data_in.load(std::memory_order_acquire) !=
                       header.data_out.load(std::memory_order_relaxed);
    const bool room = header.read_in.load(std::memory_order_relaxed) !=
                      header.read_out.load(std::memory_order_acquire) + kStreamBytes;
    const bool read = request.opcode == IBV_WR_RDMA_READ;
    return (read ? room : there) ? 0 : UINT64_MAX;
  }
  return std::max(request.ready_at_ns, in.held_until_ns);
}

bool Target::stalled(QueuePair& qp, TurnTime& time) noexcept {
  Incoming& in = qp.in;
  const TargetState state = in.ring->state();
  const bool cut = core_.cut_off(qp.attributes, in.peer->host(), time);
  if (cut == (state == TargetState::Stalled)) return cut;
  in.ring->set_state(cut ? TargetState::Stalled : TargetState::Attached);
  if (Board* board = in.peer->board(); board != nullptr)
    board->ring_response(in.peer_nic, in.peer_index);
  return cut;
}

Target::Outcome Target::execute(QueuePair& qp, TurnTime& time, TurnBudget& budget) noexcept {
  Incoming& in = qp.in;
  RingRequest& request = in.ring->request(in.next);
  if (request.ready_at_ns != 0 && request.ready_at_ns > time.now_ns()) return {Verdict::Later};
  // Packets with an unexpected number are dropped, as a NIC drops those of an earlier connection.
  if (!has_expected_psn(qp, in.next)) return {Verdict::Drop};
  if (core_.faults.armed() && request.opcode == IBV_WR_RDMA_WRITE) {
    const Landing landing = out_of_order(qp, time, budget);
    if (landing != Landing::Now) return {landing == Landing::Held ? Verdict::Later : Verdict::Done};
    if (lands_late(qp, request, time)) return {};
  }
  switch (request.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: return execute_write(qp, request, time, budget);
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM: return execute_send(qp, request, time, budget);
    case IBV_WR_RDMA_READ: return execute_read(qp, request, budget);
    default: return {Verdict::FailBoth, IBV_WC_REM_INV_REQ_ERR};
  }
}

// Returns where the NIC sees the memory that the request names, or null if it may not use it.
std::byte* Target::remote_range(const QueuePair& qp, const RingRequest& request,
                                int access) const noexcept {
  if ((qp.attributes.access & access) == 0) return nullptr;
  return core_.regions.resolve(
      MemoryTable::Use{request.rkey, request.remote_address, request.bytes, qp.verbs.pd, access});
}

// Returns true for device memory: reads of other memory are granted by nobody.
bool Target::may_be_read(const QueuePair& qp, const RingRequest& request) const noexcept {
  return core_.regions.resolve(MemoryTable::Use{request.rkey, request.remote_address, request.bytes,
                                                qp.verbs.pd, IBV_ACCESS_REMOTE_READ}) != nullptr;
}

// Executes a write. A request of zero bytes names no memory, so its key is not looked at
// (InfiniBand specification, RDMA WRITE of length 0).
Target::Outcome Target::execute_write(QueuePair& qp, RingRequest& request, TurnTime& time,
                                      TurnBudget& budget) noexcept {
  std::uint64_t& done = qp.in.done_bytes;
  if (with_imm(request) && done == 0) {
    const Outcome ready = receiver_ready(qp, time);
    if (ready.verdict != Verdict::Done) return ready;
  }
  while (done < request.bytes) {
    std::byte* const begin = remote_range(qp, request, IBV_ACCESS_REMOTE_WRITE);
    if (begin == nullptr) return {Verdict::FailBoth, IBV_WC_REM_ACCESS_ERR};
    if (budget.bytes == 0 || qp.in.ring->closed()) return {Verdict::Later};
    std::size_t bytes = std::min<std::size_t>({request.bytes - done, budget.bytes, kChunkBytes});
    const bool held = core_.spec.late_device_writes && may_be_read(qp, request);
    std::byte* const to = held ? core_.device_writes.hold(begin + done, bytes) : begin + done;
    const Outcome pulled = pull(qp, request, to, &bytes);
    if (held) core_.device_writes.shorten_last(pulled.verdict == Verdict::Done ? bytes : 0);
    if (pulled.verdict != Verdict::Done) return pulled;
    done += bytes;
    budget.bytes -= bytes;
  }
  done = 0;
  if (with_imm(request)) complete_receive(qp, request, IBV_WC_SUCCESS);
  return {};
}

Target::Outcome Target::execute_send(QueuePair& qp, RingRequest& request, TurnTime& time,
                                     TurnBudget& budget) noexcept {
  std::uint64_t& done = qp.in.done_bytes;
  const Outcome ready = receiver_ready(qp, time);
  if (ready.verdict != Verdict::Done) return ready;
  const ReceiveSlot& slot = qp.receives.slot(qp.receives.taken);
  std::uint64_t room = 0;
  for (std::size_t i = 0; i < slot.sges; ++i) room += slot.sge[i].bytes;
  std::array<RingSge, kSgesMax> seen{};
  if (!core_.regions.resolve({slot.sge, slot.sges, qp.verbs.pd, IBV_ACCESS_LOCAL_WRITE},
                             seen.data())) {
    complete_receive(qp, request, IBV_WC_LOC_PROT_ERR);
    return {Verdict::FailBoth, IBV_WC_REM_OP_ERR};
  }
  if (room < request.bytes) {
    complete_receive(qp, request, IBV_WC_LOC_LEN_ERR);
    return {Verdict::FailBoth, IBV_WC_REM_INV_REQ_ERR};
  }
  while (done < request.bytes) {
    if (budget.bytes == 0 || qp.in.ring->closed()) return {Verdict::Later};
    std::uint64_t skip = done;
    std::size_t i = 0;
    for (; skip >= slot.sge[i].bytes; ++i) skip -= slot.sge[i].bytes;
    std::size_t bytes = std::min<std::size_t>(
        {request.bytes - done, slot.sge[i].bytes - skip, budget.bytes, kChunkBytes});
    const Outcome pulled = pull(
        qp, request,
        reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(seen[i].address + skip)), &bytes);
    if (pulled.verdict != Verdict::Done) return pulled;
    done += bytes;
    budget.bytes -= bytes;
  }
  done = 0;
  complete_receive(qp, request, IBV_WC_SUCCESS);
  return {};
}

// Executes a read. Its bytes go back through the ring, and the initiator's own NIC puts them where
// its tables allow.
Target::Outcome Target::execute_read(QueuePair& qp, RingRequest& request,
                                     TurnBudget& budget) noexcept {
  std::uint64_t& done = qp.in.done_bytes;
  RingHeader& header = qp.in.ring->header();
  while (done < request.bytes) {
    const std::byte* const from = remote_range(qp, request, IBV_ACCESS_REMOTE_READ);
    if (from == nullptr) return {Verdict::FailBoth, IBV_WC_REM_ACCESS_ERR};
    core_.device_writes.land();  // a read pushes what was written before it
    const std::uint64_t in = header.read_in.load(std::memory_order_relaxed);
    const std::uint64_t used = in - header.read_out.load(std::memory_order_acquire);
    const std::size_t room =
        used >= kStreamBytes ? 0 : static_cast<std::size_t>(kStreamBytes - used);
    const std::size_t bytes = std::min<std::size_t>(
        {request.bytes - done, room, kStreamBytes - in % kStreamBytes, budget.bytes});
    qp.in.waits_for_stream = room == 0;
    if (bytes == 0) return {Verdict::Later};
    dma_load(qp.in.ring->read_stream() + in % kStreamBytes, from + done, bytes);
    header.read_in.store(in + bytes, std::memory_order_release);
    done += bytes;
    budget.bytes -= bytes;
  }
  done = 0;
  return {};
}

Target::Outcome Target::receiver_ready(QueuePair& qp, TurnTime& time) noexcept {
  Incoming& in = qp.in;
  if (qp.receives.posted.load(std::memory_order_acquire) != qp.receives.taken) {
    in.rnr_tries = 0;
    in.retry_at_ns = 0;
    if (in.late != nullptr) in.late->land_all(core_.regions);
    return {};
  }
  if (in.retry_at_ns > time.now_ns()) return {Verdict::Later};
  qp.rnr_events.store(qp.rnr_events.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const std::uint32_t retries = in.ring->header().rnr_retry.load(std::memory_order_relaxed);
  if (retries != kRnrRetryForEver && in.rnr_tries++ >= retries)
    return {Verdict::Fail, IBV_WC_RNR_RETRY_EXC_ERR};
  in.retry_at_ns =
      time.now_ns() + std::uint64_t{kRnrTimer10Us[qp.attributes.min_rnr_timer & 31u]} * 10'000;
  return {Verdict::Later};
}

// Copies at most *bytes of the request's source, from its present position, into `to`, and stores
// in *bytes how many were copied.
Target::Outcome Target::pull(QueuePair& qp, RingRequest& request, std::byte* to,
                             std::size_t* bytes) noexcept {
  Incoming& in = qp.in;
  DCHECK(core_.turning() && in.ring != nullptr);
  if (request.is_inline != 0) {
    if (request.bytes > sizeof request.inline_bytes)
      return {Verdict::FailBoth, IBV_WC_REM_INV_REQ_ERR};
    dma_store(to, request.inline_bytes + in.done_bytes, *bytes);
    return {};
  }
  RingHeader& header = in.ring->header();
  if (header.streams.load(std::memory_order_relaxed) == 0) {
    const SgeRange range{request.sge, std::min<std::uint32_t>(request.sges, kSgesMax),
                         in.done_bytes, *bytes};
    if (gather(to, range, in.pid)) return {};
    return {Verdict::Fail, IBV_WC_LOC_PROT_ERR};
  }
  const std::uint64_t out = header.data_out.load(std::memory_order_relaxed);
  const std::uint64_t there = header.data_in.load(std::memory_order_acquire) - out;
  // A small write is copied in one piece, so that its words appear in order.
  in.waits_for_stream = there == 0 || (there < *bytes && request.bytes <= kAtomicBytes);
  if (in.waits_for_stream) return {Verdict::Later};
  *bytes = std::min<std::size_t>(*bytes, there);
  std::array<std::byte, kAtomicBytes> small;
  const std::size_t last = *bytes <= kAtomicBytes ? *bytes : sizeof(std::uint64_t);
  stream_get(to, in.ring->data_stream(), out, *bytes - last);
  stream_get(small.data(), in.ring->data_stream(), out + *bytes - last, last);
  dma_store(to + (*bytes - last), small.data(), last);
  header.data_out.store(out + *bytes, std::memory_order_release);
  return {};
}

void Target::complete_receive(QueuePair& qp, const RingRequest& request,
                              ibv_wc_status status) noexcept {
  ReceiveQueue& queue = qp.receives;
  DCHECK(core_.turning() && queue.taken < queue.posted.load(std::memory_order_acquire));
  const bool is_write = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  CompletionEntry entry;
  entry.wc.wr_id = queue.slot(queue.taken++).wr_id;
  entry.wc.status = status;
  entry.wc.opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  entry.wc.byte_len = request.bytes;
  entry.wc.qp_num = qp.verbs.qp_num;
  entry.wc.src_qp = qp.attributes.dest_qp_num;
  if (with_imm(request)) {
    entry.wc.imm_data = request.imm;
    entry.wc.wc_flags = IBV_WC_WITH_IMM;
  }
  entry.qp = &qp;
  entry.is_receive = true;
  qp.receive_cq->push(entry);
}

void Target::respond(QueuePair& qp, ibv_wc_status status) noexcept {
  Incoming& in = qp.in;
  DCHECK(core_.turning() && in.ring != nullptr);
  const RingRequest& request = in.ring->request(in.next);
  RingResponse& response = in.ring->response(in.next);
  response.psn = request.psn;
  response.status = static_cast<std::uint32_t>(status);
  response.ready_at_ns = 0;
  if (core_.modelled) {
    std::uint64_t ticks = std::max(request.ready_at_ns, in.retry_at_ns) * kTicksPerNs;
    if (request.opcode == IBV_WR_RDMA_READ) {
      const std::uint64_t bytes = WireModel::wire_bytes(request.bytes, qp.attributes.mtu, false);
      ticks = core_.wire.send(std::max(core_.wire.free_at_ticks(), ticks), bytes,
                              in.peer->slot_of(in.peer_nic));
    }
    response.ready_at_ns = ticks / kTicksPerNs + core_.wire.delay_ns();
  }
  ++in.next;
  in.done_bytes = 0;
  in.waits_for_stream = false;
  in.ring->header().responded.store(in.next, std::memory_order_release);
}

// ---- Plain writes that land out of order within a queue pair, as FaultKind::OutOfOrder wants it.
// A write with immediate keeps its place: it is executed when all before it have landed, and
// nothing that was posted after it goes first. Responses go back in order, so a write that has
// landed early completes no sooner than those that it has overtaken.

bool Target::has_expected_psn(const QueuePair& qp, std::uint64_t number) const noexcept {
  const std::uint32_t expected = qp.attributes.rq_psn + static_cast<std::uint32_t>(number);
  return qp.in.ring->request(number).psn == (expected & 0xffffff);
}

// Decides how the next request, which is a plain write, lands.
Target::Landing Target::out_of_order(QueuePair& qp, TurnTime& time, TurnBudget& budget) noexcept {
  DCHECK(core_.turning());
  Incoming& in = qp.in;
  const FaultPlan::Disorder disorder = core_.faults.disorder_of(
      core_.spec.name, {.qp_num = qp.verbs.qp_num, .number = in.next}, time.now_ns());
  const std::uint64_t bit = std::uint64_t{1} << (in.next % 64);
  if ((in.landed_early & bit) != 0) {
    in.landed_early &= ~bit;
    in.held_decided = in.next + 1;  // if it lands again, it lands now
    return in.next < in.repeats_until ? Landing::Now : Landing::Landed;
  }
  if (in.held_decided != in.next + 1) {
    in.held_decided = in.next + 1;
    in.held_until_ns = disorder.hold_ns == 0 ? 0 : time.now_ns() + disorder.hold_ns;
    in.repeats_until = std::max(in.repeats_until, in.next + 1 + disorder.repeats);
  }
  if (in.held_until_ns <= time.now_ns()) return Landing::Now;
  overtake(qp, disorder.alone, time, budget);
  return Landing::Held;
}

// Returns true if the write is kept to land late, in memory for relaxed ordering. A write that has
// landed early once, or waits for its turn, does not get here.
bool Target::lands_late(QueuePair& qp, const RingRequest& request, TurnTime& time) noexcept {
  DCHECK(core_.turning());
  Incoming& in = qp.in;
  if (request.is_inline == 0 || request.bytes > kLateBytesMax || request.bytes == 0) return false;
  const std::uint64_t late_ns =
      core_.faults
          .disorder_of(core_.spec.name, {.qp_num = qp.verbs.qp_num, .number = in.next},
                       time.now_ns())
          .late_ns;
  const MemoryTable::Use use{.key = request.rkey,
                             .address = request.remote_address,
                             .bytes = request.bytes,
                             .pd = qp.verbs.pd,
                             .access = static_cast<int>(IBV_ACCESS_REMOTE_WRITE) |
                                       static_cast<int>(IBV_ACCESS_RELAXED_ORDERING)};
  if (late_ns == 0 || !core_.regions.allows(use)) return false;
  if (in.late == nullptr) in.late.reset(new (std::nothrow) LateWrites);
  return in.late != nullptr && in.late->add(use, request.inline_bytes, time.now_ns() + late_ns);
}

bool Target::land_late(QueuePair& qp, TurnTime& time) noexcept {
  DCHECK(core_.turning());
  LateWrites& late = *qp.in.late;
  if (!late.empty()) late.land(core_.regions, time.now_ns());
  return !late.empty();
}

// Lands requests behind the next one, which is held: each lands whole, or not yet.
void Target::overtake(QueuePair& qp, bool all, TurnTime& time, TurnBudget& budget) noexcept {
  Incoming& in = qp.in;
  DCHECK(in.done_bytes == 0);
  const std::uint64_t tail = in.ring->header().tail.load(std::memory_order_acquire);
  const bool streams = in.ring->header().streams.load(std::memory_order_relaxed) != 0;
  for (std::uint64_t number = in.next + 1; number < tail && number <= in.next + kAheadMax;
       ++number) {
    RingRequest& request = in.ring->request(number);
    const std::uint64_t bit = std::uint64_t{1} << (number % 64);
    if (request.opcode != IBV_WR_RDMA_WRITE || !has_expected_psn(qp, number)) return;
    if (request.ready_at_ns > time.now_ns()) return;  // nothing behind it is there either
    if (streams && request.is_inline == 0) return;    // its bytes come in order
    if ((in.landed_early & bit) != 0 || request.bytes > budget.bytes) continue;
    const FaultPlan::Disorder disorder = core_.faults.disorder_of(
        core_.spec.name, {.qp_num = qp.verbs.qp_num, .number = number}, time.now_ns());
    if (!all && !disorder.overtakes) continue;
    const Outcome outcome = execute_write(qp, request, time, budget);
    in.done_bytes = 0;
    if (outcome.verdict != Verdict::Done) return;  // its error shows when its turn comes
    in.landed_early |= bit;
  }
}

}  // namespace mesh::soft
