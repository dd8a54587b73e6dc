#pragma once
// The control path without sockets: connections between the engines of one world, on its clock and
// by its seed. As with TCP, frames keep their order and take their time, a closed connection says
// so behind what was sent, a reset loses what was under way, and a silent connection is noticed
// when something was sent and nobody has answered for 20 s. In some worlds it runs over the cables.

#include "engine/control/control_plane.h"
#include "src/base/clock.h"
#include "tests/sim/control_ways.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"
#include "tests/unit/engine/control/fake_plane.h"

namespace mesh::sim {

struct ControlTiming {
  std::uint64_t delay_min_ns = 5'000, delay_max_ns = 60'000;  // of a frame, a SYN, a FIN
  std::uint64_t pause_ns = 0;  // one frame in 16 takes up to this much longer
};

struct Scenario;
class SimPlane;

// A CLOSE that is sent for the first time.
struct CloseSaid {
  engine::Id128 link{};
  bool by_connector = false;
  engine::Close close;
};

inline constexpr std::size_t kNoHost = SIZE_MAX;

// One end of a connection.
struct ControlEnd {
  // Next: the address that is dialed has not answered.
  enum class News : std::uint8_t { Dialed, Frame, Closed, Reset, Refused, TimedOut, Next };
  struct Event {
    std::uint64_t due_ns = 0;
    News news = News::Frame;
    engine::Bytes frame;
  };
  SimPlane* plane = nullptr;
  engine::ConnectionId id = 0;
  ControlEnd* peer = nullptr;          // null: the other end is gone
  std::size_t peer_host = kNoHost;     // kNoHost also while a dialed address has no way
  std::size_t peer_process = kNoHost;  // kNoHost also while nobody has the port that is dialed
  bool known = false;                  // the engine knows the connection, and is told of its loss
  std::uint64_t first_frame_until_ns = UINT64_MAX;  // closed then if still unauthenticated
  bool up = false;                                  // false while the dial is under way
  bool dials = false;    // this side has dialed: it is the link's connector
  bool broken = false;   // nothing more is sent: its end is on its way
  bool silent = false;   // the frames that it sends vanish
  bool settled = false;  // its link is up, and outlives its loss
  std::deque<Event> news;
  std::vector<engine::Bytes> unsent;  // frames that were sent before it was up

  // ---- For a dial: the addresses that are left, the first of which is dialed, until that time.
  std::deque<SocketAddress> candidates;
  std::uint64_t timeout_ns = 0, dialed_until_ns = 0;
  std::uint16_t port = 0;

  // ---- Over cables.
  std::optional<ControlWay> way;
  std::uint64_t stuck_since_ns = 0;  // since its next event waits for the way; 0: it does not
};

class ControlNetwork final : public engine::ControlNetwork {
 public:
  ControlNetwork(const Clock& clock, const Scenario& scenario, Trace& trace);
  ~ControlNetwork();

  // Says which process opens the next plane.
  void expect(std::size_t process) { next_process_ = process; }
  Result<std::unique_ptr<engine::ControlPlane>> open(const engine::ControlPlaneOptions& options,
                                                     engine::ControlEvents& events) override;
  // Every connection runs over a cable from now on. Called before any plane is opened.
  void run_over(std::unique_ptr<ControlWays> ways) { ways_ = std::move(ways); }
  void set_timing(const ControlTiming& timing) { timing_ = timing; }
  void on_close(std::function<void(const CloseSaid&)> call) { on_close_ = std::move(call); }

  // Faults. reset() and half_open() strike every connection between the two hosts, in either
  // direction, and return how many of these were of links not up yet.
  std::uint32_t reset(std::size_t host, std::size_t other);
  // Frames of the first host no longer reach the second host, which learns of a reset; the first
  // host notices only after 20 s.
  std::uint32_t half_open(std::size_t host, std::size_t other);
  // No frame and no dial between the two hosts gets through until that time. TCP sends again what
  // was lost, but gives up after 20 s. Returns as reset() does.
  std::uint32_t silence(std::size_t host, std::size_t other, std::uint64_t until_ns);
  std::uint64_t silent_until_ns(std::size_t host, std::size_t other) const;
  // Killed: the kernel still closes the process's connections. Unplugged: nothing tells the peers.
  enum class End : std::uint8_t { Killed, Unplugged };
  void lose_process(std::size_t process, End end);
  std::uint64_t next_due_ns() const;  // UINT64_MAX: nothing is under way
  std::size_t connections(std::size_t process) const;

 private:
  friend class SimPlane;
  enum class Strike : std::uint8_t { Reset, HalfOpen, Silence };
  std::uint32_t strike(std::size_t host, std::size_t other, Strike how);
  void forget(SimPlane& plane);
  SimPlane* plane_of(std::size_t process) const;
  std::uint16_t port_of(std::size_t process) const;
  std::size_t process_at(std::size_t host, std::uint16_t port) const;
  std::uint64_t arrival_ns(const ControlEnd& to);
  void try_candidate(ControlEnd& end);
  bool waits_for_way(ControlEnd& end);
  void tell(ControlEnd& end, ControlEnd::News news, engine::Bytes frame);
  void tell_later(ControlEnd& end, ControlEnd::News news, std::uint64_t after_ns);
  void cut(ControlEnd& end);
  void see(const ControlEnd& from, const engine::Bytes& frame);
  static void settle(ControlEnd& end);

  const Clock clock_;
  const Scenario& scenario_;
  Random random_;
  Trace& trace_;
  std::unique_ptr<ControlWays> ways_;  // null: a network of its own
  ControlTiming timing_;
  std::size_t next_process_ = 0;
  std::map<std::size_t, SimPlane*> planes_;  // by process, as the next
  std::map<std::size_t, End> lost_;
  std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> silent_until_ns_;  // by both hosts
  std::function<void(const CloseSaid&)> on_close_;
  // The last frame number, by link and by whether the connector sent it.
  std::map<std::pair<engine::Id128, bool>, std::uint64_t> seen_;
};

// One process's control plane: its end of every connection. The processes of a host have one
// address and a port each.
class SimPlane final : public testkit::FakePlane {
 public:
  SimPlane(ControlNetwork& network, std::size_t process, engine::ControlEvents& events);
  ~SimPlane() override;

  std::uint16_t port() const noexcept override { return port_; }
  engine::ConnectionId dial(const engine::DialOrder& order) override;
  bool send(engine::ConnectionId id, engine::Bytes frame) override;
  void identify(engine::ConnectionId id) override;
  void close(engine::ConnectionId id) override;
  std::string peer_name(engine::ConnectionId id) const override;
  Status watch(int fd) override { return watched_.push_back(fd), Status(); }
  SocketAddress peer_address(engine::ConnectionId id) const override;
  SocketAddress own_address(engine::ConnectionId id) const override;
  bool poll_once() override;

  static SocketAddress address_of(std::size_t host);

 private:
  friend class ControlNetwork;
  ControlEnd* find(engine::ConnectionId id) const;
  ControlEnd& add();
  void erase(engine::ConnectionId id);
  bool take(ControlEnd& end);
  void on_frame(engine::ConnectionId id, const engine::Bytes& frame);

  ControlNetwork& network_;
  const std::size_t process_, host_;
  const std::uint16_t port_;
  engine::ControlEvents& events_;
  std::map<engine::ConnectionId, std::unique_ptr<ControlEnd>> ends_;
  std::vector<int> watched_;  // read in every pass: asking the kernel would only cost time
};

}  // namespace mesh::sim
