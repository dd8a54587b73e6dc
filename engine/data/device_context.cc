#include "engine/data/device_context.h"

#include "engine/data/device_refusal.h"
#include "engine/data/progress_loop.h"
#include "engine/data/progress_loop_datapath.h"
#include "engine/data/registration.h"
#include "src/base/check.h"
#include "src/base/held_locks.h"
#include "src/base/log.h"
#include "src/base/room.h"
#include "src/verbs/device_probe.h"
#include "src/verbs/memory_hint.h"
#include "src/verbs/port_view.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <span>
#include <utility>

namespace mesh::engine {

namespace {
static_assert(verbs::kInlineNeeded >= kCreditBytesMax);

// Returns no text if there is no memory for it: then a path is lost without a word about why.
template <typename Text>
std::string text_or_nothing(const Text& text) noexcept {
  try {
    return text();
  } catch (const std::exception&) {
    return {};
  }
}

ibv_qp_init_attr wanted_pair(ibv_cq* queue, const QueueDepths& depths, std::uint32_t inline_bytes) {
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = queue;
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {.max_send_wr = depths.send,
              .max_recv_wr = depths.receive,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = inline_bytes};
  return attr;
}
}  // namespace

std::shared_ptr<const verbs::Card> DeviceContext::card_on(verbs::OpenDevice::Hold device) {
  ibv_pd* const pd = provider_.alloc_pd(device.get());
  const int error = errno;
  auto card = std::make_shared<verbs::Card>(
      verbs::Card{.device = std::move(device), .pd = verbs::PdHandle(provider_, pd)});
  errno = error;
  return card;
}

Status DeviceContext::tell_no_domain(int error) const {
  LOG_WARN("{}: cannot create a protection domain: {}", name(), std::strerror(error));
  return Errc::System;
}

namespace {
bool may_mean_that_the_card_left(int error) {
  return error == EIO || error == ENODEV || error == ENXIO;
}
}  // namespace

DeviceContext::Domain DeviceContext::make_domain() {
  Domain made{.card = card_on(rail_.context.hold())};
  if (made.card->pd) return made;
  made.error = errno;
  made.card_left = may_mean_that_the_card_left(made.error) && port_has_left();
  return made;
}

Status DeviceContext::open(Domain domain) {
  if (gone()) gate.open();
  gone_.store(false, std::memory_order_release);
  card_ = std::move(domain.card);
  if (card_ == nullptr) return tell_no_domain(domain.error);
  if (domain.card_left) leave();
  // The error may have been that of the former card: the caller looks which one is there.
  if (card_->pd || gone() || !is_of(rail_.context.hold())) return {};
  return tell_no_domain(domain.error);
}

void DeviceContext::suspect() noexcept {
  if (gone() || !port_has_left()) return;
  leave();
  if (background_ != nullptr) background_->wake_control();
}

// A card that is there may refuse a single object with such an error, so its port is asked, too.
void DeviceContext::note_error(int error) noexcept {
  if (may_mean_that_the_card_left(error)) suspect();
  errno = error;
}

bool DeviceContext::port_has_left() const noexcept {
  try {
    verbs::look_at_port(provider_, rail_);
  } catch (const std::exception&) {
    // Without memory what was seen last decides.
  }
  return verbs::port_now(provider_, rail_).card_left;
}

Status DeviceContext::provide_probes() {
  const std::lock_guard guard(probing_);
  return has_probes() ? Status{} : make_probes();
}

Status DeviceContext::make_probes() {
  const std::size_t bytes = whole_pages(sizeof(Probes));
  int error = ENOMEM;
  if (probe_pages_ == nullptr) probe_pages_ = make_pages(bytes);
  if (probe_pages_ != nullptr) {
    probe_mr_ =
        register_range(probe_pages_.get(), bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    error = errno;
  }
  has_probes_.store(static_cast<bool>(probe_mr_), std::memory_order_release);
  if (probe_mr_) return {};
  LOG_WARN("{}: cannot register {} bytes for probes: {}{}", name(), bytes, std::strerror(error),
           verbs::memory_hint(error));
  return Errc::System;
}

verbs::LocalSource DeviceContext::probe_source(std::uint32_t bytes) const noexcept {
  DCHECK(bytes <= kProbeBytesMax);
  return {.address = reinterpret_cast<std::uintptr_t>(probes().source.data()),
          .bytes = bytes,
          .lkey = probe_mr_->lkey};
}

verbs::RemoteTarget DeviceContext::probe_target() const noexcept {
  if (!has_probes()) return {};  // the card has left
  return {.address = reinterpret_cast<std::uintptr_t>(probes().target.data()),
          .rkey = probe_mr_->rkey};
}

verbs::MrHandle DeviceContext::register_range(void* address, std::size_t bytes, int access) {
  const DeviceGate::Visit visit(gate);
  if (!visit) return {provider_, verbs::null_with_errno(ENODEV)};
  verbs::MrHandle made(provider_, provider_.reg_mr(card_->pd.get(), address, bytes, access), card_);
  if (!made) note_error(errno);
  return made;
}

verbs::MrHandle DeviceContext::register_buffer(const verbs::DmaBufferRange& range, int access) {
  const DeviceGate::Visit visit(gate);
  if (!visit) return {provider_, verbs::null_with_errno(ENODEV)};
  verbs::MrHandle made(provider_, provider_.reg_dmabuf_mr(card_->pd.get(), range, access), card_);
  if (!made) note_error(errno);
  return made;
}

verbs::CqHandle DeviceContext::make_queue(int entries) {
  const DeviceGate::Visit visit(gate);
  if (!visit) return {provider_, verbs::null_with_errno(ENODEV)};
  verbs::CqHandle made(provider_, provider_.create_cq(card_->device.get(), entries), card_);
  if (!made) note_error(errno);
  return made;
}

ibv_cq* DeviceContext::queue_of(const QueuePair& queue_pair) const noexcept {
  const std::size_t at = queue_pair.id_base() >> 48;
  DCHECK(queue_pair.verbs() != nullptr);
  DCHECK(at < entries_.size() && live_[at].queue_pair == &queue_pair);
  return queues_[entries_[at].queue].cq.get();
}

// Looks at the newest queue first: while links come, the older ones are full.
std::size_t DeviceContext::queue_with_room(const Wanted& wanted) const noexcept {
  const auto found = std::find_if(queues_.rbegin(), queues_.rend(), [&wanted](const Queue& queue) {
    return !queue.failed && queue.relayed == wanted.relayed &&
           queue.entries - queue.reserved >= wanted.entries;
  });
  return found == queues_.rend() ? queues_.size()
                                 : static_cast<std::size_t>(queues_.rend() - found) - 1;
}

// Called first where a place is taken, so no other thread makes the relay end meanwhile.
verbs::Provider& DeviceContext::maker(bool relayed) {
  if (!relayed) return provider_;
  if (relay_end_ == nullptr)
    relay_end_ = std::make_unique<relay::EndDevice>(provider_, card_->device.get(),
                                                    static_cast<relay::Stopper*>(this));
  return *relay_end_;
}

Result<DeviceContext::Queue> DeviceContext::make_queue_for(const Wanted& wanted) {
  const auto limit = static_cast<std::uint32_t>(std::max(rail_.cq_entries_max, 1));
  const std::uint32_t entries = std::min(std::max(verbs::kQueueEntries, wanted.entries), limit);
  if (entries < wanted.entries) {
    LOG_WARN(
        "{}: a queue pair needs {} completion entries, the device's limit is {}; lower "
        "NCCL_MESH_SQ_DEPTH or NCCL_MESH_RQ_DEPTH",
        name(), wanted.entries, limit);
    return Errc::Exhausted;
  }
  verbs::Provider& made_by = maker(wanted.relayed);
  const CallWatch::Call waits(calls, name(), "ibv_create_cq");
  verbs::CqHandle cq(made_by, made_by.create_cq(card_->device.get(), static_cast<int>(entries)),
                     card_);
  if (!cq) {
    const int error = errno;
    if (!wanted.relayed) note_error(error);
    return tell_refused(name(), fmt::format("a completion queue of {} entries", entries), error);
  }
  return Queue{.cq = std::move(cq), .entries = entries, .relayed = wanted.relayed};
}

// Takes room in a completion queue and an entry, so that the device may work without any lock.
// Makes one more completion queue if none has room.
Result<DeviceContext::Reserved> DeviceContext::reserve(const Order& order) {
  const Wanted wanted{.entries = order.depths.send + order.depths.receive,
                      .relayed = order.relayed};
  const std::lock_guard placing(placing_);  // two threads do not make a queue for the same need
  {
    const ProgressLoop::Guard guard(*order.loop);
    if (queue_with_room(wanted) < queues_.size()) return take_place(wanted);
  }
  Result<Queue> made = make_queue_for(wanted);
  if (!made.ok()) return made.status();
  const ProgressLoop::Guard guard(*order.loop);
  queues_.reserve(queues_.size() +
                  1);  // a queue that is polled must be ours, and one of ours must be polled
  order.loop->add_source({.device = this, .queue = made->cq.get()});
  queues_.push_back(std::move(*made));
  return take_place(wanted);
}

// A queue may fail whenever nobody holds the progress lock, so its room is looked for and taken
// under one hold.
Result<DeviceContext::Reserved> DeviceContext::take_place(const Wanted& wanted) {
  if (free_entries_.empty() && entries_.size() >= kQueuePairsMax) {
    LOG_WARN("{}: more than {} queue pairs in one communicator", name(), kQueuePairsMax);
    return Errc::Exhausted;
  }
  const std::size_t queue = queue_with_room(wanted);
  CHECK(queue < queues_.size());
  const std::uint32_t at = take_entry();
  TableEntry& entry = entries_[at];
  entry = {.life = entry.life + 1,
           .queue = static_cast<std::uint32_t>(queue),
           .reserved = wanted.entries};
  queues_[queue].reserved += wanted.entries;
  DCHECK(live_[at].queue_pair == nullptr);
  return Reserved{.entry = at, .queue = queues_[queue].cq.get()};
}

void DeviceContext::give_back(const Reserved& reserved) noexcept {
  const TableEntry& entry = entries_[reserved.entry];
  DCHECK(queues_[entry.queue].reserved >= entry.reserved);
  queues_[entry.queue].reserved -= entry.reserved;
  free_entries_.push_back(reserved.entry);
}

verbs::QpHandle DeviceContext::make(ibv_cq* queue, const Order& order, InlineBytes* granted) {
  const TransferPolicy& policy = *order.policy;
  verbs::Provider& made_by = maker(order.relayed);
  const CallWatch::Call waits(calls, name(), "ibv_create_qp");
  int error = 0;
  std::uint32_t inline_bytes = 0;
  for (const std::uint32_t tried :
       {std::max(policy.inline_bytes, verbs::kInlineNeeded), verbs::kInlineNeeded}) {
    ibv_qp_init_attr attr = wanted_pair(queue, order.depths, tried);
    verbs::QpHandle qp(made_by, made_by.create_qp(card_->pd.get(), &attr), card_);
    error = qp ? 0 : errno;
    inline_bytes = attr.cap.max_inline_data;
    if (!qp || inline_bytes < verbs::kInlineNeeded) continue;
    *granted = {.data = std::min(policy.inline_bytes, inline_bytes),
                .rows = std::min(verbs::WrChain::kRowBytesMax, inline_bytes)};
    return qp;
  }
  if (!order.relayed) note_error(error);
  tell_no_queue_pair(name(), order.depths, {.error = error, .inline_bytes = inline_bytes});
  return {};
}

verbs::QpHandle DeviceContext::make_loop_back(ibv_cq* queue, std::uint32_t depth) {
  ibv_qp_init_attr attr = wanted_pair(queue, {.send = depth, .receive = 1}, 0);
  const DeviceGate::Visit visit(gate);
  if (!visit) return {provider_, verbs::null_with_errno(ENODEV)};
  return verbs::QpHandle(provider_, provider_.create_qp(card_->pd.get(), &attr), card_);
}

void DeviceContext::on_queue_failed(const ibv_cq* queue, ProgressLoop& loop) noexcept {
  const auto found = std::find_if(queues_.begin(), queues_.end(),
                                  [queue](const Queue& each) { return each.cq.get() == queue; });
  if (found == queues_.end()) return;
  drain_queue(*found);  // the peer has sent what it shows, and may send it no more
  found->failed = true;
  loop.drop_source(queue);
  const auto number = static_cast<std::uint32_t>(found - queues_.begin());
  for (std::size_t at = 0; at < live_.size(); ++at) {
    QueuePair* const queue_pair = live_[at].queue_pair;
    if (queue_pair == nullptr || entries_[at].queue != number) continue;
    queue_pair->link().quarantine(
        queue_pair->path(), text_or_nothing([] {
          return std::string("its completion queue has failed: see the device's error counters");
        }));
  }
}

void DeviceContext::on_poll_failed() noexcept {
  for (const LiveEntry& entry : live_) {
    QueuePair* const queue_pair = entry.queue_pair;
    if (queue_pair == nullptr) continue;
    queue_pair->link().quarantine(queue_pair->path(), text_or_nothing([this] {
                                    return verbs::card_left_text(rail_) +
                                           "; its completions cannot be polled any more";
                                  }));
  }
}

std::uint32_t DeviceContext::take_entry() {
  if (free_entries_.empty()) {
    // stop() and destroy() ask for no memory.
    make_room_for(free_entries_, entries_.size() + 1);
    make_room_for(live_, entries_.size() + 1);
    work_.reserve(2 * (entries_.size() + 1));  // each is stopped, and destroyed
    entries_.emplace_back();
    live_.emplace_back();
    return static_cast<std::uint32_t>(entries_.size() - 1);
  }
  DCHECK(live_.size() == entries_.size());
  const std::uint32_t free = free_entries_.back();
  free_entries_.pop_back();
  return free;
}

Status DeviceContext::create(QueuePair& queue_pair, Order order) {
  DCHECK(queue_pair.verbs() == nullptr);
  const DeviceGate::Visit visit(gate);
  if (!visit) return Errc::System;
  order.depths = queue_pair.depths();
  return create_inside(queue_pair, order);
}

Status DeviceContext::create_inside(QueuePair& queue_pair, const Order& order) {
  const Result<Reserved> reserved = reserve(order);
  if (!reserved.ok()) return reserved.status();
  InlineBytes granted;
  verbs::QpHandle qp = make(reserved->queue, order, &granted);
  const ProgressLoop::Guard guard(*order.loop);
  const std::uint32_t at = reserved->entry;
  if (!qp) {
    give_back(*reserved);
    return Errc::System;
  }
  if (queues_[entries_[at].queue].failed) {  // nobody polls it any more
    LOG_WARN("{}: a completion queue has failed while a queue pair was made for it", name());
    give_back(*reserved);
    return Errc::System;
  }
  queue_pairs_.fetch_add(1, std::memory_order_relaxed);
  queue_pair.adopt(std::move(qp), wr_id_base(at, entries_[at].life), granted);
  if (granted.data < order.policy->inline_bytes && order.loop->registrations != nullptr)
    order.loop->registrations->lower_inline_bytes(granted.data);
  live_[at] = {.queue_pair = &queue_pair, .receive_id = queue_pair.id_base() | kReceiveBit};
  return {};
}

DeviceContext::Remains DeviceContext::take_apart(ProgressLoop& loop) noexcept {
  DCHECK(loop.held());
  // Work for the device may have come since it was quiet. What is in it holds the card, or is not
  // let in.
  CHECK(gate.quiet() && queue_pair_count() == 0);
  for (const Queue& queue : queues_) loop.drop_source(queue.cq.get());
  has_probes_.store(false, std::memory_order_release);
  Remains remains;
  remains.card = std::move(card_);
  remains.probe_mr = std::move(probe_mr_);
  remains.relay_end = std::move(relay_end_);
  remains.queues = std::move(queues_);
  queues_.clear();
  return remains;
}

Status DeviceContext::renew(verbs::OpenDevice::Hold next) {
  auto card = card_on(std::move(next));
  if (!card->pd) return tell_no_domain(errno);
  card_ = std::move(card);
  const std::lock_guard guard(probing_);
  return probe_pages_ == nullptr ? Status{} : make_probes();
}

void DeviceContext::stop(QueuePair& queue_pair) noexcept {
  if (queue_pair.verbs() == nullptr || queue_pair.is_still()) return;
  const auto at = static_cast<std::uint32_t>(queue_pair.id_base() >> 48);
  DCHECK(live_[at].queue_pair == &queue_pair);
  if (entries_[at].stops_for != nullptr) return;  // it is on its way
  if (ask_stop(queue_pair)) return;
  const WaitsUnderLocks no_thread;
  const int error = move_to_error(queue_pair.provider(), queue_pair.verbs());
  static_cast<void>(on_stopped(at, error));
}

// Counts the stop, which ends with on_stopped(), also if it returns false.
bool DeviceContext::ask_stop(QueuePair& queue_pair) noexcept {
  const auto at = static_cast<std::uint32_t>(queue_pair.id_base() >> 48);
  auto& stops_for = entries_[at].stops_for;
  stops_for = queue_pair.path().debts;
  stops_for->stops.fetch_add(1, std::memory_order_relaxed);
  return background_ != nullptr && work_.stop(queue_pair.verbs(), queue_pair.provider(),
                                              {.owner = stops_for.get(), .tag = at});
}

// Whoever notices the end of a chain holds the progress lock.
bool DeviceContext::stop_soon(ibv_qp* qp) noexcept {
  if (background_ == nullptr) return false;
  const auto live = std::find_if(live_.begin(), live_.end(), [qp](const LiveEntry& each) {
    return each.queue_pair != nullptr && each.queue_pair->verbs() == qp;
  });
  if (live == live_.end()) return true;  // it is being made or destroyed, and carries nothing
  if (live->queue_pair->is_still()) return false;
  const auto at = static_cast<std::size_t>(live - live_.begin());
  if (entries_[at].stops_for != nullptr || ask_stop(*live->queue_pair)) return true;
  uncount_stop(entries_[at]);
  return false;
}

bool DeviceContext::on_stopped(std::uint32_t at, int error) noexcept {
  if (error != 0)
    MESH_LOG(gone() ? LogLevel::Detail : LogLevel::Warn, "{}: cannot stop a queue pair: {}", name(),
             std::strerror(error));
  // It may have been given to destroy() meanwhile.
  QueuePair* const queue_pair = live_[at].queue_pair;
  if (error == 0 && queue_pair != nullptr) queue_pair->set_stopped();
  return uncount_stop(entries_[at]);
}

bool DeviceContext::uncount_stop(TableEntry& entry) noexcept {
  return std::exchange(entry.stops_for, nullptr)->stops.fetch_sub(1, std::memory_order_release) ==
         1;
}

void DeviceContext::destroy(QueuePair& queue_pair) noexcept {
  if (queue_pair.verbs() == nullptr) return;
  const auto at = static_cast<std::uint32_t>(queue_pair.id_base() >> 48);
  DCHECK(at < entries_.size() && live_[at].queue_pair == &queue_pair);
  DCHECK(queue_pair_count() != 0);
  TableEntry& entry = entries_[at];
  DCHECK(queue_pair.id_base() == wr_id_base(at, entry.life));
  live_[at] = {.queue_pair = nullptr,
               .receive_id = ~queue_pair.id_base()};  // so that its late completions are nobody's
  queue_pairs_.fetch_sub(1, std::memory_order_relaxed);
  entry.dies_for = queue_pair.path().debts;
  entry.dies_for->destroys.fetch_add(1, std::memory_order_relaxed);
  dying_.fetch_add(1, std::memory_order_relaxed);  // the mutex of work_ publishes both
  verbs::QpHandle dead = queue_pair.release();
  const bool taken =
      background_ != nullptr && work_.destroy(dead, {.owner = entry.dies_for.get(), .tag = at});
  {
    const WaitsUnderLocks no_thread;
    dead.reset();  // does nothing when it was taken
  }
  queue_pair.drop_outstanding();
  if (!taken) on_destroyed(at);
}

void DeviceContext::deregister(verbs::MrHandle region, std::shared_ptr<void> memory) noexcept {
  if (background_ != nullptr) {
    dying_.fetch_add(1, std::memory_order_relaxed);
    if (work_.deregister(region, memory)) return;
    dying_.fetch_sub(1, std::memory_order_release);
  }
  const WaitsUnderLocks no_thread;
  region.reset();
}

bool DeviceContext::call_later(const DeviceWork::Call& call) noexcept {
  if (background_ == nullptr) return false;
  dying_.fetch_add(1, std::memory_order_relaxed);
  const bool taken = work_.call(call);
  if (!taken) dying_.fetch_sub(1, std::memory_order_release);
  return taken;
}

bool DeviceContext::on_destroyed(std::uint32_t entry) noexcept {
  const auto dies_for = std::move(entries_[entry].dies_for);
  drain_queue(queues_[entries_[entry].queue]);  // before its room is given to another
  give_back({.entry = entry});
  dying_.fetch_sub(1, std::memory_order_release);
  return dies_for->destroys.fetch_sub(1, std::memory_order_release) == 1;
}

// The loop is destroyed only after wait_until_destroyed().
void DeviceContext::on_answer(const DeviceWork::Answer& answer) noexcept {
  bool last = false;
  if (answer.task == DeviceTask::Deregister || answer.task == DeviceTask::Call) {
    const bool no_more = dying_.fetch_sub(1, std::memory_order_release) == 1;
    last = no_more || answer.task == DeviceTask::Call;  // a link may wait for it
  } else {
    const ProgressLoop::Guard guard(*background_);
    last = answer.task == DeviceTask::Stop ? on_stopped(answer.tag, answer.error)
                                           : on_destroyed(answer.tag);
  }
  if (last) background_->wake_control();
}

Request* DeviceContext::dispatch_timed(const ibv_wc& completion) noexcept {
  const LiveEntry& entry = live_[completion.wr_id >> 48];
  if ((completion.wr_id & kTimedBit) == 0) return nullptr;  // it outlives its queue pair
  const std::uint64_t receive_id = (completion.wr_id & ~kTimedBit) | kReceiveBit;
  if ((receive_id ^ entry.receive_id) >> 32 != 0) return nullptr;  // so does this timed write
  DCHECK(entry.queue_pair != nullptr);
  if (completion.status == IBV_WC_SUCCESS) entry.queue_pair->path().latency.end();
  finish_posted(*entry.queue_pair, completion);
  return nullptr;
}

std::uint32_t DeviceContext::dispatch_group(Request& slot,
                                            std::span<const ibv_wc> completions) noexcept {
  const std::uint32_t more = RecvChannel::of(*slot.channel).on_group(slot, completions);
  live_[completions[0].wr_id >> 48].queue_pair->on_receives(more);
  return more;
}

std::uint32_t DeviceContext::dispatch_all(const ibv_wc* completions, int count) noexcept {
  if (count < 0) [[unlikely]] {
    on_poll_failed();
    return 0;
  }
  DCHECK(count > 1 && count <= static_cast<int>(kPollBatch));
  const ibv_wc* const end = completions + count;
  do {  // there are two at least, so the first needs no look at the end
    if (Request* const group = dispatch(*completions, Behind::Others)) [[unlikely]]
      completions += dispatch_group(*group, {completions, end});
  } while (++completions != end);
  return static_cast<std::uint32_t>(count);
}

void DeviceContext::drain_queue(Queue& queue) noexcept {
  if (queue.failed) return;
  // A queue holds at most its entries; more arrive only if somebody goes on posting, and we hold
  // the progress lock.
  const std::uint32_t rounds = (queue.entries + kPollBatch - 1) / kPollBatch;
  for (std::uint32_t round = 0; round < rounds && poll(queue.cq.get()) == kPollBatch; ++round) {
  }
}

void DeviceContext::drain(std::span<const std::unique_ptr<QueuePair>> queue_pairs) noexcept {
  const Queue* drained = nullptr;  // the queue pairs of a path share one, as a rule
  for (const auto& queue_pair : queue_pairs) {
    if (queue_pair->verbs() == nullptr) continue;
    Queue& queue = queues_[entries_[queue_pair->id_base() >> 48].queue];
    if (&queue != drained) drain_queue(queue);
    drained = &queue;
  }
}

}  // namespace mesh::engine
