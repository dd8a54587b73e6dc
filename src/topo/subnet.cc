#include "src/topo/subnet.h"

#include <cstddef>
#include <cstdint>

namespace mesh::topo {

namespace {
// The bits that belong to the prefix in the byte with this index.
std::uint8_t prefix_mask(int prefix_len, std::size_t index) noexcept {
  const int bits = prefix_len - static_cast<int>(index) * 8;
  if (bits >= 8) return 0xff;
  return bits <= 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(0xff << (8 - bits));
}

bool holds(const SubnetMember& member, const SocketAddress& other) noexcept {
  for (std::size_t i = 0; i < other.bytes.size(); ++i) {
    if (((member.address.bytes[i] ^ other.bytes[i]) & prefix_mask(member.prefix_len, i)) != 0)
      return false;
  }
  return true;
}
}  // namespace

bool same_subnet(const SubnetMember& a, const SubnetMember& b) noexcept {
  if (!a.valid() || !b.valid() || a.address.family != b.address.family) return false;
  return holds(a, b.address) && holds(b, a.address);
}

std::string subnet_text(const SubnetMember& member) {
  SocketAddress network = member.address;
  network.scope_id = 0;
  for (std::size_t i = 0; i < network.bytes.size(); ++i)
    network.bytes[i] &= prefix_mask(member.prefix_len, i);
  return network.text() + "/" + std::to_string(member.prefix_len);
}

}  // namespace mesh::topo
