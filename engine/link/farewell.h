#pragma once
// Ends things of a link in good order: takes memory back while requests name it (REVOKE, REVOKED),
// closes channels for NCCL or the peer (CLOSE), and ends the link without channels (BYE). Thread:
// control mutex; it takes the loop's progress lock where it looks at channels. Bounds: one entry
// for each channel in every list; 500 ms for a peer's answer to a REVOKE, and a second more while a
// path is fenced and another is up; one second for its announcements after a CLOSE, three where
// they come over other hosts, and one for its BYE.

#include "engine/control/frames.h"
#include "engine/data/channel.h"
#include "engine/data/path_silence.h"

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
  // Releases the control mutex until done() returns true or the time is over. Returns true if
  // done() did.
  using Wait = std::function<bool(std::uint64_t bound_ns, const std::function<bool()>& done)>;

  explicit Farewell(Link& link) : link_(link) {}

  // ---- Memory. After this call nothing reads or writes the registered range for this channel.
  void take_back(Channel& channel, Registration& registration, const Wait& wait);

  // ---- Channels and the link.
  void begin_close(Channel& channel);     // called when NCCL has closed it
  void reuse_index(std::uint32_t index);  // called when the peer uses this index again
  void hurry();                           // the peer is gone: acts on its CLOSEs now
  void say_bye_if_empty();
  void drop() noexcept;  // the link is down: answers nobody any more
  bool tend();           // returns true if it must run again soon
  std::size_t pending_answers() const noexcept { return revokes_.size() + closes_.size(); }

  // ---- Frames of the peer. Each returns false if the link must end.
  bool on(const Revoke& body);
  bool on(const Revoked& body);
  bool on(const Close& body);
  bool on(const Bye& body);

 private:
  // A REVOKE of the peer, which is answered when the channel is idle.
  struct PendingRevoke {
    Revoke revoke;
    std::uint64_t leave_ns = 0;     // when paths without completions since then are left; 0: done
    std::vector<PathLook> looks{};  // by path, when it came
  };
  struct PendingClose {
    Close close;
    std::uint64_t deadline_ns = 0;
  };

  void end_requests(Channel& channel, Registration& registration, const Wait& wait);
  void revoke_receives(RecvChannel& channel, const Wait& wait);
  void finish_sends(SendChannel& channel, const Wait& wait);
  std::vector<PathLook> look_at_paths() const;
  void leave_still_paths(const std::vector<PathLook>& before);
  std::uint64_t patience_ns() const;
  void await_fence_or_cut(const Wait& wait, const std::function<bool()>& safe);
  void cut(std::uint64_t waited_ns);
  bool answer_revoke(const Revoke& body);
  bool tend_revoke(PendingRevoke& pending);
  std::uint64_t announced_bound_ns() const;
  bool act_on_close(const PendingClose& pending);
  bool advance_close(std::uint32_t index);
  bool some_work_is_outstanding() const noexcept;

  Link& link_;
  std::vector<PendingRevoke> revokes_;
  std::vector<PendingClose> closes_;   // the peer's CLOSEs, until what was sent has completed
  bool bye_received_ = false;          // BYE came before all CLOSEs were acted on
  std::uint64_t bye_deadline_ns_ = 0;  // valid in state ByeSent
};

}  // namespace mesh::engine
