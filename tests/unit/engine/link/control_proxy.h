#pragma once
// A TCP proxy before a control port, through which a connector dials without knowing. It passes
// whole frames on and decides what becomes of each; it can end either side of a connection without
// the other's noticing, refuse, or play dead. Thread: one, but stand_before() any. Bound: what its
// tests send.

#include "engine/control/frames.h"
#include "engine/control/handle.h"
#include "src/base/unique_fd.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <vector>

namespace mesh::testkit {

enum class Fate : std::uint8_t {
  Pass,
  Twice,       // passed on two times
  Skip,        // lost, and the connection lives on
  Lose,        // lost with the connection
  PassAndCut,  // it arrives, and then the connection is lost
  Half,        // half of it arrives, and the rest never does
};

class ControlProxy {
 public:
  ControlProxy();

  void stand_before(HandleBytes& handle);  // dialing by it leads here
  void pump();                             // one pass over all connections, never blocking

  // Of every frame; towards the acceptor or back.
  std::function<Fate(const engine::FrameHeader& header, bool to_acceptor)> judge;

  void cut();         // both sides' ends
  void cut_front();   // the connector sees the end, the acceptor nothing
  void cut_back();    // the other way round
  void refuse();      // nobody listens any more
  void play_dead();   // nothing answers a dial
  void come_alive();  // after play_dead()

  std::uint16_t port() const noexcept { return port_; }
  std::size_t dials() const noexcept { return dials_; }  // so far

 private:
  struct Pipe {
    UniqueFd front, back;
    engine::Bytes from_front, from_back;
    bool stalled = false;
  };
  void accept();
  void move(Pipe& pipe, bool to_acceptor);
  void pass(Pipe& pipe, bool to_acceptor, const engine::Bytes& frame);
  void apply(Pipe& pipe, bool to_acceptor, const engine::Bytes& frame);

  UniqueFd listener_;
  std::vector<UniqueFd> fillers_;
  std::uint16_t port_ = 0;
  std::atomic<std::uint16_t> target_{0};  // another thread may connect
  std::list<Pipe> pipes_;
  std::size_t dials_ = 0;
};

}  // namespace mesh::testkit
