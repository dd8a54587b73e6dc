#include "perf/driver/bootstrap.h"

#include "perf/driver/stream.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <charconv>
#include <utility>

namespace mesh::driver {
namespace {

Deadline after(std::chrono::milliseconds timeout) { return std::chrono::steady_clock::now() + timeout; }

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

// Rank 0: one socket per other rank, each introducing itself with its number.
Status gather_peers(std::vector<UniqueFd>& peers, int listening, Deadline deadline) {
  for (std::size_t missing = peers.size() - 1; missing != 0; --missing) {
    auto socket = accept_one(listening, deadline);
    if (!socket.ok()) return socket.status();
    auto hello = receive_message(socket->get(), 16, deadline);
    if (!hello.ok()) return hello.status();
    std::size_t rank = 0;
    std::from_chars(hello->data(), hello->data() + hello->size(), rank);
    if (rank == 0 || rank >= peers.size() || peers[rank].valid()) return Errc::Protocol;
    peers[rank] = std::move(*socket);
  }
  return {};
}

}  // namespace

Result<Rendezvous> open_loopback_rendezvous() {
  auto socket = listen_at("127.0.0.1:0");
  if (!socket.ok()) return socket.status();
  sockaddr_in address{};
  socklen_t length = sizeof(address);
  if (::getsockname(socket->get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return Errc::System;
  return Rendezvous{std::move(*socket), "127.0.0.1:" + std::to_string(ntohs(address.sin_port))};
}

Result<Bootstrap> Bootstrap::join(const BootstrapOptions& options) {
  UniqueFd listening(options.listening_fd);
  if (options.world < 1 || static_cast<std::uint32_t>(options.world) > kWorldMax) return Errc::InvalidArgument;
  if (options.rank < 0 || options.rank >= options.world) return Errc::InvalidArgument;
  const Deadline deadline = after(options.timeout);
  Bootstrap bootstrap;
  bootstrap.rank_ = options.rank;
  bootstrap.world_ = options.world;
  bootstrap.timeout_ = options.timeout;
  if (options.rank != 0) {
    auto socket = connect_to(options.address, deadline);
    if (!socket.ok()) return socket.status();
    const Status sent = send_message(socket->get(), std::to_string(options.rank), deadline);
    if (!sent.ok()) return sent;
    bootstrap.peers_.push_back(std::move(*socket));
    return bootstrap;
  }
  if (!listening.valid() && options.world > 1) {
    auto socket = listen_at(options.address);
    if (!socket.ok()) return socket.status();
    listening = std::move(*socket);
  }
  bootstrap.peers_.resize(static_cast<std::size_t>(options.world));
  const Status gathered = gather_peers(bootstrap.peers_, listening.get(), deadline);
  if (!gathered.ok()) return gathered;
  return bootstrap;
}

Result<std::vector<std::string>> Bootstrap::gather_as_root(std::string_view blob) {
  const Deadline deadline = after(timeout_);
  std::vector<std::string> blobs{std::string(blob)};
  for (std::size_t peer = 1; peer < peers_.size(); ++peer) {
    auto text = receive_message(peers_[peer].get(), kBlobBytesMax, deadline);
    if (!text.ok()) return text.status();
    blobs.push_back(std::move(*text));
  }
  const std::string packed = pack(blobs);
  for (std::size_t peer = 1; peer < peers_.size(); ++peer) {
    const Status sent = send_message(peers_[peer].get(), packed, deadline);
    if (!sent.ok()) return sent;
  }
  return blobs;
}

Result<std::vector<std::string>> Bootstrap::gather_as_leaf(std::string_view blob) {
  const Deadline deadline = after(timeout_);
  const Status sent = send_message(peers_[0].get(), blob, deadline);
  if (!sent.ok()) return sent;
  auto packed = receive_message(peers_[0].get(), kBlobBytesMax, deadline);
  if (!packed.ok()) return packed.status();
  return unpack(*packed, world_);
}

Result<std::vector<std::string>> Bootstrap::all_gather(std::string_view blob) {
  if (blob.size() * static_cast<std::size_t>(world_) > kBlobBytesMax) return Errc::InvalidArgument;
  return rank_ == 0 ? gather_as_root(blob) : gather_as_leaf(blob);
}

Status Bootstrap::barrier() { return all_gather({}).status(); }

}  // namespace mesh::driver
