#pragma once
// Looks at every channel's oldest open request once a second, and says in one line per link which
// has been open too long and what it waits for. The credits of a receive that waits for a second
// are written again, once, and every second while a lost path is not fenced: where the writes of a
// queue pair overtake one another or come twice, or a card that was silent goes on, an old row may
// overwrite a new one, and nothing else would ever notice. Reads the requests' own words; takes a
// loop's progress lock only to look for such a path, to count its turns, to ask for credits and to
// say the line. Thread: control mutex. Bound: one pass over the channels a second.

#include <mesh/engine.h>

#include "engine/data/channel.h"
#include "engine/link/context.h"
#include "engine/link/test_hooks.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mesh::engine {

class RequestWatch {
 public:
  explicit RequestWatch(const EngineOptions& options)
      : rewrites_late_(hooks_of(options).rewrites_late),
        armed_(options.settings.stall_seconds != 0 || !options.settings.stats.empty()),
        bar_ns_(static_cast<std::uint64_t>(options.settings.stall_seconds) * 1'000'000'000) {}

  // Called at every pass of the control path. Does nothing until a second has gone by.
  void look(const std::vector<std::unique_ptr<Context>>& contexts, std::uint64_t now_ns);

  // Returns what the channel's oldest open request waits for, or nullopt if it has ended by now.
  // The caller holds the progress lock.
  static std::optional<Waiting> waiting_of(Channel& channel, bool turned);

 private:
  void tell(Link& link, std::uint64_t now_ns) const;

  const bool rewrites_late_;
  const bool armed_;
  const std::uint64_t bar_ns_;  // 0: no line is logged
  std::uint64_t last_look_ns_ = 0;
};

// For example "the peer: it has posted no receive for it". A path has its addresses if a log line
// with so many bytes beside the text has room for them.
std::string waiting_text(const Waiting& waiting, std::size_t bytes_beside = 0);

}  // namespace mesh::engine
