#pragma once
// The reason why an open request waits, asked rarely and about one request; nothing of it is on the
// message path. Thread: loop (progress lock).

#include <mesh/snapshot.h>

#include <cstdint>
#include <string>

namespace mesh::engine {

struct Path;

struct Waiting {
  WaitReason reason = WaitReason::Data;
  const Path* path = nullptr;  // the path it waits for, where known
  std::uint32_t landed = 0;    // Data: stripes that have come
  std::uint64_t left = 0;      // bytes not gone out yet, of the message that is being posted
};

// For example "the peer's receive: it has posted none for this send".
std::string waiting_text(const Waiting& waiting);

}  // namespace mesh::engine
