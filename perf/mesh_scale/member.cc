#include "perf/mesh_scale/member.h"

#include "src/base/log.h"
#include "src/soft/soft_provider.h"
#include "tuning/derive.h"

#include <mesh/channel.h>
#include <mesh/engine.h>
#include <mesh/metrics.h>

#include <malloc.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace mesh::scale {
namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

std::uint64_t entries_of(const char* folder) {
  std::error_code error;
  const std::filesystem::directory_iterator list(folder, error);
  return error ? 0 : static_cast<std::uint64_t>(std::distance(begin(list), end(list)));
}

std::uint64_t resident_bytes() {
  std::uint64_t all = 0, resident = 0;  // in pages
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t read_clock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Call it while no other thread of the process works.
Usage usage() {
  const struct mallinfo2 heap = ::mallinfo2();
  return {.heap_bytes = heap.uordblks + heap.hblkhd,
          .resident_bytes = resident_bytes(),
          .descriptors = entries_of("/proc/self/fd"),
          .threads = entries_of("/proc/self/task"),
          .wall_ns = read_clock(CLOCK_MONOTONIC),
          .cpu_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID)};
}

using Time = std::chrono::steady_clock;

constexpr long kLookNs = 50'000;          // between two looks: a caller that spins would dominate
constexpr long kConnectLookNs = 200'000;  // every 50 us these looks are a tenth of connect_cpu_us

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

template <typename Done>
void until(const char* what, Done&& done, long look_ns = kLookNs) {
  const timespec pause{.tv_sec = 0, .tv_nsec = look_ns};
  const auto limit = Time::now() + kStepLimit;
  while (!done()) {
    if (Time::now() > limit) fail(fmt::format("{}: not in {} s", what, kStepLimit.count()));
    ::nanosleep(&pause, nullptr);
  }
}

// The connection to the other process, or to the one that waits for the figures.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  template <typename T>
  void say(const T& value) const {
    if (::send(fd_, &value, sizeof value, MSG_NOSIGNAL) != ssize_t{sizeof value})
      fail("the other process is gone");
  }
  template <typename T>
  T hear() const {
    T value{};
    if (::recv(fd_, &value, sizeof value, MSG_WAITALL) != ssize_t{sizeof value})
      fail("the other process is gone");
    return value;
  }
  void close() const { ::close(fd_); }

 private:
  int fd_;
};

enum class Mark : char { Ready, Connect, Connected, Large, Close, Met };

soft::FabricFile fabric(const Order& order) {
  return soft::parse(fmt::format(R"({{"name": "scale-{}-{}-{}",
    "hosts": [{{"name": "a", "nics": [{{"name": "mesh0", "address": "10.0.12.1/24"}}]}},
              {{"name": "b", "nics": [{{"name": "mesh0", "address": "10.0.12.2/24"}}]}}],
    "links": [{{"ends": ["a/mesh0", "b/mesh0"]}}]}})",
                                 ::getpid(), order.peers, order.processes))
      .value();
}

class Member {
 public:
  Member(const soft::FabricFile& file, const char* host) {
    set_log_level(LogLevel::Warn);
    auto opened = soft::SoftProvider::open({.fabric = file, .host = host, .clock = Clock()});
    if (!opened.ok()) fail("no host of the software fabric");
    provider_ = std::move(*opened);
    EngineOptions options;
    options.provider = provider_.get();
    options.settings.socket_ifname = "lo";
    options.settings.threads = 0;
    options.policy = tuning::derive_policy({}, options.settings);
    auto engine = Engine::open(options);
    if (!engine.ok()) fail("no engine");
    engine_ = std::move(*engine);
  }

  Engine& engine() noexcept { return *engine_; }
  Context& open_context() { return *engine_->open_context({}).value(); }

  struct Peer {
    Context* context = nullptr;
    Listener* listener = nullptr;
    HandleBytes handle{};
    Channel* send = nullptr;
    Channel* receive = nullptr;
  };
  std::vector<Peer> peers;

  void tell_handles(const Line& line) {
    for (Peer& peer : peers) {
      HandleBytes own{};
      peer.listener = engine_->listen(*peer.context, 0, own).value();
      if (peer.listener == nullptr) fail("no listener");
      line.say(own);
    }
  }
  void hear_handles(const Line& line) {
    for (Peer& peer : peers) peer.handle = line.hear<HandleBytes>();
  }

  // Connects in rounds, as NCCL does (NCCL_CONNECT_ROUND_MAX_PEERS, whose default is 128).
  void connect_all(std::size_t at_once) {
    for (std::size_t first = 0; first < peers.size(); first += at_once) {
      const std::size_t last = std::min(first + at_once, peers.size());
      std::size_t done = first;
      const auto all_connected = [&] {
        for (std::size_t i = done; i < last; ++i) advance(peers[i]);
        while (done < last && is_connected(peers[done])) ++done;
        return done == last;
      };
      until("connecting", all_connected, kConnectLookNs);
    }
    for (Peer& peer : peers) engine_->close_listener(std::exchange(peer.listener, nullptr));
  }

  // Sends two large messages to each of the first peers, one after another. Adds their times.
  void send_large(std::vector<std::uint64_t>& first, std::vector<std::uint64_t>& second) {
    for_large([&](const Peer& peer) {
      Registration* const region = register_large(*peer.send);
      for (std::vector<std::uint64_t>* const times : {&first, &second}) {
        const std::uint64_t begin = read_clock(CLOCK_MONOTONIC);
        finish(*isend(*peer.send, {.data = large_.data(), .bytes = large_.size(), .region = region})
                    .value());
        times->push_back(read_clock(CLOCK_MONOTONIC) - begin);
      }
      deregister_memory(*peer.send, region);
    });
  }
  void receive_large() {
    for_large([&](const Peer& peer) {
      Registration* const region = register_large(*peer.receive);
      const RecvArgs room{.data = large_.data(), .bytes = large_.size(), .region = region};
      Request* const one = irecv(*peer.receive, room).value();
      Request* const two = irecv(*peer.receive, room).value();
      finish(*one);
      finish(*two);
      deregister_memory(*peer.receive, region);
    });
  }

  void close_all() {
    for (const Peer& peer : peers) {
      close(peer.send);
      close(peer.receive);
    }
    for (std::size_t i = 0; i < peers.size(); ++i) {
      if (i == 0 || peers[i].context != peers[i - 1].context)
        engine_->close_context(peers[i].context);
    }
  }
  void wait_till_closed() {
    until("closing", [this] { return !engine_->waits_for_peers(); });
  }

 private:
  template <typename Work>
  void for_large(const Work& work) {
    for (std::size_t i = 0; i < std::min(peers.size(), kLargePeersMax); ++i) work(peers[i]);
  }
  Registration* register_large(Channel& channel) {
    return register_memory(channel, large_.data(), large_.size(), MemoryType::Host).value();
  }
  static void finish(Request& request) {
    Status status = Errc::WouldBlock;
    until("a large message", [&] {
      status = test(request, nullptr);
      return status.code() != Errc::WouldBlock;
    });
    if (!status.ok()) fail(fmt::format("a large message: {}", errc_name(status.code())));
  }
  static bool is_connected(const Peer& peer) {
    return peer.send != nullptr && peer.receive != nullptr;
  }
  void advance(Peer& peer) {
    if (peer.send == nullptr) {
      const Result<Channel*> channel = engine_->connect(*peer.context, 0, peer.handle);
      if (!channel.ok() && channel.code() != Errc::WouldBlock)
        fail(fmt::format("connect: {}", errc_name(channel.code())));
      peer.send = channel.value();
    }
    if (peer.receive == nullptr) {
      const Result<Channel*> channel = engine_->accept(*peer.listener);
      if (!channel.ok() && channel.code() != Errc::WouldBlock)
        fail(fmt::format("accept: {}", errc_name(channel.code())));
      peer.receive = channel.value();
    }
  }

  std::vector<std::byte> large_ = std::vector<std::byte>(kLargeBytes);
  std::unique_ptr<soft::SoftProvider> provider_;
  std::unique_ptr<Engine> engine_;
};

// Plays all peers. Each is a communicator of its own here.
void be_the_peers(const Order& order, const soft::FabricFile& file, const Line& line) {
  Member member(file, "b");
  member.peers.resize(order.peers);
  for (Member::Peer& peer : member.peers) peer.context = &member.open_context();
  member.tell_handles(line);
  member.hear_handles(line);
  line.say(Mark::Ready);
  line.hear<Mark>();  // to connect
  member.connect_all(order.at_once);
  line.say(Mark::Connected);
  line.hear<Mark>();  // to receive large messages
  member.receive_large();
  line.hear<Mark>();  // to close
  member.close_all();
  member.wait_till_closed();
}

std::uint64_t median(std::vector<std::uint64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Returns when every process of the host has come so far.
void meet(const Line& host) {
  host.say(Mark::Met);
  host.hear<Mark>();
}

Figures be_the_one(const Order& order, const soft::FabricFile& file, const Line& line,
                   const Line& host) {
  Member member(file, "a");
  member.peers.resize(order.peers);
  const std::uint64_t threads = entries_of("/proc/self/task");
  Context& context = member.open_context();
  for (Member::Peer& peer : member.peers) peer.context = &context;
  member.hear_handles(line);
  member.tell_handles(line);
  line.hear<Mark>();  // the peers are ready
  // Threads that brought something up end, and what they kept of the heap is free again.
  const auto rest = [threads] {
    until("rest", [threads] { return entries_of("/proc/self/task") <= threads; });
  };
  Figures figures;
  figures.peers = order.peers;
  rest();
  meet(host);
  figures.alone = usage();
  meet(host);
  line.say(Mark::Connect);
  member.connect_all(order.at_once);
  const std::uint64_t connected_ns = usage().wall_ns;
  line.hear<Mark>();  // the peers are connected, too
  const EngineStats stats = member.engine().stats();
  const std::uint64_t cpu_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID);
  meet(host);
  rest();
  figures.connected = usage();
  figures.connected.wall_ns = connected_ns;
  figures.connected.cpu_ns = cpu_ns;
  figures.queue_pairs = stats.queue_pairs;
  meet(host);
  line.say(Mark::Large);
  std::vector<std::uint64_t> first, second;
  member.send_large(first, second);
  figures.first_large_ns = median(std::move(first));
  figures.second_large_ns = median(std::move(second));
  line.say(Mark::Close);
  figures.closing = usage();
  member.close_all();
  member.wait_till_closed();
  figures.closed = usage();
  return figures;
}

// Starts a process that does the work; its standard error is ours. Returns its id.
template <typename Work>
pid_t in_process(const Work& work) {
  const pid_t process = ::fork();
  if (process < 0) fail("no process is to be had");
  if (process != 0) return process;
  int status = 0;
  try {
    work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mesh_scale: %s\n", error.what());
    status = 1;
  }
  std::fflush(nullptr);
  ::_exit(status);
}

bool ended_well(pid_t process) {
  int status = 0;
  return ::waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::array<int, 2> connected_sockets() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("no socket");
  return ends;
}

}  // namespace

std::string measure(const Order& order, std::vector<Figures>& figures) try {
  constexpr int kMeetings = 4;
  const soft::FabricFile file = fabric(order);
  std::vector<pid_t> pids;
  std::vector<Line> lines;
  for (std::size_t i = 0; i < order.processes; ++i) {
    const auto [here, there] = connected_sockets();
    pids.push_back(in_process([&, host = Line(there)] {
      for (const Line& line : lines) line.close();
      const auto [own, theirs] = connected_sockets();
      const pid_t many = in_process([&, end = theirs] { be_the_peers(order, file, Line(end)); });
      ::close(theirs);
      const Figures measured = be_the_one(order, file, Line(own), host);
      if (!ended_well(many)) fail("the peers have failed");
      host.say(measured);
    }));
    ::close(there);
    lines.emplace_back(here);
  }
  for (int meeting = 0; meeting < kMeetings; ++meeting) {
    for (const Line& line : lines) line.hear<Mark>();
    for (const Line& line : lines) line.say(Mark::Met);
  }
  figures.clear();
  for (const Line& line : lines) figures.push_back(line.hear<Figures>());
  const bool well = std::all_of(pids.begin(), pids.end(), ended_well);
  for (const Line& line : lines) line.close();
  return well ? std::string() : "its process has failed";
} catch (const std::exception& error) {
  return error.what();
}

}  // namespace mesh::scale
