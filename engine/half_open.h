#pragma once
// Handshakes that do not go on: how long each step may take, and how many may stand still at a time.
// Thread: control mutex.

#include <cstddef>
#include <cstdint>

namespace mesh::engine {

// A peer that is stopped in mid handshake is slow, and waited for. But for five minutes: half of the ten after which PyTorch's
// watchdog ends the job, so that our line, which names the step and the peer, is there before it.
inline constexpr std::uint64_t kHandshakeStepNs = 300'000'000'000;

// Links of an engine, as acceptor, that carry no channel: not yet, or no longer. Each holds queue pairs, with the default
// policy about 0.6 MiB a path, so that all of them together take less than 16 MiB. The oldest link of the address that has most
// of them gives way to the next one.
inline constexpr std::size_t kHalfOpenMax = 24;

// No link gives way before, unless its address has more than its share. An honest handshake takes a few milliseconds. A peer
// that finds no room is refused with Exhausted, as is one that gives way, and dials anew after a pause that grows.
inline constexpr std::uint64_t kHalfOpenGraceNs = 100'000'000;
inline constexpr std::uint64_t kAnewPauseMinNs = 10'000'000;
inline constexpr std::uint64_t kAnewPauseMaxNs = 1'000'000'000;

// Channels that wait for one listener's accept(). NCCL makes a listener for one.
inline constexpr std::size_t kArrivedMax = 256;

// A connector that is dropped before it has heard a word dials again: it may have been among too many strangers, or stopped
// for longer than one may be silent. Once for each is enough; a peer that is gone refuses the connection.
inline constexpr std::uint32_t kHelloTriesMax = 8;

}  // namespace mesh::engine
