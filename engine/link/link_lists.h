#pragma once
// Lists of those links of a context that the control thread looks at, so that it need not look at
// all links. Thread: control mutex. Bounds: the context's links; each link is in a list once.

#include "src/base/room.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace mesh::engine {

class Link;

// A list in no order. Room for all links is made before, so that adding a link allocates nothing.
class LinkList {
 public:
  void reserve_for(std::size_t links) { make_room_for(all_, links); }
  void add(Link& link) noexcept { all_.push_back(&link); }
  void remove(const Link& link) noexcept {
    const auto found = std::find(all_.begin(), all_.end(), &link);
    if (found == all_.end()) return;
    *found = all_.back();
    all_.pop_back();
  }
  template <typename Drops>
  void drop_if(const Drops& drops) noexcept {
    std::erase_if(all_, [&drops](Link* link) { return drops(*link); });
  }
  // For loops by index: the list may grow meanwhile.
  std::size_t count() const noexcept { return all_.size(); }
  Link& operator[](std::size_t at) const noexcept { return *all_[at]; }
  std::span<Link* const> span() const noexcept { return all_; }

 private:
  std::vector<Link*> all_;
};

// Links whose queue pairs are being made or brought up, or wait for that.
class RisingLinks {
 public:
  void add(Link& link);               // the link waits for a thread
  void started(Link& link) noexcept;  // the link has got its thread
  void remove(const Link& link) noexcept;
  void touch_those_that_are_over() const noexcept;

  bool empty() const noexcept { return waiting_.count() + started_.count() == 0; }
  std::span<Link* const> waiting() const noexcept { return waiting_.span(); }
  std::span<Link* const> running() const noexcept { return started_.span(); }  // running or over
  // Returns true after add() and remove(), until settle(): another link may get a thread.
  bool changed() const noexcept { return changed_; }
  void settle() noexcept { changed_ = false; }

 private:
  LinkList waiting_, started_;
  bool changed_ = false;
};

}  // namespace mesh::engine
