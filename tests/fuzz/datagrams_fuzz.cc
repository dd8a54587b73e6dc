// Decodes the datagrams that tell cables, as any neighbour may send them. One that is ours is
// encoded to its own bytes again, and no other bytes are taken for one.
#include "engine/link/cable_message.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/quiet_log.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace mesh {

namespace {
using engine::CableMessage;

bool looks_like_ours(std::span<const std::byte> bytes) {
  constexpr std::size_t kKindAt = sizeof CableMessage::kMagic;
  constexpr char kMagic[] = {'C', 'A', 'B', 'L'};
  return bytes.size() == CableMessage::kBytes &&
         std::memcmp(bytes.data(), kMagic, sizeof kMagic) == 0 &&
         (bytes[kKindAt] == std::byte{1} || bytes[kKindAt] == std::byte{2});
}

void round_trip(std::span<const std::byte> bytes) {
  const std::optional<CableMessage> message = engine::cable_message_of(bytes);
  fuzz::expect(message.has_value() == looks_like_ours(bytes), "bytes that are taken for others");
  if (!message) return;
  const auto again = engine::bytes_of(*message);
  fuzz::expect(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
               "a datagram that is not encoded as it was decoded");
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  round_trip(std::as_bytes(std::span(data, size)));
  fuzz::Input input(data, size);
  CableMessage message;
  message.kind = input.u8() % 2 == 0 ? CableMessage::Kind::Question : CableMessage::Kind::Answer;
  message.connector_rail = input.u8();
  message.acceptor_rail = input.u8();
  const std::span<const std::uint8_t> nonce = input.bytes(message.nonce.size());
  std::copy(nonce.begin(), nonce.end(), message.nonce.begin());
  round_trip(engine::bytes_of(message));
  return 0;
}

}  // namespace mesh
