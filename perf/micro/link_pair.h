#pragma once
// Both ends of some channels over the null fabric: an engine with a sending and a receiving context
// in this process, whose loops the callers turn, as the plugin with NCCL_MESH_THREADS=0. Thread:
// one owner, beside the engine's control thread. A failure to set up ends the program with one
// line.

#include <mesh/engine.h>

#include "src/verbs/provider.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace mesh::micro {

struct LinkPairOptions {
  std::size_t channels = 1;
  std::size_t bytes = 8;  // the most that a message of these channels carries
  // Sending contexts, each with a link of its own to the receiving one; the channels take turns.
  std::size_t peers = 1;
};

struct End {
  Channel* channel = nullptr;
  Registration* region = nullptr;
  std::byte* data = nullptr;
};

class LinkPair {
 public:
  explicit LinkPair(const LinkPairOptions& options);
  ~LinkPair();
  LinkPair(const LinkPair&) = delete;
  LinkPair& operator=(const LinkPair&) = delete;

  std::size_t channels() const noexcept { return senders_.size(); }
  Request* receive(std::size_t channel, std::size_t bytes);
  Request* send(std::size_t channel, std::size_t bytes);
  static bool done(Request& request);  // an error ends the program

 private:
  void connect(std::size_t index);
  End register_end(Channel* channel, std::size_t place);

  std::size_t stride_ = 0;
  std::vector<std::byte> memory_;
  std::unique_ptr<verbs::Provider> provider_;
  std::unique_ptr<Engine> engine_;
  std::vector<Context*> sending_;
  Context* receiving_ = nullptr;
  std::vector<End> senders_, receivers_;
};

}  // namespace mesh::micro
