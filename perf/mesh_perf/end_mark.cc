#include "perf/mesh_perf/end_mark.h"

#include <unistd.h>

#include <algorithm>

namespace mesh::perf {

Result<bool> EndMark::seen() {
  if (file_.empty()) return true;
  const auto all = bootstrap_.all_gather(::access(file_.c_str(), F_OK) == 0 ? "1" : "0");
  if (!all.ok()) return all.status();
  return std::find(all->begin(), all->end(), "1") != all->end();
}

}  // namespace mesh::perf
