#pragma once
// Counts how often the acceptor has said that the card of a rail of its was replaced, and so the
// keys in its entries. Both sides note it at the same frame. Thread: control mutex. Bound:
// kRailsMax rails.

#include <cstdint>
#include <vector>

namespace mesh::engine {

class AcceptorCards {
 public:
  std::uint32_t of(std::uint32_t rail) const noexcept {
    return rail < counts_.size() ? counts_[rail] : 0;
  }
  void note(std::uint32_t rail, std::uint32_t count) {
    if (counts_.size() <= rail) counts_.resize(rail + 1);
    counts_[rail] = count;
  }

 private:
  std::vector<std::uint32_t> counts_;  // by rail; without the last ones that are 0
};

}  // namespace mesh::engine
