#pragma once
// A cabling map that the user expects, and how the found map differs from it. The text has a line
// for each pair of ports that meet, "HOST/PORT HOST/PORT"; a line that begins with # is a comment,
// and ":1" may be left out. Thread: any (values). Bound: kExpectedPairsMax.

#include "perf/mesh_doctor/cabling.h"
#include "perf/mesh_doctor/finding.h"

#include <mesh/status.h>

#include <cstddef>
#include <string>
#include <vector>

namespace mesh::doctor {

inline constexpr std::size_t kExpectedPairsMax = 100'000;

struct ExpectedPair {
  std::string a, b;  // "a/mesh0"
};

// Returns InvalidArgument if the map is wrong; `why` names the line, or says that there is none.
Result<std::vector<ExpectedPair>> parse_map(const std::string& text, std::string& why);
std::string map_text(const Cabling& cabling);

std::vector<Finding> compare(const Cabling& cabling, const std::vector<ExpectedPair>& expected);

}  // namespace mesh::doctor
