// Reads the 128 bytes of a handle. One that reads well is written as bytes that read as its equal.
#include "engine/control/handle.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/quiet_log.h"

namespace mesh {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  HandleBytes bytes{};
  std::memcpy(bytes.data(), data, std::min(size, bytes.size()));
  const engine::ConnectStage stage = engine::read_stage(bytes);
  HandleBytes staged = bytes;
  engine::write_stage(stage, staged);
  fuzz::expect(staged == bytes, "a stage that is not written as it was read");
  const Result<engine::Handle> handle = engine::read_handle(bytes);
  if (!handle.ok()) return 0;
  HandleBytes again{};
  engine::write_handle(*handle, again);
  const Result<engine::Handle> second = engine::read_handle(again);
  fuzz::expect(second.ok(), "a handle that we read, and do not once we have written it");
  fuzz::expect(second->nonce == handle->nonce && second->context == handle->context &&
                   second->port == handle->port,
               "a handle that changes on its way");
  for (const SocketAddress& address : second->addresses) {
    const auto& all = handle->addresses;
    fuzz::expect(std::find(all.begin(), all.end(), address) != all.end(),
                 "an address that was not in the handle");
    fuzz::expect(!address.text_with_port(handle->port).empty(), "an address without a text");
  }
  return 0;
}

}  // namespace mesh
