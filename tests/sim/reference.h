#pragma once
// What a channel must do, in fifty lines: the n-th send meets the n-th receive, every byte arrives where it was wanted and
// nowhere else, sizes are the sender's, every request ends exactly once.

#include "tests/sim/world.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

namespace mesh::sim {

inline std::byte pattern(std::uint64_t message, std::size_t at) {
  return static_cast<std::byte>((message * 131 + at * 7 + (at >> 8) * 13 + 1) & 0xff);
}

struct Traffic {
  std::uint64_t messages = 40;
  std::uint64_t bytes_max = 6000;
  std::uint64_t outstanding_max = 32;
};

class ReferenceChannel {
 public:
  static constexpr std::size_t kGuard = 64;

  ReferenceChannel(World& world, const World::Pair& pair, const Traffic& traffic) : world_(world), pair_(pair), traffic_(traffic) {
    for (std::uint64_t i = 0; i < traffic.messages; ++i)
      sizes_.push_back(world.random(5) == 0 ? 0 : world.random(traffic.bytes_max));
    stride_ = traffic.bytes_max + 2 * kGuard;
    source_.resize(stride_ * traffic.messages);
    target_.assign(stride_ * traffic.messages, std::byte{0xee});
    for (std::uint64_t m = 0; m < traffic.messages; ++m) {
      for (std::size_t i = 0; i < sizes_[m]; ++i) source_[m * stride_ + i] = pattern(m, i);
    }
    source_region_ = *register_memory(*pair_.send, source_.data(), source_.size(), MemoryType::Host);
    target_region_ = *register_memory(*pair_.receive, target_.data(), target_.size(), MemoryType::Host);
  }

  // One thing that NCCL's threads might do now.
  void act() {
    switch (world_.random(4)) {
      case 0: return send();
      case 1: return receive();
      case 2: return test_oldest(sends_, true);
      default: return test_oldest(receives_, false);
    }
  }
  bool finished() const { return sent_ == traffic_.messages && received_ == traffic_.messages; }
  void release() {
    deregister_memory(*pair_.send, source_region_);
    deregister_memory(*pair_.receive, target_region_);
  }
  std::vector<std::byte>& target() { return target_; }
  Registration* target_region() const { return target_region_; }
  const World::Pair& pair() const { return pair_; }
  void close_both() {
    close(pair_.send);
    close(pair_.receive);
  }

 private:
  struct Open {
    Request* request;
    std::uint64_t message;
  };

  void send() {
    if (next_send_ == traffic_.messages || sends_.size() >= traffic_.outstanding_max) return;
    const auto request =
        isend(*pair_.send,
              {.data = source_.data() + next_send_ * stride_, .bytes = sizes_[next_send_], .tag = 3, .region = source_region_});
    if (request.code() == Errc::WouldBlock) return;
    ASSERT_TRUE(request.ok()) << errc_name(request.code());
    sends_.push_back({*request, next_send_++});
  }
  void receive() {
    if (next_receive_ == traffic_.messages || receives_.size() >= traffic_.outstanding_max) return;
    const std::uint64_t spare = world_.random(2) == 0 ? 0 : traffic_.bytes_max - sizes_[next_receive_];
    const auto request = irecv(*pair_.receive, {.data = target_.data() + next_receive_ * stride_ + kGuard,
                                                .bytes = sizes_[next_receive_] + spare,
                                                .tag = 3,
                                                .region = target_region_});
    if (request.code() == Errc::WouldBlock) return;
    ASSERT_TRUE(request.ok()) << errc_name(request.code());
    receives_.push_back({*request, next_receive_++});
  }
  void test_oldest(std::deque<Open>& open, bool sending) {
    if (open.empty()) return;
    const Open oldest = open.front();
    std::size_t bytes = SIZE_MAX;
    const Status status = test(*oldest.request, &bytes);
    if (status.code() == Errc::WouldBlock) return;
    open.pop_front();
    ASSERT_TRUE(status.ok()) << errc_name(status.code()) << " message " << oldest.message;
    ASSERT_EQ(bytes, sizes_[oldest.message]);
    sending ? ++sent_ : ++received_;
    if (!sending) check(oldest.message);
  }
  void check(std::uint64_t message) {
    const std::byte* at = target_.data() + message * stride_;
    for (std::size_t i = 0; i < stride_; ++i) {
      const bool inside = i >= kGuard && i < kGuard + sizes_[message];
      const std::byte wanted = inside ? pattern(message, i - kGuard) : std::byte{0xee};
      ASSERT_EQ(at[i], wanted) << "message " << message << " of " << sizes_[message] << " bytes, at " << i - kGuard;
    }
  }

  World& world_;
  World::Pair pair_;
  Traffic traffic_;
  std::size_t stride_ = 0;
  std::vector<std::uint64_t> sizes_;
  std::vector<std::byte> source_, target_;
  Registration* source_region_ = nullptr;
  Registration* target_region_ = nullptr;
  std::uint64_t next_send_ = 0, next_receive_ = 0, sent_ = 0, received_ = 0;
  std::deque<Open> sends_, receives_;
};

}  // namespace mesh::sim
