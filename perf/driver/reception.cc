#include "perf/driver/reception.h"

#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

namespace mesh::driver {
namespace {

constexpr std::uint32_t kHelloBytesMax = 32;  // "mesh rank 255 of 256"
using Length = std::uint32_t;                 // as send_message() puts it in front

// Returns the rank, or -1 if the hello is not of a rank of this run.
int rank_in(const std::string& hello, int world) {
  int rank = -1;
  const std::string_view key = "mesh rank ";
  if (!hello.starts_with(key)) return -1;
  std::from_chars(hello.data() + key.size(), hello.data() + hello.size(), rank);
  if (rank > 0 && rank < world && hello == hello_of(rank, world)) return rank;
  std::fprintf(stderr,
               "rendezvous: \"%s\" does not belong to this run of %d ranks; check that WORLD_SIZE "
               "is equal on every host\n",
               hello.c_str(), world);
  return -1;
}

// Returns how many bytes of the hello are known to come: its length first. Not one byte more is
// read, because a rank goes on with its first message.
std::size_t bytes_wanted(const std::string& text) {
  if (text.size() < sizeof(Length)) return sizeof(Length);
  Length length = 0;
  std::memcpy(&length, text.data(), sizeof(length));
  return sizeof(Length) + length;
}

}  // namespace

std::string hello_of(int rank, int world) {
  return "mesh rank " + std::to_string(rank) + " of " + std::to_string(world);
}

Result<std::vector<UniqueFd>> Reception::gather(Deadline deadline, std::vector<int>* missing) && {
  while (missing_ != 0) {
    Status done = wait(deadline);
    // Hellos that have arrived are read before a new connection may push the oldest out.
    if (done.ok()) done = read_hellos();
    if (done.ok() && waiting_.back().revents != 0) done = accept_one_more(deadline);
    if (done.ok()) continue;
    note_missing(missing);
    return done;
  }
  return std::move(ranks_);
}

void Reception::note_missing(std::vector<int>* missing) const {
  for (std::size_t rank = 1; missing != nullptr && rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].valid()) missing->push_back(static_cast<int>(rank));
  }
}

Status Reception::wait(Deadline deadline) {
  waiting_.clear();
  for (const Unauthenticated& connection : unauthenticated_)
    waiting_.push_back({connection.socket.get(), POLLIN, 0});
  waiting_.push_back({listening_, POLLIN, 0});
  return wait_for_any(waiting_, deadline);
}

Status Reception::read_hellos() {
  for (std::size_t i = 0; i < unauthenticated_.size(); ++i) {
    if (waiting_[i].revents == 0) continue;
    const HelloState state = read_hello(unauthenticated_[i]);
    if (state == HelloState::Incomplete) continue;
    const Status admitted = state == HelloState::Complete ? admit(unauthenticated_[i]) : Status();
    if (!admitted.ok()) return admitted;
    unauthenticated_[i].socket.reset();
  }
  std::erase_if(unauthenticated_,
                [](const Unauthenticated& connection) { return !connection.socket.valid(); });
  return {};
}

Reception::HelloState Reception::read_hello(Unauthenticated& connection) {
  char bytes[sizeof(Length) + kHelloBytesMax];
  for (std::size_t wanted = bytes_wanted(connection.text); connection.text.size() < wanted;
       wanted = bytes_wanted(connection.text)) {
    if (wanted > sizeof(bytes)) return HelloState::Invalid;
    const ssize_t got =
        ::recv(connection.socket.get(), bytes, wanted - connection.text.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return HelloState::Incomplete;
    if (got <= 0) return HelloState::Invalid;
    connection.text.append(bytes, static_cast<std::size_t>(got));
  }
  return HelloState::Complete;
}

Status Reception::admit(Unauthenticated& connection) {
  const int rank = rank_in(connection.text.substr(sizeof(Length)), static_cast<int>(ranks_.size()));
  if (rank < 0) return {};
  UniqueFd& place = ranks_[static_cast<std::size_t>(rank)];
  if (place.valid()) {
    std::fprintf(stderr, "rendezvous: two processes claim rank %d\n", rank);
    return Errc::Protocol;
  }
  place = std::move(connection.socket);
  --missing_;
  return {};
}

Status Reception::accept_one_more(Deadline deadline) {
  if (unauthenticated_.size() >= missing_ + kUnauthenticatedMax)
    unauthenticated_.erase(unauthenticated_.begin());
  auto socket = accept_one(listening_, deadline);
  if (!socket.ok()) return socket.status();
  unauthenticated_.push_back({std::move(*socket), {}});
  return {};
}

}  // namespace mesh::driver
