#include "src/base/byte_order.h"

#include "tests/prelude.h"

namespace mesh {
namespace {

TEST(ByteOrder, IntegersAreLittleEndianOnTheWire) {
  std::array<std::byte, 15> buffer{};
  ByteWriter writer(buffer);
  writer.put_u8(0x01);
  writer.put_u16(0x0302);
  writer.put_u32(0x07060504);
  writer.put_u64(0x0f0e0d0c0b0a0908);
  EXPECT_TRUE(writer.ok());
  EXPECT_EQ(writer.remaining(), 0u);
  for (std::size_t i = 0; i < buffer.size(); ++i)
    EXPECT_EQ(std::to_integer<std::size_t>(buffer[i]), i + 1);
}

TEST(ByteOrder, WhatIsWrittenIsRead) {
  std::vector<std::byte> buffer(64);
  const std::array<std::byte, 3> raw{std::byte{1}, std::byte{2}, std::byte{3}};
  ByteWriter writer(buffer);
  writer.put_string("rail");
  writer.put_bytes(raw);
  writer.put_u64(UINT64_MAX);
  writer.put_string("");
  ASSERT_TRUE(writer.ok());
  ByteReader reader(std::span<const std::byte>(buffer).first(writer.size()));
  std::array<std::byte, 3> copy{};
  EXPECT_EQ(reader.get_string(4), "rail");
  reader.get_bytes(copy);
  EXPECT_EQ(copy, raw);
  EXPECT_EQ(reader.get_u64(), UINT64_MAX);
  EXPECT_EQ(reader.get_string(0), "");
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(ByteOrder, WriterStopsAtTheEndAndStaysFailed) {
  std::array<std::byte, 4> buffer{};
  ByteWriter writer(std::span<std::byte>(buffer).first(3));
  writer.put_u32(0xffffffff);
  EXPECT_FALSE(writer.ok());
  writer.put_u8(0xff);
  EXPECT_FALSE(writer.ok());
  EXPECT_EQ(writer.size(), 0u);
  for (const std::byte byte : buffer) EXPECT_EQ(byte, std::byte{0});
}

TEST(ByteOrder, ReaderStopsAtTheEndAndStaysFailed) {
  const std::array<std::byte, 3> buffer{std::byte{9}, std::byte{9}, std::byte{9}};
  ByteReader reader(buffer);
  EXPECT_EQ(reader.get_u32(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.get_u8(), 0u);
  std::array<std::byte, 1> out{std::byte{7}};
  reader.get_bytes(out);
  EXPECT_EQ(out[0], std::byte{7});
  EXPECT_EQ(reader.remaining(), 3u);
}

TEST(ByteOrder, StringsAreBoundedByTheCallerAndByTheBuffer) {
  std::array<std::byte, 8> buffer{};
  ByteWriter(buffer).put_string("123456");
  ByteReader too_long(buffer);
  EXPECT_EQ(too_long.get_string(5), "");
  EXPECT_FALSE(too_long.ok());
  ByteReader cut(std::span<const std::byte>(buffer).first(7));
  EXPECT_EQ(cut.get_string(100), "");
  EXPECT_FALSE(cut.ok());
  std::vector<std::byte> room(70'000);
  ByteWriter writer(room);
  writer.put_string(std::string(65'536, 'x'));
  EXPECT_FALSE(writer.ok());
}

}  // namespace
}  // namespace mesh
