#include "src/base/socket.h"

#include "src/base/timeouts.h"
#include "src/base/unique_fd.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"

#include <netinet/tcp.h>
#include <sys/un.h>

namespace mesh {
namespace {

SocketAddress parsed(const char* text) {
  const Result<SocketAddress> address = SocketAddress::from_text(text);
  EXPECT_TRUE(address.ok()) << text;
  return address.ok() ? *address : SocketAddress{};
}

bool ready(int fd, short events) {
  pollfd entry{fd, events, 0};
  return ::poll(&entry, 1, 10'000) == 1;
}

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(fd, level, name, &value, &size), 0);
  return value;
}

struct Connected {
  UniqueFd listener, client, server;
};
Connected connect_on_loopback() {
  Connected all;
  const SocketAddress loopback = parsed("127.0.0.1");
  all.listener = std::move(*tcp_listen(loopback, 0));
  const std::uint16_t port = *local_port(all.listener.get());
  all.client = std::move(*tcp_connect_start(loopback, port));
  EXPECT_TRUE(ready(all.client.get(), POLLOUT));
  EXPECT_TRUE(tcp_connect_result(all.client.get()).ok());
  EXPECT_TRUE(ready(all.listener.get(), POLLIN));
  Result<AcceptedSocket> accepted = tcp_accept(all.listener.get());
  EXPECT_TRUE(accepted.ok());
  EXPECT_EQ(accepted->peer, loopback);
  EXPECT_EQ(accepted->peer_port, *local_port(all.client.get()));
  all.server = std::move(accepted->fd);
  return all;
}

TEST(SocketAddress, TextGoesBothWays) {
  for (const char* text : {"10.0.0.1", "0.0.0.0", "fe80::1", "2001:db8::5", "::1", "fe80::1%lo"})
    EXPECT_EQ(parsed(text).text(), text);
  EXPECT_EQ(SocketAddress{}.text(), "none");
  EXPECT_EQ(parsed("10.0.0.1").text_with_port(4711), "10.0.0.1:4711");
  EXPECT_EQ(parsed("2001:db8::5").text_with_port(1), "[2001:db8::5]:1");
  for (const char* text : {"", "10.0.0", "10.0.0.1.2", "host", "10.0.0.1%lo", "fe80::g"})
    EXPECT_FALSE(SocketAddress::from_text(text).ok()) << text;
  EXPECT_EQ(SocketAddress::from_text("fe80::1%nosuch0").code(), Errc::NotFound);
}

TEST(SocketAddress, EqualsByFamilyBytesAndScope) {
  EXPECT_EQ(parsed("10.0.0.1"), parsed("10.0.0.1"));
  EXPECT_NE(parsed("10.0.0.1"), parsed("10.0.0.2"));
  EXPECT_NE(SocketAddress::any(AF_INET), SocketAddress::any(AF_INET6));
  EXPECT_NE(parsed("fe80::1"), parsed("fe80::1%lo"));
}

TEST(SocketAddress, SockaddrKeepsAddressScopeAndPort) {
  for (const char* text : {"10.1.2.3", "2001:db8::5", "fe80::1%lo"}) {
    sockaddr_storage storage{};
    const SocketAddress address = parsed(text);
    ASSERT_GT(address.to_sockaddr(4711, storage), 0u);
    EXPECT_EQ(SocketAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&storage)), address);
    EXPECT_EQ(reinterpret_cast<const sockaddr_in&>(storage).sin_port, htons(4711));
  }
  sockaddr_storage storage{};
  EXPECT_EQ(SocketAddress{}.to_sockaddr(1, storage), 0u);
  EXPECT_EQ(SocketAddress::from_sockaddr(nullptr), SocketAddress{});
}

TEST(SocketAddress, MappedGidIsIpv4) {
  std::array<std::uint8_t, 16> gid{};
  gid[10] = gid[11] = 0xff;
  gid[12] = 10;
  gid[15] = 7;
  EXPECT_EQ(SocketAddress::from_gid(gid), parsed("10.0.0.7"));
  gid[0] = 0x20;
  EXPECT_EQ(SocketAddress::from_gid(gid).family, AF_INET6);
}

TEST(SocketAddress, KnowsLinkLocalAndLoopback) {
  EXPECT_TRUE(parsed("169.254.1.1").link_local());
  EXPECT_TRUE(parsed("fe80::1").link_local());
  EXPECT_TRUE(parsed("febf::1").link_local());
  EXPECT_FALSE(parsed("fec0::1").link_local());
  EXPECT_FALSE(parsed("10.0.0.1").link_local());
  EXPECT_TRUE(parsed("127.0.0.2").loopback());
  EXPECT_TRUE(parsed("::1").loopback());
  EXPECT_FALSE(parsed("::2").loopback());
}

TEST(Socket, ConnectionIsNonBlockingPromptAndWatchful) {
  const Connected all = connect_on_loopback();
  for (const int fd : {all.client.get(), all.server.get()}) {
    EXPECT_TRUE(::fcntl(fd, F_GETFL) & O_NONBLOCK);
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), kSilenceToDeadHostMs);
    const int seconds =
        option(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
        option(fd, IPPROTO_TCP, TCP_KEEPINTVL) * option(fd, IPPROTO_TCP, TCP_KEEPCNT);
    EXPECT_LE(seconds, 20);
  }
  EXPECT_TRUE(::fcntl(all.listener.get(), F_GETFL) & O_NONBLOCK);
  EXPECT_TRUE(::fcntl(all.listener.get(), F_GETFD) & FD_CLOEXEC);
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

// A peer decides how many sockets we open, so the lines are limited. A socket of the Unix family
// has no TCP options, so each accept complains.
TEST(Socket, LinesAboutOptionsHaveABudget) {
  const std::string path = testing::TempDir() + "socket_test." + std::to_string(::getpid());
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(path);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);
  const testkit::LogCapture log;
  for (int i = 0; i < 50; ++i) {
    const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    EXPECT_TRUE(tcp_accept(listener.get()).ok());
  }
  ::unlink(path.c_str());
  EXPECT_GE(log.count(LogLevel::Detail, "refused"), 1);
  EXPECT_LE(log.count(LogLevel::Detail, "refused"), 2 * 16)
      << "were the clock to pass a window's end";
}

TEST(Socket, NobodyWaitingIsWouldBlock) {
  const Result<UniqueFd> listener = tcp_listen(parsed("127.0.0.1"), 0);
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(tcp_accept(listener->get()).code(), Errc::WouldBlock);
}

TEST(Socket, RefusedIsUnreachableWithItsErrno) {
  std::uint16_t port = 0;
  {
    const Result<UniqueFd> gone = tcp_listen(parsed("127.0.0.1"), 0);
    port = *local_port(gone->get());
  }
  const Result<UniqueFd> fd = tcp_connect_start(parsed("127.0.0.1"), port);
  if (!fd.ok()) {
    EXPECT_EQ(fd.code(), Errc::Unreachable);
  } else {
    ASSERT_TRUE(ready(fd->get(), POLLOUT));
    EXPECT_EQ(tcp_connect_result(fd->get()).code(), Errc::Unreachable);
  }
  EXPECT_EQ(errno, ECONNREFUSED);
}

TEST(Socket, NoAddressIsAnArgumentError) {
  EXPECT_EQ(tcp_listen(SocketAddress{}, 0).code(), Errc::InvalidArgument);
  EXPECT_EQ(tcp_connect_start(SocketAddress{}, 1).code(), Errc::InvalidArgument);
}

TEST(Socket, PortInUseIsASystemError) {
  const Result<UniqueFd> first = tcp_listen(parsed("127.0.0.1"), 0);
  EXPECT_EQ(tcp_listen(parsed("127.0.0.1"), *local_port(first->get())).code(), Errc::System);
  EXPECT_EQ(errno, EADDRINUSE);
}

// The child checks its own descriptors and exits later: the peer must see that the parent closed
// although the child lives.
TEST(Socket, ForkedChildHoldsNoConnection) {
  Connected all = connect_on_loopback();
  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(pipe_fds[1]);
    const bool closed =
        ::fcntl(all.client.get(), F_GETFD) < 0 && ::fcntl(all.listener.get(), F_GETFD) < 0;
    char byte = 0;
    (void)!::read(pipe_fds[0], &byte, 1);
    ::_exit(closed ? 0 : 1);
  }
  ::close(pipe_fds[0]);
  all.client.reset();
  ASSERT_TRUE(ready(all.server.get(), POLLIN));
  char byte = 0;
  EXPECT_EQ(::read(all.server.get(), &byte, 1), 0);
  ::close(pipe_fds[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

std::vector<InterfaceAddress> machine() {
  std::vector<InterfaceAddress> all;
  const auto add = [&](const char* name, const char* text) {
    all.push_back({name, *SocketAddress::from_text(text), 24});
  };
  add("lo", "127.0.0.1");
  add("lo", "::1");
  add("docker0", "172.17.0.1");
  add("virbr0", "192.168.122.1");
  add("eth0", "fe80::5");
  add("eth0", "10.0.0.5");
  add("eth1", "10.1.0.5");
  add("eth1", "2001:db8::5");
  return all;
}

std::vector<std::string> chosen(const std::vector<InterfaceAddress>& candidates,
                                const InterfaceRule& rule) {
  std::vector<std::string> texts;
  for (const InterfaceAddress& entry : choose_interfaces(candidates, rule))
    texts.push_back(entry.name + " " + entry.address.text());
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Interfaces, UnsetLeavesOutLoopbackAndBridgesAndPutsLinkLocalLast) {
  EXPECT_EQ(chosen(machine(), {}),
            (Texts{"eth0 10.0.0.5", "eth1 10.1.0.5", "eth1 2001:db8::5", "eth0 fe80::5"}));
}

TEST(Interfaces, FamilyIsASieve) {
  EXPECT_EQ(chosen(machine(), {.names = "", .family = "AF_INET"}),
            (Texts{"eth0 10.0.0.5", "eth1 10.1.0.5"}));
  EXPECT_EQ(chosen(machine(), {.names = "", .family = "AF_INET6"}),
            (Texts{"eth1 2001:db8::5", "eth0 fe80::5"}));
}

TEST(Interfaces, NamedOnesAreTakenWhateverTheyAre) {
  EXPECT_EQ(chosen(machine(), {.names = "docker", .family = ""}), (Texts{"docker0 172.17.0.1"}));
  EXPECT_EQ(chosen(machine(), {.names = "=lo", .family = "AF_INET"}), (Texts{"lo 127.0.0.1"}));
  EXPECT_EQ(chosen(machine(), {.names = "=eth", .family = ""}), Texts{});
}

// NCCL takes a text of one character for none, so a bare "^" is no rule here.
TEST(Interfaces, OneCharacterIsUnsetAsInNccl) {
  for (const char* const names : {"^", "e"})
    EXPECT_EQ(chosen(machine(), {.names = names, .family = "AF_INET"}),
              (Texts{"eth0 10.0.0.5", "eth1 10.1.0.5"}));
  EXPECT_EQ(chosen(machine(), {.names = "^=", .family = ""}), Texts{});
}

TEST(Interfaces, ExcludingAsksForNothingSoLoopbackStaysOut) {
  EXPECT_EQ(chosen(machine(), {.names = "^eth0", .family = "AF_INET"}),
            (Texts{"docker0 172.17.0.1", "virbr0 192.168.122.1", "eth1 10.1.0.5"}));
}

TEST(Interfaces, LoopbackOnlyWhenNothingElseIsUp) {
  std::vector<InterfaceAddress> bare = machine();
  bare.resize(4);
  EXPECT_EQ(chosen(bare, {.names = "", .family = "AF_INET"}), (Texts{"lo 127.0.0.1"}));
}

// Each of these is on many hosts with one address, and a peer that dials it meets another host.
TEST(Interfaces, UnsetLeavesOutTheBridgesOfContainersAndVirtualMachines) {
  std::vector<InterfaceAddress> crowd = machine();
  for (const char* const name : {"br-0123456789ab", "lxcbr0", "lxdbr0", "veth12ab", "cni0", "cali0",
                                 "flannel.1", "cilium_host", "podman0", "tmfifo_net0"})
    crowd.push_back({name, *SocketAddress::from_text("192.168.100.1"), 24});
  EXPECT_EQ(chosen(crowd, {}), chosen(machine(), {}));
  crowd.push_back({"br-ex", *SocketAddress::from_text("10.2.0.5"), 24});
  EXPECT_EQ(chosen(crowd, {.names = "", .family = "AF_INET"}),
            (Texts{"eth0 10.0.0.5", "eth1 10.1.0.5", "br-ex 10.2.0.5"}))
      << "a bridge that may be the host's own network";
}

TEST(Interfaces, ATunnelIsForHostsThatShareNothingElse) {
  std::vector<InterfaceAddress> all = machine();
  all.push_back({"tailscale0", *SocketAddress::from_text("100.64.0.5"), 32});
  EXPECT_EQ(chosen(all, {}), chosen(machine(), {}));
  std::vector<InterfaceAddress> bare = machine();
  bare.resize(4);
  bare.push_back(all.back());
  EXPECT_EQ(chosen(bare, {.names = "", .family = "AF_INET"}), (Texts{"tailscale0 100.64.0.5"}));
}

TEST(Interfaces, ThisHostHasLoopbackByName) {
  bool found = false;
  for (const InterfaceAddress& entry : interfaces({.names = "=lo", .family = "AF_INET"}))
    found = found || (entry.address.loopback() && entry.prefix_len == 8);
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace mesh
