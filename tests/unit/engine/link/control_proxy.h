#pragma once
// A TCP proxy in front of a control port, which the connector dials unknowingly. It passes on whole
// frames and decides the fate of each. It can cut either side of a connection without the knowledge
// of its peer, refuse dials, or play dead. Thread: one, but stand_before() any. Bound: the frames
// that a test sends.

#include "engine/control/frames.h"
#include "engine/control/handle.h"
#include "src/base/unique_fd.h"
#include "tests/prelude.h"

#include <list>

namespace mesh::testkit {

enum class Fate : std::uint8_t {
  Pass,
  Twice,       // passed on twice
  Skip,        // dropped, but the connection lives on
  Lose,        // dropped together with the connection
  PassAndCut,  // passed on, and then the connection is cut
  Half,        // only its first half is passed on
};

class ControlProxy {
 public:
  ControlProxy();

  void stand_before(HandleBytes& handle);  // makes a dial by this handle lead here
  void pump();                             // one pass over all connections; never blocks

  // Decides the fate of each frame, which goes to the acceptor or back to the connector.
  std::function<Fate(const engine::FrameHeader& header, bool to_acceptor)> judge;

  void cut();         // cuts both sides
  void cut_front();   // only the connector sees the end
  void cut_back();    // only the acceptor sees the end
  void refuse();      // stops listening
  void play_dead();   // leaves dials unanswered
  void come_alive();  // ends play_dead() and mute_first_address()

  // Handles name a second address from now on, whose dials lead to the acceptor too.
  void stand_at_second_address();
  // The first address plays dead, and what is said over its connections vanishes without a word.
  void mute_first_address();

  std::uint16_t port() const noexcept { return port_; }
  std::size_t dials() const noexcept { return dials_; }  // dials so far

 private:
  struct Pipe {
    UniqueFd front, back;
    engine::Bytes from_front, from_back;
    bool stalled = false;
    bool second = false;  // dialed at the second address
  };
  void accept();
  void accept_at(const UniqueFd& listener);
  void move(Pipe& pipe, bool to_acceptor);
  void pass(Pipe& pipe, bool to_acceptor, const engine::Bytes& frame);
  void apply(Pipe& pipe, bool to_acceptor, const engine::Bytes& frame);

  UniqueFd listener_, second_;
  std::vector<UniqueFd> fillers_;
  std::uint16_t port_ = 0;
  std::atomic<std::uint16_t> target_{0};  // another thread may connect meanwhile
  std::list<Pipe> pipes_;
  std::size_t dials_ = 0;
  bool muted_ = false;
};

}  // namespace mesh::testkit
