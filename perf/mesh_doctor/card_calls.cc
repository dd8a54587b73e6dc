#include "perf/mesh_doctor/card_calls.h"

#include "plugin/provider.h"
#include "src/base/config.h"
#include "src/base/log.h"
#include "src/base/own_thread.h"
#include "src/base/setting_grammar.h"
#include "src/verbs/handle.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <thread>
#include <utility>

namespace mesh::doctor {
namespace {

// The questions to one card, which its thread and ours share.
class Card {
 public:
  Card(std::shared_ptr<verbs::Provider> provider, std::string name)
      : name_(std::move(name)), provider_(std::move(provider)) {}

  const std::string& name() const noexcept { return name_; }

  // On the card's thread.
  void run() noexcept {
    int ports = 0;
    try {
      ports = ask(*provider_);
    } catch (const std::exception&) {  // no memory is no silence of the card's
    }
    provider_.reset();  // before its owner hears that the card has answered
    end(ports);
  }
  void end(int ports) { answer_.set_value(ports); }

  // Returns the number of ports, 0 if the card could not be asked; nothing if it has not answered
  // by then.
  std::optional<int> ports_until(std::chrono::steady_clock::time_point end) {
    if (ports_.wait_until(end) == std::future_status::ready) return ports_.get();
    return std::nullopt;
  }
  const char* call() const { return call_.load(std::memory_order_relaxed); }

 private:
  int ask(verbs::Provider& provider) {
    const verbs::ContextHandle context(provider, provider.open_device(name_));
    if (!context) return 0;
    calls("ibv_query_device");
    ibv_device_attr device{};
    if (provider.query_device(context.get(), &device) != 0) return 0;
    calls("ibv_query_port");
    for (int port = 1; port <= device.phys_port_cnt; ++port) {
      ibv_port_attr attr{};
      provider.query_port(context.get(), static_cast<std::uint8_t>(port), &attr);
    }
    calls("ibv_alloc_pd");
    const verbs::PdHandle domain(provider, provider.alloc_pd(context.get()));
    calls("ibv_create_cq");
    const verbs::CqHandle queue(provider, provider.create_cq(context.get(), 1));
    calls("ibv_create_qp");
    verbs::QpHandle queue_pair;
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = queue.get();
    attr.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    attr.qp_type = IBV_QPT_RC;
    if (domain && queue) queue_pair = {provider, provider.create_qp(domain.get(), &attr)};
    calls("a call that destroys or closes");  // as the handles end
    return device.phys_port_cnt;
  }
  void calls(const char* call) { call_.store(call, std::memory_order_relaxed); }

  const std::string name_;
  std::shared_ptr<verbs::Provider> provider_;  // the thread's, once there is one
  std::atomic<const char*> call_{"ibv_open_device"};
  std::promise<int> answer_;
  std::future<int> ports_ = answer_.get_future();
};

// Has a thread ask the card. If there is none, the card counts as one that has answered.
void begin(const std::shared_ptr<Card>& card) {
  std::thread thread;
  if (start_own_thread(thread, "doctor-card", [card] { card->run(); }).ok())
    thread.detach();
  else
    card->end(0);
}

// Returns the entry for a port as a list of whole names has it.
std::string entry_of(const NameRule& rule, const std::string& card, int port) {
  std::string text = fmt::format("{}:{}", card, port);
  const NameRule::Entry* const named = rule.entry_of(card, port);
  if (named == nullptr || named->rail == NameRule::kUnassigned) return text;
  text += fmt::format(":{}", named->rail);
  if (named->plane != NameRule::kUnassigned) text += fmt::format(":{}", named->plane);
  return text;
}

}  // namespace

CardAnswers ask_cards(const std::shared_ptr<verbs::Provider>& provider, const Settings& settings,
                      std::uint64_t patience_ns) {
  const NameRule rule(settings.hca);
  std::vector<std::shared_ptr<Card>> cards;
  for (const verbs::DeviceEntry& device : provider->devices()) {
    if (!device.iwarp && rule.may_match(device.name))
      cards.push_back(std::make_shared<Card>(provider, device.name));
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience_ns);
  for (const std::shared_ptr<Card>& card : cards) begin(card);
  CardAnswers answers;
  std::vector<std::string> entries;
  for (const std::shared_ptr<Card>& card : cards) {
    const std::optional<int> ports = card->ports_until(end);
    if (!ports) {
      answers.silent.push_back({.card = card->name(),
                                .call = card->call(),
                                .waited_ms = static_cast<int>(patience_ns / kNsPerMs)});
      continue;
    }
    if (*ports == 0) entries.push_back(card->name());  // the plugin says why
    for (int port = 1; port <= *ports; ++port)
      if (rule.matches(card->name(), port)) entries.push_back(entry_of(rule, card->name(), port));
  }
  if (!entries.empty()) answers.hca = fmt::format("={}", fmt::join(entries, ","));
  return answers;
}

CardAnswers ask_own_cards() {
  set_log_level(LogLevel::None);  // the plugin logs the same lines
  const Result<Settings> settings = load_settings();
  if (!settings.ok()) return {};
  auto provider = plugin::open_provider(*settings);
  if (!provider.ok()) return {};
  return ask_cards(std::move(*provider), *settings);
}

}  // namespace mesh::doctor
