#pragma once
// What travels beside the payload: immediate data, credit rows, records, window counters. Pure layout, no queue pairs.
// Rows and records are written by the peer's NIC in ascending 8-byte words and read here word by word; the word that ends
// each half carries the generation, so whoever sees it sees the half.
// Thread: loop (readers), any (values).

#include <mesh/policy.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace mesh::engine {

static_assert(std::endian::native == std::endian::little, "rows are written as the host's words");

// ---- Immediate data: record:1 | channel:13 | slot:8 | generation:10.
inline constexpr std::uint32_t kGenerationBits = 10;
inline constexpr std::uint32_t kGenerationMask = (1u << kGenerationBits) - 1;

struct Announcement {
  bool record = false;
  std::uint32_t channel = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  // the low bits; pack() masks
};

constexpr std::uint32_t pack(const Announcement& a) noexcept {
  return (a.record ? 1u << 31 : 0u) | (a.channel << 18) | (a.slot << kGenerationBits) | (a.generation & kGenerationMask);
}
constexpr Announcement unpack(std::uint32_t imm) noexcept {
  return {.record = (imm >> 31) != 0,
          .channel = (imm >> 18) & (kChannelsMax - 1),
          .slot = (imm >> kGenerationBits) & (kSlotsMax - 1),
          .generation = imm & kGenerationMask};
}
static_assert(1 + 13 + 8 + kGenerationBits == 32 && kChannelsMax == 1u << 13 && kSlotsMax == 1u << 8);

// A slot is used once per round of the ring; rounds count up from the channel's base and never repeat within 2^32.
constexpr std::uint32_t generation_of(std::uint64_t sequence, std::uint32_t slots, std::uint32_t base) noexcept {
  return base + static_cast<std::uint32_t>(sequence / slots);
}

// Bases of successive lives of a channel index differ in the low bits (late announcements) and in the high ones (late rows).
constexpr std::uint32_t generation_base(std::uint32_t life) noexcept { return 1u + life * 0x00ff'0003u; }

// ---- Credit row: one posted receive, written by the receiver into the sender's ring.
struct Credit {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t tag = 0;
  std::uint32_t generation = 0;
  std::array<std::uint32_t, kPathsMax> rkeys{};  // by path
};

struct alignas(64) CreditRow {
  std::array<std::uint64_t, 8> words;
};
static_assert(sizeof(CreditRow) == 64);

constexpr std::uint64_t join(std::uint32_t low, std::uint32_t high) noexcept {
  return std::uint64_t{low} | (std::uint64_t{high} << 32);
}
constexpr std::uint32_t low_of(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word); }
constexpr std::uint32_t high_of(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word >> 32); }

constexpr CreditRow encode_credit(const Credit& c) noexcept {
  return {.words = {c.address, c.bytes, join(c.tag, c.rkeys[0]), join(c.rkeys[1], c.generation), join(c.rkeys[2], c.rkeys[3]),
                    join(c.rkeys[4], c.rkeys[5]), join(c.rkeys[6], c.rkeys[7]), join(0, c.generation)}};
}

inline std::uint64_t load_word(std::uint64_t& word, std::memory_order order) noexcept {
  return std::atomic_ref<std::uint64_t>(word).load(order);
}

// True and *out filled when the row holds the credit of this generation, whole.
inline bool read_credit(CreditRow& row, std::uint32_t generation, Credit* out) noexcept {
  // acquire: pairs with the NIC's ordered stores; each half's last word publishes its half.
  if (high_of(load_word(row.words[7], std::memory_order_acquire)) != generation) return false;
  const std::uint64_t third = load_word(row.words[3], std::memory_order_acquire);
  if (high_of(third) != generation) return false;
  const auto word = [&row](std::size_t i) { return load_word(row.words[i], std::memory_order_relaxed); };
  const std::uint64_t second = word(2);
  out->address = word(0);
  out->bytes = word(1);
  out->tag = low_of(second);
  out->generation = generation;
  out->rkeys = {high_of(second), low_of(third),    low_of(word(4)), high_of(word(4)),
                low_of(word(5)), high_of(word(5)), low_of(word(6)), high_of(word(6))};
  return true;
}

// ---- Record: how many bytes and announcements make up a message of several work requests.
struct alignas(16) Record {
  std::array<std::uint64_t, 2> words;
};
static_assert(sizeof(Record) == 16);
inline constexpr std::uint64_t kRecordTruncated = std::uint64_t{1} << 63;  // the send was larger than the receive; no data came

constexpr Record encode_record(std::uint64_t bytes, std::uint32_t stripes, std::uint32_t generation) noexcept {
  return {.words = {bytes, join(stripes, generation)}};
}
// Number of announcements, 0 when the record of this generation is not there yet; *bytes with the truncated flag.
inline std::uint32_t read_record(Record& record, std::uint32_t generation, std::uint64_t* bytes) noexcept {
  const std::uint64_t last = load_word(record.words[1], std::memory_order_acquire);  // pairs with the NIC's ordered stores
  if (high_of(last) != generation) return 0;
  *bytes = load_word(record.words[0], std::memory_order_relaxed);
  return low_of(last);
}

}  // namespace mesh::engine
