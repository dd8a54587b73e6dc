#pragma once
// The 128 bytes that listen() fills and connect() reads. They travel through NCCL's bootstrap, so
// they never contain a pointer. The last 16 belong to connect(), which keeps its stage there in its
// own copy. Layout: magic 4, version 2, flags 2, nonce 16, context 16, port 2, address count 1,
// rail 1, count of further IPv4 addresses 1, reserved 3, addresses 64, stage 16. Thread: any
// (values). Bound: as many addresses as fit: fifteen IPv4 ones, or three IPv6 ones.

#include <mesh/engine.h>
#include <mesh/status.h>

#include "engine/control/frames.h"
#include "src/base/socket.h"

#include <cstdint>
#include <span>
#include <vector>

namespace mesh::engine {

struct Handle {
  Id128 nonce{};    // names the listener
  Id128 context{};  // names the accepting context
  std::uint16_t port = 0;
  std::uint8_t rail = 0;                 // the rail listened on; an index into the acceptor's rails
  std::vector<SocketAddress> addresses;  // the bootstrap interface's come first
};

struct ConnectStage {
  std::uint64_t index = 0;  // index in the engine's table plus one; 0: the first call
  std::uint64_t check = 0;  // random; it must match the table's
};

// Returns the addresses that mean something on the peer's host.
std::vector<SocketAddress> portable_addresses(std::span<const SocketAddress> addresses);

// Returns the addresses at which to find a peer again, out of those that it has named. If the
// address that it came from is among them, only that one. Otherwise all that it named, but none on
// this host unless the peer came from here: a peer must not make us speak to our own services.
std::vector<SocketAddress> ways_back(std::vector<SocketAddress> named, const SocketAddress& source);
// Returns the addresses at which other hosts may find that peer, as they may not reach the one that
// it came from: first ways_back(), then the other addresses that it named. None is on this host
// unless the peer is.
std::vector<SocketAddress> ways_for_others(const std::vector<SocketAddress>& named,
                                           const SocketAddress& source);

void write_handle(const Handle& handle, HandleBytes& bytes);  // zeroes the stage
// Returns Protocol if the bytes are no handle of ours, or a handle of another version.
Result<Handle> read_handle(const HandleBytes& bytes);
// Reads a handle of any version: nonce, context, port and addresses keep their places, so that a
// peer of another version can be told that we do not connect.
Result<Handle> read_handle_of_any_version(const HandleBytes& bytes);
// Returns the protocol version, or 0 if the bytes are no handle of any version.
std::uint16_t handle_version(const HandleBytes& bytes) noexcept;
ConnectStage read_stage(const HandleBytes& bytes) noexcept;
void write_stage(const ConnectStage& stage, HandleBytes& bytes) noexcept;

}  // namespace mesh::engine
