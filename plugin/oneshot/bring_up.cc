#include "plugin/oneshot/bring_up.h"

#include "src/base/check.h"
#include "src/base/log.h"

#include <cstring>
#include <string>
#include <utility>

namespace mesh::oneshot {

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
    : invitation_(std::move(invitation)),
      ours_{.rank = static_cast<std::uint32_t>(invitation_.rank),
            .members = static_cast<std::uint32_t>(invitation_.handles.size()),
            .willing = invitation_.willing,
            .bound = invitation_.bound} {
  const std::size_t members = invitation_.handles.size();
  CHECK(members >= 2 && members <= kMembersMax && invitation_.rank < members);
  parts_.memory = std::make_unique<Memory>(members);
  parts_.members.resize(members);
  parts_.rank = invitation_.rank;
  departures_.resize(members);
  arrivals_.reserve(members);
  std::memcpy(hello_room(invitation_.rank), &ours_, sizeof(ours_));
}

// No piece is on its way before the last hello, so hellos lie where pieces will.
std::byte* BringUp::hello_room(std::size_t index) const noexcept {
  return parts_.memory->piece(index, 0);
}

Status BringUp::step() {
  std::size_t open = 0;
  for (std::size_t rank = 0; rank < size(); ++rank) {
    if (rank == parts_.rank) continue;
    const Status status = connect(rank);
    if (!status.ok() && status.code() != Errc::WouldBlock) return status;
    open += status.ok() ? 0 : 1;
  }
  if (const Status status = accept(); !status.ok() && status.code() != Errc::WouldBlock)
    return status;
  for (std::size_t index = 0; index < arrivals_.size(); ++index) {
    const Status status = read(index);
    if (!status.ok() && status.code() != Errc::WouldBlock) return status;
    open += status.ok() ? 0 : 1;
  }
  return open == 0 && arrivals_.size() + 1 == size() ? Status() : Status(Errc::WouldBlock);
}

// Goes on with our connection to a member, until it has our hello.
Status BringUp::connect(std::size_t rank) {
  Side& side = parts_.members[rank].send_side;
  Departure& departure = departures_[rank];
  if (departure.heard) return {};
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
  const Status status = test(*departure.hello, nullptr);
  departure.heard = status.ok();
  return status;
}

// Takes the channels that have come, in whatever order.
Status BringUp::accept() {
  while (arrivals_.size() + 1 < size()) {
    const Result<Channel*> channel = invitation_.engine.accept(invitation_.listener);
    if (!channel.ok()) return channel.status();
    arrivals_.push_back({.side = Side(channel.value())});
    if (const Status status = arrivals_.back().side.register_all(*parts_.memory); !status.ok())
      return status;
  }
  return {};
}

Status BringUp::read(std::size_t index) {
  Arrival& arrival = arrivals_[index];
  if (arrival.read) return {};
  // The room of our own rank has the hello that we send.
  std::byte* const room = hello_room(index < parts_.rank ? index : index + 1);
  if (arrival.hello == nullptr) {
    const Result<Request*> request = arrival.side.receive(room, sizeof(Hello));
    if (!request.ok()) return request.status();
    arrival.hello = request.value();
  }
  std::size_t bytes = 0;
  if (const Status status = test(*arrival.hello, &bytes); !status.ok()) return status;
  arrival.read = true;
  Hello hello{.magic = 0};
  if (bytes == sizeof(hello)) std::memcpy(&hello, room, sizeof(hello));
  return admit(arrival, hello);
}

Status BringUp::admit(Arrival& arrival, const Hello& hello) {
  std::string reason = disagreement(ours_, hello);
  if (reason.empty() && parts_.members[hello.rank].receive_side)
    reason = fmt::format("two hosts say that they are member {}", hello.rank);
  if (!reason.empty()) {
    LOG_WARN("one-shot all-reduce: member {}: {}", hello.rank, reason);
    return Errc::Protocol;
  }
  parts_.members[hello.rank].receive_side = std::move(arrival.side);
  return {};
}

std::string BringUp::missing() const {
  std::string ranks;
  for (std::size_t rank = 0; rank < size(); ++rank) {
    if (rank == parts_.rank || (parts_.members[rank].receive_side && departures_[rank].heard))
      continue;
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  }
  return ranks;
}

}  // namespace mesh::oneshot
