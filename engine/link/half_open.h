#pragma once
// Limits the handshakes that stand still at a time. Thread: control mutex.

#include <cstddef>
#include <cstdint>

namespace mesh::engine {

// Links that an engine has as acceptor and that carry no channel, not yet or no longer. Each holds
// queue pairs, with the default policy about 0.6 MiB a path on the software fabric. NCCL makes a
// listener for one connect, so an honest peer has one or two such links for it. All such links of
// one listener take less than 16 MiB, and the oldest one gives way to the next: a peer that makes
// many takes room only from peers that know the same handle.
inline constexpr std::size_t kHalfOpenPerListenerMax = 16;

// Links without a channel, of all listeners together. More peers than this do not dial one host at
// the same time. A further peer is refused with Exhausted and dials anew after a pause that grows,
// unless a link has done nothing for kHalfOpenToGiveWayNs and gives way. A bound of 24 with a grace
// of 100 ms made honest peers evict one another 6,000 times.
inline constexpr std::size_t kHalfOpenMax = 256;

// Queue pairs of a communicator that a device has still to destroy. If it has more, a link that
// would use the device is refused with Exhausted, as above: the queue pairs of links that have
// ended are in none of these bounds, and a device may take long for them.
inline constexpr std::size_t kDestroyingMax = 1024;

// Channels that wait for one listener's accept(). NCCL makes a listener for one channel.
inline constexpr std::size_t kArrivedMax = 256;

// Dials of a connector that is dropped before it has heard a frame: it may have been among too many
// unauthenticated connections, or stopped for longer than an unauthenticated connection may be
// silent. One dial for each such cause is enough; a peer that is gone refuses the connection.
inline constexpr std::uint32_t kHelloTriesMax = 8;

}  // namespace mesh::engine
