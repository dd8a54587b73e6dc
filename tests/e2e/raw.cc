#include "tests/e2e/raw.h"

#include "tests/e2e/middle_hosts.h"

namespace mesh::e2e {
namespace {

void* const kRubbish = reinterpret_cast<void*>(0x6b6b6b6b6b6b6b68);

class Patience {
 public:
  explicit Patience(driver::milliseconds time) : end_(std::chrono::steady_clock::now() + time) {}
  bool over() const {
    std::this_thread::yield();
    return std::chrono::steady_clock::now() > end_;
  }

 private:
  std::chrono::steady_clock::time_point end_;
};

Patience usual() { return Patience(patience()); }

}  // namespace

void* Raw::try_post(const driver::NetPiece& piece) {
  void* request = kRubbish;
  const bool sending = side_ == driver::Side::Send;
  const int result =
      sending ? api_.isend(comm_, piece, &request) : api_.irecv(comm_, piece, &request);
  require_success(result, sending ? "isend" : "irecv");
  require(request != kRubbish, "the request slot was left as it was");
  return request;
}

void* Raw::post(const driver::NetPiece& piece) {
  for (const Patience patience = usual(); !patience.over();) {
    if (void* request = try_post(piece)) return request;
  }
  throw Failure("a request was not accepted in time");
}

void Raw::wake() {
  if (middle_hosts() != 0) await(post({}));
}

std::optional<int> Raw::poll(void* request) {
  int done = -1;
  int bytes = -1;
  require_success(api_.test(request, &done, &bytes), "test");
  require(done == 0 || done == 1, "test did not write done");
  if (done == 0) return std::nullopt;
  return bytes;
}

int Raw::await(void* request) {
  for (const Patience patience = usual(); !patience.over();) {
    if (const std::optional<int> bytes = poll(request)) return *bytes;
  }
  throw Failure("a request was not done in time");
}

void Raw::await_blind(void* request) {
  for (const Patience patience = usual(); !patience.over();) {
    int done = -1;
    require_success(api_.test(request, &done, nullptr), "test without sizes");
    if (done == 1) return;
  }
  throw Failure("a request was not done in time");
}

void exchange(const RawPart& out, const RawPart& in) {
  void *receive = nullptr, *send = nullptr;
  for (const Patience patience = usual(); receive == nullptr || send == nullptr;) {
    require(!patience.over(), "a message was not begun in time");
    if (receive == nullptr) receive = in.raw.try_post(in.piece);
    if (send == nullptr) send = out.raw.try_post(out.piece);
  }
  require(in.raw.await(receive) == static_cast<int>(in.piece.bytes), "not all bytes have come");
  out.raw.await(send);
}

}  // namespace mesh::e2e
