#include "engine/control/handle.h"

#include "src/base/byte_order.h"
#include "src/base/check.h"

#include <array>
#include <cstddef>
#include <span>
#include <utility>

namespace mesh::engine {

namespace {

constexpr std::uint32_t kHandleMagic = 0x4853454du;  // "MESH" read little-endian
constexpr std::size_t kReservedBytes = 3;
constexpr std::size_t kAddressesBytes = 64;
constexpr std::size_t kStageBytes = 16;
constexpr std::size_t kStageOffset = kHandleBytes - kStageBytes;
constexpr std::size_t kAddressCountMax = 10;  // IPv4 addresses take 6 of the 64 bytes each
constexpr std::size_t kMoreMax = 14;          // behind one of 6 bytes: 4 each
constexpr std::uint8_t kFamilyV4 = 4;
constexpr std::uint8_t kFamilyV6 = 6;

constexpr std::size_t kCountsBytes = 2 + 1 + 1 + 1;  // port, count, rail, further ones
static_assert(4 + 2 + 2 + 16 + 16 + kCountsBytes + kReservedBytes + kAddressesBytes + kStageBytes ==
              kHandleBytes);
static_assert(sizeof(HandleBytes) == kHandleBytes);

std::size_t ip_bytes(std::uint16_t family) { return family == AF_INET ? 4 : 16; }

struct PackedAddresses {
  std::array<std::byte, kAddressesBytes> bytes{};
  std::uint8_t count = 0;  // with their families
  std::uint8_t more = 0;   // behind them: IPv4, without
};

// Packs the first addresses that have room, each with its family.
PackedAddresses pack_with_families(std::span<const SocketAddress> addresses) {
  PackedAddresses packed;
  ByteWriter writer(packed.bytes);
  for (const SocketAddress& address : addresses) {
    const std::size_t bytes = ip_bytes(address.family);
    if (writer.remaining() < 2 + bytes) break;
    writer.put_u8(address.family == AF_INET ? kFamilyV4 : kFamilyV6);
    writer.put_u8(0);
    writer.put_bytes(std::as_bytes(std::span(address.bytes)).first(bytes));
    ++packed.count;
  }
  DCHECK(packed.count <= kAddressCountMax);
  return packed;
}

// Packs the first address with its family, and behind it the IPv4 ones that have room.
PackedAddresses pack_densely(std::span<const SocketAddress> addresses) {
  PackedAddresses packed = pack_with_families(addresses.first(1));
  ByteWriter writer(std::span(packed.bytes).subspan(2 + ip_bytes(addresses.front().family)));
  for (const SocketAddress& address : addresses.subspan(1)) {
    const std::size_t bytes = ip_bytes(AF_INET);
    if (address.family != AF_INET || writer.remaining() < bytes) continue;
    writer.put_bytes(std::as_bytes(std::span(address.bytes)).first(bytes));
    ++packed.more;
  }
  DCHECK(packed.more <= kMoreMax);
  return packed;
}

// In a mesh of cables alone a peer may reach one address only, so as many travel as can.
PackedAddresses pack(const std::vector<SocketAddress>& all) {
  const std::vector<SocketAddress> addresses = portable_addresses(all);
  const PackedAddresses packed = pack_with_families(addresses);
  if (packed.count == addresses.size()) return packed;
  const PackedAddresses densely = pack_densely(addresses);
  return densely.count + densely.more > packed.count ? densely : packed;
}

Result<std::vector<SocketAddress>> unpack(const PackedAddresses& packed) {
  if (packed.count == 0 || packed.count > kAddressCountMax || packed.more > kMoreMax)
    return Errc::Protocol;
  std::vector<SocketAddress> addresses;
  ByteReader reader(packed.bytes);
  for (std::size_t i = 0; i < std::size_t{packed.count} + packed.more; ++i) {
    const bool named = i < packed.count;
    const std::uint8_t family = named ? reader.get_u8() : kFamilyV4;
    const std::uint8_t reserved = named ? reader.get_u8() : std::uint8_t{0};
    if (reserved != 0 || (family != kFamilyV4 && family != kFamilyV6)) return Errc::Protocol;
    SocketAddress address;
    address.family = family == kFamilyV4 ? AF_INET : AF_INET6;
    reader.get_bytes(
        std::as_writable_bytes(std::span(address.bytes)).first(ip_bytes(address.family)));
    addresses.push_back(address);
  }
  if (!reader.ok()) return Errc::Protocol;
  return addresses;
}

// Reads the fields that every version has. Sets *plain if what our version leaves empty is empty.
Result<Handle> unpack_handle(const HandleBytes& bytes, bool* plain) {
  std::array<std::byte, kReservedBytes> reserved{};
  PackedAddresses packed;
  ByteReader reader(bytes);
  if (reader.get_u32() != kHandleMagic) return Errc::Protocol;
  reader.get_u16();  // the version
  const std::uint16_t flags = reader.get_u16();
  Handle handle;
  reader.get_bytes(std::as_writable_bytes(std::span(handle.nonce)));
  reader.get_bytes(std::as_writable_bytes(std::span(handle.context)));
  handle.port = reader.get_u16();
  packed.count = reader.get_u8();
  handle.rail = reader.get_u8();
  packed.more = reader.get_u8();
  reader.get_bytes(reserved);
  reader.get_bytes(packed.bytes);
  *plain = flags == 0 && reserved == decltype(reserved){};
  if (!reader.ok() || handle.port == 0) return Errc::Protocol;
  Result<std::vector<SocketAddress>> addresses = unpack(packed);
  if (!addresses.ok()) return addresses.status();
  handle.addresses = std::move(*addresses);
  return handle;
}

}  // namespace

void write_handle(const Handle& handle, HandleBytes& bytes) {
  constexpr std::array<std::byte, kReservedBytes> kReserved{};
  bytes.fill(std::byte{0});
  const PackedAddresses packed = pack(handle.addresses);
  ByteWriter writer(bytes);
  writer.put_u32(kHandleMagic);
  writer.put_u16(kProtocolVersion);
  writer.put_u16(0);
  writer.put_bytes(std::as_bytes(std::span(handle.nonce)));
  writer.put_bytes(std::as_bytes(std::span(handle.context)));
  writer.put_u16(handle.port);
  writer.put_u8(packed.count);
  writer.put_u8(handle.rail);
  writer.put_u8(packed.more);
  writer.put_bytes(kReserved);
  writer.put_bytes(packed.bytes);
  DCHECK(writer.ok() && writer.size() == kStageOffset);
}

Result<Handle> read_handle(const HandleBytes& bytes) {
  bool plain = false;
  const Result<Handle> handle = unpack_handle(bytes, &plain);
  const bool ours = handle_version(bytes) == kProtocolVersion;
  return ours && plain ? handle : Result<Handle>(Errc::Protocol);
}

Result<Handle> read_handle_of_any_version(const HandleBytes& bytes) {
  bool plain = false;
  return unpack_handle(bytes, &plain);
}

std::uint16_t handle_version(const HandleBytes& bytes) noexcept {
  ByteReader reader(bytes);
  return reader.get_u32() == kHandleMagic ? reader.get_u16() : std::uint16_t{0};
}

ConnectStage read_stage(const HandleBytes& bytes) noexcept {
  ByteReader reader{std::span(bytes).subspan(kStageOffset)};
  ConnectStage stage;
  stage.index = reader.get_u64();
  stage.check = reader.get_u64();
  return stage;
}

void write_stage(const ConnectStage& stage, HandleBytes& bytes) noexcept {
  ByteWriter writer{std::span(bytes).subspan(kStageOffset)};
  writer.put_u64(stage.index);
  writer.put_u64(stage.check);
}

}  // namespace mesh::engine
