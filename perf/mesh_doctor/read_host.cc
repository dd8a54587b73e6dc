#include "perf/mesh_doctor/read_host.h"

#include "perf/mesh_doctor/read_rails.h"
#include "src/base/config.h"

#include <unistd.h>

#include <array>

namespace mesh::doctor {
namespace {

// Of the software fabric where there is one.
std::string host_name(const Environment& environment) {
  if (std::string name = driver::variable(environment, "NCCL_MESH_HOST"); !name.empty())
    return name;
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

}  // namespace

HostFacts read_host(const Options& options) {
  HostFacts facts;
  facts.host = host_name(process_environment());
  read_rails(options.plugin, facts);
  return facts;
}

void read_again(const Options& /*options*/, HostFacts& /*facts*/) {}

}  // namespace mesh::doctor
