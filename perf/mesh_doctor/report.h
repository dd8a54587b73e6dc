#pragma once
// The report of mesh_doctor: a paragraph for each finding and a summary for people, or JSON for
// programs. Thread: one owner.

#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/host_facts.h"

#include <string>
#include <vector>

namespace mesh::doctor {

inline constexpr int kHealthy = 0;
inline constexpr int kNoLook = 1;  // the doctor could not look
inline constexpr int kBroken = 3;
inline constexpr int kWarnings = 4;

struct Report {
  std::vector<HostFacts> hosts;
  std::vector<Finding> findings;
  std::vector<std::string> sections;  // further text of the report: the map, the measured cables
};

int exit_status(const Report& report) noexcept;
std::string text(const Report& report);
// `more` is a JSON object in text whose members are added; empty: none.
std::string json(const Report& report, const std::string& more = {});

}  // namespace mesh::doctor
