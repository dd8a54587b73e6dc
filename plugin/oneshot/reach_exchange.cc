#include "plugin/oneshot/reach_exchange.h"

#include "plugin/oneshot/hello.h"
#include "plugin/oneshot/plan.h"

#include <cstring>

namespace mesh::oneshot {

ReachExchange::ReachExchange(Group::Parts& parts) : parts_(parts), members_(parts.members.size()) {
  const Reach ours{.neighbours = neighbours()};
  std::memcpy(room(parts_.rank), &ours, sizeof(ours));
}

// Hellos lie where the first pieces will, and these messages where the second ones will.
std::byte* ReachExchange::room(std::size_t rank) const noexcept {
  return parts_.memory->piece(rank, 1);
}

std::uint32_t ReachExchange::neighbours() const noexcept {
  std::uint32_t neighbours = 0;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    if (rank != parts_.rank && !parts_.members[rank].send_side.relayed()) neighbours |= 1u << rank;
  }
  return neighbours;
}

Status ReachExchange::step() {
  bool all = true;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    if (rank == parts_.rank) continue;
    const Status status = exchange(rank);
    if (!status.ok() && status.code() != Errc::WouldBlock) return status;
    all = all && status.ok();
  }
  return all ? plan() : Errc::WouldBlock;
}

Status ReachExchange::exchange(std::size_t rank) noexcept {
  Messages& messages = members_[rank];
  Member& member = parts_.members[rank];
  if (messages.peers == nullptr) {
    const Result<Request*> request = member.receive_side.receive(room(rank), sizeof(Reach));
    if (!request.ok()) return request.status();
    messages.peers = request.value();
  }
  if (messages.ours == nullptr) {
    const Result<Request*> request = member.send_side.send(room(parts_.rank), sizeof(Reach));
    if (!request.ok()) return request.status();
    messages.ours = request.value();
  }
  if (!messages.heard) {
    std::size_t bytes = 0;
    if (const Status status = test(*messages.peers, &bytes); !status.ok()) return status;
    if (bytes != sizeof(Reach)) return Errc::Protocol;
    messages.heard = true;
  }
  if (!messages.told) {
    if (const Status status = test(*messages.ours, nullptr); !status.ok()) return status;
    messages.told = true;
  }
  return {};
}

Status ReachExchange::plan() {
  Neighbours neighbours{};
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    Reach reach;
    std::memcpy(&reach, room(rank), sizeof(reach));
    if (reach.magic != Reach::kMagic) return Errc::Protocol;
    neighbours[rank] = reach.neighbours;
  }
  parts_.steps = steps_of(parts_.rank, members_.size(), neighbours);
  return {};
}

}  // namespace mesh::oneshot
