#pragma once
// Limits what chains have under way over one rail of a middle host, so that the host's own messages
// keep the rail's cable. A NIC serves its queue pairs in turn, and our own messages use several: if
// only one chain at a time has payloads under way, the traffic carried for others gets the part of
// one queue pair. A chain keeps the rail for a quantum while others wait, and the others get it in
// turn. With nobody else on the cable this costs the little time between two chains. Thread: any.
// Bound: none; a holder whose NIC is silent loses the rail after kPatience questions of others.

#include "src/relay/short_lock.h"

#include <cstdint>

namespace mesh::relay {

class RailShare {
 public:
  static constexpr std::uint64_t kFreeBytes = 8192;  // a payload up to this goes without asking
  static constexpr std::uint64_t kUnderWayBytes = 512u << 10;
  static constexpr std::uint64_t kQuantumBytes = 1u << 20;
  static constexpr std::uint64_t kHandOverBytes = 64u
                                                  << 10;  // may be under way when the next begins
  static constexpr std::uint32_t kPatience = 20'000;

  RailShare() = default;
  RailShare(const RailShare&) = delete;
  RailShare& operator=(const RailShare&) = delete;

  // Returns true if `who`, one direction of a chain, may post so many bytes more. under_way: the
  // bytes that it has under way.
  bool try_post(const void* who, std::uint64_t under_way, std::uint64_t bytes) noexcept;
  // look() is called before try_post(), and rest() when there is no more to post. Both return false
  // if `who` does not hold the rail any more.
  bool look(const void* who, std::uint64_t under_way) noexcept;
  bool rest(const void* who, std::uint64_t under_way) noexcept;
  void leave(const void* who) noexcept;

 private:
  bool may_take(const void* who) noexcept;
  void release() noexcept;

  ShortLock lock_;
  const void* holder_ = nullptr;
  const void* last_ = nullptr;  // the holder before, which gave the rail up
  bool others_wait_ = false;    // others have asked meanwhile
  std::uint64_t spent_ = 0;     // by the holder
  std::uint64_t under_way_ = 0;
  std::uint32_t asked_ = 0;  // by others, since something of the holder's was done
};

}  // namespace mesh::relay
