#include "perf/results/result_file.h"

#include <sys/utsname.h>

#include <fstream>
#include <thread>

namespace mesh::results {
namespace {

std::string cpu_name() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
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
