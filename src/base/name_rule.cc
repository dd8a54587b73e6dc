#include "src/base/name_rule.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace mesh {

namespace {
// Takes the text up to the separator, and leaves what follows it.
std::string_view take_until(char separator, std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

int take_number(std::string_view& fields) {
  const std::string digits(take_until(':', fields));
  return digits.empty() ? -1 : static_cast<int>(std::strtol(digits.c_str(), nullptr, 10));
}

std::optional<NameRule::Entry> read_entry(std::string_view fields) {
  NameRule::Entry entry;
  entry.name = take_until(':', fields);
  if (entry.name.empty()) return std::nullopt;
  entry.port = take_number(fields);
  entry.rail = take_number(fields);
  entry.plane = take_number(fields);
  return entry;
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
    if (std::optional<Entry> entry = read_entry(take_until(',', text)); entry)
      entries_.push_back(*std::move(entry));
  }
}

const NameRule::Entry* NameRule::find(std::string_view name, int port) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return names(entry, name) && (entry.port == kAnyPort || port == kAnyPort || entry.port == port);
  });
  return found == entries_.end() ? nullptr : &*found;
}

const NameRule::Entry* NameRule::entry_of(std::string_view name, int port) const {
  return exclude_ ? nullptr : find(name, port);
}

bool NameRule::matches(std::string_view name, int port) const {
  return entries_.empty() || (find(name, port) != nullptr) != exclude_;
}

bool NameRule::may_match(std::string_view name) const {
  if (!exclude_) return matches(name);
  return std::none_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.port == kAnyPort && names(entry, name);
  });
}

}  // namespace mesh
