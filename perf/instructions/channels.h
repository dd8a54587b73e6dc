#pragma once
// Both ends of a number of channels in this process and this thread: a sending and a receiving
// communicator (or one that is both), connected through the plugin's own table, with a registered
// buffer at each end of each channel. Thread: one owner.

#include "perf/driver/net_api.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mesh::instructions {

enum class Contexts { Two, One };

// The kind of memory that the plugin is told; nothing reads or writes the buffers.
enum class Memory { Host, Device };

struct ChannelsOptions {
  Memory memory = Memory::Host;
  std::uint32_t channels = 1;
  std::size_t bytes = 8;
  Contexts contexts = Contexts::Two;
};

// The fields of one end that a pattern touches, in one cache line.
struct alignas(64) End {
  void* comm = nullptr;
  void* mhandle = nullptr;
  char* data = nullptr;
};

// Bytes that malloc has given out in this process.
std::size_t allocated_bytes();

class Channels {
 public:
  explicit Channels(driver::NetApi& api) : api_(api) {}
  ~Channels() { close(); }
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  // Opens all channels. Returns what went wrong, or an empty text.
  std::string open(const ChannelsOptions& options);
  // Called by the destructor, too. The plugin logs its counts when its last communicator has gone.
  void close();

  driver::NetApi& api() noexcept { return api_; }
  std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(senders_.size()); }
  End& sender(std::uint64_t message) noexcept { return senders_[message % senders_.size()]; }
  End& receiver(std::uint64_t message) noexcept { return receivers_[message % receivers_.size()]; }
  // The bytes that malloc gave while the channels beyond the first were opened: the plugin's, as
  // ours are set aside before.
  std::size_t grown_bytes() const noexcept { return grown_bytes_; }

 private:
  std::string connect_one(std::size_t index);
  std::string register_end(End& end, std::size_t offset);

  driver::NetApi& api_;
  ChannelsOptions options_;
  void* sending_ = nullptr;
  void* receiving_ = nullptr;
  std::size_t stride_ = 0;
  std::size_t grown_bytes_ = 0;
  std::vector<char> memory_;
  std::vector<End> senders_, receivers_;
};

}  // namespace mesh::instructions
