#pragma once
// Finds out again where the cables to the peer lead, while the link is up: a port may have been
// down when the link was made, and cables may move. The connector says anew where its ports take
// datagrams (ASK CABLES), the acceptor asks over its own ports as before WELCOME, and tells what it
// has found (CABLES ARE). An acceptor that has a reason asks the connector to begin. Silence
// changes nothing. A path by proof and the routes of other hosts use what is found. Links between
// hosts whose addresses leave no doubt ask nothing. Thread: control mutex. Bounds: one question of
// a link at a time, kAskCablesToNextNs between two.

#include "engine/control/frames.h"
#include "engine/link/cable_proofs.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace mesh::engine {

class Link;

class Recabling {
 public:
  explicit Recabling(Link& link) noexcept : link_(link) {}

  void ask_soon() noexcept;  // a port of ours has changed, or no path is up
  void tend();
  void drop() noexcept;  // the link is over

  // ---- Frames of the peer. Each returns false if the link must end.
  bool on(const AskCables& body);
  bool on(const CablesAre& body);

 private:
  bool in_doubt() const;
  void look_for_news();
  void say_places();
  void begin(const AskCables& asked);
  void tend_question();
  void answer();

  Link& link_;
  bool wanted_ = false;
  std::uint64_t news_seen_ = 0;  // CableProofs::met_news() at the last look
  std::uint64_t next_ns_ = 0;    // not before this time
  Id128 offered_{};              // connector: the nonce of ASK CABLES until its answer
  struct Asking {
    Hello hello;  // as the connector would say it now
    std::unique_ptr<CableProofs::Question> question;
  };
  std::optional<AskCables> asked_;  // acceptor: the newest one, not yet begun
  std::unique_ptr<Asking> asking_;  // acceptor
};

}  // namespace mesh::engine
