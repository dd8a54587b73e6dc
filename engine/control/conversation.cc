#include "engine/control/conversation.h"

#include "src/base/check.h"

#include <utility>

namespace mesh::engine {

// The peer cannot have released more than we sent, and we cannot have told it of more than we
// handled. The outbox holds the frames behind released_ up to said_. Between next_header() and
// keep() the last one is missing, and frames that found no room are missing for ever.
bool Conversation::consistent() const noexcept {
  const bool ordered = released_ <= said_ && told_ <= handled_;
  const bool counted = overfull_ || outbox_.size() <= said_ - released_;
  return ordered && counted && bytes_ <= kOutboxBytesMax && (bytes_ == 0) == outbox_.empty();
}

FrameHeader Conversation::next_header(const Id128& link) noexcept {
  DCHECK(consistent());
  told_ = handled_;
  return {.sequence = ++said_, .acknowledged = handled_, .link = link};
}

void Conversation::keep(Bytes frame) {
  DCHECK(!frame.empty() && outbox_.size() < said_);
  overfull_ = overfull_ || frame.size() > kOutboxBytesMax - bytes_;
  if (overfull_) return;
  bytes_ += frame.size();
  outbox_.push_back(std::move(frame));
  DCHECK(consistent());
}

bool Conversation::acknowledge(std::uint64_t sequence) noexcept {
  if (sequence > said_) return false;
  // A repeated frame carries the acknowledgement that it had the first time, so it may be old.
  for (; released_ < sequence && !outbox_.empty(); ++released_) {
    DCHECK(bytes_ >= outbox_.front().size());
    bytes_ -= outbox_.front().size();
    outbox_.pop_front();
  }
  DCHECK(consistent());
  return true;
}

Verdict Conversation::take(const FrameHeader& header) noexcept {
  if (!acknowledge(header.acknowledged)) return Verdict::Broken;
  if (header.sequence == 0) return Verdict::New;
  if (header.sequence <= handled_) return Verdict::Repeated;
  if (header.sequence != handled_ + 1) return Verdict::Broken;
  handled_ = header.sequence;
  DCHECK(told_ < handled_);
  return Verdict::New;
}

}  // namespace mesh::engine
