#include "engine/link/relay/neighbour_message.h"

#include "engine/control/wire_values.h"
#include "src/base/byte_order.h"
#include "src/base/check.h"
#include "src/base/random.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mesh::engine {

namespace {
constexpr std::uint32_t kMagic = 0x4a424d4d;  // "MMBJ" read little-endian
constexpr std::uint8_t kVersion = 2;
constexpr std::uint8_t kQuestion = 1, kAnswer = 2;
constexpr std::size_t kHeadBytes = 4 + 1 + 1;
constexpr std::size_t kCodeBytes = 16;
constexpr std::size_t kQuestionBytes = kHeadBytes + 1 + 16;  // without codes
static_assert(kQuestionBytes + kNeighbourKeysMax * kCodeBytes <= verbs::kCableDatagramBytesMax);
// Rails, salt, ticket, port, length of the name, number of addresses.
constexpr std::size_t kAnswerBytesMin = kHeadBytes + 2 + 16 + 16 + 2 + 1 + 1 + kCodeBytes;
constexpr std::size_t kNameBytesMax = 32;
static_assert(kAnswerBytesMin + kNameBytesMax + 2 * 17 <= verbs::kCableDatagramBytesMax);

std::span<const std::byte> bytes_of(const Id128& id) { return std::as_bytes(std::span(id)); }
std::span<const std::byte> bytes_of(const Digest& digest) {
  return std::as_bytes(std::span(digest));
}

Id128 first_half(const Digest& digest) {
  Id128 half;
  std::copy_n(digest.begin(), half.size(), half.begin());
  return half;
}

JobKey key_of(std::string_view kind, std::span<const std::byte> secret, std::string_view site) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  const Digest root = hmac_sha256(secret, bytes(kind), bytes(site));
  return {.signs = hmac_sha256(bytes_of(root), bytes("signs")),
          .hides = hmac_sha256(bytes_of(root), bytes("hides"))};
}

std::array<std::byte, 18> bound_to(const verbs::DatagramPlace& place) {
  std::array<std::byte, 18> bytes;
  ByteWriter writer(bytes);
  writer.put_bytes(std::as_bytes(std::span(place.address)));
  writer.put_u16(place.port);
  return bytes;
}

void put_head(ByteWriter& writer, std::uint8_t kind) {
  writer.put_u32(kMagic);
  writer.put_u8(kVersion);
  writer.put_u8(kind);
}

Id128 code_of(const JobKey& key, std::span<const std::byte> bound,
              std::span<const std::byte> content) {
  return first_half(hmac_sha256(bytes_of(key.signs), bound, content));
}

// Adds the codes over what they are bound to and the content.
DatagramBytes signed_with(std::span<const JobKey> keys, std::span<const std::byte> bound,
                          std::span<const std::byte> content) {
  DatagramBytes bytes(content.begin(), content.end());
  for (const JobKey& key : keys) {
    const Id128 code = code_of(key, bound, content);
    bytes.insert(bytes.end(), bytes_of(code).begin(), bytes_of(code).end());
  }
  DCHECK(bytes.size() <= verbs::kCableDatagramBytesMax);
  return bytes;
}

// Returns true if one of the codes behind the content is made with the key.
bool is_signed_with(const JobKey& key, std::span<const std::byte> bound,
                    std::span<const std::byte> content, std::span<const std::byte> codes) {
  const Id128 wanted = code_of(key, bound, content);
  bool any = false;
  for (; !codes.empty(); codes = codes.subspan(kCodeBytes)) {
    Id128 code;
    std::memcpy(code.data(), codes.data(), kCodeBytes);
    any |= same_secret(code, wanted);
  }
  return any;
}

bool has_head(std::span<const std::byte> bytes, std::uint8_t kind) noexcept {
  ByteReader reader(bytes);
  const bool ours = reader.get_u32() == kMagic && reader.get_u8() == kVersion;
  return reader.get_u8() == kind && ours && reader.ok();
}

// Hides a ticket, or shows it again. The salt keeps two answers to one question from having one
// mask.
Id128 masked(const Id128& ticket, const JobKey& key, const Id128& nonce, const Id128& salt) {
  const Id128 mask = first_half(hmac_sha256(bytes_of(key.hides), bytes_of(nonce), bytes_of(salt)));
  Id128 result;
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<std::uint8_t>(ticket[i] ^ mask[i]);
  return result;
}

std::size_t length_of(const SocketAddress& address) { return address.family == AF_INET ? 4 : 16; }

// Returns the first of the addresses: up to the first without room, and at most
// kControlAddressesMax.
std::span<const SocketAddress> that_fit(std::span<const SocketAddress> addresses,
                                        std::size_t room) {
  std::size_t count = 0;
  for (const SocketAddress& address : addresses) {
    if (count == kControlAddressesMax || 1 + length_of(address) > room) break;
    room -= 1 + length_of(address);
    ++count;
  }
  return addresses.first(count);
}

bool get_address(ByteReader& reader, SocketAddress* address) {
  const std::uint8_t family = reader.get_u8();
  if (family != 4 && family != 6) return false;
  address->family = family == 4 ? AF_INET : AF_INET6;
  reader.get_bytes(std::as_writable_bytes(std::span(address->bytes).first(length_of(*address))));
  return reader.ok();
}

constexpr bool is_printable(char c) { return c >= ' ' && c <= '~'; }
}  // namespace

JobKey key_of_text(std::string_view text, std::string_view site) {
  return key_of("nccl-mesh text ", std::as_bytes(std::span(text.data(), text.size())), site);
}

JobKey key_of_communicator(std::uint64_t id, std::string_view site) noexcept {
  std::array<std::byte, 8> bytes;
  ByteWriter(bytes).put_u64(id);
  return key_of("nccl-mesh communicator ", bytes, site);
}

DatagramBytes bytes_of(const NeighbourQuestion& question, std::span<const JobKey> keys,
                       const verbs::DatagramPlace& asker) {
  DCHECK(!keys.empty() && keys.size() <= kNeighbourKeysMax);
  std::array<std::byte, kQuestionBytes> content;
  ByteWriter writer(content);
  put_head(writer, kQuestion);
  writer.put_u8(question.rail);
  writer.put_bytes(bytes_of(question.nonce));
  DCHECK(writer.ok() && writer.remaining() == 0);
  return signed_with(keys, bound_to(asker), content);
}

DatagramBytes bytes_of(const NeighbourAnswer& answer, const JobKey& key, const Id128& nonce) {
  std::array<std::byte, verbs::kCableDatagramBytesMax - kCodeBytes> content;
  ByteWriter writer(content);
  put_head(writer, kAnswer);
  writer.put_u8(answer.asker_rail);
  writer.put_u8(answer.rail);
  const Id128 salt = random_id();
  writer.put_bytes(bytes_of(salt));
  writer.put_bytes(bytes_of(masked(answer.ticket, key, nonce, salt)));
  writer.put_u16(answer.port);
  std::string name = answer.name.substr(0, kNameBytesMax);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !is_printable(c); }, '?');
  writer.put_u8(static_cast<std::uint8_t>(name.size()));
  writer.put_bytes(std::as_bytes(std::span(name)));
  const auto addresses = that_fit(answer.addresses, writer.remaining() - 1);
  writer.put_u8(static_cast<std::uint8_t>(addresses.size()));
  for (const SocketAddress& address : addresses) {
    writer.put_u8(address.family == AF_INET ? 4 : 6);
    writer.put_bytes(std::as_bytes(std::span(address.bytes).first(length_of(address))));
  }
  DCHECK(writer.ok());
  return signed_with(std::span(&key, 1), bytes_of(nonce), std::span(content).first(writer.size()));
}

bool may_be_question(std::span<const std::byte> bytes) noexcept {
  return bytes.size() > kQuestionBytes && (bytes.size() - kQuestionBytes) % kCodeBytes == 0 &&
         bytes.size() <= kQuestionBytes + kNeighbourKeysMax * kCodeBytes &&
         has_head(bytes, kQuestion);
}

bool may_be_answer(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= kAnswerBytesMin && has_head(bytes, kAnswer);
}

std::optional<NeighbourQuestion> question_of(std::span<const std::byte> bytes, const JobKey& key,
                                             const verbs::DatagramPlace& asker) {
  if (!may_be_question(bytes) || !is_signed_with(key, bound_to(asker), bytes.first(kQuestionBytes),
                                                 bytes.subspan(kQuestionBytes)))
    return std::nullopt;
  ByteReader reader(bytes.subspan(kHeadBytes));
  NeighbourQuestion question;
  question.rail = reader.get_u8();
  reader.get_bytes(std::as_writable_bytes(std::span(question.nonce)));
  return question.rail < kRailsMax ? std::optional(question) : std::nullopt;
}

std::optional<NeighbourAnswer> answer_of(std::span<const std::byte> bytes, const JobKey& key,
                                         const Id128& nonce) {
  if (!may_be_answer(bytes)) return std::nullopt;
  const auto content = bytes.first(bytes.size() - kCodeBytes);
  if (!is_signed_with(key, bytes_of(nonce), content, bytes.last(kCodeBytes))) return std::nullopt;
  ByteReader reader(content.subspan(kHeadBytes));
  NeighbourAnswer answer;
  answer.asker_rail = reader.get_u8();
  answer.rail = reader.get_u8();
  Id128 salt, hidden;
  reader.get_bytes(std::as_writable_bytes(std::span(salt)));
  reader.get_bytes(std::as_writable_bytes(std::span(hidden)));
  answer.port = reader.get_u16();
  answer.name.resize(std::min<std::size_t>(reader.get_u8(), kNameBytesMax + 1));
  reader.get_bytes(std::as_writable_bytes(std::span(answer.name)));
  const std::size_t count = reader.get_u8();
  if (count == 0 || count > kControlAddressesMax) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i)
    if (!get_address(reader, &answer.addresses.emplace_back())) return std::nullopt;
  if (!reader.ok()) return std::nullopt;
  answer.ticket = masked(hidden, key, nonce, salt);
  const bool fits = reader.remaining() == 0 && answer.name.size() <= kNameBytesMax &&
                    std::all_of(answer.name.begin(), answer.name.end(), is_printable) &&
                    answer.port != 0 && answer.ticket != Id128{} && answer.asker_rail < kRailsMax &&
                    answer.rail < kRailsMax;
  return fits ? std::optional(std::move(answer)) : std::nullopt;
}

}  // namespace mesh::engine
