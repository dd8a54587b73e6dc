#include "tests/fuzz/hostile_world.h"

#include "engine/control/handle.h"
#include "engine/link/test_hooks.h"
#include "engine/message/wire.h"
#include "tests/fuzz/quiet_log.h"

namespace mesh::fuzz {

using engine::ConnectionId;

namespace {

TransferPolicy small_policy() {
  TransferPolicy policy;
  policy.qps = 2;
  policy.late_qps = true;
  policy.sq_depth = 64;
  policy.rq_depth = 16;
  policy.express_bytes = 256;
  policy.stripe_bytes = 1024;
  policy.wr_bytes = 4096;
  policy.inflight_bytes = 16'384;
  return policy;
}

}  // namespace

HostileWorld::HostileWorld() {
  for (std::vector<std::byte>& buffer : buffers_) buffer.resize(kBufferBytes);
  EngineOptions options;
  options.settings.prefix_len = 24;
  options.policy = small_policy();
  options.manual_clock_ns = &clock_ns_;
  options.threading = Threading::Manual;
  auto hooks = std::make_shared<engine::TestHooks>();
  hooks->while_waiting = [this] { wait_a_little(); };
  hooks->control_network = this;
  options.hooks = std::move(hooks);
  host_.open(std::make_unique<FuzzVerbs>(), options, 0);
  context_ = host_.engine->open_context({}).value();
  expect(context_ != nullptr, "no context");
  engine::write_handle({.nonce = {1},
                        .context = {2},
                        .port = 4712,
                        .addresses = {*SocketAddress::from_text("127.0.0.2")}},
                       peer_handle_);
  Input none(nullptr, 0);
  listen(none);
}

HostileWorld::~HostileWorld() {
  drop_channels();
  if (listener_ != nullptr) host_.engine->close_listener(listener_);
  if (context_ != nullptr) host_.engine->close_context(context_);
  context_ = nullptr;
  for (int i = 0; i < 40; ++i) wait_a_little(), turn();
  host_.engine.reset();
  expect(host_.provider->empty(), "the engine has gone and left something on the device");
}

Result<std::unique_ptr<engine::ControlPlane>> HostileWorld::open(const engine::ControlPlaneOptions&,
                                                                 engine::ControlEvents& events) {
  auto plane = std::make_unique<MemoryPlane>(events, said_);
  plane_ = plane.get();
  return std::unique_ptr<engine::ControlPlane>(std::move(plane));
}

void HostileWorld::wait_a_little() { clock_ns_.fetch_add(100'000'000, std::memory_order_relaxed); }

void HostileWorld::turn() {
  host_.engine->poll_control();
  if (context_ != nullptr) host_.engine->poll_loop(*context_);
}

void HostileWorld::act(Input& input) {
  static constexpr std::array<Op, 24> kOps{
      &HostileWorld::turn_some,     &HostileWorld::advance,         &HostileWorld::say_well,
      &HostileWorld::say_well,      &HostileWorld::say_well,        &HostileWorld::say_anything,
      &HostileWorld::lose,          &HostileWorld::arrive,          &HostileWorld::answer_dial,
      &HostileWorld::announce,      &HostileWorld::write_cts_entry, &HostileWorld::write_record,
      &HostileWorld::write_window,  &HostileWorld::complete,        &HostileWorld::listen,
      &HostileWorld::connect,       &HostileWorld::accept,          &HostileWorld::start_send,
      &HostileWorld::start_receive, &HostileWorld::test_all,        &HostileWorld::register_some,
      &HostileWorld::close_some,    &HostileWorld::close_context,   &HostileWorld::write_anywhere};
  (this->*kOps[input.below(kOps.size())])(input);
}

void HostileWorld::act_on_data(Input& input) {
  static constexpr std::array<Op, 12> kOps{
      &HostileWorld::turn_some,       &HostileWorld::announce,        &HostileWorld::announce,
      &HostileWorld::write_cts_entry, &HostileWorld::write_cts_entry, &HostileWorld::write_record,
      &HostileWorld::write_window,    &HostileWorld::complete,        &HostileWorld::start_send,
      &HostileWorld::start_receive,   &HostileWorld::write_anywhere,  &HostileWorld::test_all};
  (this->*kOps[input.below(kOps.size())])(input);
}

// ---- The device, and the peer's writes.

void HostileWorld::announce(Input& input) {
  const std::uint32_t queue_pair = input.u8();
  const std::uint8_t how = input.u8();
  if (how == 255) {
    host_.provider->announce(queue_pair, input.take<std::uint32_t>(), input.take<std::uint32_t>());
    return;
  }
  const std::uint32_t life = how >> 6;
  const std::uint32_t imm =
      engine::pack({.stripes = (how & 1) != 0 ? input.below(16) : 1,
                    .channel = (how >> 1) & 3u,
                    .slot = input.below(64),
                    .generation = engine::generation_base(life) + ((how >> 3) & 1u)});
  host_.provider->announce(queue_pair, imm, input.take<std::uint16_t>());
}

void HostileWorld::write_cts_entry(Input& input) {
  if (said_.credits.empty()) return;
  const Place& ring = said_.credits[input.below(static_cast<std::uint32_t>(said_.credits.size()))];
  const std::uint32_t slot = input.u8(), round = input.below(3);
  const auto paths = static_cast<std::uint32_t>(1 + input.below(2));
  engine::Credit credit{.address = input.take<std::uint32_t>(),
                        .bytes = input.take<std::uint32_t>(),
                        .tag = input.below(3),
                        .generation = engine::generation_base(ring.life) + round};
  std::array<std::uint64_t, 8> words{};
  engine::encode_credit(credit, paths, words.data());
  if (input.below(16) == 15) words[input.below(8)] = input.take<std::uint64_t>();
  const std::uint32_t row = engine::credit_bytes(paths);
  host_.provider->write(ring.address + std::uint64_t{slot} * row, ring.rkey, words.data(), row);
}

void HostileWorld::write_record(Input& input) {
  if (said_.records.empty()) return;
  const Place& ring = said_.records[input.below(static_cast<std::uint32_t>(said_.records.size()))];
  const std::uint32_t slot = input.below(64), round = input.below(3);
  const std::uint32_t stripes = input.u8();
  std::uint64_t bytes = input.take<std::uint16_t>();
  if (input.below(8) == 7) bytes = input.take<std::uint64_t>();
  const engine::Record record =
      engine::encode_record(bytes, stripes, engine::generation_base(ring.life) + round);
  host_.provider->write(ring.address + slot * sizeof record, ring.rkey, &record, sizeof record);
}

void HostileWorld::write_window(Input& input) {
  if (said_.windows.empty()) return;
  const Place& words = said_.windows[input.below(static_cast<std::uint32_t>(said_.windows.size()))];
  const std::uint64_t count = input.below(4) == 3 ? input.take<std::uint64_t>() : input.u8();
  host_.provider->write(words.address + sizeof count * input.below(4), words.rkey, &count,
                        sizeof count);
}

void HostileWorld::write_anywhere(Input& input) {
  const std::uint32_t region = input.u8();
  host_.provider->write_anywhere(region, input.take<std::uint16_t>(), input.take<std::uint64_t>());
}

void HostileWorld::complete(Input& input) {
  const std::uint32_t queue_pair = input.u8();
  const std::uint8_t how = input.u8();
  const bool fails = how >= 250;
  host_.provider->complete(queue_pair, fails ? 1u : how,
                           fails ? static_cast<ibv_wc_status>(1 + how - 250) : IBV_WC_SUCCESS);
}

// ---- The application.

void HostileWorld::listen(Input&) {
  if (listener_ != nullptr) host_.engine->close_listener(listener_);
  listener_ = nullptr;
  if (context_ == nullptr) return;
  listener_ = host_.engine->listen(*context_, 0, own_handle_).value();
  const Result<engine::Handle> handle = engine::read_handle(own_handle_);
  expect(handle.ok(), "a handle that we do not read");
  context_id_ = handle->context;
  nonce_ = handle->nonce;
}

void HostileWorld::adopt(Channel* channel) {
  if (channel == nullptr) return;
  if (channels_.size() == kChannels) {
    close(channel);
    return;
  }
  AppChannel& added = channels_.emplace_back();
  added.channel = channel;
  for (std::size_t i = 0; i < kBuffers / 2; ++i) {
    added.regions[i] =
        register_memory(*channel, buffers_[i].data(), kBufferBytes, MemoryType::Host).value();
  }
}

void HostileWorld::connect(Input& input) {
  if (context_ == nullptr) return;
  if (input.below(8) == 7) engine::write_stage({}, peer_handle_);
  const Result<Channel*> channel = host_.engine->connect(*context_, 0, peer_handle_);
  if (channel.code() != Errc::WouldBlock) engine::write_stage({}, peer_handle_);
  if (channel.ok()) adopt(*channel);
}

void HostileWorld::accept(Input&) {
  if (listener_ == nullptr) return;
  const Result<Channel*> channel = host_.engine->accept(*listener_);
  if (channel.ok()) adopt(*channel);
}

HostileWorld::AppChannel* HostileWorld::some_channel(Input& input) {
  return channels_.empty() ? nullptr
                           : &channels_[input.below(static_cast<std::uint32_t>(channels_.size()))];
}

void HostileWorld::start_send(Input& input) { start(input, true); }
void HostileWorld::start_receive(Input& input) { start(input, false); }

void HostileWorld::start(Input& input, bool sends) {
  AppChannel* const of = some_channel(input);
  if (of == nullptr || of->open.size() >= 64) return;
  const std::size_t buffer = input.below(kBuffers);
  const std::size_t bytes = std::min<std::size_t>(input.take<std::uint16_t>(), kBufferBytes);
  Registration* const region = of->regions[buffer];
  if (region == nullptr) return;
  const std::uint32_t tag = input.below(3);
  const Result<Request*> request =
      sends
          ? isend(*of->channel,
                  {.data = buffers_[buffer].data(), .bytes = bytes, .tag = tag, .region = region})
          : irecv(*of->channel,
                  {.data = buffers_[buffer].data(), .bytes = bytes, .tag = tag, .region = region});
  if (request.ok()) of->open.emplace_back(*request, bytes);
}

void HostileWorld::test_all(Input&) {
  for (AppChannel& of : channels_) {
    std::erase_if(of.open, [](const auto& open) {
      std::size_t bytes = 0;
      const Status status = test(*open.first, &bytes);
      if (status.ok())
        expect(bytes <= open.second, "a message of more bytes than there was room for");
      return status.code() != Errc::WouldBlock;
    });
  }
}

void HostileWorld::register_some(Input& input) {
  AppChannel* const of = some_channel(input);
  if (of == nullptr) return;
  const std::size_t buffer = input.below(kBuffers);
  if (of->regions[buffer] == nullptr) {
    of->regions[buffer] =
        register_memory(*of->channel, buffers_[buffer].data(), kBufferBytes, MemoryType::Host)
            .value();
    return;
  }
  deregister_memory(*of->channel, of->regions[buffer]);
  of->regions[buffer] = nullptr;
}

void HostileWorld::close_some(Input& input) {
  AppChannel* const of = some_channel(input);
  if (of == nullptr) return;
  for (Registration* region : of->regions) deregister_memory(*of->channel, region);
  close(of->channel);
  channels_.erase(channels_.begin() + (of - channels_.data()));
}

// Drops the channels as NCCL's abort does: nothing is given back first.
void HostileWorld::drop_channels() { channels_.clear(); }

void HostileWorld::close_context(Input& input) {
  if (input.below(4) != 0 || context_ == nullptr) return;
  drop_channels();
  if (listener_ != nullptr) host_.engine->close_listener(listener_);
  listener_ = nullptr;
  host_.engine->close_context(context_);
  context_ = host_.engine->open_context({}).value();
  engine::write_stage({}, peer_handle_);
  listen(input);
}

}  // namespace mesh::fuzz
