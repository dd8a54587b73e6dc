#pragma once
// What travels beside the payload: immediate data, credit rows, records, window counters. Pure layout, no queue pairs.
// Rows and records are written by the peer's NIC and read here word by word. The word that ends each half of a row carries
// the generation, and the last one a check of the whole, for devices that do not write in ascending order.
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

// Of everything in a row. A soft RDMA device may copy a row in any order of words (the kernel's memcpy goes downwards for some
// addresses), so the generations alone do not prove that what lies between them belongs to them.
constexpr std::uint32_t row_check(const CreditRow& row, std::uint32_t generation) noexcept {
  constexpr std::array<std::uint64_t, 7> kOdd = {0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9, 0x27d4eb2f165667c5,
                                                 0x85ebca77c2b2ae63, 0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53};
  std::uint64_t sum = generation;
  for (std::size_t i = 0; i < kOdd.size(); ++i) sum += row.words[i] * kOdd[i];
  return low_of(sum ^ (sum >> 32));
}

constexpr CreditRow encode_credit(const Credit& c) noexcept {
  CreditRow row{.words = {c.address, c.bytes, join(c.tag, c.rkeys[0]), join(c.rkeys[1], c.generation), join(c.rkeys[2], c.rkeys[3]),
                          join(c.rkeys[4], c.rkeys[5]), join(c.rkeys[6], c.rkeys[7]), 0}};
  row.words[7] = join(row_check(row, c.generation), c.generation);
  return row;
}

inline std::uint64_t load_word(std::uint64_t& word, std::memory_order order) noexcept {
  return std::atomic_ref<std::uint64_t>(word).load(order);
}

// True and *out filled when the row holds the credit of this generation, whole.
inline bool read_credit(CreditRow& row, std::uint32_t generation, Credit* out) noexcept {
  // acquire: pairs with the NIC's ordered stores; each half's last word publishes its half.
  const std::uint64_t last = load_word(row.words[7], std::memory_order_acquire);
  if (high_of(last) != generation) return false;
  CreditRow seen;
  seen.words[3] = load_word(row.words[3], std::memory_order_acquire);
  if (high_of(seen.words[3]) != generation) return false;
  for (const std::size_t i : {0u, 1u, 2u, 4u, 5u, 6u}) seen.words[i] = load_word(row.words[i], std::memory_order_relaxed);
  if (row_check(seen, generation) != low_of(last)) return false;
  const auto& w = seen.words;
  out->address = w[0];
  out->bytes = w[1];
  out->tag = low_of(w[2]);
  out->generation = generation;
  out->rkeys = {high_of(w[2]), low_of(w[3]), low_of(w[4]), high_of(w[4]), low_of(w[5]), high_of(w[5]), low_of(w[6]), high_of(w[6])};
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
