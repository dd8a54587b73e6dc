#include "src/soft/soft_host.h"

#include "src/base/check.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/base/own_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace mesh::soft {

namespace {
constexpr int kLookMs = 1;  // the agent turns a NIC that no thread has turned for this long
constexpr std::uint64_t kAwakeNs = 100'000'000;  // then the idle agent sleeps until a bell rings
constexpr int kTurnsPerLook = 64;                // then it looks at the sockets again
constexpr int kForEver = -1;
}  // namespace

SoftHost::SoftHost(SoftOptions options) : options_(std::move(options)), cpu_(options_.clock) {}

Status SoftHost::start(int host_index, bool alone) {
  host_index_ = host_index;
  options_.host = options_.fabric.hosts[static_cast<std::size_t>(host_index)].name;
  universe_ = options_.fabric.identity;
  // A clock is a pointer to its word, so hosts on different manual clocks never meet.
  if (options_.clock.manual())
    universe_ += fmt::format("@{:x}", std::bit_cast<std::uintptr_t>(options_.clock));
  if (const Status made = make_board(); !made.ok()) return made;
  HostBirth birth;
  const Status begun =
      options_.clock.manual() ? Status(Errc::Ok) : birth.begin(universe_, options_.host);
  if (!begun.ok()) return begun;
  if (const Status found = find_state(); !found.ok()) return found;
  if (const Status claimed = claim_slot(alone); !claimed.ok()) return claimed;
  self_ = std::make_shared<Peer>(options_.host);
  self_->set_board(board_, state_);
  make_nics();
  Registry::instance().open(place(), this);
  if (rendezvous_ == nullptr) return Errc::Ok;
  owner_pid_ = ::getpid();
  const Status started = start_own_thread(thread_, "mesh-soft", [this] { run(); });
  if (!started.ok())
    LOG_WARN("soft fabric {}: host {} has no thread", options_.fabric.name, options_.host);
  return started;
}

Status SoftHost::make_board() {
  const bool alone = options_.clock.manual();
  Result<Segment> memory =
      Segment::create(sizeof(HostBoard), alone ? Sharing::Process : Sharing::Host);
  if (!memory.ok()) return memory.status();
  Board::Wakers wakers;
  for (UniqueFd* const fd : {&wakers.agent, &wakers.waiters})
    *fd = UniqueFd(alone ? -1 : ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!alone && (!wakers.agent.valid() || !wakers.waiters.valid())) {
    LOG_WARN("soft fabric: no eventfd for host {}: {}", options_.host, std::strerror(errno));
    return Errc::System;
  }
  for (const UniqueFd* const fd : {&wakers.agent, &wakers.waiters})
    if (fd->valid()) fork_close_fd(fd->get());
  board_ = std::make_shared<Board>(std::move(*memory), std::move(wakers));
  return Errc::Ok;
}

// Finds the state of the host in this process or in another one. The first process makes it, and
// arms the faults of the file.
Status SoftHost::find_state() {
  Registry::instance().visit_all(place(), [this](LocalHost& local) { state_ = local.state(); });
  if (state_ == nullptr && !options_.clock.manual()) {
    const Status asked = HostBirth::find_state(universe_, options_.host, &state_);
    if (!asked.ok()) return asked;
  }
  const bool first = state_ == nullptr;
  if (first) {
    Result<std::shared_ptr<HostState>> made =
        HostState::create(options_.clock.manual() ? Sharing::Process : Sharing::Host);
    if (!made.ok()) return made.status();
    state_ = std::move(*made);
  }
  faults_ = std::make_unique<FaultPlan>(state_->memory().faults);
  if (first) {
    state_->memory().set_slots(spec());
    arm_faults_of_file();
  }
  faults_->when_changed([this] {
    Registry::instance().visit_all(place(), [](LocalHost& local) { local.look_at_ports(); });
  });
  return Errc::Ok;
}

// Claims the first slot that is free.
Status SoftHost::claim_slot(bool alone) {
  for (slot_ = 0; slot_ < (alone ? 1 : kSlotsMax); ++slot_) {
    claimed_ = Registry::instance().claim(place());
    if (!claimed_) continue;
    if (options_.clock.manual()) return Errc::Ok;
    Result<std::unique_ptr<Rendezvous>> meeting =
        Rendezvous::open({.universe = universe_,
                          .host = options_.host,
                          .slot = slot_,
                          .copy = options_.copy,
                          .board = board_.get(),
                          .events = this,
                          .state_fd = state_->fd(),
                          .shown_fd = spec().slots.empty() ? -1 : state_->fd()});
    if (meeting.ok()) {
      rendezvous_ = std::move(*meeting);
      return Errc::Ok;
    }
    Registry::instance().release(place());
    claimed_ = false;
    if (meeting.code() != Errc::Exhausted) return meeting.status();
  }
  return Errc::Exhausted;
}

// The halves of a cable have the transmitter of the first of them.
void SoftHost::make_nics() {
  const std::vector<NicSpec>& specs = spec().nics;
  const auto cable_of = [this](const NicSpec& nic) {
    return nic.link < 0 ? "" : options_.fabric.links[static_cast<std::size_t>(nic.link)].cable;
  };
  HostMemory& shared = state_->memory();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    std::size_t first = i;
    for (std::size_t other = i; other-- > 0 && !cable_of(specs[i]).empty();)
      if (cable_of(specs[other]) == cable_of(specs[i])) first = other;
    nics_.push_back(std::make_unique<Nic>(NicOptions{
        .fabric = &options_.fabric,
        .faults = faults_.get(),
        .board = board_.get(),
        .wires = {shared.cables[first], shared.buses[i], shared.slot_of(static_cast<int>(i))},
        .cpu = &cpu_,
        .clock = options_.clock,
        .self = {host_index_, static_cast<int>(i)},
        .slot = slot_}));
  }
}

void SoftHost::arm_faults_of_file() {
  for (Fault fault : options_.fabric.faults) {
    NicRef end;
    if (fault.host.empty() || fault.host == options_.host) {
      static_cast<void>(faults_->arm(fault, options_.clock.now_ns()));
    } else if (fault.both_ends && options_.fabric.other_end(fault.host, fault.nic, &end) &&
               end.host == host_index_) {
      fault.nic = options_.fabric.nic(end).name;
      static_cast<void>(faults_->arm(fault, options_.clock.now_ns()));
    }
  }
}

// Lets a port say at once that it has changed, even if no thread turns its NIC. Armed faults keep
// the agent awake.
void SoftHost::look_at_ports() {
  for (const std::unique_ptr<Nic>& nic : nics_) static_cast<void>(nic->port_state());
  board_->wake();
}

std::size_t SoftHost::fail_queue_pairs(const std::string& name, int only) {
  std::size_t failed = 0;
  for (const std::unique_ptr<Nic>& nic : nics_)
    if (name.empty() || nic->spec().name == name) failed += nic->fail_queue_pairs(only);
  return failed;
}

SoftHost::~SoftHost() {
  if (claimed_) Registry::instance().release(place());
  stop_.store(true, std::memory_order_release);
  if (thread_.joinable()) {
    board_->wake();
    // A forked child has a copy of the object but not the thread.
    if (owner_pid_ != ::getpid()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }
  if (self_ != nullptr) self_->lose();
  nics_.clear();
}

bool SoftHost::turn() {
  bool moved = false;
  for (const std::unique_ptr<Nic>& nic : nics_) moved |= nic->try_turn();
  return moved;
}

std::uint64_t SoftHost::next_due_ns() const {
  std::uint64_t due_ns = UINT64_MAX;
  for (const std::unique_ptr<Nic>& nic : nics_) due_ns = std::min(due_ns, nic->next_due_ns());
  return due_ns;
}

SoftCounters SoftHost::counters(const std::string& name) const {
  for (const std::unique_ptr<Nic>& nic : nics_) {
    if (nic->spec().name != name) continue;
    const Nic::Totals totals = nic->totals();
    return {totals.work_requests, totals.bytes, totals.rnr_events, totals.doorbells};
  }
  return {};
}

void SoftHost::take_offer(const Offer& offer) {
  if (offer.to_nic >= 0 && offer.to_nic < static_cast<int>(nics_.size()))
    nics_[static_cast<std::size_t>(offer.to_nic)]->take_offer(offer);
}

FaultAnswer SoftHost::take_fault(const FaultOrder& order) {
  const std::string name = order.fault.nic;
  const auto named = std::find_if(nics_.begin(), nics_.end(),
                                  [&](const auto& nic) { return nic->spec().name == name; });
  if (!name.empty() && named == nics_.end()) return {.code = Errc::NotFound};
  FaultAnswer answer;
  switch (order.verb) {
    case FaultVerb::Arm:
      answer.code = faults_->arm(order.fault, options_.clock.now_ns()).code();
      break;
    case FaultVerb::Lift: faults_->lift(order.fault); break;
    case FaultVerb::LiftAll: faults_->disarm_all(); break;
    case FaultVerb::FailQueuePairs:
      if (!name.empty()) answer.connected = (*named)->connected();
      answer.count = static_cast<std::uint32_t>(fail_queue_pairs(name, order.queue_pair));
      break;
    case FaultVerb::Look: look_at_ports(); break;
  }
  if (name.empty()) return answer;
  const Nic::Totals totals = (*named)->totals();
  answer.port_up = (*named)->port_state().up;
  answer.work_requests = totals.work_requests;
  answer.bytes = totals.bytes;
  return answer;
}

void SoftHost::peer_changed(const Peer& peer) {
  for (const std::unique_ptr<Nic>& nic : nics_) nic->peer_changed(peer);
}

// ---- The host's one thread: it meets hosts of other processes, and turns the NICs when no other
// thread does.

void SoftHost::run() {
  DCHECK(rendezvous_ != nullptr && !options_.clock.manual());
  turns_seen_.assign(nics_.size(), 0);
  int timeout_ms = kForEver;
  if (options_.agent == Agent::Thread) timeout_ms = kLookMs;
  while (!stop_.load(std::memory_order_acquire)) {
    rendezvous_->poll_once(timeout_ms);
    if (options_.agent == Agent::Thread) timeout_ms = tend();
  }
}

// Returns how long to wait before the next look. A bell wakes the sleeping agent: it is rung after
// the work is visible, and the agent looks for work after it has said that it sleeps.
int SoftHost::tend() {
  DCHECK(turns_seen_.size() == nics_.size());
  const Clock clock;
  std::atomic<std::uint32_t>& asleep = board_->host().agent_asleep;
  asleep.store(0, std::memory_order_seq_cst);  // a socket may have woken us
  const std::uint64_t now_ns = clock.now_ns();
  if (busy_at_ns_ == 0) busy_at_ns_ = now_ns;
  bool moved = false;
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    Nic& nic = *nics_[i];
    if (nic.turns() == turns_seen_[i])
      for (int turn = 0; turn < kTurnsPerLook && nic.try_turn(); ++turn) moved = true;
    turns_seen_[i] = nic.turns();
  }
  if (moved) {
    busy_at_ns_ = now_ns;
    return 0;
  }
  if (now_ns - busy_at_ns_ < kAwakeNs) return kLookMs;
  busy_at_ns_ = 0;
  asleep.store(1, std::memory_order_seq_cst);
  bool work = false;
  for (const std::unique_ptr<Nic>& nic : nics_) work |= nic->has_work();
  if (!work) return kForEver;
  asleep.store(0, std::memory_order_seq_cst);
  return kLookMs;
}

}  // namespace mesh::soft
