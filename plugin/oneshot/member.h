#pragma once
// The two channels between this host and another member of its group, and how far each has come.
// Pieces are numbered from 0 on, alike on all members, and a channel carries them in that order: so
// the n-th message is the n-th piece. Thread: the group's. Bound: kPieces requests in each
// direction.

#include <mesh/channel.h>
#include <mesh/status.h>

#include "plugin/oneshot/memory.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace mesh::oneshot {

// Owns one channel and its registration of the group's memory.
class Side {
 public:
  Side() = default;
  explicit Side(Channel* channel) noexcept : channel_(channel) {}
  Side(Side&& other) noexcept { swap(other); }
  Side& operator=(Side&& other) noexcept {
    swap(other);
    return *this;
  }
  // Afterwards no NIC touches the memory through this channel. Waits as mesh::close() does.
  ~Side() {
    if (channel_ == nullptr) return;
    if (region_ != nullptr) deregister_memory(*channel_, region_);
    close(channel_);
  }

  Status register_all(const Memory& memory) {
    const Result<Registration*> region =
        register_memory(*channel_, memory.data(), memory.bytes(), MemoryType::Host);
    if (region.ok()) region_ = region.value();
    return region.status();
  }
  Result<Request*> send(const std::byte* from, std::size_t bytes) noexcept {
    return isend(*channel_, {.data = from, .bytes = bytes, .region = region_});
  }
  Result<Request*> receive(std::byte* to, std::size_t room) noexcept {
    return irecv(*channel_, {.data = to, .bytes = room, .region = region_});
  }
  explicit operator bool() const noexcept { return channel_ != nullptr; }
  bool registered() const noexcept { return region_ != nullptr; }
  bool relayed() const noexcept { return is_relayed(*channel_); }

 private:
  void swap(Side& other) noexcept {
    std::swap(channel_, other.channel_);
    std::swap(region_, other.region_);
  }

  Channel* channel_ = nullptr;
  Registration* region_ = nullptr;
};

// The requests of one direction: pieces done, and pieces begun, both from the beginning on.
class Course {
 public:
  std::uint64_t begun() const noexcept { return begun_; }
  std::uint64_t done() const noexcept { return done_; }

  // Notes the request of the next piece.
  void begin(Request* request) noexcept { requests_[begun_++ % kPieces] = request; }
  // The request of the oldest piece that is not done; null: there is none.
  Request* oldest() const noexcept {
    return done_ == begun_ ? nullptr : requests_[done_ % kPieces];
  }
  void end_oldest() noexcept { ++done_; }

 private:
  std::uint64_t begun_ = 0, done_ = 0;
  std::array<Request*, kPieces> requests_{};
};

struct Member {
  Side send_side, receive_side;
  Course sends, receives;
  std::string host;  // for log lines; empty: it has not told
};

}  // namespace mesh::oneshot
