#pragma once
// Drives both sides of one channel of the world: opens it, starts and tests requests as NCCL's
// proxies would, ends it as planned, and compares every result with the expected one.

#include "tests/sim/channel_side.h"

namespace mesh::sim {

class World;

class ChannelRun {
 public:
  ChannelRun(World& world, std::size_t number, const ChannelPlan& plan);

  // Does one thing that the side's user might do now. While another call waits, starts only calls
  // that never wait.
  void act(Side& side);
  bool over() const noexcept {
    return send_.state == SideState::Over && receive_.state == SideState::Over;
  }
  bool connected() const noexcept { return send_.state > SideState::Opening; }
  bool carried() const noexcept;  // whether it has carried a message
  Side& sender() noexcept { return send_; }
  Side& receiver() noexcept { return receive_; }
  Side& other(const Side& side) noexcept { return &side == &send_ ? receive_ : send_; }
  const ChannelPlan& plan() const noexcept { return plan_; }
  std::uint64_t truncated() const noexcept { return truncated_; }

  void excuse_both(Excuses excuses) noexcept {
    send_.excuses |= excuses, receive_.excuses |= excuses;
  }
  void lose_side(Side& side);                 // its context is gone
  void strike() noexcept { struck_ = true; }  // a fault has struck a path of either host
  Side* closing_side(const CloseSaid& said);  // null: the CLOSE belongs to another channel
  void on_close_said(Side& side, std::uint64_t messages);
  // Checks at the end of the world that nothing was written to memory after it was taken back.
  void check_memory();
  std::string describe() const;

 private:
  // channel_life.cc: the beginning.
  void open(Side& side);
  void listen_and_accept();
  void refused(Errc why);
  void dial();
  int device(const Side& side, int planned);
  void on_open(Side& side);
  bool register_region(Side& side, std::size_t region);
  std::span<std::byte> memory_of(const Side& side, std::size_t region);

  // channel_run.cc
  void run(Side& side);
  bool rests();
  void start_send();
  void start_receive();
  void started(Side& side, Result<Request*> request);
  void ask(Side& side);
  RecvArgs wanted(std::size_t number);
  Status look(OpenRequest& open);  // tests once; stores the sizes in `open`
  bool start_flush(Side& side, OpenRequest& open);
  void answered(Side& side, const OpenRequest& open, Status status);
  void on_sent(std::size_t number, std::size_t bytes);
  void on_received(std::size_t number, std::size_t bytes);
  void failed(Side& side, const OpenRequest& open, Errc code);
  void failed_member(Side& side, std::size_t number, Errc code);
  void drain(Side& side);
  bool finished(const Side& side) const;
  void wrong(const std::string& what) const;
  bool is_truncated(std::size_t message) const;
  std::span<std::byte> room_of(std::size_t receive);
  std::span<const std::byte> sent_bytes(std::size_t message) const;

  // channel_life.cc: the end.
  void finish(Side& side);
  bool end_early(Side& side);
  void close_side(Side& side);
  void take_back(Side& side, std::size_t region);
  void reregister(Side& side);
  void check_slot(std::size_t number);
  bool check_room(std::size_t number);
  void check_given_back(std::size_t region);
  void check_region(std::size_t region);

  // channel_watch.cc
  void check_received();
  void check_oldest(const Side& side);
  void check_waits(Side& side);

  World& world_;
  const std::size_t number_;
  const ChannelPlan plan_;
  Side send_, receive_;
  Listener* listener_ = nullptr;
  bool listened_ = false, dialing_ = false;
  HandleBytes handle_{};
  std::vector<ReceiveSlot> slots_;       // indexed by receive
  std::vector<std::size_t> receive_of_;  // indexed by message: the receive that it must meet
  std::vector<bool> sent_;               // indexed by message: its send has ended with Ok
  std::vector<bool> known_announced_;    // indexed by message: a result at either side shows it
  std::vector<std::span<std::byte>> target_;  // indexed by region of the receiver
  std::vector<bool> taken_back_;              // indexed by region
  std::uint64_t truncated_ = 0;
  bool struck_ = false;
  std::size_t rests_after_ = 0;  // started messages at the last rest
  std::uint64_t rests_until_ns_ = 0;
};

}  // namespace mesh::sim
