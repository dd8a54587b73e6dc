#include "engine/control/frames.h"
#include "tests/unit/engine/control/sample_frames.h"

namespace mesh::engine {
namespace {

Bytes body_of(const Bytes& frame) { return {frame.begin() + kFrameHeaderBytes, frame.end()}; }

template <typename Body>
Status decode_bytes(const Bytes& body, Body* out) {
  return decode(body.data(), body.size(), out);
}

// Decodes a changed sample. The encoder does not check values, so the decoder must.
template <typename Body, typename Change>
Status decode_changed(Change&& change) {
  Body body = sample<Body>();
  change(body);
  Body out;
  return decode_bytes(body_of(encode(sample_header(), body)), &out);
}

template <typename Body>
class Message : public ::testing::Test {};

template <typename... Link, typename... Relay>
::testing::Types<Link..., Relay...> all_of(FrameList<Link...>, FrameList<Relay...>);
TYPED_TEST_SUITE(Message, decltype(all_of(LinkFrames{}, RelayFrames{})));

}  // namespace

TYPED_TEST(Message, SurvivesTheRoundTrip) {
  const Bytes frame = encode(sample_header(), sample<TypeParam>());
  std::uint16_t version = 0;
  const Result<FrameHeader> header = decode_header(frame.data(), frame.size(), &version);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(version, kProtocolVersion);
  EXPECT_EQ(header->epoch, sample_header().epoch);
  EXPECT_EQ(header->sequence, sample_header().sequence);
  EXPECT_EQ(header->acknowledged, sample_header().acknowledged);
  EXPECT_EQ(header->link, sample_header().link);
  EXPECT_EQ(header->body_bytes, frame.size() - kFrameHeaderBytes);
  TypeParam out;
  ASSERT_TRUE(decode_bytes(body_of(frame), &out).ok());
  FrameHeader again = *header;
  EXPECT_EQ(encode(again, out), frame) << "what was decoded encodes to the same bytes";
}

TYPED_TEST(Message, IsRefusedAtEveryOtherLength) {
  Bytes body = body_of(encode(sample_header(), sample<TypeParam>()));
  TypeParam out;
  for (std::size_t size = 0; size < body.size(); ++size) {
    const Bytes cut(
        body.begin(),
        body.begin() + static_cast<std::ptrdiff_t>(size));  // exact heap size: asan sees an overrun
    EXPECT_EQ(decode_bytes(cut, &out).code(), Errc::Protocol) << "cut to " << size;
  }
  body.push_back(std::byte{0});
  EXPECT_EQ(decode_bytes(body, &out).code(), Errc::Protocol) << "one trailing byte";
}

TYPED_TEST(Message, AnyCorruptedByteIsOkOrProtocol) {
  const Bytes body = body_of(encode(sample_header(), sample<TypeParam>()));
  for (std::size_t at = 0; at < body.size(); ++at) {
    for (unsigned flip = 1; flip < 256; ++flip) {
      Bytes changed = body;
      changed[at] ^= static_cast<std::byte>(flip);
      TypeParam out;
      const Status status = decode_bytes(changed, &out);
      ASSERT_TRUE(status.ok() || status.code() == Errc::Protocol);
      // Accepted values are in range, so they must survive another round trip unchanged.
      if (status.ok()) {
        ASSERT_EQ(body_of(encode(sample_header(), out)), changed)
            << "byte " << at << " xor " << flip;
      }
    }
  }
}

TEST(MessageHello, KeepsEveryField) {
  const Hello in = sample<Hello>();
  Hello out;
  ASSERT_TRUE(decode_bytes(body_of(encode(sample_header(), in)), &out).ok());
  EXPECT_EQ(out.connector_context, in.connector_context);
  EXPECT_EQ(out.acceptor_context, in.acceptor_context);
  EXPECT_EQ(out.host, "host-a");
  EXPECT_EQ(out.host_id, 0xfedcba9876543211u);
  EXPECT_EQ(out.qps, 4u);
  EXPECT_EQ(out.rq_depth, 256u);
  EXPECT_EQ(out.slots, 64u);
  EXPECT_EQ(out.asked, (AskedRails{.rail = 1, .listened = 2, .wish = RailsWish::Asked}));
  ASSERT_EQ(out.rails.size(), 2u);
  EXPECT_EQ(out.rails[1].addresses, (std::vector<WireAddress>{{id_of(4), 24}, {id_of(0x70), 64}}));
  EXPECT_EQ(out.rails[1].port, 2u);
  EXPECT_EQ(out.rails[1].mtu, 5u);
  EXPECT_EQ(out.rails[1].identity, 0x81234567u);
  EXPECT_EQ(out.rails[1].up, 0);
  EXPECT_EQ(out.rails[1].speed_mbps, 200000u);
  EXPECT_EQ(out.rails[1].guid, 0x1122334455667788u);
  EXPECT_EQ(out.rails[1].name, "rail4");
  EXPECT_EQ(out.control_port, 4711u);
  EXPECT_EQ(out.control_addresses, in.control_addresses);
  EXPECT_EQ(out.listeners, in.listeners);
  EXPECT_EQ(out.traffic_class, 104u);
  EXPECT_EQ(out.service_level, 13u);
}

TEST(MessageWelcome, KeepsEveryField) {
  const Welcome in = sample<Welcome>();
  Welcome out;
  ASSERT_TRUE(decode_bytes(body_of(encode(sample_header(), in)), &out).ok());
  ASSERT_EQ(out.paths.size(), 2u);
  EXPECT_EQ(out.paths[1].connector_rail, 7u);
  EXPECT_EQ(out.paths[1].connector_address, 1u);
  EXPECT_EQ(out.paths[1].acceptor_rail, 0u);
  EXPECT_EQ(out.paths[1].acceptor_address, 5u);
  EXPECT_EQ(out.paths[1].mtu, 3u);
  EXPECT_EQ(out.paths[1].qpn, (std::vector<std::uint32_t>{0x10000u, 0x10001u, 0x10002u}));
  EXPECT_EQ(out.paths[1].psn, 0xabcdefu);
  EXPECT_EQ(out.paths[1].lid, 0xbfffu);
  EXPECT_EQ(out.paths[1].counters_address, 0xfedcba9876543210u);
  EXPECT_EQ(out.paths[1].counters_rkey, 77u);
  ASSERT_EQ(out.meet.size(), 3u);
  EXPECT_EQ(out.meet[1].connector_rail, 7u);
  EXPECT_EQ(out.meet[1].acceptor_address, 5u);
  EXPECT_EQ(out.meet[1].mtu, 3u);
  EXPECT_EQ(out.cables, in.cables);
}

TEST(MessageOpen, KeepsEveryField) {
  Open out;
  ASSERT_TRUE(decode_bytes(body_of(encode(sample_header(), sample<Open>())), &out).ok());
  EXPECT_EQ(out.listener, id_of(9));
  EXPECT_EQ(out.channel, 8190u);
  EXPECT_EQ(out.life, 0xa1b2c3d4u);
  EXPECT_EQ(out.credits_address, 0x7f0000001000u);
  EXPECT_EQ(out.credits_rkey, (std::vector<std::uint32_t>{1, 2, 3}));
}

TEST(MessageWelcome, LargestFitsTheBodyBound) {
  Welcome body = sample<Welcome>();
  body.host = std::string(kTextBytesMax, 'h');
  body.qps = kQpsMax;
  body.rails.assign(kRailsMax, sample_rail(1));
  for (WireRail& rail : body.rails) {
    rail.name = std::string(64, 'r');
    rail.addresses.assign(kRailAddressesMax, {});
  }
  body.paths.assign(kPathsMax, sample_path(63, kQpsMax));
  body.meet.assign(kMeetMax, sample_pair(63));
  body.cables.assign(kRailsMax, {.rail = 63, .asked = UINT64_MAX, .met = UINT64_MAX});
  const Bytes frame = encode(sample_header(), body);
  EXPECT_LE(frame.size() - kFrameHeaderBytes, kBodyBytesMax);
  Welcome out;
  EXPECT_TRUE(decode_bytes(body_of(frame), &out).ok());
  EXPECT_EQ(out.paths.size(), kPathsMax);
  EXPECT_EQ(out.rails.size(), kRailsMax);
}

TEST(MessageHello, LongTextsAreCutNotRefused) {
  Hello body = sample<Hello>();
  body.host = std::string(5000, 'x');
  body.rails[0].name = std::string(300, 'y');
  Hello out;
  ASSERT_TRUE(decode_bytes(body_of(encode(sample_header(), body)), &out).ok());
  EXPECT_EQ(out.host, std::string(kTextBytesMax, 'x'));
  EXPECT_EQ(out.rails[0].name, std::string(64, 'y'));
}

TEST(MessageHello, TextsThatALogShouldNotPrintAreReplacedAndRefused) {
  Hello body = sample<Hello>();
  body.host = "host\nnccl-mesh WARN all is well\x1b[2J\x7f\xc2\x9b";
  Hello out;
  Bytes frame = encode(sample_header(), body);
  ASSERT_TRUE(decode_bytes(body_of(frame), &out).ok());
  EXPECT_EQ(out.host, "host?nccl-mesh WARN all is well?[2J???");
  // Our own encoder never writes this byte.
  frame[kFrameHeaderBytes + 2 * sizeof(Id128) + 2 + 4] = std::byte{'\n'};
  EXPECT_EQ(decode_bytes(body_of(frame), &out).code(), Errc::Protocol);
}

TEST(MessageHello, ValuesOutOfRangeAreRefused) {
  EXPECT_TRUE(decode_changed<Hello>([](Hello& body) { body.qps = kQpsMax; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.qps = kQpsMax + 1; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.qps = 0; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.half_qps = 0; }).ok());
  EXPECT_TRUE(decode_changed<Hello>([](Hello& body) { body.proof.places.clear(); }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.proof.places.pop_back(); }).ok());
  EXPECT_TRUE(decode_changed<Hello>([](Hello& body) { body.service_level = 15; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.service_level = 16; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.slots = kSlotsMax * 2; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.slots = 48; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.rq_depth = 100; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.rq_depth = 0; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.asked.rail = 2; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.rails.clear(); }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.listeners.clear(); }).ok());
  EXPECT_FALSE(
      decode_changed<Hello>([](Hello& body) { body.rails[0].addresses[1].prefix_len = 129; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.rails[0].addresses.clear(); }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.rails[0].mtu = 6; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.rails[0].mtu = 0; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.rails[0].ethernet = 2; }).ok());
  EXPECT_FALSE(decode_changed<Hello>([](Hello& body) { body.rails[0].port = 0; }).ok());
}

TEST(MessageHello, TooManyRailsAreRefused) {
  // The encoder never writes such a count, so the test plants it: the count is the byte before the
  // first rail.
  Hello in = sample<Hello>();
  in.rails.assign(kRailsMax, sample_rail(1));
  Bytes body = body_of(encode(sample_header(), in));
  const std::size_t at = 32 + 2 + in.host.size() + 8 + 12;
  ASSERT_EQ(body[at], std::byte{kRailsMax});
  body[at] = std::byte{kRailsMax + 1};
  body.insert(body.end(), 200, std::byte{1});
  Hello out;
  EXPECT_EQ(decode_bytes(body, &out).code(), Errc::Protocol);
}

TEST(MessageWelcome, PathsMustFitRailsAndQueuePairs) {
  EXPECT_FALSE(
      decode_changed<Welcome>([](Welcome& body) { body.paths[0].acceptor_rail = 1; }).ok());
  EXPECT_FALSE(decode_changed<Welcome>([](Welcome& body) { body.paths[1].qpn.pop_back(); }).ok());
  EXPECT_FALSE(decode_changed<Welcome>([](Welcome& body) {
                 body.paths[0].connector_rail = kRailsMax;
               }).ok());
  EXPECT_FALSE(decode_changed<Welcome>([](Welcome& body) { body.meet[2].acceptor_rail = 1; }).ok());
  EXPECT_FALSE(decode_changed<Welcome>([](Welcome& body) { body.paths.clear(); }).ok());
  EXPECT_FALSE(
      decode_changed<Welcome>([](Welcome& body) { body.paths[0].qpn[1] = 1u << 24; }).ok());
  EXPECT_FALSE(decode_changed<Welcome>([](Welcome& body) { body.paths[0].psn = 1u << 24; }).ok());
  EXPECT_FALSE(decode_changed<Attach>([](Attach& body) { body.paths[0].qpn.clear(); }).ok());
  EXPECT_FALSE(decode_changed<Attach>([](Attach& body) { body.paths[0].mtu = 0; }).ok());
}

TEST(MessageChannel, NumbersOutOfRangeAreRefused) {
  EXPECT_TRUE(decode_changed<Open>([](Open& body) { body.channel = kChannelsMax - 1; }).ok());
  EXPECT_FALSE(decode_changed<Open>([](Open& body) { body.channel = kChannelsMax; }).ok());
  EXPECT_FALSE(decode_changed<Opened>([](Opened& body) { body.channel = kChannelsMax; }).ok());
  EXPECT_FALSE(decode_changed<Revoke>([](Revoke& body) { body.channel = kChannelsMax; }).ok());
  EXPECT_FALSE(decode_changed<Revoked>([](Revoked& body) { body.channel = kChannelsMax; }).ok());
  EXPECT_FALSE(decode_changed<Close>([](Close& body) { body.channel = kChannelsMax; }).ok());
  // A range of credits must not wrap around.
  EXPECT_FALSE(
      decode_changed<Revoke>([](Revoke& body) { body.first_credit = UINT64_MAX - 1; }).ok());
}

TEST(MessageRefuse, ReasonMustBeAnError) {
  EXPECT_TRUE(decode_changed<Refuse>([](Refuse& body) { body.reason = Errc::Internal; }).ok());
  EXPECT_FALSE(decode_changed<Refuse>([](Refuse& body) { body.reason = Errc::Ok; }).ok());
  EXPECT_FALSE(decode_changed<Refuse>([](Refuse& body) { body.reason = Errc::WouldBlock; }).ok());
  EXPECT_FALSE(
      decode_changed<Refuse>([](Refuse& body) { body.reason = static_cast<Errc>(200); }).ok());
  EXPECT_TRUE(decode_changed<Opened>([](Opened& body) { body.result = Errc::Ok; }).ok());
  EXPECT_FALSE(
      decode_changed<Opened>([](Opened& body) { body.result = static_cast<Errc>(15); }).ok());
}

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

namespace {

WirePath pair_of(std::uint8_t rail) {
  WirePath path;
  path.connector_rail = path.acceptor_rail = rail;
  path.mtu = 3;
  return path;
}

// Makes a WELCOME with `paths` paths on the first rails and `standby` standby paths on the next
// ones.
Welcome welcome(std::uint8_t paths, std::uint8_t standby) {
  Welcome body{.host = "b", .qps = 1, .rq_depth = 64, .slots = 32, .rails = {}, .paths = {}};
  for (std::uint8_t i = 0; i < 10; ++i) {
    WireRail& rail = body.rails.emplace_back();
    rail.addresses.resize(1);
    rail.mtu = 3;
    rail.name = "r";
    body.meet.push_back(pair_of(i));
  }
  for (std::uint8_t i = 0; i < paths; ++i) {
    body.paths.push_back(pair_of(i));
    body.paths.back().qpn = {1, 2};
  }
  for (std::uint8_t i = 0; i < standby; ++i)
    body.standby.push_back(pair_of(static_cast<std::uint8_t>(paths + i)));
  if (paths == 0) body.meet.clear(), body.no_path = "nothing meets";
  return body;
}

Status decoded(const Welcome& body, Welcome* out) {
  return decode_bytes(body_of(encode({.sequence = 1}, body)), out);
}

}  // namespace

TEST(WelcomeStandby, IsReadInItsOrder) {
  Welcome out;
  ASSERT_TRUE(decoded(welcome(2, 3), &out).ok());
  ASSERT_EQ(out.standby.size(), 3u);
  EXPECT_EQ(out.standby[2].acceptor_rail, 4u);
}

TEST(WelcomeStandby, BehindPathsOnlyAndNoMoreThanALinkHolds) {
  Welcome out;
  EXPECT_TRUE(decoded(welcome(1, 7), &out).ok());
  EXPECT_FALSE(decoded(welcome(2, 7), &out).ok());
  EXPECT_TRUE(decoded(welcome(0, 0), &out).ok());
  EXPECT_FALSE(decoded(welcome(0, 1), &out).ok()) << "for nothing";
}

TEST(WelcomeStandby, PathsOverOtherHostsAreNoMoreThanALinkHolds) {
  Welcome body = welcome(1, 3), out;
  body.relayed = kRelayPlacesMax;
  ASSERT_TRUE(decoded(body, &out).ok());
  EXPECT_EQ(out.relayed, kRelayPlacesMax);
  body.relayed = kRelayPlacesMax + 1;
  EXPECT_FALSE(decoded(body, &out).ok());
  body = welcome(1, 5);
  body.relayed = 2;
  EXPECT_TRUE(decoded(body, &out).ok());
  body.beside = {pair_of(6)};
  EXPECT_FALSE(decoded(body, &out).ok()) << "nine paths";
}

TEST(WelcomeStandby, OnePathOverOtherHostsGoesBesideThePathsIfThereAreSome) {
  Welcome body = welcome(1, 0), out;
  body.beside = {pair_of(2)};
  ASSERT_TRUE(decoded(body, &out).ok());
  ASSERT_EQ(out.beside.size(), 1u);
  EXPECT_EQ(out.beside[0].acceptor_rail, 2);
  body = welcome(0, 0);
  body.relayed = 1;
  EXPECT_TRUE(decoded(body, &out).ok());
  body.beside = {pair_of(2)};
  EXPECT_FALSE(decoded(body, &out).ok()) << "beside no path";
}

}  // namespace mesh::engine
