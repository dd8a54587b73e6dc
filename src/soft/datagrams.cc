#include "src/soft/datagrams.h"

#include "src/base/check.h"
#include "src/base/fork_guard.h"
#include "src/base/socket.h"
#include "src/soft/fabric_nics.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

namespace mesh::soft {

verbs::DatagramPlace device_place(const FabricFile& fabric, const NicRef& ref) {
  verbs::DatagramPlace place;
  const HostSpec& host = fabric.hosts[static_cast<std::size_t>(ref.host)];
  const std::string& name = host.clone_of.empty() ? host.name : host.clone_of;
  const std::uint64_t own = hash_text(name + "/" + fabric.nic(ref).name + "/netdev");
  if (fabric.nic(ref).ipv6) {
    place.address = {0xfe, 0x80};
    std::memcpy(place.address.data() + 8, &own, sizeof own);
  }
  std::array<std::uint8_t, 16> gid{};
  std::copy(std::begin(fabric.nic(ref).gid.raw), std::end(fabric.nic(ref).gid.raw), gid.begin());
  const SocketAddress address = SocketAddress::from_gid(gid);
  if (address.family == AF_INET) std::copy_n(address.bytes.begin(), 4, place.ipv4.begin());
  return place;
}

class DatagramReaders::Reader final : public verbs::CableDatagrams {
 public:
  Reader(DatagramReaders& all, UniqueFd fd, End end)
      : all_(all), fd_(std::move(fd)), end_(std::move(end)) {}
  ~Reader() override {
    const std::lock_guard lock(all_.mutex_);
    std::erase(all_.readers_, this);
  }

  verbs::DatagramPlace place() const noexcept override { return place_; }
  bool refresh() override { return end_.is_there(); }
  int fd() const noexcept override { return fd_.get(); }
  void send(const verbs::DatagramPlace& to, std::span<const std::byte> bytes) noexcept override {
    DCHECK(bytes.size() <= verbs::kCableDatagramBytesMax);
    const verbs::DatagramPlace way = to == verbs::kCableGroup ? to : reached_from(from_, to);
    if (way.port == 0 || (way.has_ipv6() && !from_.has_ipv6()) || !end_.is_there()) return;
    verbs::CableDatagram content{.from = reached_from(way, from_), .bytes = bytes.size()};
    std::copy(bytes.begin(), bytes.end(), content.data.begin());
    end_.carry(end_.nic, way, content);
  }
  std::optional<verbs::CableDatagram> next() noexcept override {
    const std::lock_guard lock(all_.mutex_);
    if (waiting_.empty()) return std::nullopt;
    const verbs::CableDatagram first = waiting_.front();
    waiting_.pop_front();
    std::uint64_t count;
    if (waiting_.empty()) {
      [[maybe_unused]] const ssize_t got = ::read(fd_.get(), &count, sizeof count);
    }
    return first;
  }

 private:
  friend class DatagramReaders;
  DatagramReaders& all_;
  const UniqueFd fd_;
  const End end_;
  verbs::DatagramPlace place_, from_;  // set before anybody else knows the reader
  std::deque<verbs::CableDatagram> waiting_;
};

std::unique_ptr<verbs::CableDatagrams> DatagramReaders::open(End end) {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return nullptr;
  fork_close_fd(fd.get());
  const bool group = end.takes == verbs::DatagramEnd::Group;
  auto reader = std::make_unique<Reader>(*this, std::move(fd), std::move(end));
  const std::lock_guard lock(mutex_);
  reader->from_ = reader->end_.place;
  reader->from_.port = group ? verbs::kCableGroup.port : next_port(reader->end_.slot);
  reader->place_ = group ? verbs::kCableGroup : reader->from_;
  readers_.push_back(reader.get());
  return reader;
}

// Each process of a host gives ports of its own range. Neither 0 nor the group's port is for a
// single reader.
std::uint16_t DatagramReaders::next_port(int slot) noexcept {
  constexpr int kRange = 65536 / kSlotsMax;
  std::uint16_t port;
  do {
    port = static_cast<std::uint16_t>(slot * kRange + ++ports_given_ % kRange);
  } while (port == 0 || port == verbs::kCableGroup.port);
  return port;
}

void DatagramReaders::take(const SoftDatagram& datagram) {
  const std::lock_guard lock(mutex_);
  for (Reader* const reader : readers_) {
    if (reader->end_.nic != datagram.to_nic || reader->place_.port != datagram.to_port ||
        reader->waiting_.size() >= kDatagramsMax || !reader->end_.is_there())
      continue;
    reader->waiting_.push_back(datagram.content);
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(reader->fd_.get(), &one, sizeof one);
  }
}

}  // namespace mesh::soft
