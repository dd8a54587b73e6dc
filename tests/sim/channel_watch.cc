// Compares what the engine says of a channel with what its users know: the number of messages in
// CLOSE, which request is open, and what it waits for.

#include "engine/data/peer_link.h"
#include "engine/request_watch.h"
#include "tests/sim/channel_run.h"

namespace mesh::sim {
namespace {
constexpr std::uint32_t kQuestionsPerLook = 4;
// A request that nothing holds back goes out in the next turn of its channel, and every test of a
// request is such a turn.
constexpr std::uint32_t kIdleLooksMax = 32;

bool is_up(const engine::Path& path) { return path.health.state == engine::PathState::Up; }

// Other threads may lose a path as soon as the progress lock is free.
struct Seen {
  engine::Waiting waiting;
  bool on_lost_path = false;
};
Seen waiting_of(Channel& channel, std::uint64_t sequence) {
  const engine::ProgressLoop::Guard guard(channel.loop);
  const engine::Waiting waiting = channel.waiting(sequence);
  const bool lost = waiting.path != nullptr && !is_up(*waiting.path);
  return {.waiting = waiting, .on_lost_path = lost && !channel.link.paths().stalled()};
}

bool is_for_room(WaitReason reason) {
  return reason == WaitReason::Queue || reason == WaitReason::Window ||
         reason == WaitReason::Inflight;
}
}  // namespace

Side* ChannelRun::closing_side(const CloseSaid& said) {
  Side& side = said.by_connector ? send_ : receive_;
  return side.link == said.link && side.index == said.close.channel && !side.close_said ? &side
                                                                                        : nullptr;
}

// Checks the number of messages in a CLOSE. The receiver gets the announced messages and no others:
// no fewer than either user has seen end well, and no more than were started.
void ChannelRun::on_close_said(Side& side, std::uint64_t messages) {
  side.close_said = messages;
  if (&side == &send_) {
    const auto known = static_cast<std::uint64_t>(
        std::count(known_announced_.begin(), known_announced_.end(), true));
    if (messages > send_.started || messages < known) {
      wrong(fmt::format(
          "CLOSE counts {} messages; {} were started, {} are known to have been announced",
          messages, send_.started, known));
    }
  }
  if (send_.close_said && receive_.close_said && *receive_.close_said > *send_.close_said) {
    wrong(fmt::format("CLOSE of the receiver counts {} messages, that of the sender {}",
                      *receive_.close_said, *send_.close_said));
  }
}

// Checks the count in the sender's CLOSE against the receiver's engine, which has seen all messages
// once it has acted on that CLOSE.
void ChannelRun::check_received() {
  if (receive_.gone || receive_.channel == nullptr || !send_.close_said) return;
  const std::uint64_t here = receive_.channel->counts().messages;
  const bool acted = receive_.channel->closing.closed_there;
  if (here > *send_.close_said || (acted && here < *send_.close_said)) {
    wrong(fmt::format("the sender's CLOSE counts {} messages, the receiver has seen {}",
                      *send_.close_said, here));
  }
}

// Checks that the engine's oldest open request is one of the user's open requests. A group's
// request is that of its first member.
void ChannelRun::check_oldest(const Side& side) {
  const engine::OpenRequest oldest = side.channel->oldest_open(0);
  const Request* const request = &side.channel->request(oldest.sequence);
  const auto is_it = [request](const OpenRequest& open) { return open.request == request; };
  if (!oldest.open || std::any_of(side.open.begin(), side.open.end(), is_it)) return;
  wrong(fmt::format("request {} is open, and is none of the user's", oldest.sequence));
}

// Checks what the side's requests wait for. The caller has just tested one, and it is open.
void ChannelRun::check_waits(Side& side) {
  check_oldest(side);
  Channel& channel = *side.channel;
  if (++side.questions % kQuestionsPerLook != 0 && channel.link.paths().all_up()) return;
  const std::uint64_t accepted = channel.accepted.load(std::memory_order_relaxed);
  const std::uint64_t oldest = channel.oldest_open(0).sequence;
  const bool failed = channel.failure.load(std::memory_order_relaxed) != Errc::Ok;
  bool ready = false;
  std::uint64_t left = 0;  // falls with every work request of a message that goes out in many
  for (const std::uint64_t sequence : {oldest, accepted}) {
    if (failed || channel.link.paths().stalled() ||
        sequence >= channel.submitted.load(std::memory_order_relaxed))
      continue;
    const auto [waiting, on_lost_path] = waiting_of(channel, sequence);
    ready |= waiting.reason == WaitReason::Turn;
    left += waiting.left;
    if (!on_lost_path || !is_for_room(waiting.reason)) continue;
    wrong(fmt::format("request {} waits for {}, which is not up, while {} other paths are",
                      sequence, waiting_text(waiting), channel.link.paths().usable_count()));
  }
  const std::array<std::uint64_t, 4> now{oldest, accepted, channel.outstanding, left};
  side.idle_looks = ready && now == side.seen ? side.idle_looks + 1 : 0;
  side.seen = now;
  if (side.idle_looks < kIdleLooksMax) return;
  wrong(fmt::format("request {} or {} could go, and {} turns of its channel have not moved it",
                    oldest, accepted, kIdleLooksMax));
}

}  // namespace mesh::sim
