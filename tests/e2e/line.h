#pragma once
// The smallest useful set-up of a scenario: one communicator, and connections from every even rank
// to the next odd one, each with a pipe and registered memory. Thread: main.

#include "perf/collectives/collective.h"
#include "perf/collectives/repeat.h"
#include "perf/driver/pattern.h"
#include "perf/driver/pipe.h"
#include "perf/driver/registered.h"
#include "tests/e2e/scenario.h"
#include "tests/prelude.h"

namespace mesh::e2e {

// Returns true if a line of the plugin's log has these words.
bool logged(const std::string& words);

// Opens a communicator.
std::unique_ptr<driver::Communicator> open_communicator(driver::NetApi& api, std::uint64_t id = 1);

struct LineOptions {
  std::size_t bytes = 4096;  // of registered memory on each side
  std::uint32_t depth = 8;
  bool optional_marker = false;
  bool ask_sizes = true;
  driver::milliseconds patience = kPatience;
  int from = 0, to = 1;  // ranks
};

// One rank sends to another one. All ranks make it at once.
class Line {
 public:
  Line(Peer& peer, driver::Communicator& communicator, const LineOptions& options);
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  bool sends() const noexcept { return sends_; }
  void* comm() const noexcept { return comm_; }
  driver::Communicator& communicator() noexcept { return communicator_; }
  driver::Registered& memory() noexcept { return memory_; }
  driver::Pipe& pipe() noexcept { return *pipe_; }
  // Waits until nothing is open; fails the scenario on an error or when that takes too long.
  void wait();
  int wait_result(driver::milliseconds timeout) {
    return communicator_.progress().wait_idle(timeout);
  }
  void close();  // orderly: deregMr, then the comm

 private:
  driver::Communicator& communicator_;
  const LineOptions options_;
  driver::ConnectionSet connections_;
  bool sends_ = false;
  void* comm_ = nullptr;
  driver::Registered memory_;
  std::unique_ptr<driver::Pipe> pipe_;
};

// Messages of 1 MiB flow without end.
class Flow {
 public:
  explicit Flow(Peer& peer, const LineOptions& options = {.bytes = std::size_t{8} << 20});
  ~Flow() { communicator_->progress().detach(repeat_); }
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  void let_flow(std::uint64_t count);  // waits until so many messages more are through
  // Waits for the end that the peer's death brings, and closes. Both have a bar of time.
  void expect_death();
  driver::Communicator& communicator() noexcept { return *communicator_; }

 private:
  std::unique_ptr<driver::NetApi> api_;
  std::unique_ptr<driver::Communicator> communicator_;
  Line line_;
  perf::Repeat repeat_;
};

// Connects each rank with the rank half-way round the ring, which none of its rails reaches. Comms
// come up on both sides, and the first message fails on both, at once.
class Dormant {
 public:
  enum class Ways : std::uint8_t { Both, FromRank0 };
  Dormant(Peer& peer, driver::Communicator& communicator, Ways ways = Ways::Both);
  void expect_first_messages_to_fail();
  void expect_messages_to_fail_in_time();  // of hosts that others may join, and none does
  void close();

 private:
  driver::Communicator& communicator_;
  void* send_ = nullptr;
  void* receive_ = nullptr;
};

// One message that transfer() begins and awaits on both sides. It checks the size, every byte, and
// that nothing behind the message was touched.
struct Transfer {
  std::size_t bytes = 0;
  std::size_t room = 0;    // of the receive; 0: as much as is sent
  std::size_t offset = 0;  // into both buffers
  std::uint64_t number = 0;
};
void transfer(Line& line, const Transfer& message);

// `count` messages of one size through as many slots as the pipe is deep, each of them checked.
struct Stream {
  std::uint64_t count = 0;
  std::size_t bytes = 0;
  std::uint64_t first_number = 0;
};
void stream(Line& line, const Stream& messages);

// Verified runs of a collective of all ranks.
class Rounds {
 public:
  Rounds(Peer& peer, driver::Communicator& communicator, const perf::CollectiveOptions& options,
         int channels = 1);
  void run(std::size_t bytes);  // fails the scenario on an error or a wrong element
  void set_placement(perf::Placement placement) { collective_->set_placement(placement); }

 private:
  std::unique_ptr<perf::Collective> collective_;
  std::uint64_t round_ = 0;
};

// ---- Whole scenarios that several tests run.
// Connects rank 0 to rank 1, which does not have the listener. Both must end with an error, without
// waiting until the handshake's time is over.
void expect_refusal(Peer& peer);
void expect_first_messages_to_fail(Peer& peer);  // from rank 0; connect and accept must succeed
void send_one_message(Peer& peer);
void expect_no_plugin(Peer& peer);  // init must refuse

}  // namespace mesh::e2e
