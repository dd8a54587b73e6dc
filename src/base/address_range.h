#pragma once
// A range of addresses such as 10.0.0.0/8, as NCCL_IB_ADDR_RANGE has it. Thread: any (values).
// Bound: none.

#include "src/base/socket.h"

#include <optional>
#include <string_view>

namespace mesh {

struct AddressRange {
  SocketAddress base;
  int bits = 0;  // of the prefix

  bool holds(const SocketAddress& address) const noexcept;
};

// None: it has no '/', no address of either family before it, or no count of that family's bits
// behind it.
std::optional<AddressRange> read_address_range(std::string_view text);

}  // namespace mesh
