#include "tests/unit/engine/link/raw_peer.h"

#include "src/base/random.h"
#include "src/verbs/provider.h"

namespace mesh::testkit {

using engine::Attach, engine::Bytes, engine::Hello, engine::MessageType, engine::Welcome,
    engine::WireRail;

namespace {
constexpr std::uint32_t kSlots = 32;
}

RawPeer::RawPeer(Bed& bed_of, const HandleBytes& handle_of, std::array<std::uint8_t, 4> address,
                 const char* source)
    : bed(bed_of), link(random_id()), context(random_id()), address_(address) {
  const Result<engine::Handle> read = engine::read_handle(handle_of);
  if (!read.ok()) throw std::runtime_error("no handle");
  handle = *read;
  control_addresses = {handle.addresses.front()};
  sockaddr_storage storage{};
  const socklen_t bytes = handle.addresses.front().to_sockaddr(handle.port, storage);
  fd_ = UniqueFd(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage from{};
  const socklen_t from_bytes = SocketAddress::from_text(source)->to_sockaddr(0, from);
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&from), from_bytes) != 0)
    throw std::runtime_error("no such source");
  if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&storage), bytes) != 0)
    throw std::runtime_error("no connection");
}

Hello RawPeer::hello() const {
  WireRail rail;
  engine::WireAddress& own = rail.addresses.emplace_back();
  own.gid[10] = own.gid[11] = 0xff;
  std::copy(address_.begin(), address_.end(), own.gid.begin() + 12);
  own.prefix_len = 24;
  rail.mtu = 5;
  rail.name = "raw:1";
  rail.gid_type = static_cast<std::uint8_t>(verbs::GidType::RoceV2);
  return {.connector_context = context,
          .acceptor_context = handle.context,
          .host = "raw",
          .qps = qps,
          .rq_depth = rq_depth,
          .slots = kSlots,
          .rails = {rail},
          .control_port = control_port,
          .control_addresses = control_addresses,
          .listeners = {handle.nonce}};
}

void RawPeer::send(const Bytes& bytes) {
  if (::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.size()))
    throw std::runtime_error("the peer takes nothing");
}

bool RawPeer::take(std::byte* to, std::size_t bytes) {
  std::size_t got = 0;
  return bed.until([&] {
    const ssize_t more = got < bytes ? ::recv(fd_.get(), to + got, bytes - got, MSG_DONTWAIT) : 0;
    if (more > 0) got += static_cast<std::size_t>(more);
    return got == bytes;
  });
}

bool RawPeer::hear_body(MessageType type) {
  for (;;) {
    std::array<std::byte, engine::kFrameHeaderBytes> header{};
    if (!take(header.data(), header.size())) return false;
    std::uint16_t version = 0;
    const Result<engine::FrameHeader> read =
        engine::decode_header(header.data(), header.size(), &version);
    if (!read.ok()) return false;
    body_.resize(read->body_bytes);
    if (!take(body_.data(), body_.size())) return false;
    if (read->type == type) return true;
  }
}

bool RawPeer::ended() {
  return bed.until([&] {
    std::byte byte{};
    const ssize_t got = ::recv(fd_.get(), &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  });
}

bool RawPeer::shake_hands() {
  say(hello());
  welcome = hear<Welcome>(MessageType::Welcome);
  if (!welcome) return false;
  Attach attach{.paths = welcome->paths};
  for (engine::WirePath& path : attach.paths) path.counters_address = 64, path.counters_rkey = 1;
  say(attach);
  return hear<engine::Ready>(MessageType::Ready).has_value();
}

engine::Open RawPeer::open(std::uint32_t channel) const {
  return {.listener = handle.nonce,
          .channel = channel,
          .life = 1,
          .credits_address = 64,
          .credits_rkey = std::vector<std::uint32_t>(welcome->paths.size(), 1)};
}

}  // namespace mesh::testkit
