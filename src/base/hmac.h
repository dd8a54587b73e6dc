#pragma once
// HMAC-SHA-256 (FIPS 180-4, RFC 2104): a code that only the holders of a secret can make. For the
// control path: about 2 us for a short message. Thread: any (pure). Bound: none of its own.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mesh {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::span<const std::byte> message) noexcept;

// The code of two texts, one behind the other.
Digest hmac_sha256(std::span<const std::byte> secret, std::span<const std::byte> message,
                   std::span<const std::byte> rest = {}) noexcept;

}  // namespace mesh
