#include "engine/data/flusher.h"

#include "engine/data/lane.h"
#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "engine/data/registration.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <array>
#include <cstring>
#include <exception>
#include <utility>

namespace mesh::engine {

namespace {

constexpr std::size_t kRequestsAtFirst = 64;
// Failed reads that one flush bears: a fault that strikes a few in a row is no reason to end a job.
constexpr std::uint32_t kFailuresMax = 30;

constexpr std::uint64_t bit_of(std::uint32_t rail) noexcept { return std::uint64_t{1} << rail; }

}  // namespace

Request* Flusher::take_free() noexcept {
  if (free_.empty()) return make_request();
  Request* const request = free_.back();
  free_.pop_back();
  return request;
}

// Makes one request more than were ever open, with room so that giving it back needs no memory.
Request* Flusher::make_request() noexcept {
  try {
    if (free_.capacity() == requests_.size())
      free_.reserve(2 * requests_.size() + kRequestsAtFirst);
    return &requests_.emplace_back();
  } catch (const std::exception&) {
    return nullptr;
  }
}

void Flusher::release(Request& request) noexcept {
  DCHECK(request.bytes == 0);
  DCHECK(free_.size() < free_.capacity());
  request.state.store(RequestState::Free, std::memory_order_relaxed);
  free_.push_back(&request);
}

// Notes a read that a rail owes. It is posted when the failed queue pair is empty, and made anew.
void Flusher::owe(std::uint32_t rail, Request& request) noexcept {
  if (request.region == nullptr) return;
  request.stripes |= bit_of(rail);
  if (++request.tag <= kFailuresMax || request.error != Errc::Ok) return;
  LOG_WARN("{}: a flush of GPU memory at {:#x} has failed {} times", rails_[rail].lane->name(),
           request.address, request.tag);
  request.error = Errc::Transport;
}

// Posts a read, which lands where nobody looks.
bool Flusher::post_read(Rail& rail, Request& request) noexcept {
  ibv_sge sge{rail.lane->probe_target().address, 1, rail.lane->probe_source(1).lkey};
  ibv_send_wr wr{};
  wr.wr_id = reinterpret_cast<std::uintptr_t>(&request);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_READ;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = request.address;
  wr.wr.rdma.rkey = request.region->keys(rail.lane->index()).rkey;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(rail.qp.get(), &wr, &bad) == 0;
}

void Flusher::post(std::uint32_t at, Request& request) noexcept {
  Rail& rail = rails_[at];
  if (rail.broken && rail.open == 0) [[unlikely]] {
    if (rail.lane != nullptr) make(rail);
    if (rail.gone) return;
  }
  if (!rail.qp) {
    request.error = Errc::Transport;
  } else if (rail.broken || rail.open == kFlushDepth) {
    request.stripes |= bit_of(at);
  } else if (post_read(rail, request)) {
    ++rail.open;
    request.bytes |= bit_of(at);
  } else {
    rail.broken = true;
    owe(at, request);
  }
}

void Flusher::post_all(std::uint64_t rails, Request& request) noexcept {
  for (std::uint32_t rail = 0; rail < rails_.size() && request.error == Errc::Ok; ++rail) {
    if ((rails & bit_of(rail)) != 0) post(rail, request);
  }
}

Result<Request*> Flusher::start(const FlushPlace& place, std::uint64_t rails) noexcept {
  const Hold hold(*this);
  Request* const request = take_free();
  if (request == nullptr) return Errc::System;
  request->channel = place.channel;
  request->region = place.region;
  request->address = place.address;
  request->tag = 0;
  request->bytes = 0;
  request->stripes = 0;
  request->error = Errc::Ok;
  post_all(rails, *request);
  request->state.store(RequestState::Flushing, std::memory_order_relaxed);
  return request;
}

void Flusher::take(std::uint32_t at, const ibv_wc& completion) noexcept {
  Rail& rail = rails_[at];
  Request& request = *reinterpret_cast<Request*>(completion.wr_id);
  DCHECK(rail.open != 0 && (request.bytes & bit_of(at)) != 0);
  --rail.open;
  request.bytes ^= bit_of(at);
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
    rail.broken = true;
    owe(at, request);
  }
  if (request.error == Errc::PeerClosed && request.bytes == 0) release(request);
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

Errc Flusher::finish(Request& request) noexcept {
  const Hold hold(*this);
  poll();
  if (request.stripes != 0 && request.error == Errc::Ok) [[unlikely]]
    post_all(std::exchange(request.stripes, 0), request);
  const bool owes = request.stripes != 0 && request.error == Errc::Ok;
  if (request.bytes != 0 || owes) return Errc::WouldBlock;
  release(request);
  return request.error;
}

void Flusher::abandon(Request& request) noexcept {
  const Hold hold(*this);
  request.error = Errc::PeerClosed;
  if (request.bytes == 0) release(request);
}

void Flusher::leave(std::uint32_t at) noexcept {
  const Hold hold(*this);
  Rail& rail = rails_[at];
  rail.open = 0;
  rail.broken = true;  // whoever needs it next looks whether the card is back
  for (Request& request : requests_) {
    request.stripes &= ~bit_of(at);
    if ((request.bytes & bit_of(at)) == 0) continue;
    request.bytes &= ~bit_of(at);
    if (request.error == Errc::PeerClosed && request.bytes == 0) release(request);
  }
}

void Flusher::forget(const Channel& channel, const Registration& region) noexcept {
  const Hold hold(*this);
  for (Request& request : requests_) {
    const bool concerned = request.channel == &channel || request.channel == nullptr;
    if (request.region != &region || !concerned) continue;
    request.region = nullptr;
    request.stripes = 0;
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
  return channel.loop.flusher->start({.channel = &channel,
                                      .region = region,
                                      .address = reinterpret_cast<std::uint64_t>(args.data)},
                                     channel.link.paths().written_rails());
}

}  // namespace mesh
