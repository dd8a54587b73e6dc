#pragma once
// A chain of a middle host whose neighbours do as the input likes. Thread: one. Bound: kStepsMax
// steps.

#include "src/relay/chain.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/quiet_log.h"
#include "tests/fuzz/relay_bed.h"

namespace mesh::fuzz {

// Returns a header near what the ring would take, with one field that may be anything.
inline relay::SlotHeader header_of(Input& input, const relay::RingTarget& ring,
                                   std::uint32_t number) {
  relay::SlotHeader header{.address = 0x1000,
                           .rkey = 7,
                           .bytes = input.below(2) == 0 ? input.below(64) : ring.wr_bytes,
                           .imm = number * 5,
                           .payload = relay::kInSlot,
                           .number = number,
                           .version = relay::kSlotVersion,
                           .kind = static_cast<std::uint8_t>(1 + input.below(2))};
  if (header.bytes > relay::kSlotPayloadBytes) header.payload = input.below(64);
  switch (input.below(24)) {
    case 1: header.bytes = input.take<std::uint32_t>(); break;
    case 2: header.payload = input.take<std::uint32_t>(); break;
    case 3: header.number = input.take<std::uint32_t>(); break;
    case 4: header.version = input.u8(); break;
    case 5: header.kind = input.u8(); break;
    case 6: header.reserved = input.u8(); break;
    default: break;
  }
  return header;
}

// A middle host between two neighbours that the input plays.
class PlayedChain {
 public:
  explicit PlayedChain(Input& input) : input_(input) {
    relay::ChainOptions options;
    for (std::size_t i = 0; i < 2; ++i) {
      options.rails[i] = {.provider = &bed_.verbs, .context = bed_.contexts[i], .pd = bed_.pd};
      options.rings[i] = shape_of(input_);
    }
    Result<std::unique_ptr<relay::Chain>> chain = relay::Chain::create(options);
    if (!chain.ok()) return;
    chain_ = std::move(*chain);
    for (const relay::Side side : relay::kSides) {
      expect(chain_->fill_receive_queue(side).ok(), "a receive queue that is too small");
      chain_->set_counts(side, {.address = 0x2000, .rkey = 9});
      if (input_.below(2) == 0) continue;
      relay::RingTarget next = chain_->ring(relay::other(side));
      next.slots = 1 + input_.below(8);
      expect(chain_->set_next_ring(side, next).ok(), "a ring like ours is refused");
    }
  }
  ~PlayedChain() {
    chain_.reset();
    expect(bed_.verbs.empty(), "a chain that leaves something behind");
  }

  void play() {
    for (int step = 0; step < kStepsMax && chain_ != nullptr && !input_.empty(); ++step) {
      const std::uint8_t what = input_.u8();
      const relay::Side side = what % 2 == 0 ? relay::Side::Left : relay::Side::Right;
      switch (what / 2 % 8) {
        case 0:
        case 1: fill(side); break;
        case 2: announce(side); break;
        case 3: complete(); break;
        case 4: count(side); break;
        case 5: close(); break;
        default: turn(); break;
      }
    }
    if (chain_ != nullptr) turn();
  }

 private:
  static std::uint32_t at(relay::Side side) { return static_cast<std::uint32_t>(side); }

  void fill(relay::Side side) {
    const relay::RingTarget& ring = chain_->ring(side);
    std::uint32_t& number = filled_[at(side)];
    const relay::SlotHeader header = header_of(input_, ring, number);
    bed_.verbs.write(ring.address + std::uint64_t{number % ring.slots} * relay::kSlotBytes,
                     ring.rkey, &header, sizeof header);
    const std::uint32_t in_slot = header.payload == relay::kInSlot ? header.bytes : 0;
    if (bed_.verbs.announce(at(side), number, static_cast<std::uint32_t>(sizeof header) + in_slot))
      ++number;
  }
  void announce(relay::Side side) {
    bed_.verbs.announce(at(side), input_.take<std::uint32_t>(), input_.u8());
  }
  void complete() {
    const std::uint32_t queue_pair = input_.below(2), count = input_.below(6);
    bed_.verbs.complete(queue_pair, count, status_of(input_.u8()));
  }
  void count(relay::Side side) {
    const relay::CountsTarget target = chain_->counts(side);
    const std::uint64_t word =
        relay::pack({.free = counted_[at(side)] + input_.below(3),
                     .done = counted_[at(side)] + input_.below(3),
                     .status = input_.below(8) == 7 ? input_.u8() : std::uint8_t{0}});
    bed_.verbs.write(target.address + input_.below(8) * sizeof word, target.rkey, &word,
                     sizeof word);
    counted_[at(side)] += input_.below(3);
  }
  void close() {
    if (input_.below(4) == 0) chain_->close(IBV_WC_RETRY_EXC_ERR);
  }
  void turn() {
    const bool gone = chain_->state() == relay::ChainState::Gone;
    const std::uint32_t moved = chain_->turn();
    expect(!gone || moved == 0, "a chain that is gone and moves");
    const bool carries = chain_->state() == relay::ChainState::Carrying;
    expect(carries == (chain_->status() == IBV_WC_SUCCESS), "a chain that ends for nothing");
  }

  Input& input_;
  RelayBed bed_;
  std::unique_ptr<relay::Chain> chain_;
  std::array<std::uint32_t, 2> filled_{}, counted_{};
};

}  // namespace mesh::fuzz
