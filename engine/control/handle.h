#pragma once
// The 128 bytes that listen() fills and connect() reads. Plain bytes: they travel through NCCL's
// bootstrap, and the last 16 are the connect stage's, written by connect on its own copy. Never a
// pointer. Layout: magic 4, version 2, flags 2, nonce 16, context 16, port 2, address count 1,
// reserved 5, addresses 64, stage 16. Thread: any (values).

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
  std::vector<SocketAddress> addresses;  // bootstrap interface first; as many as fit in 64 bytes
};

struct ConnectStage {
  std::uint64_t index = 0;  // into the engine's table, plus one; 0: first call
  std::uint64_t check = 0;  // random, must match the table's
};

// Those that mean something on the peer's host.
std::vector<SocketAddress> portable_addresses(std::span<const SocketAddress> addresses);

// Where to find a peer again that has named its addresses: where it came from, if that is among
// them. Else where it says, but never on this host, unless it came from here: a peer must not make
// us speak to our own services.
std::vector<SocketAddress> ways_back(std::vector<SocketAddress> named, const SocketAddress& source);

void write_handle(const Handle& handle, HandleBytes& bytes);  // zeroes the stage
Result<Handle> read_handle(
    const HandleBytes& bytes);  // Protocol: not a handle of ours, or another version
std::uint16_t handle_version(
    const HandleBytes& bytes) noexcept;  // the protocol's; 0: not a handle of any version
ConnectStage read_stage(const HandleBytes& bytes) noexcept;
void write_stage(const ConnectStage& stage, HandleBytes& bytes) noexcept;

}  // namespace mesh::engine
