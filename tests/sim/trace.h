#pragma once
// The record of one run: a hash over every event, the last events for the reader who must
// understand a failure, and the first violation. Two runs of one seed have equal hashes on any
// machine, so no noted value may be an address or a nonce.

#include "src/base/log.h"
#include "tests/standard.h"

namespace mesh::sim {

inline constexpr std::size_t kEventsKept = 40;
inline constexpr std::size_t kWarningsKept = 1024;

class Trace {
 public:
  Trace(const std::atomic<std::uint64_t>& clock_ns, bool verbose);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Adds an event. `what` is a literal; the line that calls note() shows what the values mean.
  void note(const char* what, std::initializer_list<std::uint64_t> values) noexcept;
  // Records that the run is wrong; only the first call counts.
  void violate(const std::string& what);
  bool violated() const noexcept { return !violation_.empty(); }
  const std::string& violation() const noexcept { return violation_; }
  std::uint64_t hash() const noexcept { return hash_; }
  std::uint64_t events() const noexcept { return events_; }
  std::uint64_t warnings() const noexcept { return warnings_; }
  // Returns whether one of the first kWarningsKept warnings has these words.
  bool warned(std::string_view words) const;
  // Returns how many links were fenced because a peer did not answer in time.
  std::uint64_t cuts() const noexcept { return cuts_; }
  std::string last_events() const;

 private:
  struct Event {
    std::uint64_t at_ns = 0;
    const char* what = "";
    std::array<std::uint64_t, 5> values{};
    std::size_t count = 0;
    std::string line;  // a line of the engine's log; such an event has no values
  };
  static void take_log_line(LogLevel level, const char* file, int line, const char* text);
  void keep(Event event);
  static std::string text_of(const Event& event);

  const std::atomic<std::uint64_t>& clock_ns_;
  const bool verbose_;
  std::uint64_t hash_ = 0xcbf29ce484222325u;  // FNV-1a
  std::uint64_t events_ = 0, warnings_ = 0, cuts_ = 0;
  std::deque<Event> kept_;
  std::vector<std::string> warned_;
  std::string violation_;
};

}  // namespace mesh::sim
