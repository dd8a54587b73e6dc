#pragma once
// The receiving side: gives credits for NCCL's receives and completes them when all their announcements are in.
// Data lands only where a live credit of the same generation said; late announcements are counted and ignored.
// Thread: loop (token), construction and take-back under the control mutex too. Bound: policy.slots receives.

#include "engine/channel_base.h"
#include "engine/wire.h"

#include <array>
#include <cstdint>
#include <vector>

namespace mesh::engine {

class RecvChannel final : public Channel {
 public:
  RecvChannel(PeerLink& link_of, std::uint32_t index_of, Record* records);

  // The sender's credit ring, by path.
  struct Credits {
    std::uint64_t address = 0;
    std::array<std::uint32_t, kPathsMax> rkeys{};
  };
  void set_credits(const Credits& credits) noexcept { credits_ = credits; }

  // Takes over new receives and writes their credits. True: it wants another visit (the send queue is full).
  bool advance() noexcept;
  void on_announcement(const Announcement& announcement, std::uint32_t bytes) noexcept;

  bool names(const Registration& region) const noexcept;  // a live credit does, or a receive still to get one
  bool has_live_credit() const noexcept;
  std::uint64_t received() const noexcept { return received_; }  // messages completed, failed ones included

 private:
  struct Live {
    std::uint32_t generation = 0;
    std::uint16_t announced = 0;
    bool out = false;  // a credit is
  };

  void give_credit(std::uint32_t slot) noexcept;
  void finish(std::uint32_t slot, std::uint64_t size) noexcept;

  Record* const records_;
  Credits credits_;
  std::vector<Live> live_;
  std::uint64_t received_ = 0;
};

}  // namespace mesh::engine
