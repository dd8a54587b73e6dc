#include "perf/micro/link_pair.h"

#include "src/base/clock.h"
#include "src/soft/null_provider.h"

#include <sched.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace mesh::micro {
namespace {

constexpr const char* kFabric =
    R"({"name": "micro", "null": {}, "hosts": [{"name": "a", "nics": [{"name": "null0", )"
    R"("address": "10.0.99.1/24"}]}]})";
constexpr std::uint64_t kConnectLimitNs = 60'000'000'000;
constexpr std::size_t kPage = 4096;

[[noreturn]] void stop(const char* what, Errc error) {
  std::fprintf(stderr, "mesh_micro: %s: %s\n", what, errc_name(error));
  std::exit(1);
}

template <typename T>
T value_of(Result<T> result, const char* what) {
  if (!result.ok()) stop(what, result.code());
  return std::move(result.value());
}

}  // namespace

LinkPair::LinkPair(const LinkPairOptions& options) {
  stride_ = (std::max<std::size_t>(options.bytes, 1) + kPage - 1) / kPage * kPage;
  memory_.resize(2 * stride_ * options.channels);
  provider_ = value_of(soft::open_null(value_of(soft::parse(kFabric), "fabric")), "fabric");
  EngineOptions engine;
  engine.settings.socket_ifname = "lo";
  engine.settings.threads = 0;
  engine.provider = provider_.get();
  engine_ = value_of(Engine::open(engine), "engine");
  for (std::size_t i = 0; i < options.peers; ++i)
    sending_.push_back(value_of(engine_->open_context({}), "context"));
  receiving_ = value_of(engine_->open_context({}), "context");
  for (std::size_t i = 0; i < options.channels; ++i) connect(i);
}

LinkPair::~LinkPair() {
  for (std::size_t i = 0; i < senders_.size(); ++i) {
    for (const End& end : {senders_[i], receivers_[i]}) {
      deregister_memory(*end.channel, end.region);
      close(end.channel);
    }
  }
  for (Context* const context : sending_) engine_->close_context(context);
  engine_->close_context(receiving_);
}

void LinkPair::connect(std::size_t index) {
  HandleBytes handle{};
  Listener* const listener = value_of(engine_->listen(*receiving_, 0, handle), "listen");
  const Clock clock;
  const std::uint64_t limit_ns = clock.now_ns() + kConnectLimitNs;
  Channel *sender = nullptr, *receiver = nullptr;
  while (sender == nullptr || receiver == nullptr) {
    if (sender == nullptr) {
      const Result<Channel*> made = engine_->connect(*sending_[index % sending_.size()], 0, handle);
      if (made.ok()) sender = *made;
      if (!made.ok() && made.code() != Errc::WouldBlock) stop("connect", made.code());
    }
    if (receiver == nullptr) {
      const Result<Channel*> made = engine_->accept(*listener);
      if (made.ok()) receiver = *made;
      if (!made.ok() && made.code() != Errc::WouldBlock) stop("accept", made.code());
    }
    if (clock.now_ns() > limit_ns) stop("connect", Errc::WouldBlock);
    ::sched_yield();
  }
  engine_->close_listener(listener);
  senders_.push_back(register_end(sender, 2 * index));
  receivers_.push_back(register_end(receiver, 2 * index + 1));
}

End LinkPair::register_end(Channel* channel, std::size_t place) {
  std::byte* const data = memory_.data() + place * stride_;
  return {channel,
          value_of(register_memory(*channel, data, stride_, MemoryType::Host), "register_memory"),
          data};
}

Request* LinkPair::receive(std::size_t channel, std::size_t bytes) {
  const End& end = receivers_[channel];
  return value_of(irecv(*end.channel, {.data = end.data, .bytes = bytes, .region = end.region}),
                  "irecv");
}

Request* LinkPair::send(std::size_t channel, std::size_t bytes) {
  const End& end = senders_[channel];
  return value_of(isend(*end.channel, {.data = end.data, .bytes = bytes, .region = end.region}),
                  "isend");
}

bool LinkPair::done(Request& request) {
  const Status status = test(request, nullptr);
  if (!status.ok() && status != Errc::WouldBlock) stop("test", status.code());
  return status.ok();
}

}  // namespace mesh::micro
