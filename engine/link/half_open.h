#pragma once
// Limits for handshakes that do not go on: how long each step may take, and how many may stand
// still at a time. Thread: control mutex.

#include <cstddef>
#include <cstdint>

namespace mesh::engine {

// A peer that is stopped in the middle of a handshake counts as slow, and is waited for, but for
// five minutes only. That is half of the ten minutes after which PyTorch's watchdog ends the job,
// so our log line, which names the step and the peer, comes first.
inline constexpr std::uint64_t kHandshakeStepNs = 300'000'000'000;

// Links that an engine has as acceptor and that carry no channel, not yet or no longer. Each holds
// queue pairs, with the default policy about 0.6 MiB a path on the software fabric. NCCL makes a
// listener for one connect, so an honest peer has one or two such links for it. All such links of
// one listener take less than 16 MiB, and the oldest one gives way to the next: a peer that makes
// many takes room only from peers that know the same handle.
inline constexpr std::size_t kHalfOpenPerListenerMax = 16;

// Links without a channel, of all listeners together. More peers than this do not dial one host at
// the same time. A further peer is refused with Exhausted and dials anew after a pause that grows,
// unless a link has done nothing for kHalfOpenGraceNs and gives way. Where a device takes 3 ms for
// a command, 256 peers that come at once take 16 s together, so no handshake that moves may give
// way to another: a bound of 24 with a grace of 100 ms made honest peers evict one another 6,000
// times.
inline constexpr std::size_t kHalfOpenMax = 256;
inline constexpr std::uint64_t kHalfOpenGraceNs = 20'000'000'000;
inline constexpr std::uint64_t kAnewPauseMinNs = 10'000'000;
inline constexpr std::uint64_t kAnewPauseMaxNs = 1'000'000'000;

// Channels that wait for one listener's accept(). NCCL makes a listener for one channel.
inline constexpr std::size_t kArrivedMax = 256;

// Dials of a connector that is dropped before it has heard a frame: it may have been among too many
// strangers, or stopped for longer than a stranger may be silent. One dial for each such cause is
// enough; a peer that is gone refuses the connection.
inline constexpr std::uint32_t kHelloTriesMax = 8;
// A dropped connector dials at once, and again after a second if nothing answers. If it has not
// reached the acceptor by then, accept() returns that its peer's connect has failed.
inline constexpr std::uint64_t kHelloAgainNs = 10'000'000'000;

}  // namespace mesh::engine
