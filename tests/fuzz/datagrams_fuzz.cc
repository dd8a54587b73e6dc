// Decodes the datagrams that tell cables, as any neighbour may send them. One that is ours is
// encoded to its own bytes again, and no other bytes are taken for one. Then those by which hosts
// find each other: without the job's secret none is taken, and a holder of it may say what it
// likes.
#include "engine/control/wire_values.h"
#include "engine/link/cable_message.h"
#include "engine/link/relay/neighbour_message.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/quiet_log.h"

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
// Adds the code that a member of the job would.
std::vector<std::byte> signed_by_member(std::span<const std::byte> content,
                                        std::span<const std::byte> bound) {
  static const engine::JobKey key = engine::key_of_text("job");
  std::vector<std::byte> bytes(content.begin(), content.end());
  const Digest code = hmac_sha256(std::as_bytes(std::span(key.signs)), bound, content);
  const auto half = std::as_bytes(std::span(code)).first(16);
  bytes.insert(bytes.end(), half.begin(), half.end());
  return bytes;
}

void neighbours(std::span<const std::byte> bytes) {
  static const engine::JobKey key = engine::key_of_text("job");
  const engine::Id128 nonce{1, 2, 3};
  const verbs::DatagramPlace place{.address = {0xfe, 0x80}, .port = 7};
  fuzz::expect(!engine::question_of(bytes, key, place) && !engine::answer_of(bytes, key, nonce),
               "a datagram without a code");
  const auto nonsense = signed_by_member(bytes, std::as_bytes(std::span(nonce)));
  const std::optional<engine::NeighbourAnswer> answer = engine::answer_of(nonsense, key, nonce);
  if (!answer) return;
  fuzz::expect(answer->port != 0 && answer->ticket != engine::Id128{} &&
                   answer->rail < engine::kRailsMax && answer->asker_rail < engine::kRailsMax &&
                   !answer->addresses.empty() &&
                   answer->addresses.size() <= engine::kControlAddressesMax,
               "an answer beyond its bounds");
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  round_trip(std::as_bytes(std::span(data, size)));
  neighbours(std::as_bytes(std::span(data, size)));
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
