#pragma once
// A free TCP port of this machine that stays ours until another process of the test listens at it:
// a bound socket that does not listen keeps it from everybody who does not ask for it by its
// number. Thread: any.

#include "src/base/unique_fd.h"
#include "tests/prelude.h"

namespace mesh::e2e {

class HeldPort {
 public:
  HeldPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;  // as the socket that is to listen there has it, too
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    const bool held = ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                      ::bind(socket_.get(), raw, bytes) == 0 &&
                      ::getsockname(socket_.get(), raw, &bytes) == 0;
    EXPECT_TRUE(held) << "no port is free";
    port_ = ntohs(address.sin_port);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  UniqueFd socket_;
  std::uint16_t port_ = 0;
};

}  // namespace mesh::e2e
