#pragma once
// NCCL's grammar for choosing interfaces and adapters by name. It is a comma list of prefixes. A
// leading '^' excludes them, and a leading '=' (after the '^') compares whole names. Each entry is
// NAME[:PORT[:RAIL[:PLANE]]]; an empty or missing number is any port, and no rail or plane. Text
// that is no number is 0, as NCCL reads it. Thread: any (values). Bound: the entries of the text.

#include <string>
#include <string_view>
#include <vector>

namespace mesh {

class NameRule {
 public:
  static constexpr int kAnyPort = -1;
  static constexpr int kUnassigned = -1;

  struct Entry {
    std::string name;
    int port = kAnyPort;
    int rail = kUnassigned;
    int plane = kUnassigned;
  };

  explicit NameRule(std::string_view text);  // empty: everything matches

  bool matches(std::string_view name, int port = kAnyPort) const;
  // Returns false if no port of that device can match, so that the device need not be opened.
  bool may_match(std::string_view name) const;
  // Returns the first entry that names the port, or null if none does or the rule excludes.
  const Entry* entry_of(std::string_view name, int port) const;
  bool empty() const noexcept { return entries_.empty(); }
  bool excludes() const noexcept { return exclude_; }

 private:
  const Entry* find(std::string_view name, int port) const;
  bool names(const Entry& entry, std::string_view name) const {
    return exact_ ? name == entry.name : name.starts_with(entry.name);
  }

  bool exclude_ = false;
  bool exact_ = false;
  std::vector<Entry> entries_;
};

}  // namespace mesh
