#include "engine/data/flusher.h"

#include "engine/data/device_context.h"
#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "engine/data/registration.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/verbs/port_view.h"

#include <array>
#include <cstring>
#include <exception>
#include <utility>

namespace mesh::engine {

namespace {

constexpr std::size_t kFlushesAtFirst = 64;
// Failed reads that one flush bears: a fault that strikes a few in a row is no reason to end a job.
constexpr std::uint32_t kFailuresMax = 30;

}  // namespace

Flush* Flusher::take_free() noexcept {
  if (free_.empty()) return make_flush();
  Flush* const flush = free_.back();
  free_.pop_back();
  return flush;
}

// Makes one flush more than were ever open, with room so that giving it back needs no memory.
Flush* Flusher::make_flush() noexcept {
  try {
    if (free_.capacity() == flushes_.size()) free_.reserve(2 * flushes_.size() + kFlushesAtFirst);
    return &flushes_.emplace_back();
  } catch (const std::exception&) {
    return nullptr;
  }
}

void Flusher::release(Flush& flush) noexcept {
  DCHECK(flush.open_rails == 0);
  DCHECK(free_.size() < free_.capacity());
  flush.state.store(RequestState::Free, std::memory_order_relaxed);
  free_.push_back(&flush);
}

// Posts a read, which lands where nobody looks.
bool Flusher::post_read(Rail& rail, Flush& flush) noexcept {
  ibv_sge sge{rail.device->probe_target().address, 1, rail.device->probe_source(1).lkey};
  ibv_send_wr wr{};
  wr.wr_id = reinterpret_cast<std::uintptr_t>(&flush);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_READ;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = flush.address;
  wr.wr.rdma.rkey = flush.region->keys(rail.device->index()).rkey;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(rail.qp.get(), &wr, &bad) == 0;
}

inline void Flusher::read(std::uint32_t at, Flush& flush) noexcept {
  Rail& rail = rails_[at];
  if (post_read(rail, flush)) {
    ++rail.open;
    flush.open_rails |= bit_of(at);
  } else {
    rail.broken = true;
    owe(at, flush);
  }
}

// A card that has left has no port.
bool Flusher::has_dead_port(const DeviceContext& device) noexcept {
  const verbs::PortNow port = verbs::port_now(device.provider(), device.rail());
  return !port.up && !port.card_left && !device.gone();
}

bool Flusher::may_stand_in(const Rail& rail) noexcept {
  return rail.qp && !rail.device->gone() &&
         verbs::port_is_up(rail.device->provider(), rail.device->rail());
}

// Returns the rails that may read instead of one whose port is down.
std::uint64_t Flusher::stand_ins_for(std::uint32_t at, const Flush& flush) const noexcept {
  std::uint64_t rails =
      flush.channel != nullptr ? flush.channel->link.paths().written_rails() : flush.stand_ins;
  rails &= ~bit_of(at);
  for (std::uint32_t rail = 0; rail < rails_.size(); ++rail)
    if ((rails & bit_of(rail)) != 0 && !may_stand_in(rails_[rail])) rails &= ~bit_of(rail);
  return rails;
}

// Returns true if a rail that has failed is not asked again now, because its port is down. It owes
// its read until another rail has read. Before the fence of a link's last rail no other one can,
// and nothing is owed: the device has given back all receives, and its last writes land long before
// what is sent again.
bool Flusher::waits_for_port(std::uint32_t at, Flush& flush) noexcept {
  if (rails_[at].device == nullptr || !has_dead_port(*rails_[at].device)) return false;
  if (flush.region == nullptr || flush.abandoned) return true;
  if (flush.stood_in && flush.open_rails == 0) return true;
  const std::uint64_t others = stand_ins_for(at, flush);
  if (others == 0 && flush.channel == nullptr) return true;
  flush.owed_rails |= bit_of(at);
  for (std::uint32_t rail = 0; rail < rails_.size() && flush.open_rails == 0; ++rail) {
    if ((others & bit_of(rail)) == 0 || !has_room(rails_[rail])) continue;
    flush.stood_in = true;
    read(rail, flush);
  }
  return true;
}

// Notes a read that a rail owes. It is posted when the failed queue pair is empty, and made anew.
void Flusher::owe(std::uint32_t rail, Flush& flush) noexcept {
  if (flush.region == nullptr || flush.abandoned) return;
  flush.stood_in = false;
  flush.owed_rails |= bit_of(rail);
  if (++flush.failures <= kFailuresMax || flush.error != Errc::Ok) return;
  LOG_WARN("{}: a flush of GPU memory at {:#x} has failed {} times", rails_[rail].device->name(),
           flush.address, flush.failures);
  flush.error = Errc::Transport;
}

void Flusher::post(std::uint32_t at, Flush& flush) noexcept {
  Rail& rail = rails_[at];
  if (rail.broken) [[unlikely]] {
    if (waits_for_port(at, flush)) return;
    if (rail.open == 0 && !rail.making) {
      if (rail.device != nullptr) renew(at);
      if (rail.gone) return;
    }
  }
  if (rail.making) {
    flush.owed_rails |= bit_of(at);
  } else if (!rail.qp) {
    flush.error = Errc::Transport;
  } else if (!has_room(rail)) {
    flush.owed_rails |= bit_of(at);
  } else {
    read(at, flush);
  }
}

// A rail that stands in for one whose port is down reads already.
void Flusher::post_all(std::uint64_t rails, Flush& flush) noexcept {
  for (std::uint32_t rail = 0; rail < rails_.size() && flush.error == Errc::Ok; ++rail) {
    if ((rails & ~flush.open_rails & bit_of(rail)) != 0) post(rail, flush);
  }
}

inline Result<Flush*> Flusher::begin(Flush* flush, const FlushPlace& place,
                                     std::uint64_t rails) noexcept {
  if (flush == nullptr) return Errc::System;
  flush->channel = place.channel;
  flush->region = place.region;
  flush->address = place.address;
  flush->failures = 0;
  flush->silent_ms = 0;
  flush->open_rails = flush->owed_rails = 0;
  flush->seen = flush->abandoned = flush->stood_in = false;
  flush->error = Errc::Ok;
  post_all(rails, *flush);
  flush->state.store(RequestState::Flushing, std::memory_order_relaxed);
  return flush;
}

Result<Flush*> Flusher::start(const FlushPlace& place, std::uint64_t rails) noexcept {
  const Hold hold(lock_);
  return begin(take_free(), place, rails);
}

Result<Flush*> Flusher::start_before_fence(const FlushPlace& place, std::uint32_t rail,
                                           std::uint64_t stand_ins) noexcept {
  const Hold hold(lock_);
  Flush* const flush = take_free();
  if (flush != nullptr) flush->stand_ins = stand_ins;
  return begin(flush, place, bit_of(rail));
}

void Flusher::take(std::uint32_t at, const ibv_wc& completion) noexcept {
  Rail& rail = rails_[at];
  Flush& flush = *reinterpret_cast<Flush*>(completion.wr_id);
  DCHECK(rail.open != 0 && (flush.open_rails & bit_of(at)) != 0);
  --rail.open;
  flush.open_rails ^= bit_of(at);
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
    rail.broken = true;
    owe(at, flush);
  }
  if (flush.abandoned && flush.open_rails == 0) release(flush);
}

void Flusher::poll() noexcept {
  for (std::uint32_t at = 0; at < rails_.size(); ++at) {
    Rail& rail = rails_[at];
    if (rail.open == 0) continue;
    std::array<ibv_wc, kPollBatch> completions;
    const int count = ibv_poll_cq(rail.cq.get(), kPollBatch, completions.data());
    for (int i = 0; i < count; ++i) take(at, completions[static_cast<std::size_t>(i)]);
  }
}

Errc Flusher::finish(Flush& flush) noexcept {
  const Hold hold(lock_);
  poll();
  if (flush.owed_rails != 0 && flush.error == Errc::Ok) [[unlikely]]
    post_all(std::exchange(flush.owed_rails, 0), flush);
  const bool owes = flush.owed_rails != 0 && flush.error == Errc::Ok;
  if (flush.open_rails != 0 || owes) return Errc::WouldBlock;
  release(flush);
  return flush.error;
}

void Flusher::abandon(Flush& flush) noexcept {
  const Hold hold(lock_);
  flush.abandoned = true;
  if (flush.open_rails == 0) release(flush);
}

// Ends the open reads of a rail, with this error or with none.
void Flusher::end_reads(std::uint32_t at, Errc error) noexcept {
  Rail& rail = rails_[at];
  rail.open = 0;
  rail.broken = true;  // whoever needs it next makes its queue pair anew, if the card is there
  for (Flush& flush : flushes_) {
    if (((flush.open_rails | flush.owed_rails) & bit_of(at)) == 0) continue;
    flush.owed_rails &= ~bit_of(at);
    flush.open_rails &= ~bit_of(at);
    if (error != Errc::Ok) flush.error = error;
    if (flush.abandoned && flush.open_rails == 0) release(flush);
  }
}

void Flusher::leave(std::uint32_t rail) noexcept {
  const Hold hold(lock_);
  end_reads(rail, Errc::Ok);
}

void Flusher::forget(const Channel& channel, const Registration& region) noexcept {
  const Hold hold(lock_);
  for (Flush& flush : flushes_) {
    const bool concerned = flush.channel == &channel || flush.channel == nullptr;
    if (flush.region != &region || !concerned) continue;
    flush.region = nullptr;
    flush.owed_rails = 0;
  }
}

}  // namespace mesh::engine

namespace mesh {

bool needs_flush(const RecvArgs& args) noexcept {
  return args.region != nullptr && args.region->type == MemoryType::Device;
}

Result<Request*> flush(Channel& channel, const RecvArgs& args) noexcept {
  Registration* const region = args.region;
  if (!needs_flush(args)) return nullptr;
  if (!region->covers(args.data, 1)) return nullptr;
  const Result<engine::Flush*> started =
      channel.loop.flusher->start({.channel = &channel,
                                   .region = region,
                                   .address = reinterpret_cast<std::uint64_t>(args.data)},
                                  channel.link.paths().written_rails());
  if (!started.ok()) return started.status();
  return *started;
}

}  // namespace mesh
