#pragma once
// Gives a path its bulk queue pairs when a message wants them (engine/data/late_queue_pairs.h),
// while its express queue pair is used: the connector makes its own and tells them (WIDEN), the
// acceptor makes its own, takes them to RTS and tells them (WIDENED), and the connector takes its
// own to RTS. Then they carry stripes. If that fails, the path is lost like any other, because a
// message that is too large for the express queue pair waits. A path that is opened again has all
// its queue pairs at once. Thread: control mutex; it takes the loop's progress lock where it
// touches paths. Bounds: one path of a link at a time, and kReopenToAnswerNs for the answer to a
// WIDEN that the peer has acknowledged. After that WIDEN is said once more, because the answer may
// be lost in a control network that has been silent since: once the peer acknowledges the second
// one, its answer to the first would have come. While the control network is silent, the path and
// its express queue pair stay in use.

#include <mesh/status.h>

#include "engine/control/frames.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mesh::engine {

class BringUp;
class Link;
struct Path;

class Widening {
 public:
  explicit Widening(Link& link) noexcept : link_(link) {}

  void tend();
  bool may_begin() const noexcept;  // a message wants queue pairs, or the peer's answer waits
  void risen(const BringUp& done);  // the late queue pairs are made or at RTS, or have failed

  // ---- Frames of the peer. Each returns false if the link must end.
  bool on(const Widen& body);
  bool on(const Widened& body);

 private:
  enum class Step : std::uint8_t {
    Waiting,       // connector: for a wish; acceptor: for WIDEN
    Making,        // connector: our queue pairs are being made
    AwaitWidened,  // connector: WIDEN was sent
    Rising,        // our queue pairs go to RTS; the acceptor's are made first
  };

  // ---- Connector.
  void begin();
  void ask();
  void say_widen();
  void connect();
  void give_up(const std::string& why);
  // ---- Acceptor.
  void answer();
  void answer_risen(const BringUp& done);
  void refuse(const std::string& why);
  // ---- Both.
  Path& path() const;
  bool is_as_it_was(const Path& path) const noexcept;
  void finish();

  Link& link_;
  Step step_ = Step::Waiting;
  std::uint32_t index_ = 0, epoch_ = 0;  // of the path that is widened
  std::uint32_t psn_ = 0;
  std::uint64_t widen_number_ = 0;   // of WIDEN among our frames
  std::uint64_t until_ns_ = 0;       // when WIDENED is late
  bool asked_again_ = false;         // connector: WIDEN was said twice
  std::optional<Widened> answer_{};  // connector: not yet looked at
  std::optional<Widen> asked_{};     // acceptor: the newest WIDEN, not yet begun
};

}  // namespace mesh::engine
