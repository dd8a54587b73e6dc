#include "engine/data/peer_link.h"

#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace mesh::engine {

namespace {
const char* advice(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer's NIC does not answer: look at the cable, the peer's port and MTU";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer had no receive posted, which is a mistake of nccl-mesh";
    case IBV_WC_REM_ACCESS_ERR:
      return "the peer's memory is no longer registered, it may have aborted";
    case IBV_WC_LOC_QP_OP_ERR: return "our port may have lost its address";
    case IBV_WC_LOC_PROT_ERR: return "our memory is no longer registered";
    case IBV_WC_REM_INV_REQ_ERR:
      return "the peer's NIC did not understand a request; soft-RoCE does that after a "
             "retransmission";
    case IBV_WC_WR_FLUSH_ERR:
      return "the peer or the device ended the queue pair: see the peer's lines and the error "
             "counters";
    default: return "see the device's error counters";
  }
}

const char* status_name(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR: return "retries exceeded";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "receiver-not-ready retries exceeded";
    case IBV_WC_REM_ACCESS_ERR: return "remote access error";
    case IBV_WC_LOC_PROT_ERR: return "local protection error";
    case IBV_WC_REM_INV_REQ_ERR: return "remote invalid request";
    case IBV_WC_REM_OP_ERR: return "remote operation error";
    case IBV_WC_LOC_QP_OP_ERR: return "local queue pair error";
    case IBV_WC_WR_FLUSH_ERR: return "flushed";
    default: return "error completion";
  }
}
}  // namespace

PeerLink::PeerLink(ProgressLoop& loop, ChannelOwner& owner, const LinkIdentity& identity,
                   const TransferPolicy& policy)
    : loop_(loop), owner_(owner), identity_(identity), policy_(policy), shares_(policy_) {}

// A link whose channels have all ended is taken apart by the peer without further word.
bool PeerLink::every_channel_ended() const noexcept {
  return std::all_of(
      channels_.begin(), channels_.end(), [](const std::unique_ptr<Channel>& channel) {
        return !channel || channel->failure.load(std::memory_order_relaxed) != Errc::Ok;
      });
}

namespace {
// Returns true if every path would end like this, as the mistake is not the wire's. (Not for
// LOC_QP_OP_ERR: soft-RoCE says that when a port has lost its address.)
bool is_mistake(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_REM_ACCESS_ERR: return true;
    default: return false;
  }
}
}  // namespace

bool PeerLink::has_open_requests() const noexcept {
  return std::any_of(channels_.begin(), channels_.end(),
                     [](const std::unique_ptr<Channel>& channel) {
                       return channel && channel->open_count() != 0;
                     });
}

void PeerLink::on_error_completion(QueuePair& queue_pair, const ibv_wc& completion) noexcept {
  if ((completion.wr_id & kReceiveBit) != 0) queue_pair.on_receive_flushed();
  DCHECK(loop_.held());
  if (failure() != Errc::Ok) return;
  Path& path = queue_pair.path();
  path.health.probe_failed = true;
  if (path.health.state != PathState::Up) return;  // the rest of a flush
  const bool black_hole =
      completion.status == IBV_WC_RETRY_EXC_ERR && path.queue_pairs[0]->full_packet_hangs();
  try {
    const std::string cause =
        fmt::format("{} (status {}, vendor {:#x}) on queue pair {}; {}",
                    status_name(completion.status), static_cast<int>(completion.status),
                    completion.vendor_err, queue_pair.index(), advice(completion.status));
    if (is_mistake(completion.status)) {
      fail(Errc::Transport, fmt::format("peer {}, {}: {}", identity_.peer_host, path.name, cause));
    } else {
      quarantine(path, black_hole ? black_hole_text(path) : cause);
    }
  } catch (const std::exception& error) {
    fail_for_memory(path, error.what());
  }
}

void PeerLink::on_post_failed(QueuePair& queue_pair, int error) noexcept {
  if (failure() != Errc::Ok) return;
  DCHECK(loop_.held());
  queue_pair.path().health.probe_failed = true;
  try {
    quarantine(queue_pair.path(), fmt::format("posting on queue pair {} was refused: {}",
                                              queue_pair.index(), std::strerror(std::abs(error))));
  } catch (const std::exception& without) {
    fail_for_memory(queue_pair.path(), without.what());
  }
}

// Fails the link, and not the process, where there is no memory to leave a path in good order.
void PeerLink::fail_for_memory(const Path& path, const char* what) noexcept {
  LOG_WARN("peer {}: path {} is lost, and so is the link: {}", identity_.peer_host, path.name,
           what);
  fail(Errc::System, {});
}

void PeerLink::report_truncated(std::uint64_t sent, std::uint64_t room) const noexcept {
  loop_.counters.errors.add(1);
  LOG_WARN(
      "peer {}: a send of {} bytes met a receive of {} bytes; both fail (ranks disagree about a "
      "message's size)",
      identity_.peer_host, sent, room);
}

// NCCL would take the size that it is told for what it may read.
void PeerLink::on_overrun(std::uint64_t said, std::uint64_t room) noexcept {
  LOG_WARN("peer {}: says that it wrote {} bytes into a receive of {}; connection dropped",
           identity_.peer_host, said, room);
  loop_.counters.errors.add(1);
  fail(Errc::Protocol, {});
}

void PeerLink::fail(Errc why, const std::string& text) noexcept {
  if (failure() != Errc::Ok) return;
  if (!text.empty()) {
    loop_.counters.errors.add(1);
    LOG_WARN("{}", text);
  }
  end(why);
  loop_.wake_control();
}

void PeerLink::end(Errc why) noexcept {
  if (failure() != Errc::Ok) return;
  failure_.store(why, std::memory_order_release);
  for (const auto& channel : channels_) {
    if (channel) channel->fail_all(why);
  }
}

namespace {
// Each half of a cable names the whole cable's speed, and an acknowledgement waits behind the bytes
// of all halves.
std::uint64_t inflight_bytes_max(const TransferPolicy& policy, std::uint32_t speed_mbps,
                                 std::uint32_t cable_rails) {
  if (policy.inflight_us == 0 || speed_mbps == 0) return policy.inflight_bytes;
  // 10^6 bits/s times 10^-6 s are bits.
  const std::uint64_t carried = std::uint64_t{speed_mbps} * policy.inflight_us / 8 / cable_rails;
  return std::clamp(carried, std::min(policy.wr_bytes, policy.inflight_bytes),
                    policy.inflight_bytes);
}
}  // namespace

Path& PeerLink::place_path(Lane& lane, const PathEnds& ends, std::string name) {
  auto path = std::make_unique<Path>();
  path->lane = &lane;
  path->index = path_count();
  path->rail = lane.index();
  path->ends = ends;
  if (ends.own_address < lane.rail().gids.size())
    path->own_gid_index = lane.rail().gids[ends.own_address].index;
  path->name = std::move(name);
  set_port_speed(*path, lane.rail().info.speed_mbps);
  all_.reserve(paths_.size() + 1);
  paths_.push_back(std::move(path));
  all_.push_back(paths_.back().get());
  return *paths_.back();
}

void PeerLink::set_port_speed(Path& path, std::uint32_t own_mbps) noexcept {
  const std::uint32_t peer_mbps = path.ends.peer_speed_mbps;
  path.speed_mbps = own_mbps == 0 || peer_mbps == 0 ? std::max(own_mbps, peer_mbps)
                                                    : std::min(own_mbps, peer_mbps);
  path.inflight_bytes_max = path.usual_inflight_bytes =
      inflight_bytes_max(policy_, own_mbps, path.cable_rails);
}

Path& PeerLink::add_path(Lane& lane, const PathEnds& ends, std::string name) {
  CHECK(primary_count_ == paths_.size());
  Path& added = place_path(lane, ends, std::move(name));
  added.key_place = primary_count_++;
  add_rails({&added.rail, 1});
  provide_queue_pairs(added);
  return added;
}

void PeerLink::add_beside(Lane& lane, const PathEnds& ends, std::string name) {
  CHECK(ends.relayed && !beside_);
  Path& added = place_path(lane, ends, std::move(name));
  CHECK(primary_count_ == added.index);
  added.key_place = primary_count_++;
  added.health.state = PathState::Resting;
  beside_ = true;
  add_rails({&added.rail, 1});
  provide_queue_pairs(added);
}

void PeerLink::add_standby(Lane& lane, const PathEnds& ends, std::string name) {
  CHECK(primary_count_ != 0 && paths_.size() < kPathsMax);
  Path& added = place_path(lane, ends, std::move(name));
  added.tier = added.index / primary_count_;
  added.key_place = added.index % primary_count_;
  added.health.state = PathState::Resting;
}

void PeerLink::add_rails(std::span<const std::uint32_t> rails) {
  for (const std::uint32_t rail : rails) {
    const auto at = std::lower_bound(rails_.begin(), rails_.end(), rail);
    if (at == rails_.end() || *at != rail) rails_.insert(at, rail);
  }
  note_written_rails();
}

ProgressLoop::Source PeerLink::express_source(std::uint32_t channel) noexcept {
  if (paths_.empty()) return {};
  const QueuePair& queue_pair = express(channel);
  if (queue_pair.verbs() == nullptr) return {};
  Lane& lane = *queue_pair.path().lane;
  return {.lane = &lane, .queue = lane.queue_of(queue_pair)};
}

void PeerLink::order_paths() {
  usable_.clear();
  for (Path* const path : all_) {  // the best tiers first
    if (path->health.state != PathState::Up) continue;
    if (usable_.empty()) tier_ = path->tier;
    if (path->tier == tier_) usable_.push_back(path);
  }
  usable_count_ = static_cast<std::uint32_t>(usable_.size());
  // The path that leads over other hosts is the last of its tier.
  const bool detour = beside_ && usable_count_ > 1 && usable_.back()->ends.relayed;
  express_count_ = usable_count_ - (detour ? 1 : 0);
  DCHECK((dormant() || all_.size() == paths_.size()) && usable_.size() <= all_.size());
  shares_.assign(usable_);
  bulk_.assign(usable_);
  DCHECK(bulk_.count() == usable_count_ * policy_.qps);
  note_written_rails();
}

// Handles an announcement of a message with a record, or a late one.
void PeerLink::on_rare_announcement(Request& slot, std::uint64_t imm) noexcept {
  if (slot.expected == imm) return RecvChannel::of(*slot.channel).on_recorded(slot);
  loop_.counters.late_announcements.add(1);
}

void PeerLink::place_channel(std::uint32_t index, std::unique_ptr<Channel> channel) {
  DCHECK(loop_.held());
  make_room_for(index);  // from here on only attach() may throw, and then has done nothing
  CHECK(!channels_[index]);
  loop_.attach(*channel);
  if (failure() != Errc::Ok)
    channel->fail_all(failure());  // the link is failing, its end comes with the next control pass
  if (dormant()) channel->fail_all(Errc::Unreachable);  // its first message fails
  if (asleep()) channel->sleep();
  channels_[index] = std::move(channel);
  ++channel_count_;
}

void PeerLink::make_room_for(std::uint32_t index) {
  const std::size_t bound = std::max<std::size_t>(channels_.size(), index + 1);
  slots_.resize(std::bit_ceil(bound), {.first = &nobodys_, .mask = 0});
  slots_mask_ = slots_.size() - 1;
  DCHECK(slots_.size() >= channels_.size());
  receivers_.resize(bound);
  channels_.resize(bound);
}

void PeerLink::place_slots(std::uint32_t index, RecvChannel* receiver) noexcept {
  DCHECK(loop_.held());
  DCHECK(index < receivers_.size());
  receivers_[index] = receiver;
  slots_[index] = receiver == nullptr
                      ? Slots{.first = &nobodys_, .mask = 0}
                      : Slots{.first = receiver->requests.get(), .mask = receiver->slot_mask};
}

SendChannel* PeerLink::add_send_channel(std::uint32_t index, std::uint32_t life,
                                        std::byte* credits) {
  auto channel = std::make_unique<SendChannel>(*this, index, credits);
  SendChannel* const added = channel.get();
  added->life_number = life;
  added->start(in_tier(generation_base(life), tier_));
  place_channel(index, std::move(channel));
  return added;
}

RecvChannel* PeerLink::add_recv_channel(std::uint32_t index, std::uint32_t life, Record* records) {
  auto channel = std::make_unique<RecvChannel>(*this, index, records);
  RecvChannel* const added = channel.get();
  added->life_number = life;
  added->start(in_tier(generation_base(life), tier_));
  place_channel(index, std::move(channel));
  place_slots(index, added);
  return added;
}

void PeerLink::remove_channel(std::uint32_t index) noexcept {
  DCHECK(loop_.held());
  DCHECK(index < channels_.size() && channels_[index]);
  DCHECK(channels_[index]->outstanding == 0);
  DCHECK(channel_count_ != 0);
  const MessageCounts counts = channels_[index]->counts();
  const bool sent = channels_[index]->side == Side::Send;
  (sent ? loop_.counters.messages_sent : loop_.counters.messages_received).add(counts.messages);
  loop_.counters.bytes_received.add(counts.bytes_received);
  ended_.messages.add(counts.messages);
  ended_.bytes_received.add(counts.bytes_received);
  loop_.forget(*channels_[index]);
  place_slots(index, nullptr);
  channels_[index].reset();
  --channel_count_;
}

void PeerLink::stop_queue_pairs(const Path* but) noexcept {
  DCHECK(loop_.held());
  for (Path* const path : all_) {
    if (path != but) stop_path(*path);
  }
}

void PeerLink::destroy_queue_pairs() noexcept {
  DCHECK(loop_.held());
  for (const auto& path : paths_) {
    for (const auto& queue_pair : path->queue_pairs) {
      loop_.forget(*queue_pair);
      path->lane->destroy(*queue_pair);
    }
  }
  memory_.release();
}

}  // namespace mesh::engine
