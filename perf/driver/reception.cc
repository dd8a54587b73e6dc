#include "perf/driver/reception.h"

#include <sys/socket.h>

#include <algorithm>
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
  std::fprintf(
      stderr,
      "rendezvous: \"%s\" knocks at a world of %d ranks; is WORLD_SIZE the same everywhere?\n",
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
    // Connections that have spoken are heard before a new one may push the oldest out.
    if (done.ok()) done = hear_guests();
    if (done.ok() && waiting_.back().revents != 0) done = let_in(deadline);
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
  for (const Guest& guest : guests_) waiting_.push_back({guest.socket.get(), POLLIN, 0});
  waiting_.push_back({listening_, POLLIN, 0});
  return wait_for_any(waiting_, deadline);
}

Status Reception::hear_guests() {
  for (std::size_t i = 0; i < guests_.size(); ++i) {
    if (waiting_[i].revents == 0) continue;
    const Hearing heard = hear(guests_[i]);
    if (heard == Hearing::Incomplete) continue;
    const Status seated = heard == Hearing::Complete ? seat(guests_[i]) : Status();
    if (!seated.ok()) return seated;
    guests_[i].socket.reset();
  }
  std::erase_if(guests_, [](const Guest& guest) { return !guest.socket.valid(); });
  return {};
}

Reception::Hearing Reception::hear(Guest& guest) {
  char bytes[sizeof(Length) + kHelloBytesMax];
  for (std::size_t wanted = bytes_wanted(guest.text); guest.text.size() < wanted;
       wanted = bytes_wanted(guest.text)) {
    if (wanted > sizeof(bytes)) return Hearing::Useless;
    const ssize_t got = ::recv(guest.socket.get(), bytes, wanted - guest.text.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Hearing::Incomplete;
    if (got <= 0) return Hearing::Useless;
    guest.text.append(bytes, static_cast<std::size_t>(got));
  }
  return Hearing::Complete;
}

Status Reception::seat(Guest& guest) {
  const int rank = rank_in(guest.text.substr(sizeof(Length)), static_cast<int>(ranks_.size()));
  if (rank < 0) return {};
  UniqueFd& place = ranks_[static_cast<std::size_t>(rank)];
  if (place.valid()) {
    std::fprintf(stderr, "rendezvous: two processes say that they are rank %d\n", rank);
    return Errc::Protocol;
  }
  place = std::move(guest.socket);
  --missing_;
  return {};
}

Status Reception::let_in(Deadline deadline) {
  if (guests_.size() >= missing_ + kStrangersMax) guests_.erase(guests_.begin());
  auto socket = accept_one(listening_, deadline);
  if (!socket.ok()) return socket.status();
  guests_.push_back({std::move(*socket), {}});
  return {};
}

}  // namespace mesh::driver
