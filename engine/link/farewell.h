#pragma once
// How things of a link end in good order: memory that is taken back while requests name it (REVOKE,
// REVOKED), channels that NCCL or the peer closes (CLOSE), and the link without channels (BYE).
// Thread: control mutex; it takes the loop's token where it looks at channels. Bounds: one entry a
// channel in every list; 500 ms for a peer's answer to a REVOKE, one second for its announcements
// after a CLOSE, three where they come over other hosts, and one for its BYE.

#include "engine/control/frames.h"
#include "engine/data/channel.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace mesh::engine {

class Link;
class RecvChannel;
class SendChannel;

class Farewell {
 public:
  // Lets go of the control mutex until done() or until the time is over. True: done().
  using Wait = std::function<bool(std::uint64_t bound_ns, const std::function<bool()>& done)>;

  explicit Farewell(Link& link) : link_(link) {}

  // ---- Memory. When this returns, nothing reads or writes the registered range for this channel.
  void take_back(Channel& channel, Registration& registration, const Wait& wait);

  // ---- Channels and the link.
  void reserve(std::size_t channels) { closing_.reserve(channels); }  // begin_close needs no memory
  void begin_close(Channel& channel);                                 // NCCL has closed it
  void reuse_index(std::uint32_t index);  // the peer uses this channel index again
  void hurry();                           // the peer is gone: its CLOSEs are acted on now
  void say_bye_if_empty();
  bool said_every_close() const noexcept;  // our side of every channel, while the link is up
  void drop() noexcept;                    // the link is down: nobody is answered any more
  bool tend();                             // true: soon again
  std::size_t pending_answers() const noexcept { return revokes_.size() + closes_.size(); }

  // ---- What the peer says. False: the link ends.
  bool on_revoke(const Revoke& body);
  bool on_revoked(const Revoked& body);
  bool on_close(const Close& body);
  bool on_bye(const Bye& body);

 private:
  struct PendingClose {
    Close close;
    std::uint64_t deadline_ns = 0;
  };

  void revoke_receives(RecvChannel& channel, const Wait& wait);
  void finish_sends(SendChannel& channel, const Wait& wait);
  std::uint64_t patience_ns() const;
  void cut();
  bool answer_revoke(const Revoke& body);
  std::uint64_t announced_bound_ns() const;
  bool act_on_close(const PendingClose& pending);
  bool advance_close(std::uint32_t index);
  bool some_work_is_outstanding() const noexcept;

  Link& link_;
  std::vector<Revoke> revokes_;         // the peer's, to be answered when the channel is idle
  std::vector<std::uint32_t> closing_;  // channels that NCCL has closed and the peer has not
  std::vector<PendingClose> closes_;    // the peer's, until all that was sent has been seen
  bool bye_received_ = false;           // while closes were still to be acted on
  std::uint64_t bye_deadline_ns_ = 0;   // while ByeSent
};

}  // namespace mesh::engine
