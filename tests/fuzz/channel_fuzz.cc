// Two channels that are up, and a peer that writes anything: CTS entries, records, window words,
// immediates.
#include "tests/fuzz/hostile_world.h"
#include "tests/fuzz/quiet_log.h"

namespace mesh {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  fuzz::HostileWorld world;
  world.bring_up();
  for (int op = 0; op < fuzz::HostileWorld::kOpsMax && !input.empty(); ++op)
    world.act_on_data(input);
  return 0;
}

}  // namespace mesh
