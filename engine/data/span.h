#pragma once
// A stripe that is still to be posted, or the rest of one: an entry in its send channel's ledger.
// The first posting of a message and the replay of what a lost path has not carried use spans
// alike. Thread: loop (progress lock). Bounds: kStripesMax of a message under way; sq_depth of each
// queue pair of a lost path.

#include "engine/data/path.h"
#include "engine/data/request.h"
#include "engine/message/stripe.h"
#include "src/base/check.h"

#include <cstdint>

namespace mesh::engine {

class SendQueuePair;

struct Span {
  Request* request = nullptr;
  StripeSpan stripe;
  std::uint64_t posted_bytes = 0;
  // The queue pair that carries the span. Null: nothing is posted, and any bulk one may carry it.
  SendQueuePair* queue_pair = nullptr;

  std::uint64_t left() const noexcept {
    DCHECK(posted_bytes <= stripe.bytes);
    return stripe.bytes - posted_bytes;
  }
};

}  // namespace mesh::engine
