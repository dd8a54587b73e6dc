#include "engine/data/stall_watch.h"

#include <algorithm>

namespace mesh::engine {

LinkWait::Say LinkWait::look(const Look& look, std::uint64_t bar_ns) noexcept {
  if (look.age_ns < bar_ns) {
    const bool was_said = next_ns_ != 0;
    next_ns_ = 0;
    return was_said ? Say::GoesOn : Say::Nothing;
  }
  const bool first = next_ns_ == 0;
  if (first) longest_ns_ = 0;
  longest_ns_ = std::max(longest_ns_, look.age_ns);
  const std::uint64_t first_ns = look.patient ? std::max(bar_ns, patience_ns_) : bar_ns;
  std::uint64_t due_ns = first ? first_ns : next_ns_;
  if (look.age_ns < due_ns) return Say::Nothing;
  while (due_ns <= look.age_ns) due_ns *= 2;
  next_ns_ = due_ns;
  is_warning_ = !look.patient || look.age_ns >= 2 * bar_ns;
  if (look.patient) patience_ns_ = std::min(due_ns, kPatienceBars * bar_ns);
  return Say::Waits;
}

}  // namespace mesh::engine
