#pragma once
// The grammars of settings that are more than a number or a word. Thread: any (values). Bound: the
// entries of the text.

#include "src/base/socket.h"
#include "src/base/timeouts.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mesh {

// NCCL's grammar for choosing interfaces and adapters by name. It is a comma list of prefixes. A
// leading '^' excludes them, and a leading '=' (after the '^') compares whole names. Each entry is
// NAME[:PORT[:RAIL[:PLANE]]]; an empty or missing number is any port, and no rail or plane. Text
// that is no number is 0, as NCCL reads it.
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

// Reads NCCL_MESH_STATS, which says where the metrics go and how often: FILE[:SECONDS], with %h and
// %p in FILE for host and process.
struct StatsTarget {
  std::string file;  // %h, %p and %% still in it
  int seconds = kStatsPeriodSeconds;
};

// Returns no value if the text is not of that form. The seconds follow the last colon behind the
// last slash, so a name with a colon needs them.
std::optional<StatsTarget> read_stats_target(std::string_view text);

// Returns the file's name with this process's host and number filled in.
std::string stats_file_name(std::string_view file, std::string_view host, int process);
// Returns the name of the snapshot beside a file of metrics: ".json" instead of ".prom".
std::string snapshot_file_name(std::string_view stats_file);

inline constexpr int kCpuIndexMax = 8192;

// Reads a list of CPUs as a person writes it: "2,4-7", of indices below kCpuIndexMax. Returns the
// CPUs sorted, each once, or no value if the text as a whole is not such a list.
std::optional<std::vector<int>> read_cpu_list(std::string_view text);

// A range of addresses such as 10.0.0.0/8, as NCCL_IB_ADDR_RANGE has it.
struct AddressRange {
  SocketAddress base;
  int bits = 0;  // length of the prefix

  bool holds(const SocketAddress& address) const noexcept;
};

// Parses ADDRESS/BITS. Returns no value if the text has no '/', no IPv4 or IPv6 address before it,
// or behind it no prefix length that the address's family has.
std::optional<AddressRange> read_address_range(std::string_view text);

}  // namespace mesh
