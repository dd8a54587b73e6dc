#include "engine/control/handle.h"

#include "tests/prelude.h"

namespace mesh::engine {
namespace {

SocketAddress address_of(const char* text) {
  const Result<SocketAddress> address = SocketAddress::from_text(text);
  EXPECT_TRUE(address.ok()) << text;
  return *address;
}

Handle sample_handle() {
  Handle handle;
  for (std::size_t i = 0; i < handle.nonce.size(); ++i) {
    handle.nonce[i] = static_cast<std::uint8_t>(i);
    handle.context[i] = static_cast<std::uint8_t>(0xf0 + i);
  }
  handle.port = 4711;
  handle.rail = 6;
  handle.addresses = {address_of("10.0.0.2"), address_of("fd00::17"), address_of("192.168.100.2")};
  return handle;
}

Handle round_trip(const Handle& handle) {
  HandleBytes bytes;
  write_handle(handle, bytes);
  const Result<Handle> read = read_handle(bytes);
  EXPECT_TRUE(read.ok());
  return read.ok() ? *read : Handle{};
}

}  // namespace

TEST(Handle, SurvivesTheRoundTrip) {
  const Handle in = sample_handle();
  const Handle out = round_trip(in);
  EXPECT_EQ(out.nonce, in.nonce);
  EXPECT_EQ(out.context, in.context);
  EXPECT_EQ(out.port, 4711u);
  EXPECT_EQ(out.rail, 6u);
  EXPECT_EQ(out.addresses, in.addresses);
}

TEST(Handle, KeepsTheFirstAddressesThatFit) {
  Handle handle = sample_handle();
  handle.addresses.clear();
  for (int i = 1; i <= 20; ++i)
    handle.addresses.push_back(address_of(("10.0.0." + std::to_string(i)).c_str()));
  for (const std::size_t count : {10u, 11u, 15u, 20u}) {
    Handle some = handle;
    some.addresses.resize(count);
    std::vector<SocketAddress> fit = some.addresses;
    fit.resize(std::min<std::size_t>(count, 15));  // one of 6 bytes and fourteen of 4
    EXPECT_EQ(round_trip(some).addresses, fit);
  }

  handle.addresses.assign(5, address_of("fd00::1"));
  EXPECT_EQ(round_trip(handle).addresses.size(), 3u) << "64 bytes hold three of 18";

  handle.addresses.assign(12, address_of("10.0.0.2"));
  handle.addresses.front() = address_of("fd00::1");
  EXPECT_EQ(round_trip(handle).addresses, handle.addresses) << "one of 18 and eleven of 4";
}

TEST(Handle, OfTooManyAddressesIsRefused) {
  HandleBytes bytes;
  write_handle(sample_handle(), bytes);
  bytes[44] = std::byte{15};
  EXPECT_EQ(read_handle(bytes).code(), Errc::Protocol);
}

TEST(Handle, ScopedAddressTravelsOnlyAlone) {
  SocketAddress scoped = address_of("fe80::1");
  scoped.scope_id = 3;
  Handle handle = sample_handle();
  handle.addresses = {scoped, address_of("10.0.0.2")};
  EXPECT_EQ(round_trip(handle).addresses, std::vector<SocketAddress>{address_of("10.0.0.2")});

  handle.addresses = {scoped};
  EXPECT_EQ(round_trip(handle).addresses, std::vector<SocketAddress>{address_of("fe80::1")})
      << "without our scope id";
}

TEST(WaysBack, LeadWhereThePeerCameFrom) {
  SocketAddress source = address_of("fe80::1");
  source.scope_id = 7;
  EXPECT_EQ(ways_back({address_of("10.0.0.2"), address_of("fe80::1")}, source),
            std::vector{source});
  EXPECT_EQ(ways_back({address_of("127.0.0.1"), address_of("127.0.0.9")}, address_of("127.0.0.1")),
            std::vector{address_of("127.0.0.1")});
}

TEST(WaysBack, NeverLeadToThisHostUnlessThePeerIsHere) {
  std::vector<SocketAddress> named{address_of("10.0.0.2")};
  for (const char* const own : {"127.0.0.1", "127.255.0.1", "0.0.0.0", "0.1.2.3", "::1",
                                "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"}) {
    named.push_back(address_of(own));
  }
  EXPECT_EQ(ways_back(named, address_of("10.9.9.9")), std::vector{address_of("10.0.0.2")});
  EXPECT_EQ(ways_back(named, address_of("127.0.0.5")), named) << "it is on this host";
}

TEST(WaysForOthers, AreAllThatThePeerNamed) {
  const std::vector<SocketAddress> named{address_of("10.0.0.2"), address_of("10.1.0.2"),
                                         address_of("127.0.0.1")};
  EXPECT_EQ(ways_for_others(named, address_of("10.1.0.2")),
            (std::vector{address_of("10.1.0.2"), address_of("10.0.0.2")}));
  EXPECT_EQ(ways_for_others(named, address_of("10.9.9.9")),
            (std::vector{address_of("10.0.0.2"), address_of("10.1.0.2")}));
  EXPECT_EQ(ways_for_others(named, address_of("127.0.0.1")),
            (std::vector{address_of("127.0.0.1"), address_of("10.0.0.2"), address_of("10.1.0.2")}));
}

// A peer without an address could not be named to other hosts.
TEST(WaysBack, ThereIsAlwaysOne) {
  EXPECT_EQ(ways_back({address_of("127.0.0.1"), address_of("0.0.0.0")}, address_of("10.9.9.9")),
            std::vector{address_of("10.9.9.9")});
  EXPECT_EQ(ways_back({}, address_of("10.9.9.9")), std::vector{address_of("10.9.9.9")});
}

TEST(Handle, IPv4LinkLocalIsAnOrdinaryAddress) {
  Handle handle = sample_handle();
  handle.addresses = {address_of("169.254.1.1"), address_of("10.0.0.2")};
  EXPECT_EQ(round_trip(handle).addresses, handle.addresses);
}

TEST(Handle, WritesTheSameBytesWhateverWasThere) {
  HandleBytes clean{};
  HandleBytes dirty;
  dirty.fill(std::byte{0xee});
  write_handle(sample_handle(), clean);
  write_handle(sample_handle(), dirty);
  EXPECT_EQ(clean, dirty);
  EXPECT_EQ(read_stage(dirty).index, 0u);
  EXPECT_EQ(read_stage(dirty).check, 0u);
}

TEST(Handle, StageLivesInTheLastSixteenBytes) {
  HandleBytes bytes;
  write_handle(sample_handle(), bytes);
  const HandleBytes before = bytes;
  write_stage({0x0123456789abcdef, 0xfedcba9876543210}, bytes);
  EXPECT_EQ(read_stage(bytes).index, 0x0123456789abcdefu);
  EXPECT_EQ(read_stage(bytes).check, 0xfedcba9876543210u);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end() - 16, before.begin()));
  EXPECT_EQ(bytes[112], std::byte{0xef});
  EXPECT_TRUE(read_handle(bytes).ok()) << "a handle with a stage is still a handle";
}

TEST(Handle, AnotherVersionIsRefused) {
  HandleBytes bytes;
  write_handle(sample_handle(), bytes);
  bytes[4] = std::byte{1};
  EXPECT_EQ(read_handle(bytes).code(), Errc::Protocol);
}

TEST(Handle, NoAddressOrPortIsRefused) {
  HandleBytes bytes;
  Handle handle = sample_handle();
  handle.port = 0;
  write_handle(handle, bytes);
  EXPECT_EQ(read_handle(bytes).code(), Errc::Protocol);
  handle = sample_handle();
  handle.addresses.clear();
  write_handle(handle, bytes);
  EXPECT_EQ(read_handle(bytes).code(), Errc::Protocol);
}

TEST(Handle, AnyCorruptedByteIsOkOrProtocol) {
  HandleBytes bytes;
  write_handle(sample_handle(), bytes);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (unsigned flip = 1; flip < 256; ++flip) {
      HandleBytes changed = bytes;
      changed[at] ^= static_cast<std::byte>(flip);
      const Result<Handle> read = read_handle(changed);
      ASSERT_TRUE(read.ok() || read.code() == Errc::Protocol);
      if (at < 8) {
        ASSERT_FALSE(read.ok()) << "magic, version and flags are fixed, byte " << at;
      }
      if (read.ok()) {
        ASSERT_LE(read->addresses.size(), 15u);
      }
    }
  }
}

}  // namespace mesh::engine
