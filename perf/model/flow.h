#pragma once
// One channel's traffic in the model, both ends of it, as NCCL's proxy drives them: so many
// messages in flight, the oldest tested, the next posted when it is done. Times are the model's.
// Thread: the world's. Bound: the messages asked for.

#include <mesh/channel.h>

#include "perf/model/driven.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh::model {

struct Load {
  std::size_t bytes = 8;  // above 0
  std::uint64_t messages = 1000;
  std::uint64_t warmup = 0;  // messages not looked at, at the beginning and, for the rate, at the
                             // end: at least `outstanding`, and fewer than half
  std::uint32_t outstanding = 1;  // sends in flight
  std::uint32_t receives = 8;     // receives posted ahead; NCCL's NCCL_STEPS
};

class Flow {
 public:
  Flow(const Load& load, std::size_t sender, std::size_t receiver);

  // One side.
  struct End : Driven {
    Flow* flow = nullptr;
    bool sends = false;
    Channel* channel = nullptr;
    Registration* region = nullptr;
    std::byte* data = nullptr;
    std::vector<Request*> open;  // ring of in-flight requests
    std::uint64_t started = 0, done = 0;
    Called call_start(std::uint64_t now_ns) override;
    Called call_test() override;
    void note_progress(std::uint64_t at_ns) override {
      if (!sends) flow->received_ns_.push_back(at_ns);
    }
    bool over() const noexcept override;
    std::uint64_t own_ns(const CallCosts& costs, bool testing) const noexcept override {
      return (testing ? costs.test_ns : costs.start_ns) + (flow->relayed ? costs.end_ns : 0);
    }
    std::uint32_t width() const noexcept { return static_cast<std::uint32_t>(open.size()); }
  };

  void stop() noexcept { stopped_ = true; }  // no new sends
  void rewind();                             // forgets what is done; nothing is in flight
  bool finished() const noexcept { return send.over() && receive.over(); }

  // Figures of the messages after the warm-up. The rate leaves out as many at the end, where fewer
  // and fewer are in flight.
  std::vector<double> latencies_us() const;  // from isend to the receiver's test
  double bytes_per_ns() const;               // from completion to completion at the receiver
  double messages_per_us() const { return bytes_per_ns() * 1000 / static_cast<double>(load.bytes); }
  std::uint64_t completed() const noexcept { return received_ns_.size(); }

  const Load load;
  const std::size_t sender, receiver;  // hosts
  bool relayed = false;                // over the hosts between
  End send, receive;

 private:
  std::vector<std::uint64_t> started_ns_, received_ns_;
  bool stopped_ = false;
};

}  // namespace mesh::model
