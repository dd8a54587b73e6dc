#pragma once
// What an open request waits for, asked rarely and about one request; nothing of it is on a
// message's way. Thread: loop (token).

#include <mesh/snapshot.h>

#include <cstdint>
#include <string>

namespace mesh::engine {

struct Path;

struct Waiting {
  WaitReason reason = WaitReason::Data;
  const Path* path = nullptr;  // where it is known to be one
  std::uint32_t landed = 0;    // Data: stripes that have come
  std::uint64_t left = 0;      // of the message that is being posted: bytes that have not gone out
};

// For example "the peer's receive: it has posted none for this send".
std::string waiting_text(const Waiting& waiting);

}  // namespace mesh::engine
