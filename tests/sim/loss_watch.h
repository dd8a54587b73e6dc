#pragma once
// How soon what is lost must be noticed. Thread: one. Bound: grows with paths and channels.

#include <mesh/snapshot.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace mesh::sim {

class ChannelRun;
struct Side;

// If every host answers and one cable at least is whole, no fence waits for the connection that ran
// over the cable that is cut.
class FenceWatch {
 public:
  // Returns in words which path of the host is lost and not fenced in time; empty if none is.
  std::string see(std::size_t host, const EngineSnapshot& shot, std::uint64_t now_ns);

 private:
  struct Lost {
    std::uint64_t failures = 0, since_ns = 0;
  };
  std::map<std::string, Lost> lost_;  // by host, peer, direction and path: not fenced yet
};

// Each request towards a host that is lost ends in a bounded time, though the control network may
// be silent, too.
class LossWatch {
 public:
  // Returns in words which request of the channel has outlived its host by that bound; empty if
  // none has.
  std::string see(ChannelRun& channel, std::uint64_t now_ns, std::uint64_t bound_ns);

 private:
  struct Oldest {
    std::size_t number = SIZE_MAX;
    std::uint64_t since_ns = 0;
  };
  std::map<const Side*, Oldest> oldest_;  // requests towards a host that is lost
};

}  // namespace mesh::sim
