#include "src/base/hmac.h"

#include <algorithm>
#include <bit>

namespace mesh {

namespace {
constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kLengthBytes = 8;  // at the end of the last block

// The first 32 bits of the fractions of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kRounds{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes) noexcept {
    for (const std::byte each : bytes) {
      block_[used_++] = std::to_integer<std::uint8_t>(each);
      if (used_ == kBlockBytes) turn();
    }
    bytes_ += bytes.size();
  }

  Digest finish() noexcept {
    block_[used_++] = 0x80;
    if (used_ > kBlockBytes - kLengthBytes) turn();
    for (std::size_t i = 0; i < kLengthBytes; ++i)
      block_[kBlockBytes - 1 - i] = static_cast<std::uint8_t>(8 * bytes_ >> (8 * i));
    turn();
    Digest digest;
    for (std::size_t i = 0; i < digest.size(); ++i)
      digest[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
    return digest;
  }

 private:
  void turn() noexcept {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < kBlockBytes; ++i)
      w[i / 4] |= std::uint32_t{block_[i]} << (24 - 8 * (i % 4));
    for (std::size_t i = 16; i < w.size(); ++i) {
      const std::uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    auto s = state_;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const auto [a, b, c, d, e, f, g, h] = s;
      const std::uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                                  ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
      const std::uint32_t second =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      s = {first + second, a, b, c, d + first, e, f, g};
    }
    for (std::size_t i = 0; i < state_.size(); ++i) state_[i] += s[i];
    block_ = {};
    used_ = 0;
  }

  // The first 32 bits of the fractions of the square roots of the first 8 primes.
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, kBlockBytes> block_{};
  std::size_t used_ = 0;
  std::uint64_t bytes_ = 0;
};
}  // namespace

Digest sha256(std::span<const std::byte> message) noexcept {
  Sha256 hash;
  hash.add(message);
  return hash.finish();
}

Digest hmac_sha256(std::span<const std::byte> secret, std::span<const std::byte> message,
                   std::span<const std::byte> rest) noexcept {
  std::array<std::byte, kBlockBytes> inner{}, outer{};
  if (secret.size() > kBlockBytes) {
    const Digest shorter = sha256(secret);
    std::copy_n(std::as_bytes(std::span(shorter)).begin(), shorter.size(), inner.begin());
  } else {
    std::copy(secret.begin(), secret.end(), inner.begin());
  }
  for (std::size_t i = 0; i < kBlockBytes; ++i) {
    outer[i] = inner[i] ^ std::byte{0x5c};
    inner[i] ^= std::byte{0x36};
  }
  Sha256 first, second;
  first.add(inner);
  first.add(message);
  first.add(rest);
  const Digest within = first.finish();
  second.add(outer);
  second.add(std::as_bytes(std::span(within)));
  return second.finish();
}

}  // namespace mesh
