#include "perf/driver/bootstrap.h"

#include "perf/driver/reception.h"
#include "perf/driver/stream.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

namespace mesh::driver {
namespace {

Deadline after(std::chrono::milliseconds timeout) {
  return std::chrono::steady_clock::now() + timeout;
}

std::string pack(const std::vector<std::string>& blobs) {
  std::string packed;
  for (const std::string& blob : blobs) {
    const auto length = static_cast<std::uint32_t>(blob.size());
    packed.append(reinterpret_cast<const char*>(&length), sizeof(length));
    packed += blob;
  }
  return packed;
}

Result<std::vector<std::string>> unpack(std::string_view packed, int count) {
  std::vector<std::string> blobs;
  for (int i = 0; i < count; ++i) {
    std::uint32_t length = 0;
    if (packed.size() < sizeof(length)) return Errc::Protocol;
    packed.copy(reinterpret_cast<char*>(&length), sizeof(length));
    packed.remove_prefix(sizeof(length));
    if (packed.size() < length) return Errc::Protocol;
    blobs.emplace_back(packed.substr(0, length));
    packed.remove_prefix(length);
  }
  return blobs;
}

// The first byte of rank 0's answer tells its kind.
constexpr char kEverything = 'a';
constexpr char kLoss = 'l';
constexpr std::uint32_t kPackedOverhead = 1 + kWorldMax * sizeof(std::uint32_t);

// Returns why the ranks did not meet. error: an errno, if the system refused something.
std::string why_not(const BootstrapOptions& options, Errc code, const std::vector<int>& missing,
                    int error) {
  const std::string place =
      fmt::format("rendezvous {} (rank {} of {}): ", options.address, options.rank, options.world);
  const double s = std::chrono::duration<double>(options.timeout).count();
  if (code == Errc::NotFound)
    return place + "the name does not resolve, or the port does not exist";
  if (code == Errc::System && error != 0)
    return fmt::format("{}cannot listen there: {}", place, std::strerror(error));
  if (code != Errc::Timeout) return place + errc_name(code);
  if (options.rank != 0) return fmt::format("{}no answer within {} s", place, s);
  return fmt::format("{}rank {} did not connect within {} s", place, fmt::join(missing, ", "), s);
}

}  // namespace

Result<Rendezvous> open_loopback_rendezvous() {
  auto socket = listen_at("127.0.0.1:0");
  if (!socket.ok()) return socket.status();
  const auto port = local_port(socket->get());
  if (!port.ok()) return port.status();
  return Rendezvous{std::move(*socket), "127.0.0.1:" + std::to_string(*port)};
}

Status Bootstrap::meet(const BootstrapOptions& options, std::vector<int>* missing) {
  UniqueFd listening(options.listening_fd);
  const bool fits = options.world >= 1 && static_cast<std::uint32_t>(options.world) <= kWorldMax;
  if (!fits || options.rank < 0 || options.rank >= options.world) return Errc::InvalidArgument;
  const Deadline deadline = after(options.timeout);
  rank_ = options.rank;
  world_ = options.world;
  timeout_ = options.timeout;
  if (options.rank != 0) {
    auto socket = connect_to(options.address, deadline);
    if (!socket.ok()) return socket.status();
    peers_.push_back(std::move(*socket));
    return send_message(peers_.back().get(), hello_of(options.rank, options.world), deadline);
  }
  if (!listening.valid() && options.world > 1) {
    auto socket = listen_at(options.address);
    if (!socket.ok()) return socket.status();
    listening = std::move(*socket);
  }
  auto peers = Reception(listening.get(), options.world).gather(deadline, missing);
  if (!peers.ok()) return peers.status();
  peers_ = std::move(*peers);
  return {};
}

Result<Bootstrap> Bootstrap::join(const BootstrapOptions& options) {
  std::vector<int> own;
  std::vector<int>* const missing = options.missing != nullptr ? options.missing : &own;
  Bootstrap bootstrap;
  errno = 0;
  const Status met = bootstrap.meet(options, missing);
  if (met.ok()) return bootstrap;
  if (options.why != nullptr) *options.why = why_not(options, met.code(), *missing, errno);
  return met;
}

// Takes blobs in the order of arrival, so that a lost rank is noticed while another is slow.
Result<std::vector<std::string>> Bootstrap::gather_as_root(std::string_view blob) {
  const Deadline deadline = after(timeout_);
  std::vector<std::string> blobs(peers_.size());
  blobs[0] = blob;
  std::vector<pollfd> waiting;
  for (const UniqueFd& peer : peers_) waiting.push_back({peer.get(), POLLIN, 0});
  waiting[0].fd = -1;
  std::vector<bool> arrived(peers_.size(), false);
  for (std::size_t missing = peers_.size() - 1; missing != 0;) {
    if (const Status some = wait_for_any(waiting, deadline); !some.ok()) {
      lost_ =
          static_cast<int>(std::find(arrived.begin() + 1, arrived.end(), false) - arrived.begin());
      return some;
    }
    for (std::size_t peer = 1; peer < peers_.size(); ++peer) {
      if (waiting[peer].revents == 0) continue;
      // A rank that has sent its blob sends nothing before our answer, so it has hung up.
      auto text = arrived[peer] ? Result<std::string>(Errc::PeerGone)
                                : receive_message(peers_[peer].get(), kBlobBytesMax, deadline);
      lost_ = text.ok() ? lost_ : static_cast<int>(peer);
      if (!text.ok()) return text.status();
      blobs[peer] = std::move(*text);
      arrived[peer] = true;
      --missing;
    }
  }
  return hand_out(std::move(blobs), deadline);
}

Result<std::vector<std::string>> Bootstrap::hand_out(
    std::vector<std::string> blobs, std::chrono::steady_clock::time_point deadline) {
  const std::string packed = kEverything + pack(blobs);
  for (std::size_t peer = 1; peer < peers_.size(); ++peer) {
    const Status sent = send_message(peers_[peer].get(), packed, deadline);
    if (!sent.ok()) lost_ = static_cast<int>(peer);
    if (!sent.ok()) return sent;
  }
  return blobs;
}

// Tells the loss to all ranks that can be reached. The rest see us hang up.
void Bootstrap::tell_of_loss() {
  const std::string loss = kLoss + std::to_string(lost_);
  for (std::size_t peer = 1; peer < peers_.size(); ++peer)
    (void)send_message(peers_[peer].get(), loss, after(std::chrono::seconds(1)));
}

Result<std::vector<std::string>> Bootstrap::gather_as_leaf(std::string_view blob) {
  const Deadline deadline = after(timeout_);
  // Rank 0 may have sent the news of another rank's end and left, so we look for its answer even if
  // it does not hear us any more.
  (void)send_message(peers_[0].get(), blob, deadline);
  auto answer = receive_message(peers_[0].get(), kBlobBytesMax + kPackedOverhead, deadline);
  if (answer.ok() && answer->starts_with(kEverything))
    return unpack(std::string_view(*answer).substr(1), world_);
  lost_ = 0;
  if (!answer.ok()) return answer.status();
  if (answer->starts_with(kLoss))
    std::from_chars(answer->data() + 1, answer->data() + answer->size(), lost_);
  return Errc::PeerGone;
}

Result<std::vector<std::string>> Bootstrap::all_gather(std::string_view blob) {
  if (blob.size() * static_cast<std::size_t>(world_) > kBlobBytesMax) return Errc::InvalidArgument;
  if (rank_ != 0) return gather_as_leaf(blob);
  auto blobs = gather_as_root(blob);
  if (!blobs.ok()) tell_of_loss();
  return blobs;
}

Status Bootstrap::barrier() { return all_gather({}).status(); }

Result<bool> Bootstrap::keep_first_of(std::string_view group) {
  const auto groups = all_gather(group);
  if (!groups.ok()) return groups.status();
  std::vector<UniqueFd> kept;
  int rank = -1, world = 0;
  for (auto each = groups->begin(); each != groups->end(); ++each) {
    if (std::find(groups->begin(), each, *each) != each) continue;
    const auto old = static_cast<std::size_t>(each - groups->begin());
    if (old == static_cast<std::size_t>(rank_)) rank = world;
    if (rank_ == 0) kept.push_back(std::move(peers_[old]));
    ++world;
  }
  const bool stays = rank >= 0;
  if (!stays) kept.resize(1);
  if (rank_ == 0 || !stays) peers_ = std::move(kept);
  rank_ = stays ? rank : 0;
  world_ = stays ? world : 1;
  return stays;
}

Result<UniqueFd> Bootstrap::watch() const {
  UniqueFd set(::epoll_create1(EPOLL_CLOEXEC));
  for (const UniqueFd& peer : peers_) {
    epoll_event event{};
    event.events = EPOLLRDHUP;
    if (peer.valid() && ::epoll_ctl(set.get(), EPOLL_CTL_ADD, peer.get(), &event) != 0)
      return Errc::System;
  }
  if (!set.valid()) return Errc::System;
  return set;
}

SocketAddress Bootstrap::local_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  const UniqueFd* any = peers_.empty() ? nullptr : &peers_.back();
  const bool known = any != nullptr && any->valid() &&
                     ::getsockname(any->get(), reinterpret_cast<sockaddr*>(&address), &length) == 0;
  if (!known) return *SocketAddress::from_text("127.0.0.1");
  SocketAddress own = SocketAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&address));
  const SocketAddress mapped = SocketAddress::from_gid(own.bytes);
  return own.family == AF_INET6 && mapped.family == AF_INET ? mapped : own;
}

}  // namespace mesh::driver
