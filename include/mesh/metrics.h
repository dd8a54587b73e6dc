#pragma once
// Counters of the engine. The units are counts, or bytes if the name says so. Thread: as each
// struct says; whoever may use the object that a Counter belongs to adds to it and reads it. Bound:
// none.

#include <cstdint>

namespace mesh {

// A plain word, so that counting is one instruction. Readers take the loop's progress lock.
class Counter {
 public:
  void add(std::uint64_t n) noexcept { value_ += n; }
  std::uint64_t get() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0;
};

// A copy of the counters of one path of a peer link, as this side counts them.
struct PathCounters {
  std::uint64_t bytes_sent = 0, work_requests = 0, doorbells = 0, send_completions = 0,
                announcements = 0;

  PathCounters& operator+=(const PathCounters& other) noexcept {
    bytes_sent += other.bytes_sent;
    work_requests += other.work_requests;
    doorbells += other.doorbells;
    send_completions += other.send_completions;
    announcements += other.announcements;
    return *this;
  }
};

// The counters of a context's loop. Thread: the holder of the progress lock.
struct LoopCounters {
  // Counts of channels and paths that are gone; living ones keep their own counts.
  Counter messages_sent, messages_received, bytes_sent, bytes_received;
  Counter credit_stalls, queue_stalls, window_stalls, inflight_stalls, late_announcements, errors;

  void add(const LoopCounters& other) noexcept {
    messages_sent.add(other.messages_sent.get());
    messages_received.add(other.messages_received.get());
    bytes_sent.add(other.bytes_sent.get());
    bytes_received.add(other.bytes_received.get());
    credit_stalls.add(other.credit_stalls.get());
    queue_stalls.add(other.queue_stalls.get());
    window_stalls.add(other.window_stalls.get());
    inflight_stalls.add(other.inflight_stalls.get());
    late_announcements.add(other.late_announcements.get());
    errors.add(other.errors.get());
  }
};

// The counts of a link's channels that no longer exist.
struct EndedChannels {
  Counter messages, bytes_received;
};

// A copy of the engine's figures at one moment. Messages, bytes, late announcements, revokes,
// resumes and errors are counted over the engine's life. Figures of paths are those of living
// links.
struct EngineStats {
  std::uint64_t contexts = 0, links = 0, channels = 0, queue_pairs = 0, completion_queues = 0,
                registrations = 0;
  std::uint64_t messages_sent = 0, messages_received = 0, bytes_sent = 0, bytes_received = 0;
  std::uint64_t work_requests = 0, doorbells = 0, send_completions = 0, announcements = 0;
  std::uint64_t late_announcements = 0, revokes = 0, resumes = 0, errors = 0;
  std::uint64_t pending_answers = 0;  // REVOKEs and CLOSEs of peers that wait for our completions
};

}  // namespace mesh
