#include "engine/control/handle.h"

#include "src/base/byte_order.h"
#include "src/base/check.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>

namespace mesh::engine {

namespace {

constexpr std::uint32_t kHandleMagic = 0x4853454du;  // "MESH" read little-endian
constexpr std::size_t kReservedBytes = 4;
constexpr std::size_t kAddressesBytes = 64;
constexpr std::size_t kStageBytes = 16;
constexpr std::size_t kStageOffset = kHandleBytes - kStageBytes;
constexpr std::size_t kAddressCountMax = 10;  // IPv4 addresses take 6 of the 64 bytes each
constexpr std::uint8_t kFamilyV4 = 4;
constexpr std::uint8_t kFamilyV6 = 6;

static_assert(4 + 2 + 2 + 16 + 16 + 2 + 1 + 1 + kReservedBytes + kAddressesBytes + kStageBytes ==
              kHandleBytes);
static_assert(sizeof(HandleBytes) == kHandleBytes);

std::size_t ip_bytes(std::uint16_t family) { return family == AF_INET ? 4 : 16; }

// Returns true for a loopback address, and for the unspecified one, which Linux treats alike.
bool leads_to_oneself(const SocketAddress& named) {
  const SocketAddress address =
      named.family == AF_INET6 ? SocketAddress::from_gid(named.bytes) : named;
  const bool unspecified = address.family == AF_INET ? address.bytes[0] == 0
                                                     : address.bytes == decltype(address.bytes){};
  return unspecified || address.loopback();
}

struct PackedAddresses {
  std::array<std::byte, kAddressesBytes> bytes{};
  std::uint8_t count = 0;
};

PackedAddresses pack(const std::vector<SocketAddress>& addresses) {
  PackedAddresses packed;
  ByteWriter writer(packed.bytes);
  for (const SocketAddress& address : portable_addresses(addresses)) {
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

Result<std::vector<SocketAddress>> unpack(std::span<const std::byte> bytes, std::size_t count) {
  if (count == 0 || count > kAddressCountMax) return Errc::Protocol;
  std::vector<SocketAddress> addresses;
  ByteReader reader(bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t family = reader.get_u8();
    const std::uint8_t reserved = reader.get_u8();
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
  std::array<std::byte, kAddressesBytes> packed{};
  ByteReader reader(bytes);
  if (reader.get_u32() != kHandleMagic) return Errc::Protocol;
  reader.get_u16();  // the version
  const std::uint16_t flags = reader.get_u16();
  Handle handle;
  reader.get_bytes(std::as_writable_bytes(std::span(handle.nonce)));
  reader.get_bytes(std::as_writable_bytes(std::span(handle.context)));
  handle.port = reader.get_u16();
  const std::uint8_t count = reader.get_u8();
  handle.rail = reader.get_u8();
  reader.get_bytes(reserved);
  reader.get_bytes(packed);
  *plain = flags == 0 && reserved == decltype(reserved){};
  if (!reader.ok() || handle.port == 0) return Errc::Protocol;
  Result<std::vector<SocketAddress>> addresses = unpack(packed, count);
  if (!addresses.ok()) return addresses.status();
  handle.addresses = std::move(*addresses);
  return handle;
}

}  // namespace

std::vector<SocketAddress> ways_back(std::vector<SocketAddress> named,
                                     const SocketAddress& source) {
  for (const SocketAddress& address : named) {
    if (address.same_host(source)) return {source};
  }
  if (!source.loopback()) std::erase_if(named, leads_to_oneself);
  if (named.empty()) named.push_back(source);
  return named;
}

std::vector<SocketAddress> ways_for_others(const std::vector<SocketAddress>& named,
                                           const SocketAddress& source) {
  std::vector<SocketAddress> ways = ways_back(named, source);
  for (const SocketAddress& address : named) {
    const auto is_it = [&address](const SocketAddress& each) { return each.same_host(address); };
    if (std::any_of(ways.begin(), ways.end(), is_it)) continue;
    if (source.loopback() || !leads_to_oneself(address)) ways.push_back(address);
  }
  return ways;
}

// The scope of an IPv6 link-local address means nothing on the peer's host, so such addresses are
// returned only if there are no others.
std::vector<SocketAddress> portable_addresses(std::span<const SocketAddress> addresses) {
  std::vector<SocketAddress> chosen;
  const auto usable = [](const SocketAddress& address) {
    return address.family == AF_INET || address.family == AF_INET6;
  };
  const auto needs_scope = [](const SocketAddress& address) {
    return address.family == AF_INET6 && address.link_local();
  };
  std::copy_if(
      addresses.begin(), addresses.end(), std::back_inserter(chosen),
      [&](const SocketAddress& address) { return usable(address) && !needs_scope(address); });
  if (chosen.empty())
    std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(chosen), usable);
  return chosen;
}

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
