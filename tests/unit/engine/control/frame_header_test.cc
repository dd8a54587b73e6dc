// The header of every control message.

#include "engine/control/frames.h"
#include "tests/unit/engine/control/sample_frames.h"

#include <gtest/gtest.h>

namespace mesh::engine {

TEST(FrameHeader, LayoutIsFixedAndLittleEndian) {
  const Bytes frame = encode(sample_header(), Close{0x0102, 7});
  const auto at = [&](std::size_t index) { return std::to_integer<unsigned>(frame[index]); };
  ASSERT_EQ(frame.size(), kFrameHeaderBytes + 12);
  EXPECT_EQ(at(0), 0x4au);
  EXPECT_EQ(at(3), 0x4du);
  EXPECT_EQ(at(4), kProtocolVersion);
  EXPECT_EQ(at(6), static_cast<unsigned>(MessageType::Close));
  EXPECT_EQ(at(8), 12u);
  EXPECT_EQ(at(12), 0x04u);
  EXPECT_EQ(at(16), 0x88u);
  EXPECT_EQ(at(24), 0x40u);
  EXPECT_EQ(at(39), 0x4fu);
  EXPECT_EQ(at(40), 0x98u);
  EXPECT_EQ(at(47), 0x21u);
  EXPECT_EQ(at(48), 0x02u);
  EXPECT_EQ(at(49), 0x01u);
}

TEST(FrameHeader, AnotherVersionIsNamed) {
  Bytes frame = encode(sample_header(), Bye{});
  frame[4] = std::byte{0x39};
  frame[5] = std::byte{0x05};
  std::uint16_t version = 0;
  EXPECT_EQ(decode_header(frame.data(), frame.size(), &version).code(), Errc::Protocol);
  EXPECT_EQ(version, 1337u);
}

// A DECLINE must be readable across versions, so its number and body never change.
TEST(FrameHeader, ADeclineOfAnyVersionIsRead) {
  Bytes frame = encode(
      sample_header(),
      Decline{.acceptor_context = {1}, .listener = {2}, .reason = Errc::Protocol, .text = "no"});
  frame[5] = std::byte{0x05};
  ASSERT_TRUE(decode_header(frame.data(), frame.size(), nullptr).ok());
  const auto at = [&](std::size_t index) {
    return std::to_integer<unsigned>(frame[kFrameHeaderBytes + index]);
  };
  ASSERT_EQ(frame.size(), kFrameHeaderBytes + 16 + 16 + 1 + 2 + 2);
  EXPECT_EQ(std::to_integer<unsigned>(frame[6]), 20u);
  EXPECT_EQ(at(0), 1u);
  EXPECT_EQ(at(16), 2u);
  EXPECT_EQ(at(32), static_cast<unsigned>(Errc::Protocol));
  EXPECT_EQ(at(33), 2u);
  EXPECT_EQ(at(35), unsigned{'n'});
}

TEST(FrameHeader, GarbageHasNoVersion) {
  const Bytes garbage(kFrameHeaderBytes, std::byte{'G'});
  std::uint16_t version = 99;
  EXPECT_EQ(decode_header(garbage.data(), garbage.size(), &version).code(), Errc::Protocol);
  EXPECT_EQ(version, 0u);
  EXPECT_EQ(decode_header(garbage.data(), garbage.size(), nullptr).code(), Errc::Protocol);
}

TEST(FrameHeader, TypeLengthAndSizeAreChecked) {
  const Bytes good = encode(sample_header(), Bye{});
  const auto decoded = [&](std::size_t at, std::uint8_t value) {
    Bytes frame = good;
    frame[at] = std::byte{value};
    return decode_header(frame.data(), frame.size(), nullptr).code();
  };
  EXPECT_EQ(decoded(6, static_cast<std::uint8_t>(MessageType::Cut)), Errc::Ok);
  EXPECT_EQ(decoded(6, static_cast<std::uint8_t>(MessageType::End)), Errc::Protocol);
  EXPECT_EQ(decoded(6, 0), Errc::Protocol);
  EXPECT_EQ(decoded(7, 1), Errc::Protocol);
  EXPECT_EQ(decoded(9, kBodyBytesMax >> 8), Errc::Ok);
  EXPECT_EQ(decoded(9, (kBodyBytesMax >> 8) + 1), Errc::Protocol);
  EXPECT_EQ(decoded(11, 0x80), Errc::Protocol);
  for (std::size_t size = 0; size < good.size(); ++size) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(decode_header(cut.data(), cut.size(), nullptr).code(), Errc::Protocol);
  }
}

}  // namespace mesh::engine
