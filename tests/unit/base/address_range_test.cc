#include "src/base/setting_grammar.h"

#include <gtest/gtest.h>

namespace mesh {
namespace {

bool holds(const char* range, const char* address) {
  const std::optional<AddressRange> read = read_address_range(range);
  EXPECT_TRUE(read.has_value()) << range;
  return read && read->holds(*SocketAddress::from_text(address));
}

TEST(AddressRange, HoldsWhatHasItsPrefix) {
  EXPECT_TRUE(holds("10.1.0.0/16", "10.1.255.3"));
  EXPECT_FALSE(holds("10.1.0.0/16", "10.2.0.3"));
  EXPECT_TRUE(holds("10.1.2.128/25", "10.1.2.129"));
  EXPECT_FALSE(holds("10.1.2.128/25", "10.1.2.127"));
  EXPECT_TRUE(holds("10.1.2.3/32", "10.1.2.3"));
  EXPECT_FALSE(holds("10.1.2.3/32", "10.1.2.2"));
  EXPECT_TRUE(holds("fd00:1::/33", "fd00:1:0:ffff::9"));
  EXPECT_FALSE(holds("fd00:1::/33", "fd00:1:8000::9"));
}

TEST(AddressRange, OfNoBitsHoldsItsFamilyOnly) {
  EXPECT_TRUE(holds("0.0.0.0/0", "192.168.0.1"));
  EXPECT_FALSE(holds("0.0.0.0/0", "fd00::1"));
  EXPECT_FALSE(holds("::/0", "192.168.0.1"));
}

TEST(AddressRange, MalformedTextIsNone) {
  for (const char* text :
       {"", "/", "10.0.0.0", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/33", "fd00::/129", "10.0.0/8",
        "10.0.0.0/8x", "10.0.0.0/8/8", "fe80::1%lo/64"})
    EXPECT_FALSE(read_address_range(text).has_value()) << text;
}

}  // namespace
}  // namespace mesh
