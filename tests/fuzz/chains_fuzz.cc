// Sends the frames of relays, in any order, to a host that carries and to a host that asks.
#include "tests/fuzz/chains_world.h"
#include "tests/fuzz/quiet_log.h"

namespace mesh {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  fuzz::ChainsWorld world;
  for (int op = 0; op < fuzz::ChainsWorld::kOpsMax && !input.empty(); ++op) world.act(input);
  return 0;
}

}  // namespace mesh
