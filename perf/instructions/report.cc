#include "perf/instructions/report.h"

#include <nlohmann/json.hpp>

#include <sstream>

namespace mesh::instructions {

std::map<std::string, std::uint64_t> fabric_counts(const std::vector<std::string>& lines) {
  const std::string mark = "null fabric: ";
  std::map<std::string, std::uint64_t> counts;
  for (const std::string& line : lines) {
    const std::size_t at = line.find(mark);
    if (at == std::string::npos) continue;
    std::istringstream words(line.substr(at + mark.size()));
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      if (equals != std::string::npos)
        counts[word.substr(0, equals)] = std::stoull(word.substr(equals + 1));
    }
  }
  return counts;
}

std::string json(const Report& report) {
  const nlohmann::json root = {{"compiler", __VERSION__},
                               {"messages", report.messages},
                               {"cpu_ns", report.cpu_ns},
                               {"channels", report.channels},
                               {"grown_bytes", report.grown_bytes},
                               {"user_bytes", report.user_bytes},
                               {"fabric", report.fabric}};
  return root.dump() + "\n";
}

}  // namespace mesh::instructions
