#include "engine/link/link_lists.h"

#include "engine/link/context.h"
#include "engine/link/link.h"

namespace mesh::engine {

void LinkCore::list() noexcept {
  context_.restless.add(whole());
  listed_ = true;
}

bool Link::leave_list() noexcept {
  listed_ = restless_;
  return !listed_;
}

void LinkCore::note_idle() noexcept {
  if (connector() || listed_idle_) return;
  context_.idle.add(whole());
  listed_idle_ = true;
}

bool Link::leave_idle() noexcept {
  listed_idle_ = carries_nothing();
  return !listed_idle_;
}

void RisingLinks::add(Link& link) {
  const std::size_t all = waiting_.count() + started_.count() + 1;
  waiting_.reserve_for(all);
  started_.reserve_for(all);
  waiting_.add(link);
  changed_ = true;
}

void RisingLinks::started(Link& link) noexcept {
  waiting_.remove(link);
  started_.add(link);
}

void RisingLinks::remove(const Link& link) noexcept {
  waiting_.remove(link);
  started_.remove(link);
  changed_ = true;
}

void RisingLinks::touch_those_that_are_over() const noexcept {
  for (Link* const link : started_.span()) {
    if (link->bring_up()->over()) link->touch();
  }
}

}  // namespace mesh::engine
