#include "engine/control/relay_frames.h"

#include "engine/control/frame_fields.h"

#include <bit>
#include <span>

namespace mesh::engine {

namespace {

constexpr std::uint64_t kLongestMax = std::uint64_t{1} << 30;

static_assert(16 + 2 + kTextBytesMax + 2 + 1 + kControlAddressesMax * 18 + 1 +
                      kRailsMax * kWireRailBytesMax + 3 <=
                  kBodyBytesMax,
              "the largest host fits");
static_assert(8 + 1 + 2 + kTextBytesMax + 1 + 2 * kWireHopBytesMax <= kBodyBytesMax,
              "the largest CHAINED fits");

template <typename Io>
void host_fields(Io& io, typename Io::template Of<WireHost>& host) {
  io.id(host.ticket);
  io.text(host.name, kTextBytesMax);
  io.u16(host.port);
  io.require(host.port != 0 && host.ticket != Id128{});
  addresses_fields(io, host.addresses);
  io.list(host.rails, {1, kRailsMax}, [&io](auto& rail) { rail_fields(io, rail); });
}

}  // namespace

template <typename Io>
void AskPeers::fields(Io& io, typename Io::template Of<AskPeers>& body) {
  io.id(body.ticket);
}

template <typename Io>
void PeersAre::fields(Io& io, typename Io::template Of<PeersAre>& body) {
  io.u16(body.left);
  io.list(body.host, {0, 1}, [&io](auto& each) { host_fields(io, each); });
  io.require(!body.host.empty() || body.left == 0);
}

template <typename Io>
void Chain::fields(Io& io, typename Io::template Of<Chain>& body) {
  io.id(body.ticket);
  io.u64(body.chain);
  io.u8(body.near_rail, {0, kRailsMax - 1});
  io.u8(body.near_address, {0, kRailAddressesMax - 1});
  io.u8(body.far_rail, {0, kRailsMax - 1});
  io.u8(body.far_address, {0, kRailAddressesMax - 1});
  io.u32(body.sizes.qps, {1, 1 + kQpsMax});
  io.u32(body.sizes.sq_depth, {16, kDepthMax});
  io.require(std::has_single_bit(body.sizes.sq_depth));
  io.u64(body.sizes.express_bytes);
  io.u64(body.sizes.wr_bytes);
  io.require(body.sizes.express_bytes <= kLongestMax && body.sizes.wr_bytes <= kLongestMax);
  io.u8(body.traffic_class);
  io.u8(body.service_level, {0, kServiceLevelMax});
}

template <typename Io>
void Chained::fields(Io& io, typename Io::template Of<Chained>& body) {
  io.u64(body.chain);
  io.errc(body.result);
  io.text(body.text, kTextBytesMax);
  io.list(body.ends, {0, 2}, [&io](auto& hop) { hop_fields(io, hop); });
  io.require(body.ends.size() == (body.result == Errc::Ok ? 2 : 0));
}

template <typename Io>
void Join::fields(Io& io, typename Io::template Of<Join>& body) {
  io.u64(body.chain);
  hop_fields(io, body.near);
  hop_fields(io, body.far);
}

template <typename Io>
void Joined::fields(Io& io, typename Io::template Of<Joined>& body) {
  io.u64(body.chain);
  io.errc(body.result);
  io.text(body.text, kTextBytesMax);
}

template <typename Io>
void Cut::fields(Io& io, typename Io::template Of<Cut>& body) {
  io.u64(body.chain);
  io.text(body.text, kTextBytesMax);
}

template Bytes encode(FrameHeader header, const AskPeers& body);
template Bytes encode(FrameHeader header, const PeersAre& body);
template Bytes encode(FrameHeader header, const Chain& body);
template Bytes encode(FrameHeader header, const Chained& body);
template Bytes encode(FrameHeader header, const Join& body);
template Bytes encode(FrameHeader header, const Joined& body);
template Bytes encode(FrameHeader header, const Cut& body);

template Status decode(const std::byte* body, std::size_t size, AskPeers* out);
template Status decode(const std::byte* body, std::size_t size, PeersAre* out);
template Status decode(const std::byte* body, std::size_t size, Chain* out);
template Status decode(const std::byte* body, std::size_t size, Chained* out);
template Status decode(const std::byte* body, std::size_t size, Join* out);
template Status decode(const std::byte* body, std::size_t size, Joined* out);
template Status decode(const std::byte* body, std::size_t size, Cut* out);

}  // namespace mesh::engine
