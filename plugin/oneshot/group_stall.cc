// The line about an all-reduce that does not come further.

#include "plugin/oneshot/group.h"
#include "src/base/log.h"

#include <fmt/format.h>

#include <exception>

namespace mesh::oneshot {

void Group::tell_of_stall() noexcept {
  const StallWatch::Say say = stalls_.look(pieces_done());
  if (say == StallWatch::Say::Nothing) return;
  const std::uint64_t seconds = stalls_.age_ns() / kNsPerSecond;
  if (say == StallWatch::Say::GoesOn) {
    LOG_WARN("one-shot all-reduce goes on after {} s", seconds);
    return;
  }
  try {
    LOG_WARN("one-shot all-reduce has not come further for {} s and waits for {}", seconds,
             late_members());
  } catch (const std::exception&) {
    LOG_WARN("one-shot all-reduce has not come further for {} s", seconds);
  }
}

// Returns the members that keep the oldest open piece from being done. With steps a member may
// itself wait for another one, which its own line names.
std::string Group::late_members() {
  const std::uint64_t piece = pieces_done();
  std::string text;
  const auto add = [&](std::size_t rank, const char* what) {
    const Member& member = parts_.members[rank];
    text += fmt::format("{}member {}{}, which has {}", text.empty() ? "" : ", ", rank,
                        member.host.empty() ? "" : fmt::format(" (host {})", member.host), what);
  };
  for (std::size_t index = 0; index < stages_.size(); ++index) {
    if (brought_to(index) <= piece) break;
    for (const std::size_t rank : parts_.steps[index].ranks) {
      const Member& member = parts_.members[rank];
      if (rank == parts_.rank) continue;
      if (member.receives.done() <= piece)
        add(rank, "sent nothing for it");
      else if (member.sends.done() <= piece)
        add(rank, "not taken what it was sent");
    }
  }
  return text.empty() ? "this host" : text;
}

}  // namespace mesh::oneshot
