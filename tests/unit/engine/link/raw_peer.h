#pragma once
// A peer that speaks the control protocol by hand, so that it can say what no engine would: wrong
// frames, repeated ones, or none. It connects to a host of a Bed, as a connector; its queue pairs
// do not exist. Thread: one, the bed's. Bound: kRounds of the bed for every answer.

#include "engine/control/frames.h"
#include "engine/control/handle.h"
#include "src/base/unique_fd.h"
#include "tests/unit/engine/bed.h"

namespace mesh::testkit {

class RawPeer {
 public:
  // Dials the host that made the handle, from the loopback address `source`. `address` is that of
  // our only rail: the last four bytes of an IPv4-mapped GID.
  RawPeer(Bed& bed_of, const HandleBytes& handle_of,
          std::array<std::uint8_t, 4> address = {10, 0, 1, 1}, const char* source = "127.0.0.1");

  engine::Hello hello() const;  // valid for the host of the handle
  template <typename Body>
  void say(const Body& body) {
    send(engine::encode({.sequence = ++sequence_, .link = link}, body));
  }
  void send(const engine::Bytes& bytes);
  // Turns the bed until a frame of that type has come, and drops frames before it. Returns nullopt
  // if none has come.
  template <typename Body>
  std::optional<Body> hear(engine::MessageType type) {
    Body body;
    return hear_body(type) && engine::decode(body_.data(), body_.size(), &body).ok()
               ? std::optional(body)
               : std::nullopt;
  }
  bool ended();  // turns the bed until the host has closed the connection

  // Does the handshake from HELLO to READY. Returns false if it did not get that far.
  bool shake_hands();
  engine::Open open(std::uint32_t channel) const;

  Bed& bed;
  engine::Handle handle;
  engine::Id128 link{};
  engine::Id128 context{};
  std::uint32_t qps = 1, rq_depth = 16;  // values in HELLO
  std::uint16_t control_port = 1;        // nobody listens there
  std::vector<SocketAddress> control_addresses;
  std::optional<engine::Welcome> welcome;

 private:
  bool hear_body(engine::MessageType type);
  bool take(std::byte* to, std::size_t bytes);

  std::array<std::uint8_t, 4> address_;
  std::uint64_t sequence_ = 0;
  UniqueFd fd_;
  engine::Bytes body_;
};

}  // namespace mesh::testkit
