#include "plugin/oneshot/bring_up.h"

#include "src/base/check.h"
#include "src/base/log.h"

#include <cstring>
#include <string>
#include <utility>

namespace mesh::oneshot {

namespace {

Hello hello_of(const BringUp::Invitation& invitation) {
  Hello hello{.rank = static_cast<std::uint32_t>(invitation.rank),
              .members = static_cast<std::uint32_t>(invitation.handles.size()),
              .willing = invitation.willing,
              .bound = invitation.bound};
  invitation.host.copy(hello.host.data(), hello.host.size() - 1);
  return hello;
}

// The peer's bytes may be anything.
std::string host_of(const Hello& hello) {
  std::string name;
  for (const char each : hello.host) {
    if (each == 0) break;
    name += each > ' ' && each <= '~' ? each : '?';
  }
  return name;
}

}  // namespace

std::string disagreement(const Hello& ours, const Hello& peers) {
  if (peers.magic != Hello::kMagic) return "its first message is no hello";
  if (peers.version != ours.version || peers.piece_bytes != ours.piece_bytes ||
      peers.pieces != ours.pieces)
    return fmt::format("it has version {} of one-shot all-reduce and this host {}", peers.version,
                       ours.version);
  if (peers.members != ours.members)
    return fmt::format("it counts {} members and this host {}", peers.members, ours.members);
  if (peers.rank >= ours.members || peers.rank == ours.rank)
    return fmt::format("it says that it is member {}", peers.rank);
  if (peers.bound != ours.bound)
    return fmt::format("its NCCL_MESH_ONESHOT_BYTES is {} and this host's {}", peers.bound,
                       ours.bound);
  return peers.willing != 0 ? "" : "it cannot take part; its own log says why";
}

BringUp::BringUp(Invitation invitation)
    : invitation_(std::move(invitation)), ours_(hello_of(invitation_)) {
  const std::size_t members = invitation_.handles.size();
  CHECK(members >= 2 && members <= kMembersMax && invitation_.rank < members);
  parts_.memory = std::make_unique<Memory>(members);
  parts_.members.resize(members);
  parts_.rank = invitation_.rank;
  parts_.stalls = invitation_.stalls;
  departures_.resize(members);
  arrivals_.reserve(members);
  greeted_.resize(members);
  std::memcpy(hello_room(invitation_.rank), &ours_, sizeof(ours_));
}

// No piece is on its way before the last hello, so hellos lie where pieces will.
std::byte* BringUp::hello_room(std::size_t index) const noexcept {
  return parts_.memory->piece(index, 0);
}

Status BringUp::step() {
  if (!exchange_) {
    if (const Status status = meet(); !status.ok()) return status;
    exchange_.emplace(parts_);
  }
  return exchange_->step();
}

Status BringUp::meet() {
  std::size_t open = 0;
  for (std::size_t rank = 0; rank < size(); ++rank) {
    Departure& departure = departures_[rank];
    if (rank == parts_.rank || departure.stage != Stage::Open) continue;
    departure.stage = stage_after(connect(rank));
    open += departure.stage == Stage::Open ? 1 : 0;
  }
  if (stage_after(accept()) == Stage::Failed) ++nameless_;
  for (std::size_t index = 0; index < arrivals_.size(); ++index) {
    Arrival& arrival = arrivals_[index];
    if (arrival.stage != Stage::Open) continue;
    arrival.stage = stage_after(read(index));
    open += arrival.stage == Stage::Open ? 1 : 0;
  }
  if (open != 0 || awaits_members()) return Errc::WouldBlock;
  return failed_;
}

BringUp::Stage BringUp::stage_after(Status status) noexcept {
  if (status.ok()) return Stage::Done;
  if (status.code() == Errc::WouldBlock) return Stage::Open;
  if (failed_ == Errc::Ok) failed_ = status.code();
  return Stage::Failed;
}

// A member to which we cannot connect will hardly connect to us. A channel that failed before its
// hello belongs to some member that has not greeted.
bool BringUp::awaits_members() const noexcept {
  std::size_t awaited = 0, nameless = nameless_;
  for (std::size_t rank = 0; rank < size(); ++rank) {
    if (rank == parts_.rank || greeted_[rank]) continue;
    awaited += departures_[rank].stage == Stage::Failed ? 0 : 1;
  }
  for (const Arrival& arrival : arrivals_) nameless += arrival.stage == Stage::Failed ? 1 : 0;
  return awaited > nameless;
}

// Goes on with our connection to a member, until it has our hello.
Status BringUp::connect(std::size_t rank) {
  Side& side = parts_.members[rank].send_side;
  Departure& departure = departures_[rank];
  if (!side) {
    const Result<Channel*> channel = invitation_.engine.connect(
        invitation_.context, invitation_.rail, invitation_.handles[rank]);
    if (!channel.ok()) return channel.status();
    side = Side(channel.value());
  }
  if (!side.registered()) {
    if (const Status status = side.register_all(*parts_.memory); !status.ok()) return status;
  }
  if (departure.hello == nullptr) {
    const Result<Request*> request = side.send(hello_room(parts_.rank), sizeof(Hello));
    if (!request.ok()) return request.status();
    departure.hello = request.value();
  }
  return test(*departure.hello, nullptr);
}

// Takes the channels that have come, in whatever order.
Status BringUp::accept() {
  while (arrivals_.size() + 1 < size()) {
    const Result<Channel*> channel = invitation_.engine.accept(invitation_.listener);
    if (!channel.ok()) return channel.status();
    Side side(channel.value());
    if (const Status status = side.register_all(*parts_.memory); !status.ok()) return status;
    arrivals_.push_back({.side = std::move(side)});
  }
  return {};
}

Status BringUp::read(std::size_t index) {
  Arrival& arrival = arrivals_[index];
  // The room of our own rank has the hello that we send.
  std::byte* const room = hello_room(index < parts_.rank ? index : index + 1);
  if (arrival.hello == nullptr) {
    const Result<Request*> request = arrival.side.receive(room, sizeof(Hello));
    if (!request.ok()) return request.status();
    arrival.hello = request.value();
  }
  std::size_t bytes = 0;
  if (const Status status = test(*arrival.hello, &bytes); !status.ok()) return status;
  Hello hello{.magic = 0};
  if (bytes == sizeof(hello)) std::memcpy(&hello, room, sizeof(hello));
  return admit(arrival, hello);
}

// A member that does not please has greeted all the same.
Status BringUp::admit(Arrival& arrival, const Hello& hello) {
  std::string reason = disagreement(ours_, hello);
  if (reason.empty() && greeted_[hello.rank])
    reason = fmt::format("two hosts say that they are member {}", hello.rank);
  if (reason.empty()) {
    greeted_[hello.rank] = true;
    parts_.members[hello.rank].receive_side = std::move(arrival.side);
    parts_.members[hello.rank].host = host_of(hello);
    return {};
  }
  LOG_WARN("one-shot all-reduce: member {}: {}", hello.rank, reason);
  failed_ = Errc::Protocol;
  if (hello.magic != Hello::kMagic || hello.rank >= size()) return Errc::Protocol;
  greeted_[hello.rank] = true;
  return {};
}

std::string BringUp::missing() const {
  std::string ranks;
  for (std::size_t rank = 0; rank < size(); ++rank) {
    const bool met = greeted_[rank] && departures_[rank].stage == Stage::Done;
    if (rank == parts_.rank || (met && (!exchange_ || exchange_->heard(rank)))) continue;
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  }
  return ranks;
}

}  // namespace mesh::oneshot
