#pragma once
// An endpoint in a separate process, driven by short commands over a socket pair. The process is
// forked from the test before the test has any thread of ours. Thread: the test's.

#include "tests/contract/endpoint_pair.h"

#include <sys/types.h>

namespace mesh::contract {

struct EndpointName {
  ibv_gid gid{};
  std::uint32_t qp_num = 0, rkey = 0;
  std::uint64_t address = 0;
};

class OtherProcess {
 public:
  OtherProcess(const ProviderKind& kind, Side side, const PairOptions& pair);
  ~OtherProcess();  // ends the process
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  const EndpointName& name() const { return name_; }
  bool connect(const EndpointName& peer);
  bool post_receives(std::uint32_t count);
  bool write(const EndpointName& to, std::uint32_t bytes,
             std::uint32_t imm);                       // with immediate; waits for its completion
  bool fill(std::uint8_t seed);                        // writes a pattern to all of its memory
  bool holds(std::uint8_t seed, std::uint32_t bytes);  // checks the pattern in its memory
  ibv_wc next_receive();                               // polls until a completion arrives
  bool deregister();
  bool nap();  // from now on the process polls nothing between commands: its agent must do it

  void kill();
  void stop();
  void resume();

 private:
  enum class Verb : std::uint32_t {
    Connect,
    PostReceives,
    Write,
    Fill,
    Holds,
    NextReceive,
    Deregister,
    Nap
  };
  struct Command {
    Verb verb;
    EndpointName peer;
    std::uint32_t value = 0, bytes = 0;
  };
  struct Answer {
    std::uint32_t good = 0;
    EndpointName name;
    ibv_wc wc{};
  };
  class Server;
  [[noreturn]] static void serve(int fd, Host host, const PairOptions& pair);
  Answer ask(const Command& command);

  pid_t pid_ = 0;
  int fd_ = -1;
  EndpointName name_;
};

std::byte expected_byte(std::uint8_t seed, std::size_t position);

}  // namespace mesh::contract
