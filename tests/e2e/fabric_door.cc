#include "tests/e2e/fabric_door.h"

#include "perf/driver/world.h"
#include "src/soft/fabric_file.h"
#include "tests/e2e/scenario.h"

namespace mesh::e2e {

soft::FaultAnswer tell(const std::string& host, const soft::FaultOrder& order) {
  const std::string fabric = driver::variable(process_environment(), "NCCL_MESH_FABRIC");
  const auto file = soft::load(fabric.substr(fabric.find(':') + 1));
  require(file.ok(), "no fabric to mend");
  const auto answer = soft::tell_host(*file, host, order);
  require(answer.ok() && answer->code == Errc::Ok, "host " + host + " was not told");
  return *answer;
}

}  // namespace mesh::e2e
