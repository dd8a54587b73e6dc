#pragma once
// The flush before a path's fence. A completion does not push the bytes written before it into a
// GPU's memory, and no bytes of a lost path may land there after the peer sends again. Thread:
// control mutex, holding the progress lock. Bound: the device regions of the link's channels.

#include <mesh/channel.h>
#include <mesh/status.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace mesh::engine {

class Flusher;
struct Flush;
class PeerLink;

class PathFlush {
 public:
  PathFlush() = default;
  PathFlush(PathFlush&& other) noexcept { swap(other); }
  PathFlush& operator=(PathFlush&& other) noexcept {
    PathFlush taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~PathFlush();

  bool begun() const noexcept { return flusher_ != nullptr; }
  // Starts to read every device region of the link's channels over the rail. Throws std::bad_alloc.
  void begin(Flusher& flusher, const PeerLink& link, std::uint32_t rail);
  // Returns Ok if all bytes are in memory, WouldBlock if the caller must ask again, or why they
  // cannot be pushed there.
  Errc finish() noexcept;

 private:
  void swap(PathFlush& other) noexcept {
    std::swap(flusher_, other.flusher_);
    open_.swap(other.open_);
  }

  Flusher* flusher_ = nullptr;
  std::vector<Flush*> open_;
};

}  // namespace mesh::engine
