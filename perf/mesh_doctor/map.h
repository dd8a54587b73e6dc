#pragma once
// The cabling map for people: as text, as a picture, and compared with a map that the user expects.
// Thread: any (values). Bound: the cabling, and kExpectedPairsMax.

#include "perf/mesh_doctor/cabling.h"
#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/measured.h"

#include <mesh/status.h>

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace mesh::doctor {

// A map in text has a line "HOST/PORT HOST/PORT" for each pair of ports that meet. A line that
// begins with # is a comment, and ":1" may be left out.
inline constexpr std::size_t kExpectedPairsMax = 100'000;
inline constexpr std::size_t kMapBytesMax = std::size_t{32} << 20;

struct ExpectedPair {
  std::string a, b;  // "a/mesh0"
};

// Returns InvalidArgument if the map is wrong; `why` names the line, or says that there is none.
Result<std::vector<ExpectedPair>> parse_map(const std::string& text, std::string& why);
// Writes the map in that format.
std::string map_text(const Cabling& cabling);

std::vector<Finding> compare(const Cabling& cabling, const std::vector<ExpectedPair>& expected);

struct MapView {
  const Cabling& cabling;
  const std::vector<Measured>& measured;
  const std::vector<Finding>& findings;
};

// Returns every port of every host, and the ports that it meets.
std::string map_section(const MapView& view);
// Returns the rates that each cable carried.
std::string rates_section(const MapView& view);
std::string map_svg(const MapView& view);
nlohmann::ordered_json cables_json(const MapView& view);

}  // namespace mesh::doctor
