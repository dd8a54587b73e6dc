#pragma once
// One side of a channel as one progress thread drives it: a number of messages of many sizes,
// several under way at a time, each checked. Thread: its own.

#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/patience.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

namespace mesh::testkit {

class ChannelSide {
 public:
  static constexpr std::size_t kLargest = 200'000;

  enum class Kind { Send, Receive };
  ChannelSide(Kind kind, Channel& channel, std::uint64_t messages)
      : kind_(kind), channel_(channel), messages_(messages), memory_(kOpen * kLargest) {}

  void run() {
    region_ = register_memory(channel_, memory_.data(), memory_.size(), MemoryType::Host).value();
    ASSERT_NE(region_, nullptr);
    EXPECT_TRUE(wait_until([this] { return step(); }))
        << ended_ << " of " << messages_ << " messages ended";
    deregister_memory(channel_, region_);
  }

 private:
  static constexpr std::size_t kOpen = 8;  // requests under way, as with NCCL's steps

  static std::size_t size_of(std::uint64_t message) {
    return message % 7 == 0 ? kLargest - message : message * 613 % 9000;
  }
  static std::byte byte_of(std::uint64_t message) {
    return static_cast<std::byte>(message * 29 + 1);
  }

  bool sends() const { return kind_ == Kind::Send; }
  std::byte* place(std::uint64_t message) { return memory_.data() + message % kOpen * kLargest; }

  bool step() {
    if (started_ < messages_ && open_.size() < kOpen) start();
    while (!open_.empty() && end()) {
    }
    return ended_ == messages_ || testing::Test::HasFailure();
  }
  void start() {
    const std::size_t bytes = size_of(started_);
    std::byte* const at = place(started_);
    if (sends()) std::memset(at, static_cast<int>(byte_of(started_)), bytes);
    const auto request =
        sends() ? isend(channel_, {.data = at, .bytes = bytes, .tag = 1, .region = region_})
                : irecv(channel_, {.data = at, .bytes = kLargest, .tag = 1, .region = region_});
    if (request.code() == Errc::WouldBlock) return;
    ASSERT_TRUE(request.ok()) << errc_name(request.code());
    open_.push_back(*request);
    ++started_;
  }
  bool end() {
    std::size_t bytes = 0;
    const Status status = test(*open_.front(), &bytes);
    if (status.code() == Errc::WouldBlock) return false;
    open_.pop_front();
    const std::uint64_t message = ended_++;
    EXPECT_TRUE(status.ok()) << errc_name(status.code()) << ", message " << message;
    EXPECT_EQ(bytes, size_of(message));
    if (!sends()) {
      const std::byte* const at = place(message);
      const bool good = std::all_of(at, at + bytes,
                                    [message](std::byte byte) { return byte == byte_of(message); });
      EXPECT_TRUE(good) << "message " << message;
    }
    return true;
  }

  const Kind kind_;
  Channel& channel_;
  const std::uint64_t messages_;
  std::vector<std::byte> memory_;
  Registration* region_ = nullptr;
  std::deque<Request*> open_;
  std::uint64_t started_ = 0, ended_ = 0;
};

}  // namespace mesh::testkit
