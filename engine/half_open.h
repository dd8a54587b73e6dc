#pragma once
// Handshakes that do not go on: how long each step may take, and how many may stand still at a time.
// Thread: control mutex.

#include <cstddef>
#include <cstdint>

namespace mesh::engine {

// A peer that is stopped in mid handshake is slow, and waited for. But for five minutes: half of the ten after which PyTorch's
// watchdog ends the job, so that our line, which names the step and the peer, is there before it.
inline constexpr std::uint64_t kHandshakeStepNs = 300'000'000'000;

// Links of an engine whose peers have said HELLO and nothing since: each holds queue pairs. The oldest gives way. More peers
// than this do not dial one host in the few milliseconds that an honest one takes.
inline constexpr std::size_t kHalfOpenMax = 256;

// A connector that is dropped before it has heard a word dials again: it may have been among too many strangers, or stopped
// for longer than one may be silent. Once for each is enough; a peer that is gone refuses the connection.
inline constexpr std::uint32_t kHelloTriesMax = 8;

}  // namespace mesh::engine
