#pragma once
// The screen of mesh_top: processes, their links with rates and waits, their paths, and what they
// carry for others. Rates are those between two pages of a process, or of its whole run if there is
// only one page. Thread: any (pure).

#include "perf/mesh_top/page.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mesh::top {

struct Process {
  Page now;
  std::optional<Page> before;  // an older page of the same process
};

struct ViewOptions {
  std::uint64_t now_s = 0;  // since the epoch
  bool colour = false;      // true: what is wrong stands out
};

std::string view(const std::vector<Process>& processes, const ViewOptions& options);

}  // namespace mesh::top
