#pragma once
// Two ends and one or two middle hosts on a software fabric, all in this process, with a chain
// between the ends. Only turn() and polls move anything, unless the fabric has agents. Thread: the
// test's.

#include "src/relay/chain.h"
#include "src/relay/end_device.h"
#include "src/soft/soft_provider.h"
#include "src/verbs/handle.h"
#include "tests/prelude.h"
#include "tests/unit/relay/middle_hosts.h"

namespace mesh::relay::testkit {

struct LineOptions {
  std::size_t middles = 1;
  std::uint32_t send_depth = 16, receive_depth = 256, inline_bytes = 64;
  std::uint32_t slots = 0;  // 0: as many as the send queue is deep
  std::uint32_t payload_bytes = 1 << 20, wr_bytes = 1 << 18;
  std::uint8_t timeout = 8, retry_count = 1;
  soft::Agent agent = soft::Agent::None;
  std::string link_fields;  // added to every link, such as ", \"gbps\": 100"
  // Gives the left end a queue pair of the fabric, on which the test acts as the end device: its
  // posts go to the ring, and the counts are written to the beginning of its memory.
  bool raw_left = false;
};

// An end of the chain: its verbs objects and the completions that it has polled.
struct LineEnd {
  LineNic nic;
  std::unique_ptr<EndDevice> device;
  verbs::Provider* maker = nullptr;  // an EndDevice or the fabric
  verbs::CqHandle cq;
  std::vector<std::byte> memory;
  verbs::MrHandle mr;
  verbs::QpHandle qp;
  std::vector<ibv_wc> sent, received;

  std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(memory.data() + offset);
  }
};

// A work request from one end to its peer.
struct LineWrite {
  std::uint64_t wr_id = 0;
  std::size_t from = 0, to = 0;  // offsets in the memory of each end
  std::uint32_t bytes = 0;
  bool announced = false;
  std::uint32_t imm = 0;
  unsigned flags = IBV_SEND_SIGNALED;
  std::uint32_t rkey_off_by = 0;
};

inline constexpr std::size_t kEndBytes = 8 << 20;
inline constexpr std::uint64_t kReceiveId = std::uint64_t{1} << 63;

class Line {
 public:
  explicit Line(const LineOptions& options = {});
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  // ---- Posts at an end; end 0 is the left one.
  int post(std::size_t end, const LineWrite& write);
  int post_receives(std::size_t end, std::uint32_t count);

  // ---- Time. Turns everything once; polled completions go into sent and received.
  void turn();
  void turn_middles();
  void poll(std::size_t end);
  // Turns until `count` sends, or receives, have completed at that end. Returns false if patience
  // ran out.
  bool until_sent(std::size_t end, std::size_t count);
  bool until_received(std::size_t end, std::size_t count);
  void settle();  // turns for a while

  LineEnd& end(std::size_t index) { return ends_[index]; }
  Chain& chain(std::size_t middle = 0) { return *chains_[middle]; }
  std::size_t middles() const { return chains_.size(); }
  void drop_chain(std::size_t middle) { chains_[middle].reset(); }  // kills a middle host
  int to_error(std::size_t end);
  int to_error(std::size_t middle, Side side);  // a middle host's queue pair
  bool arm(const soft::Fault& fault);           // on every host
  void destroy(std::size_t end) { ends_[end].qp.reset(); }

 private:
  CountsTarget counts_of(std::size_t end) const;
  void open_end(std::size_t index);
  bool connect();
  bool connect_end(std::size_t index);

  LineOptions options_;
  soft::FabricFile fabric_;
  std::array<std::unique_ptr<soft::SoftProvider>, 2> end_hosts_;
  MiddleHosts hosts_;
  std::array<LineEnd, 2> ends_;
  Chains chains_;
};

}  // namespace mesh::relay::testkit
