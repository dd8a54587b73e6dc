#pragma once
// Adds up snapshots, field by field, as the table of their fields says. Thread: any (values).
// Bound: the fields of one object.

#include <mesh/snapshot.h>

#include "src/base/snapshot_fields.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace mesh::engine {

// Collects the sums of an object, in the order of the table of its fields.
class Sums {
 public:
  using Sum = fields::Sum;
  template <typename Object>
  explicit Sums(Object& object) {
    fields::visit(*this, object);
  }
  template <typename Value>
  void operator()(const char* /*name*/, Value& value, const fields::About& about) {
    if constexpr (std::is_same_v<Value, std::uint64_t>) {
      if (about.sum != Sum::None) values_.emplace_back(&value, about.sum);
    } else if constexpr (std::is_same_v<Value, PathCounters>) {
      fields::visit(*this, value);
    }
  }
  // The other object is of the same type.
  void add_to(const Sums& row) const {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto [value, sum] = values_[i];
      std::uint64_t& to = *row.values_[i].first;
      to = sum == Sum::Highest ? std::max(to, *value) : to + *value;
    }
  }
  void end() const {
    for (const auto& [value, sum] : values_) {
      if (sum != Sum::Ever) *value = 0;
    }
  }

 private:
  std::vector<std::pair<std::uint64_t*, Sum>> values_;
};

}  // namespace mesh::engine
