#include "tests/e2e/line.h"

#include "perf/driver/plugin_log.h"
#include "tests/e2e/raw.h"

namespace mesh::e2e {
namespace {

constexpr unsigned char kUntouched = 0xc3;
constexpr std::size_t kGuard = 256;  // bytes that are checked behind each message

// Every rank listens. Returns the handle of that rank's listener.
driver::NetHandle listen_and_swap(Peer& peer, driver::Communicator& communicator,
                                  driver::Listening& listening, int rank) {
  require_success(communicator.listen(listening), "listen");
  const std::string own(reinterpret_cast<const char*>(listening.handle.data()),
                        listening.handle.size());
  const std::vector<std::string> handles = peer.all_gather(own);
  driver::NetHandle remote;
  std::memcpy(remote.data(), handles[static_cast<std::size_t>(rank)].data(), remote.size());
  return remote;
}

driver::PatternKey key_of(std::uint64_t number) {
  return {.seed = 3, .sender = 0, .message = number};
}

void require_pattern(const char* data, std::size_t bytes, std::uint64_t number) {
  const driver::PatternVerdict verdict = driver::check_pattern(key_of(number), data, bytes);
  require(verdict.good(), driver::describe(verdict, key_of(number), data, bytes));
}

void receive_and_check(Line& line, const Transfer& message) {
  char* data = line.memory().data() + message.offset;
  const std::size_t room = message.room == 0 ? message.bytes : message.room;
  const std::size_t watched = std::min(line.memory().buffer().bytes() - message.offset,
                                       std::max(room, message.bytes) + kGuard);
  std::memset(data, kUntouched, watched);
  require(line.pipe().push(line.memory().piece(message.offset, room)), "no room in the pipe");
  line.wait();
  const std::size_t got = line.pipe().bytes_of(line.pipe().completed() - 1);
  require(got == message.bytes,
          std::to_string(message.bytes) + " bytes sent, " + std::to_string(got) + " reported");
  require_pattern(data, message.bytes, message.number);
  for (std::size_t i = message.bytes; i < watched; ++i) {
    require(static_cast<unsigned char>(data[i]) == kUntouched,
            "byte " + std::to_string(i) + " behind a message of " + std::to_string(message.bytes) +
                " was written");
  }
}

}  // namespace

bool logged(const std::string& words) { return driver::PluginLog::instance().contains(words); }

std::unique_ptr<driver::Communicator> open_communicator(driver::NetApi& api, std::uint64_t id) {
  auto communicator =
      std::make_unique<driver::Communicator>(api, driver::CommunicatorOptions{.id = id});
  require_success(communicator->open(), "init");
  return communicator;
}

Line::Line(Peer& peer, driver::Communicator& communicator, const LineOptions& options)
    : communicator_(communicator),
      options_(options),
      connections_(communicator),
      sends_(peer.rank() == options.from) {
  driver::ConnectionPlan plan;
  const bool receives = peer.rank() == options.to;
  if (sends_) plan.send_to = {options.to};
  if (receives) plan.recv_from = {options.from};
  plan.timeout = scaled(options.patience);
  require_success(connections_.connect(peer.bootstrap(), plan), "connecting");
  comm_ = sends_ ? connections_.send(0) : connections_.recv(0);
  memory_ = driver::Registered(communicator, comm_, options.bytes);
  require_success(memory_.result(), "regMr");
  const driver::Side side = sends_ ? driver::Side::Send : driver::Side::Recv;
  if (sends_ || receives) Raw(communicator.api(), comm_, side).wake();
  pipe_ = std::make_unique<driver::Pipe>(
      communicator.api(), driver::PipeOptions{.side = side,
                                              .comm = comm_,
                                              .depth = options.depth,
                                              .optional_marker = options.optional_marker,
                                              .ask_sizes = options.ask_sizes});
  communicator.progress().attach(*pipe_);
}

Line::~Line() {
  if (pipe_ != nullptr) communicator_.progress().detach(*pipe_);
}

void Line::wait() {
  const int result = wait_result(scaled(options_.patience));
  require(result == driver::kNetSuccess, std::string("moving data ended with ") +
                                             driver::net_result_name(result) + " after " +
                                             std::to_string(pipe_->completed()) + " of " +
                                             std::to_string(pipe_->pushed()) + " messages");
}

void Line::close() {
  communicator_.progress().detach(*pipe_);
  require_success(memory_.release(), "deregMr");
  require_success(connections_.close(), "close");
}

Flow::Flow(Peer& peer, const LineOptions& options)
    : api_(peer.load()),
      communicator_(open_communicator(*api_)),
      line_(peer, *communicator_, options),
      repeat_(line_.pipe()) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  communicator_->progress().attach(repeat_);
  repeat_.start({.first = line_.memory().piece(0, kBytes), .stride = kBytes, .slots = 8},
                std::uint64_t{1} << 60);
}

void Flow::let_flow(std::uint64_t count) {
  const std::uint64_t goal = line_.pipe().completed() + count;
  const auto end = std::chrono::steady_clock::now() + patience();
  while (line_.pipe().completed() < goal) {
    require(std::chrono::steady_clock::now() < end, "no data flows");
    std::this_thread::yield();
  }
}

// Two seconds are promised; resume_test has them on a manual clock
// (WhereNobodyListensAnyMoreThePeerIsGoneAtOnce).
void Flow::expect_death() {
  const int result = line_.wait_result(clock_bar(std::chrono::seconds(2)));
  require(result == driver::kNetRemoteError || result == driver::kNetSystemError,
          std::string("the flow ended with ") + driver::net_result_name(result));
  const auto closing = std::chrono::steady_clock::now();
  line_.close();
  require_success(communicator_->close(), "finalize");
  const std::chrono::duration<double> closed = std::chrono::steady_clock::now() - closing;
  require(closed.count() < clock_bar_s(3),
          "closing after a peer's death took " + std::to_string(closed.count()) + " s");
}

void transfer(Line& line, const Transfer& message) {
  if (!line.sends()) {
    receive_and_check(line, message);
    return;
  }
  driver::fill_pattern(key_of(message.number), line.memory().data() + message.offset,
                       message.bytes);
  require(line.pipe().push(line.memory().piece(message.offset, message.bytes)),
          "no room in the pipe");
  line.wait();
}

void stream(Line& line, const Stream& messages) {
  const std::size_t slots = std::min<std::size_t>(
      8, line.memory().buffer().bytes() / std::max<std::size_t>(messages.bytes, 1));
  require(slots > 0, "the line's memory is too small for its messages");
  const auto slot_of = [&](std::uint64_t number) { return number % slots * messages.bytes; };
  const std::uint64_t begin = messages.first_number;
  driver::Pipe& pipe = line.pipe();
  for (std::uint64_t done = 0; done < messages.count;) {
    const std::uint64_t batch = std::min<std::uint64_t>(slots, messages.count - done);
    for (std::uint64_t i = done; i < done + batch; ++i) {
      char* data = line.memory().data() + slot_of(i);
      if (line.sends()) driver::fill_pattern(key_of(begin + i), data, messages.bytes);
      require(pipe.push(line.memory().piece(slot_of(i), messages.bytes)), "no room in the pipe");
    }
    line.wait();
    for (std::uint64_t i = done; i < done + batch && !line.sends(); ++i) {
      require_pattern(line.memory().data() + slot_of(i), messages.bytes, begin + i);
      require(pipe.bytes_of(pipe.completed() - batch + i - done) == messages.bytes,
              "a wrong size was reported");
    }
    done += batch;
  }
}

void send_one_message(Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Line line(peer, *communicator, {.bytes = 4096});
  transfer(line, {.bytes = 4096});
  peer.barrier();
  line.close();
}

void expect_no_plugin(Peer& peer) {
  const auto api = peer.load();
  void* context = nullptr;
  require(api->init(1, &context) != driver::kNetSuccess, "init took it");
}

Dormant::Dormant(Peer& peer, driver::Communicator& communicator, Ways ways)
    : communicator_(communicator) {
  driver::Listening listening;
  const driver::NetHandle remote = listen_and_swap(peer, communicator, listening,
                                                   (peer.rank() + peer.world() / 2) % peer.world());
  std::future<driver::CommOutcome> connecting, accepting;
  if (ways == Ways::Both || peer.rank() == 0)
    connecting = communicator.start_connect(remote, patience());
  if (ways == Ways::Both || peer.rank() != 0)
    accepting = communicator.start_accept(listening.comm, patience());
  for (auto* const each : {&connecting, &accepting}) {
    if (!each->valid()) continue;
    const driver::CommOutcome outcome = each->get();
    require_success(outcome.result, "a connection to a host that no rail reaches");
    (each == &connecting ? send_ : receive_) = outcome.comm;
  }
}

void Dormant::expect_first_messages_to_fail() {
  char byte = 0;
  for (void* const comm : {send_, receive_}) {
    if (comm == nullptr) continue;
    driver::NetPiece piece{.data = &byte, .bytes = 1, .tag = 0};
    require_success(communicator_.reg_mr(comm, {.data = &byte, .bytes = 1}, &piece.mhandle),
                    "regMr on a unreachable link");
    void* request = nullptr;
    const int result = comm == send_ ? communicator_.api().isend(comm, piece, &request)
                                     : communicator_.api().irecv(comm, piece, &request);
    require(result != driver::kNetSuccess, "a message that no path carries was begun");
    require_success(communicator_.dereg_mr(comm, piece.mhandle), "deregMr on a unreachable link");
  }
}

void Dormant::expect_messages_to_fail_in_time() {
  char byte = 0;
  const auto deadline = std::chrono::steady_clock::now() + patience();
  for (void* const comm : {send_, receive_}) {
    driver::NetPiece piece{.data = &byte, .bytes = 1, .tag = 0};
    require_success(communicator_.reg_mr(comm, {.data = &byte, .bytes = 1}, &piece.mhandle),
                    "regMr on a lazy link");
    int result = driver::kNetSuccess;
    while (result == driver::kNetSuccess) {
      void* request = nullptr;
      result = comm == send_ ? communicator_.api().isend(comm, piece, &request)
                             : communicator_.api().irecv(comm, piece, &request);
      require(request == nullptr, "a message that no path carries was begun");
      require(std::chrono::steady_clock::now() < deadline, "a message without a path waits");
    }
    require_success(communicator_.dereg_mr(comm, piece.mhandle), "deregMr on a lazy link");
  }
}

void Dormant::close() {
  if (send_ != nullptr) require_success(communicator_.close_send(send_), "closeSend");
  if (receive_ != nullptr) require_success(communicator_.close_recv(receive_), "closeRecv");
}

Rounds::Rounds(Peer& peer, driver::Communicator& communicator,
               const perf::CollectiveOptions& options, int channels) {
  std::string error;
  collective_ = perf::Collective::create({&communicator, &peer.bootstrap(), channels, patience()},
                                         options, error);
  require(collective_ != nullptr, error);
}

void Rounds::run(std::size_t bytes) {
  std::size_t wrong = 0;
  require_success(collective_->check(collective_->count_for(bytes), ++round_, wrong),
                  "a run of " + std::to_string(bytes) + " bytes");
  require(wrong == 0,
          std::to_string(wrong) + " wrong elements of " + std::to_string(bytes) + " bytes");
}

void expect_first_messages_to_fail(Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Dormant dormant(peer, *communicator, Dormant::Ways::FromRank0);
  dormant.expect_first_messages_to_fail();
  peer.barrier();
  dormant.close();
}

void expect_refusal(Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  driver::Listening listening;
  const driver::NetHandle remote = listen_and_swap(peer, *communicator, listening, 1);
  const auto begin = std::chrono::steady_clock::now();
  const driver::CommOutcome outcome =
      peer.rank() == 0 ? communicator->start_connect(remote, patience()).get()
                       : communicator->start_accept(listening.comm, patience()).get();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  report_figure("failed_after_ms", took.count());
  require(!logged("the handshake is given up"), "an end has waited until its time was over");
  require(outcome.result != driver::kNetSuccess && outcome.result != driver::kDriverTimeout,
          "there was no refusal");
  peer.barrier();
}

}  // namespace mesh::e2e
