#include "tests/unit/engine/engine_host.h"

#include "tests/prelude.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/soft/open_host.h"

namespace mesh::testkit {

std::unique_ptr<soft::SoftProvider> open_host(const char* fabric, std::size_t index) {
  const soft::FabricFile file = parsed(fabric);
  return open_host({.fabric = file, .host = file.hosts.at(index).name, .clock = Clock()});
}

EngineOptions on_loopback(int threads) {
  EngineOptions options;
  options.settings.socket_ifname = "lo";
  options.settings.threads = threads;
  options.settings.rails = "all";  // most tests are of links with several paths
  return options;
}

Pair connect(const Member& from, const Member& to,
             const std::function<void(HandleBytes&)>& on_its_way) {
  HandleBytes handle{};
  Listener* const listener = to.engine.listen(to.context, to.rail, handle).value();
  if (on_its_way) on_its_way(handle);
  Pair pair;
  EXPECT_TRUE(wait_until([&] {
    if (pair.send == nullptr)
      pair.send = from.engine.connect(from.context, from.rail, handle).value();
    if (pair.receive == nullptr) pair.receive = to.engine.accept(*listener).value();
    return pair.send != nullptr && pair.receive != nullptr;
  }));
  to.engine.close_listener(listener);
  return pair;
}

namespace {
// Returns true if the request has been posted, or was refused for good and stays null.
template <typename Post>
bool taken(Request*& request, const Post& post) {
  if (request != nullptr) return true;
  const Result<Request*> posted = post();
  if (posted.ok()) request = *posted;
  return posted.code() != Errc::WouldBlock;
}
}  // namespace

void exchange(const Pair& pair, const std::vector<std::size_t>& sizes, Leaves leaves,
              std::byte value) {
  const std::size_t largest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::byte> source(largest, value), target(largest);
  Registration* const from =
      register_memory(*pair.send, source.data(), largest, MemoryType::Host).value();
  Registration* const to =
      register_memory(*pair.receive, target.data(), largest, MemoryType::Host).value();
  for (const std::size_t bytes : sizes) {
    Request *receiving = nullptr, *sending = nullptr;
    ASSERT_TRUE(
        wait_until([&] {  // a link may have to open a path first
          const bool receives = taken(receiving, [&] {
            return irecv(*pair.receive, {.data = target.data(), .bytes = bytes, .region = to});
          });
          const bool sends = taken(sending, [&] {
            return isend(*pair.send, {.data = source.data(), .bytes = bytes, .region = from});
          });
          return receives && sends;
        }) &&
        receiving != nullptr && sending != nullptr);
    // Each side tests on, as NCCL does: a host whose requests nobody tests gives no new credits.
    bool sent = false, received = false;
    EXPECT_TRUE(wait_until([&] {
      sent = sent || test(*sending, nullptr).ok();
      received = received || test(*receiving, nullptr).ok();
      return sent && received;
    }));
  }
  // One call: the thread sanitizer looks at each byte that a loop compares, for minutes if it
  // doubts.
  EXPECT_EQ(std::memcmp(source.data(), target.data(), largest), 0) << largest << " bytes differ";
  if (leaves == Leaves::ACredit) {
    EXPECT_TRUE(irecv(*pair.receive, {.data = target.data(), .bytes = largest, .region = to}).ok());
  }
  deregister_memory(*pair.receive, to);
  deregister_memory(*pair.send, from);
}

}  // namespace mesh::testkit
