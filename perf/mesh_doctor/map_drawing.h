#pragma once
// The cabling map for people: as text, as seen from behind each host, and as a picture. Thread: any
// (values). Bound: the cabling.

#include "perf/mesh_doctor/cabling.h"
#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/measured.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace mesh::doctor {

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
