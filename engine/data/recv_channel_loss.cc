// The part of a receive channel that acts when a path of its link is lost or is back: it chooses
// the queue pair that carries its credits, and writes the credits again of which nobody knows
// whether the peer has them.
#include "engine/data/recv_channel.h"

#include "engine/data/progress_loop_datapath.h"
#include "src/base/check.h"

namespace mesh::engine {

// Changes to the keys of the paths that carry the link. Live credits hold others: the fence that
// comes before or with the change has them written again.
void RecvChannel::change_keys() noexcept {
  if (link.reach().unreachable() || link.paths().key_set() == key_set_) return;
  cursor_.change_keys(key_set_, link.paths().key_set());
  key_set_ = link.paths().key_set();
  first_rail_ = link.paths().key_rail();
}

void RecvChannel::choose_express() noexcept {
  DCHECK(loop.held());
  change_keys();
  RecvQueuePair& wanted = RecvQueuePair::of(link.paths().express(index));
  // A queue pair that was made anew has posted none of the entries that were written again.
  if (express_->posted() < rewritten_until_) rewritten_until_ = 0;
  if (&wanted == express_) {  // its queue pair may be new, and on other rails
    credits_rkey_ = credits_.rkeys[wanted.path().far_key];
    return post_to(wanted);
  }
  // An entry that was written again must have landed before another queue pair may write its next
  // life: entries of two queue pairs overtake one another.
  const bool usable = express_->path().health.state == PathState::Up;
  if (usable && express_->retired() < rewritten_until_) return;
  post_to(wanted);
  rewritten_until_ = 0;
  credits_rkey_ = credits_.rkeys[express_->path().far_key];
}

void RecvChannel::fenced(const Path& /*path*/) noexcept { ask_rewrite(); }

// Waits until an entry that was written again has landed, before its next life is written, even on
// one queue pair: where writes overtake one another, the older entry would lie on the newer one.
bool RecvChannel::advance_slow_path(std::uint64_t limit) noexcept {
  DCHECK(loop.held());
  if (failure.load(std::memory_order_relaxed) != Errc::Ok) return fail_new(limit);
  if (express_->retired() < rewritten_until_) return true;
  rewritten_until_ = 0;
  slow_path_ = false;
  return advance();
}

bool RecvChannel::rewrite_credits() noexcept {
  DCHECK(loop.held());
  if (failure.load(std::memory_order_relaxed) != Errc::Ok)
    return true;  // its memory may have been taken back
  for (; rewrite_next_ < slot_count; ++rewrite_next_) {
    Request& request = requests[rewrite_next_];
    if (request.expected == kNoAnnouncement) continue;
    if (!express_->has_room(1)) return false;
    DCHECK(slot_of(request.imm()) == rewrite_next_ && channel_of(request.imm()) == index);
    DCHECK(((request.imm() ^ request.generation) & kGenerationMask) == 0);
    // The credit is of the cursor's round or of the round before.
    const bool of_this_round = ((cursor_.generation() ^ request.imm()) & kGenerationMask) == 0;
    request.generation = cursor_.generation() - (of_this_round ? 0 : 1);
    std::uint64_t* const words = express_->stage_row(
        cursor_.cts_bytes(),
        {.address = credits_.address + std::uint64_t{rewrite_next_} * cursor_.cts_bytes(),
         .rkey = credits_rkey_});
    const std::uint32_t rkey =
        request.region == nullptr ? 0 : request.region->keys(first_rail_).rkey;
    encode_near(
        words,
        {.first = request.address, .second = request.bytes, .third = join(request.tag, rkey)},
        request.generation);
    if (key_count_ > 1) write_far_keys(request, words);
    express_->signal_next_doorbell();
    DCHECK(rewritten_until_ < express_->posted());
    slow_path_ = true;
    rewritten_until_ = express_->posted();
  }
  return true;
}

}  // namespace mesh::engine
