#include "perf/model/flow.h"

#include <algorithm>

namespace mesh::model {

Flow::Flow(const Load& wanted, std::size_t sender_of, std::size_t receiver_of)
    : load(wanted), sender(sender_of), receiver(receiver_of) {
  send.flow = receive.flow = this;
  send.sends = true;
  send.open.resize(load.outstanding);
  receive.open.resize(std::max(load.receives, load.outstanding));
}

bool Flow::End::over() const noexcept {
  const std::uint64_t all = flow->stopped_ ? flow->send.started : flow->load.messages;
  return done == all;
}

Driven::Called Flow::End::call_start(std::uint64_t now_ns) {
  const bool wanted = started < flow->load.messages && started - done < width() && !flow->stopped_;
  if (!wanted) return Called::Nothing;
  const std::size_t bytes = flow->load.bytes;
  const Result<Request*> request =
      sends ? isend(*channel, {.data = data, .bytes = bytes, .tag = 0, .region = region})
            : irecv(*channel, {.data = data, .bytes = bytes, .tag = 0, .region = region});
  if (request.code() == Errc::WouldBlock) return Called::Waiting;
  if (!request.ok()) return Called::Failed;
  open[started++ % width()] = *request;
  if (sends) flow->started_ns_.push_back(now_ns);
  return Called::Progress;
}

Driven::Called Flow::End::call_test() {
  if (started == done) return Called::Nothing;
  std::size_t bytes = 0;
  const Status status = test(*open[done % width()], &bytes);
  if (status.code() == Errc::WouldBlock) return Called::Waiting;
  if (!status.ok() || bytes != flow->load.bytes) return Called::Failed;
  ++done;
  return Called::Progress;
}

void Flow::rewind() {
  send.started = send.done = receive.started = receive.done = 0;
  started_ns_.clear();
  received_ns_.clear();
}

std::vector<double> Flow::latencies_us() const {
  std::vector<double> latencies;
  for (std::size_t i = load.warmup; i < received_ns_.size(); ++i)
    latencies.push_back(static_cast<double>(received_ns_[i] - started_ns_[i]) / 1000);
  return latencies;
}

// Messages in flight together may complete in bunches. So each end of the measured time is the mean
// of as many completions as can be in flight.
double Flow::bytes_per_ns() const {
  const std::uint64_t bunch = load.outstanding;
  if (load.warmup < bunch || received_ns_.size() <= 2 * load.warmup) return 0;
  const auto mean_before = [&](std::uint64_t end) {
    double sum = 0;
    for (std::uint64_t i = end - bunch; i < end; ++i)
      sum += static_cast<double>(received_ns_[i] - received_ns_.front());
    return sum / static_cast<double>(bunch);
  };
  const std::uint64_t last = received_ns_.size() - load.warmup;
  return static_cast<double>((last - load.warmup) * load.bytes) /
         (mean_before(last) - mean_before(load.warmup));
}

}  // namespace mesh::model
