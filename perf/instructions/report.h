#pragma once
// The figures that a run of mesh_instructions has taken by itself, as JSON. Thread: one owner.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mesh::instructions {

struct Report {
  std::uint64_t messages = 0;  // all that were moved, for the fabric's counts
  std::vector<double> cpu_ns;  // CPU time a message, one value per repetition
  std::uint32_t channels = 0;
  std::size_t grown_bytes = 0;                  // malloc's, by the channels beyond the first
  std::size_t user_bytes = 0;                   // registered by the program itself
  std::map<std::string, std::uint64_t> fabric;  // the null fabric's counts, by name
};

// Returns the counts in the null fabric's last line among the plugin's; empty without such a line.
std::map<std::string, std::uint64_t> fabric_counts(const std::vector<std::string>& lines);
std::string json(const Report& report);

}  // namespace mesh::instructions
