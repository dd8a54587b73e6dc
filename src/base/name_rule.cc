#include "src/base/name_rule.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace mesh {

namespace {
// "mlx5_0:2" is port 2 of mlx5_0. Text after a colon that is no number is part of the name. An
// alias such as "eth0:1" cannot be told apart.
int split_port(std::string_view& name) {
  const std::size_t colon = name.rfind(':');
  if (colon == std::string_view::npos) return NameRule::kAnyPort;
  const std::string_view digits = name.substr(colon + 1);
  int port = NameRule::kAnyPort;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size() || port < 0)
    return NameRule::kAnyPort;
  name = name.substr(0, colon);
  return port;
}
}  // namespace

NameRule::NameRule(std::string_view text) {
  if (text.starts_with('^')) {
    exclude_ = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('=')) {
    exact_ = true;
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view name = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const int port = split_port(name);
    if (!name.empty()) entries_.push_back({std::string(name), port});
  }
}

bool NameRule::matches(std::string_view name, int port) const {
  if (entries_.empty()) return true;
  const bool listed = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return names(entry, name) && (entry.port == kAnyPort || port == kAnyPort || entry.port == port);
  });
  return listed != exclude_;
}

bool NameRule::may_match(std::string_view name) const {
  if (!exclude_) return matches(name);
  return std::none_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.port == kAnyPort && names(entry, name);
  });
}

}  // namespace mesh
