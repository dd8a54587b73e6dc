#include "src/base/address_range.h"

#include <charconv>

namespace mesh {

bool AddressRange::holds(const SocketAddress& address) const noexcept {
  if (address.family != base.family) return false;
  for (int bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if (((address.bytes[byte] ^ base.bytes[byte]) & mask) != 0) return false;
  }
  return true;
}

std::optional<AddressRange> read_address_range(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const Result<SocketAddress> base = SocketAddress::from_text(text.substr(0, slash));
  if (!base.ok() || base->scope_id != 0) return std::nullopt;
  const std::string_view digits = text.substr(slash + 1);
  AddressRange range{.base = *base};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), range.bits);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  const int bits_max = base->family == AF_INET ? 32 : 128;
  if (range.bits < 0 || range.bits > bits_max) return std::nullopt;
  return range;
}

}  // namespace mesh
