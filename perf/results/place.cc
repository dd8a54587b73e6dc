#include "perf/results/result.h"

#include <sys/utsname.h>

#include <fstream>
#include <thread>

namespace mesh::results {
namespace {

// Returns the name of the CPU. arm64 has only its maker's number and its part's number.
std::string cpu_name() {
  std::ifstream stream("/proc/cpuinfo");
  std::string implementer, part;
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) return value;
    if (line.starts_with("CPU implementer")) implementer = value;
    if (line.starts_with("CPU part")) part = value;
  }
  if (implementer.empty()) return {};
  return "implementer " + implementer + ", part " + part;
}

}  // namespace

Place this_place() {
  Place place;
  utsname names{};
  if (::uname(&names) == 0) {
    place.host = names.nodename;
    place.kernel = std::string(names.sysname) + " " + names.release;
  }
  place.cpu = cpu_name();
  place.cpus = std::thread::hardware_concurrency();
  return place;
}

}  // namespace mesh::results
