#pragma once
// A range of addresses such as 10.0.0.0/8, as NCCL_IB_ADDR_RANGE has it. Thread: any (values).
// Bound: none.

#include "src/base/socket.h"

#include <optional>
#include <string_view>

namespace mesh {

struct AddressRange {
  SocketAddress base;
  int bits = 0;  // length of the prefix

  bool holds(const SocketAddress& address) const noexcept;
};

// Parses ADDRESS/BITS. Returns no value if the text has no '/', no IPv4 or IPv6 address before it,
// or behind it no prefix length that the address's family has.
std::optional<AddressRange> read_address_range(std::string_view text);

}  // namespace mesh
