#pragma once
// Sequences of messages as NCCL's proxy would make them, in one thread that plays both ends. Every
// call into the plugin goes through one of five functions that are never inlined: by their names
// callgrind's figures are put to a side. Thread: one owner. Bound: kIdleMax rounds without an end
// to any request count as stuck.

#include "perf/instructions/channels.h"

#include <cstdint>
#include <string>

namespace mesh::instructions {

enum class Pattern {
  One,       // a receive, a send, both tested until done, then the next
  Burst8,    // eight receives, eight sends on one channel, all tested in order until done
  Rolling8,  // eight of each kept open, the oldest tested, the next posted as soon as there is a
             // place
  Group8,    // eight receives of eight tags started together, and a send of each tag, all tested
  Every,     // one receive and one send on every channel, all tested until done
};

enum class Completion {
  Wanted,
  Optional
};  // Optional: the request is 0x1 on entry to irecv, as NCCL does for LL and LL128

struct Work {
  Pattern pattern = Pattern::One;
  Completion completion = Completion::Wanted;
  std::uint64_t messages = 0;
  std::size_t bytes = 8;
  bool flush = false;  // each received message, as NCCL does on device memory
};

// The state of the five functions. An error that they meet goes to `error`.
struct Traffic {
  Channels& channels;
  const Work& work;
  std::uint64_t idle = 0;
  std::string error;
};
bool receiver_irecv(Traffic& traffic, std::uint64_t message,
                    void** request);  // false: no place now
bool sender_isend(Traffic& traffic, std::uint64_t message, void** request);
bool receiver_test(Traffic& traffic, void* request);  // true: done
bool sender_test(Traffic& traffic, void* request);
void receiver_flush(Traffic& traffic, std::uint64_t message);  // until it is done

// Moves all messages. Returns what went wrong, or an empty text.
std::string move_messages(Channels& channels, const Work& work);

}  // namespace mesh::instructions
