// A whole engine whose peer, network and device are the input: control frames in every state of a
// link, and everything else that reaches an engine.
#include "tests/fuzz/hostile_world.h"
#include "tests/fuzz/quiet_log.h"

namespace mesh {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  fuzz::HostileWorld world;
  for (int op = 0; op < fuzz::HostileWorld::kOpsMax && !input.empty(); ++op) world.act(input);
  return 0;
}

}  // namespace mesh
