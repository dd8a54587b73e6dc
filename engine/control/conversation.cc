#include "engine/control/conversation.h"

#include <utility>

namespace mesh::engine {

FrameHeader Conversation::next_header(const Id128& link) noexcept {
  told_ = handled_;
  return {.sequence = ++said_, .acknowledged = handled_, .link = link};
}

void Conversation::keep(Bytes frame) {
  overfull_ = overfull_ || frame.size() > kOutboxBytesMax - bytes_;
  if (overfull_) return;
  bytes_ += frame.size();
  outbox_.push_back(std::move(frame));
}

bool Conversation::acknowledge(std::uint64_t sequence) noexcept {
  if (sequence > said_) return false;
  // A frame that is said again carries the acknowledgement of its first time.
  for (; released_ < sequence && !outbox_.empty(); ++released_) {
    bytes_ -= outbox_.front().size();
    outbox_.pop_front();
  }
  return true;
}

Verdict Conversation::take(const FrameHeader& header) noexcept {
  if (!acknowledge(header.acknowledged)) return Verdict::Broken;
  if (header.sequence == 0) return Verdict::New;
  if (header.sequence <= handled_) return Verdict::Repeated;
  if (header.sequence != handled_ + 1) return Verdict::Broken;
  handled_ = header.sequence;
  return Verdict::New;
}

}  // namespace mesh::engine
