#pragma once
// Formats of what travels beside the payload: immediate data, clear-to-send (CTS) entries, records,
// window words. Pure layout, no queue pairs. The peer's NIC writes entries and records, and they
// are read here word by word. Each half of an entry ends with a check over the half and the entry's
// generation, for devices that do not write in ascending order; the generation itself is not sent.
// Thread: loop (readers), any (values).

#include <mesh/policy.h>

#include "src/base/check.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace mesh::engine {

static_assert(std::endian::native == std::endian::little, "rows are written as the host's words");

// ---- Immediate data: stripes:4 | channel:13 | slot:8 | generation:7, in the host's byte order
// like all else here: verbs carry its bytes as they are.
inline constexpr std::uint32_t kGenerationBits = 7;
inline constexpr std::uint32_t kGenerationMask = (1u << kGenerationBits) - 1;
inline constexpr std::uint32_t kChannelShift = kGenerationBits + 8;
inline constexpr std::uint32_t kChannelMask = (1u << 13) - 1;
inline constexpr std::uint32_t kStripesShift = kChannelShift + 13;
// The most stripes that the immediate can tell; each completion then tells its stripe's bytes. If
// there are more, or a stripe takes several work requests, it holds 0 and a record tells both.
inline constexpr std::uint32_t kStripesTold = 15;

struct Announcement {
  std::uint32_t stripes = 1;  // of the message; 0: see its record
  std::uint32_t channel = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  // the low bits; pack() masks
};

constexpr std::uint32_t pack(const Announcement& a) noexcept {
  DCHECK(a.stripes <= kStripesTold);
  DCHECK(a.channel <= kChannelMask);
  DCHECK(a.slot < kSlotsMax);
  return (a.stripes << kStripesShift) | (a.channel << kChannelShift) | (a.slot << kGenerationBits) |
         (a.generation & kGenerationMask);
}
constexpr Announcement unpack(std::uint32_t imm) noexcept {
  return {.stripes = imm >> kStripesShift,
          .channel = (imm >> kChannelShift) & kChannelMask,
          .slot = (imm >> kGenerationBits) & (kSlotsMax - 1),
          .generation = imm & kGenerationMask};
}
// Each extracts one field, where the others are not needed.
constexpr std::uint32_t stripes_of(std::uint32_t imm) noexcept { return imm >> kStripesShift; }
constexpr std::uint32_t channel_of(std::uint32_t imm) noexcept {
  return (imm >> kChannelShift) & kChannelMask;
}
constexpr std::uint32_t slot_of(std::uint32_t imm) noexcept {
  return (imm >> kGenerationBits) & (kSlotsMax - 1);
}
static_assert(4 + 13 + 8 + kGenerationBits == 32 && kChannelsMax == kChannelMask &&
              kSlotsMax == 1u << 8);

// A slot is used once per round of the ring; rounds count up from the channel's base, and the round
// in an entry's generation repeats after 2^kKeySetShift of them. Bases of successive lives of a
// channel index differ in the low bits (late announcements) and in the high ones (late entries).
constexpr std::uint32_t generation_base(std::uint32_t life) noexcept {
  return 1u + life * 0x00ff'0003u;
}

inline constexpr std::uint32_t kRailsMax = 64;  // of a host
// The keys of a link's small memory, as OPEN and OPENED tell them (LinkKeys).
inline constexpr std::uint32_t kLinkKeysMax = kPathsMax + kRailsMax;

// The number of the set of keys that an entry holds: the tier of the paths, or, of a path over
// other hosts, kPathsMax and the acceptor's rail, which may be another one each time that it is
// opened.
constexpr std::uint32_t relayed_key_set(std::uint32_t acceptor_rail) noexcept {
  DCHECK(acceptor_rail < kRailsMax);
  return kPathsMax + acceptor_rail;
}
// A card of the acceptor that was replaced changes the keys of all sets with its rail. The number
// of such a set tells the number of its newest card, in a circle: an entry with keys of so many
// cards before has been written again since.
inline constexpr std::uint32_t kKeySets = kPathsMax + kRailsMax, kCardsTold = 7;
constexpr std::uint32_t of_card(std::uint32_t set, std::uint32_t card) noexcept {
  DCHECK(set < kKeySets);
  return set + kKeySets * (card % kCardsTold);
}
// Adds the number of the set to the entry's generation, so that nobody takes it for an entry with
// other keys: one receive has an entry for each set that was used meanwhile. Rounds without the
// number are equal on both sides at any time.
inline constexpr std::uint32_t kKeySetShift = 23;
static_assert(kKeySets * kCardsTold <= 1u << (32 - kKeySetShift));
constexpr std::uint32_t in_key_set(std::uint32_t generation, std::uint32_t set) noexcept {
  return generation + (set << kKeySetShift);
}
constexpr std::uint32_t round_of(std::uint32_t generation) noexcept {
  return generation & ((1u << kKeySetShift) - 1);
}

// ---- CTS entry: one posted receive, written by the receiver into the sender's FIFO. A link of one
// path needs and sends only the first half; the second half holds the keys of the other paths.
struct Credit {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t tag = 0;
  std::uint32_t generation = 0;
  std::array<std::uint32_t, kPathsMax> rkeys{};  // by Path::key_place
};

inline constexpr std::uint32_t kCreditHalfBytes = 32;
inline constexpr std::uint32_t kCreditBytesMax = 2 * kCreditHalfBytes;

// Returns the bytes of an entry on a link of this many paths; the entries of a ring follow without
// gaps.
constexpr std::uint32_t credit_bytes(std::uint32_t paths) noexcept {
  DCHECK(paths <= kPathsMax);
  return paths <= 1 ? kCreditHalfBytes : kCreditBytesMax;
}

constexpr std::uint64_t join(std::uint32_t low, std::uint32_t high) noexcept {
  return std::uint64_t{low} | (std::uint64_t{high} << 32);
}
constexpr std::uint32_t low_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word);
}
constexpr std::uint32_t high_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 32);
}

// The words of a half that its check covers, together with the generation. A soft RDMA device may
// copy an entry in any order of words (the kernel's memcpy goes downwards for some addresses), so a
// generation alone would not prove that the words beside it belong to it.
struct HalfWords {
  std::uint64_t first = 0, second = 0, third = 0;
};
constexpr std::uint64_t half_check(const HalfWords& half, std::uint64_t generation) noexcept {
  // Odd factors of at most 31 bits, which fit into an instruction.
  return generation + half.first * 0x5bd1e995 + half.second * 0x4cf5ad43 + half.third * 0x1b873593;
}

// Fills the first half of an entry: address, bytes, and tag with the first path's key.
inline void encode_near(std::uint64_t* words, const HalfWords& near,
                        std::uint64_t generation) noexcept {
  words[0] = near.first;
  words[1] = near.second;
  words[2] = near.third;
  words[3] = half_check(near, generation);
}

// Returns the check of the second half: 32 bits, as a key shares the half's last word.
constexpr std::uint32_t far_check(const HalfWords& half, std::uint32_t generation) noexcept {
  const std::uint64_t sum = half_check(half, generation);
  return low_of(sum ^ (sum >> 32));
}

// Fills the second half of an entry: the keys of the other paths.
inline void encode_far(std::uint64_t* words, const Credit& c) noexcept {
  const HalfWords far{.first = join(c.rkeys[1], c.rkeys[2]),
                      .second = join(c.rkeys[3], c.rkeys[4]),
                      .third = join(c.rkeys[5], c.rkeys[6])};
  words[4] = far.first;
  words[5] = far.second;
  words[6] = far.third;
  words[7] = join(far_check(far, c.generation ^ c.rkeys[7]), c.rkeys[7]);
}

// Fills credit_bytes(paths) bytes of an entry.
inline void encode_credit(const Credit& c, std::uint32_t paths, std::uint64_t* words) noexcept {
  encode_near(words, {.first = c.address, .second = c.bytes, .third = join(c.tag, c.rkeys[0])},
              c.generation);
  DCHECK(paths <= kPathsMax);
  if (paths > 1) encode_far(words, c);
}

inline std::uint64_t load_word(std::uint64_t& word, std::memory_order order) noexcept {
  return std::atomic_ref<std::uint64_t>(word).load(order);
}

// The fields of the first half of an entry.
struct NearCredit {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t tag = 0;
  std::uint32_t rkey = 0;  // on the first path
};

// Fills *out. Returns true if the whole first half of this generation was there.
inline bool read_near(std::uint64_t* words, std::uint32_t generation, NearCredit* out) noexcept {
  // acquire, here and below: pairs with the NIC's ordered stores; a half's last word publishes the
  // half.
  const std::uint64_t check = load_word(words[3], std::memory_order_acquire);
  const HalfWords near{.first = load_word(words[0], std::memory_order_relaxed),
                       .second = load_word(words[1], std::memory_order_relaxed),
                       .third = load_word(words[2], std::memory_order_relaxed)};
  *out = {.address = near.first,
          .bytes = near.second,
          .tag = low_of(near.third),
          .rkey = high_of(near.third)};
  return half_check(near, generation) == check;
}

// Reads the keys of the other paths. Returns false if they are not all there yet.
inline bool read_far(std::uint64_t* words, std::uint32_t generation,
                     std::array<std::uint32_t, kPathsMax>* rkeys) noexcept {
  const std::uint64_t last = load_word(words[7], std::memory_order_acquire);
  const HalfWords far{.first = load_word(words[4], std::memory_order_relaxed),
                      .second = load_word(words[5], std::memory_order_relaxed),
                      .third = load_word(words[6], std::memory_order_relaxed)};
  *rkeys = {(*rkeys)[0],         low_of(far.first), high_of(far.first), low_of(far.second),
            high_of(far.second), low_of(far.third), high_of(far.third), high_of(last)};
  return low_of(last) == far_check(far, generation ^ high_of(last));
}

// Reads the key of one path that is not the first. Returns false if the keys are not all there yet.
inline bool read_far_key(std::uint64_t* words, std::uint32_t generation, std::uint32_t path,
                         std::uint32_t* rkey) noexcept {
  DCHECK(path != 0 && path < kPathsMax);
  std::array<std::uint32_t, kPathsMax> rkeys{};
  if (!read_far(words, generation, &rkeys)) return false;
  *rkey = rkeys[path];
  return true;
}

// Reads the whole entry of a link of this many paths. Returns false if it is not all there yet.
inline bool read_credit(std::uint64_t* words, std::uint32_t paths, std::uint32_t generation,
                        Credit* out) noexcept {
  DCHECK(paths <= kPathsMax);
  NearCredit near;
  if (!read_near(words, generation, &near)) return false;
  *out = {.address = near.address,
          .bytes = near.bytes,
          .tag = near.tag,
          .generation = generation,
          .rkeys = {near.rkey}};
  return paths <= 1 || read_far(words, generation, &out->rkeys);
}

// ---- Window words (returned receive credits): kWindowWords for each queue pair, written in turn,
// for networks in which the writes of a queue pair overtake one another. The newest word counts.
inline constexpr std::uint32_t kWindowWords = 4;
inline std::uint64_t read_window_words(std::uint64_t* words) noexcept {
  // acquire: pairs with the NIC's release of a word; the words only grow.
  std::uint64_t newest = load_word(words[0], std::memory_order_acquire);
  for (std::uint32_t i = 1; i < kWindowWords; ++i) {
    const std::uint64_t word = load_word(words[i], std::memory_order_acquire);
    if (static_cast<std::int64_t>(word - newest) > 0) newest = word;
  }
  return newest;
}

// ---- Record: the bytes and the number of announcements of a message whose immediates do not tell
// them.
struct alignas(16) Record {
  std::array<std::uint64_t, 2> words;
};
static_assert(sizeof(Record) == 16);
// The send was larger than the receive; no data came.
inline constexpr std::uint64_t kRecordTruncated = std::uint64_t{1} << 63;

constexpr Record encode_record(std::uint64_t bytes, std::uint32_t stripes,
                               std::uint32_t generation) noexcept {
  return {.words = {bytes, join(stripes, generation)}};
}
// Returns true if the record says that a message of this generation has this many announcements;
// announced is join(count, generation).
inline bool record_says(Record& record, std::uint64_t announced) noexcept {
  // Pairs with the NIC's ordered stores.
  return load_word(record.words[1], std::memory_order_acquire) == announced;
}
// Returns the bytes, with the flag kRecordTruncated.
inline std::uint64_t record_bytes(Record& record) noexcept {
  return load_word(record.words[0], std::memory_order_relaxed);
}

}  // namespace mesh::engine
