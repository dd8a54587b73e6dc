#pragma once
// Makes room in a vector before something that must not fail. vector::reserve() makes exactly what
// is asked, so that a vector which grows by ones would be copied for each. Throws std::bad_alloc.
// Thread: the vector's.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mesh {

template <typename T>
void make_room_for(std::vector<T>& vector, std::size_t count) {
  if (vector.capacity() < count) vector.reserve(std::max(count, 2 * vector.capacity()));
}

}  // namespace mesh
