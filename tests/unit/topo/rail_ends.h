#pragma once
// Makes rails for a pairing from their addresses as text. Thread: any.

#include "src/base/socket.h"
#include "src/topo/pairing.h"
#include "tests/prelude.h"

namespace mesh::topo {

// Prints a pair in GoogleTest's messages.
inline void PrintTo(const RailPair& pair, std::ostream* out) {
  *out << pair.local << "." << pair.local_address << "-" << pair.peer << "." << pair.peer_address;
}

}  // namespace mesh::topo

namespace mesh::testkit {

using topo::RailAddress, topo::RailEnd;
using Pairs = std::vector<topo::RailPair>;
using Rails = std::vector<RailEnd>;

inline RailAddress address_of(const char* text, int prefix_len = 24) {
  const SocketAddress address = *SocketAddress::from_text(text);
  RailAddress end{.gid = address.bytes, .prefix_len = prefix_len};
  if (address.family == AF_INET) {
    end.gid = {};
    end.gid[10] = end.gid[11] = 0xff;
    std::copy_n(address.bytes.begin(), 4, end.gid.begin() + 12);
  }
  return end;
}

inline RailEnd rail(const char* text, int prefix_len = 24, std::uint32_t speed_mbps = 100'000) {
  return {.addresses = {address_of(text, prefix_len)}, .speed_mbps = speed_mbps};
}

inline RailEnd rail_with(std::vector<RailAddress> addresses) {
  return {.addresses = std::move(addresses), .speed_mbps = 100'000};
}

inline RailEnd ib_rail(const char* text) {
  RailEnd end = rail(text, 64);
  end.ethernet = false;
  return end;
}

}  // namespace mesh::testkit
