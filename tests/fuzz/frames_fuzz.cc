// The bytes of a control connection, in pieces of any size, as an unauthenticated connection may
// send them.
#include "engine/control/control_connection.h"
#include "src/base/unique_fd.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/quiet_log.h"

namespace mesh {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  int ends[2];
  fuzz::expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no socket pair");
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  fuzz::Input input(data, size);
  engine::FrameReader reader;
  for (bool open = true; open;) {
    if (input.empty()) {
      theirs.reset();
    } else {
      const std::span<const std::uint8_t> piece = input.bytes(1u + input.u8());
      if (!piece.empty())
        fuzz::expect(::send(theirs.get(), piece.data(), piece.size(), MSG_DONTWAIT) > 0,
                     "the pair is full");
    }
    engine::ReadOutcome outcome = engine::ReadOutcome::Frame;
    while (outcome == engine::ReadOutcome::Frame) {
      outcome = reader.read(ours.get());
      if (outcome != engine::ReadOutcome::Frame) break;
      const engine::Bytes body = reader.take_body();
      fuzz::expect(
          body.size() == reader.header().body_bytes && body.size() <= engine::kBodyBytesMax,
          "a body of another size");
    }
    fuzz::expect(!reader.describe().empty(), "nothing to say about a reader");
    open = outcome != engine::ReadOutcome::Lost;
    fuzz::expect(open || !reader.loss().text.empty(), "a loss without a reason");
    fuzz::expect(open || theirs.valid() || outcome == engine::ReadOutcome::Lost,
                 "an end that is not seen");
  }
  return 0;
}

}  // namespace mesh
