#include "tests/os_faults/scenario.h"

#include "tests/os_faults/door.h"

namespace mesh::testkit {
namespace {

using Clock = std::chrono::steady_clock;

std::mutex g_log_mutex;
std::string g_log;
constexpr std::size_t kLogMax = 16 * 1024;

// NOLINTNEXTLINE(readability-function-size): NCCL's signature
void log(ncclDebugLogLevel level, unsigned long, const char*, int, const char* format, ...) {
  const door::Outside outside;
  std::array<char, 512> line{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  const std::lock_guard lock(g_log_mutex);
  if (g_log.size() < kLogMax)
    g_log += std::string(level == NCCL_LOG_WARN ? "WARN " : "INFO ") + line.data() + "\n";
}

constexpr std::array<std::size_t, 4> kMessageBytes{8, 0, 4096, 300'000};
constexpr std::size_t kBufferBytes = 300'000;

struct Communicator {
  void* context = nullptr;
  void* listen = nullptr;
  void* send = nullptr;
  void* receive = nullptr;
  void* region = nullptr;
  std::vector<std::byte> buffer = std::vector<std::byte>(kBufferBytes);
};

class Life {
 public:
  explicit Life(const nccl::NewestNet& net) : net_(net) {}

  End run() {
    begin() && connect() && register_both() && exchange();
    close(receiver_);
    close(sender_);
    return end_;
  }

 private:
  template <typename Call>
  ncclResult_t made(Call&& call) {
    const door::Inside inside;
    return call();
  }
  template <typename Call>
  bool step(const char* name, Call&& call) {
    const ncclResult_t result = made(call);
    if (result == ncclSuccess) return true;
    if (end_.succeeded()) end_ = {.step = name, .result = result};
    return false;
  }
  bool give_up(const char* name) {
    end_ = {.step = name, .result = ncclSuccess, .stuck = true};
    return false;
  }

  bool begin() {
    for (Communicator* each : {&sender_, &receiver_}) {
      nccl::NewestCommConfig config{NCCL_NET_TRAFFIC_CLASS_UNDEF};
      if (!step("init", [&] { return net_.init(&each->context, 1, &config, log, nullptr); }))
        return false;
    }
    int devices = 0;
    nccl::NewestProperties properties{};
    return step("devices", [&] { return net_.devices(&devices); }) &&
           step("getProperties", [&] { return net_.getProperties(0, &properties); }) &&
           step("listen", [&] {
             return net_.listen(receiver_.context, 0, handle_.data(), &receiver_.listen);
           });
  }

  bool connect() {
    const auto deadline = Clock::now() + std::chrono::seconds(kWaitSeconds);
    while (sender_.send == nullptr || receiver_.receive == nullptr) {
      ncclNetDeviceHandle_t* offload = nullptr;
      if (sender_.send == nullptr && !step("connect", [&] {
            return net_.connect(sender_.context, 0, handle_.data(), &sender_.send, &offload);
          }))
        return false;
      if (receiver_.receive == nullptr && !step("accept", [&] {
            return net_.accept(receiver_.listen, &receiver_.receive, &offload);
          }))
        return false;
      if (Clock::now() > deadline) return give_up(sender_.send == nullptr ? "connect" : "accept");
      ::sched_yield();
    }
    return true;
  }

  bool register_both() {
    return step("regMr",
                [&] {
                  return net_.regMr(sender_.send, sender_.buffer.data(), kBufferBytes,
                                    NCCL_PTR_HOST, &sender_.region);
                }) &&
           step("regMr", [&] {
             return net_.regMr(receiver_.receive, receiver_.buffer.data(), kBufferBytes,
                               NCCL_PTR_HOST, &receiver_.region);
           });
  }

  bool exchange() {
    for (const std::size_t bytes : kMessageBytes) {
      if (!exchange_one(bytes)) return false;
    }
    return true;
  }

  bool exchange_one(std::size_t bytes) {
    const auto deadline = Clock::now() + std::chrono::seconds(kWaitSeconds);
    void* data = receiver_.buffer.data();
    std::size_t room = bytes;
    int tag = 7;
    std::array<void*, 2> requests{};
    std::array<int, 2> done{};
    while (done[0] == 0 || done[1] == 0) {
      if (requests[0] == nullptr && !step("isend", [&] {
            return net_.isend(sender_.send, sender_.buffer.data(), bytes, tag, sender_.region,
                              nullptr, &requests[0]);
          }))
        return false;
      if (requests[1] == nullptr && !step("irecv", [&] {
            return net_.irecv(receiver_.receive, 1, &data, &room, &tag, &receiver_.region, nullptr,
                              &requests[1]);
          }))
        return false;
      for (std::size_t i = 0; i < requests.size(); ++i) {
        int moved = 0;
        if (requests[i] != nullptr && done[i] == 0 &&
            !step("test", [&] { return net_.test(requests[i], &done[i], &moved); }))
          return false;
      }
      if (Clock::now() > deadline) return give_up("test");
      ::sched_yield();
    }
    return true;
  }

  void close(Communicator& each) {
    void* const comm = each.send != nullptr ? each.send : each.receive;
    if (each.region != nullptr) step("deregMr", [&] { return net_.deregMr(comm, each.region); });
    if (each.send != nullptr) step("closeSend", [&] { return net_.closeSend(each.send); });
    if (each.receive != nullptr) step("closeRecv", [&] { return net_.closeRecv(each.receive); });
    if (each.listen != nullptr) step("closeListen", [&] { return net_.closeListen(each.listen); });
    if (each.context != nullptr) step("finalize", [&] { return net_.finalize(each.context); });
  }

  const nccl::NewestNet& net_;
  Communicator sender_, receiver_;
  std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE> handle_{};
  End end_;
};

}  // namespace

void* open_bystander(const nccl::NewestNet& net) {
  void* context = nullptr;
  nccl::NewestCommConfig config{NCCL_NET_TRAFFIC_CLASS_UNDEF};
  const door::Inside inside;
  return net.init(&context, 2, &config, log, nullptr) == ncclSuccess ? context : nullptr;
}

void close_bystander(const nccl::NewestNet& net, void* context) {
  const door::Inside inside;
  net.finalize(context);
}

End run_scenario(const nccl::NewestNet& net) { return Life(net).run(); }

std::string take_log() {
  const std::lock_guard lock(g_log_mutex);
  return std::exchange(g_log, {});
}

}  // namespace mesh::testkit
