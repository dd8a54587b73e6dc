#include "tests/contract/other_process.h"

#include "src/base/clock.h"

namespace mesh::contract {

std::byte expected_byte(std::uint8_t seed, std::size_t position) {
  return static_cast<std::byte>(seed + position * 13 + position / 257);
}

// The part that runs in the child. Polls between commands, as an application would.
class OtherProcess::Server {
 public:
  Server(Host host, const PairOptions& pair) : host_(std::move(host)), pair_(pair) {
    good_ = open_endpoint(endpoint_, host_, pair_);
  }
  ~Server() { close_endpoint(endpoint_); }

  Answer name() const {
    return {good_ ? 1u : 0u,
            {endpoint_.gid.gid, endpoint_.qp->qp_num, endpoint_.mr->rkey, endpoint_.address()},
            {}};
  }
  void idle() {
    if (!napping_ && good_)
      ibv_poll_cq(endpoint_.receive_cq, 0, nullptr);  // turns a NIC that lives in our process
  }
  Answer handle(const Command& command) {
    Answer answer;
    switch (command.verb) {
      case Verb::Connect:
        answer.good = connect_endpoint(endpoint_, command.peer.gid, command.peer.qp_num, pair_);
        break;
      case Verb::PostReceives: answer.good = post_receives(command.value); break;
      case Verb::Write: answer.good = write(command); break;
      case Verb::Fill: answer.good = fill(static_cast<std::uint8_t>(command.value)); break;
      case Verb::Holds:
        answer.good = holds(static_cast<std::uint8_t>(command.value), command.bytes);
        break;
      case Verb::NextReceive: answer.good = poll_one(endpoint_.receive_cq, &answer.wc); break;
      case Verb::Deregister:
        answer.good = endpoint_.provider->dereg_mr(std::exchange(endpoint_.mr, nullptr)) == 0;
        break;
      case Verb::Nap: answer.good = napping_ = true; break;
    }
    // Another process's command orders the test's next step after ours, but a race detector sees
    // only our threads. The lock inside a control call makes the order visible to it.
    ibv_cq* const cq = endpoint_.provider->create_cq(endpoint_.context, 1);
    if (cq == nullptr || endpoint_.provider->destroy_cq(cq) != 0) answer.good = 0;
    return answer;
  }

 private:
  bool post_receives(std::uint32_t count) {
    bool good = true;
    for (std::uint32_t i = 0; i < count; ++i) {
      ibv_recv_wr wr{};
      wr.wr_id = i;
      ibv_recv_wr* bad = nullptr;
      good = good && ibv_post_recv(endpoint_.qp, &wr, &bad) == 0;
    }
    return good;
  }
  bool write(const Command& command) {
    ibv_sge sge{endpoint_.address(), command.bytes, endpoint_.mr->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.imm_data = htonl(command.value);
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {command.peer.address, command.peer.rkey};
    ibv_send_wr* bad = nullptr;
    ibv_wc wc{};
    return ibv_post_send(endpoint_.qp, &wr, &bad) == 0 && poll_one(endpoint_.send_cq, &wc) &&
           wc.status == IBV_WC_SUCCESS;
  }
  bool fill(std::uint8_t seed) {
    for (std::size_t i = 0; i < endpoint_.memory.size(); ++i)
      endpoint_.memory[i] = expected_byte(seed, i);
    return true;
  }
  bool holds(std::uint8_t seed, std::uint32_t bytes) const {
    for (std::size_t i = 0; i < bytes; ++i)
      if (endpoint_.memory[i] != expected_byte(seed, i)) return false;
    return true;
  }
  bool poll_one(ibv_cq* cq, ibv_wc* wc) {
    const Clock clock;
    const std::uint64_t until_ns = clock.now_ns() + 50'000'000'000;
    int found = 0;
    while (found == 0 && clock.now_ns() < until_ns) {
      if (napping_)
        ::poll(nullptr, 0, 1);  // the agent turns the NIC; this only looks into the queue, rarely
      found = ibv_poll_cq(cq, 1, wc);
    }
    return found == 1;
  }

  Host host_;
  const PairOptions pair_;
  Endpoint endpoint_;
  bool good_ = false, napping_ = false;
};

OtherProcess::OtherProcess(const ProviderKind& kind, Side side, const PairOptions& pair) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) std::abort();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(fds[0]);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(fds[1], kind.open(side), pair);
  }
  ::close(fds[1]);
  fd_ = fds[0];
  Answer answer;
  if (::recv(fd_, &answer, sizeof answer, 0) == static_cast<ssize_t>(sizeof answer))
    name_ = answer.name;
}

OtherProcess::~OtherProcess() {
  ::close(fd_);  // the child exits when it reads end of file
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

void OtherProcess::serve(int fd, Host host, const PairOptions& pair) {
  {
    if (host.provider == nullptr) ::_exit(1);
    Server server(std::move(host), pair);
    Answer answer = server.name();
    Command command;
    ssize_t got = ::send(fd, &answer, sizeof answer, 0);
    while (got > 0) {
      pollfd ready{fd, POLLIN, 0};
      if (::poll(&ready, 1, 0) == 0) {
        server.idle();
        continue;
      }
      got = ::recv(fd, &command, sizeof command, 0);
      if (got != static_cast<ssize_t>(sizeof command)) break;
      answer = server.handle(command);
      got = ::send(fd, &answer, sizeof answer, 0);
    }
  }
  ::_exit(0);
}

OtherProcess::Answer OtherProcess::ask(const Command& command) {
  Answer answer;
  if (::send(fd_, &command, sizeof command, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof command))
    return {};
  if (::recv(fd_, &answer, sizeof answer, 0) != static_cast<ssize_t>(sizeof answer)) return {};
  return answer;
}

bool OtherProcess::connect(const EndpointName& peer) {
  return ask({Verb::Connect, peer}).good == 1;
}
bool OtherProcess::post_receives(std::uint32_t count) {
  return ask({Verb::PostReceives, {}, count}).good == 1;
}
bool OtherProcess::write(const EndpointName& to, std::uint32_t bytes, std::uint32_t imm) {
  return ask({Verb::Write, to, imm, bytes}).good == 1;
}
bool OtherProcess::fill(std::uint8_t seed) { return ask({Verb::Fill, {}, seed}).good == 1; }
bool OtherProcess::holds(std::uint8_t seed, std::uint32_t bytes) {
  return ask({Verb::Holds, {}, seed, bytes}).good == 1;
}
ibv_wc OtherProcess::next_receive() { return ask({Verb::NextReceive, {}}).wc; }
bool OtherProcess::deregister() { return ask({Verb::Deregister, {}}).good == 1; }
bool OtherProcess::nap() { return ask({Verb::Nap, {}}).good == 1; }

void OtherProcess::kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}
void OtherProcess::stop() {
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);
}
void OtherProcess::resume() { ::kill(pid_, SIGCONT); }

}  // namespace mesh::contract
