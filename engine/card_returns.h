#pragma once
// Brings rails back whose card was replaced: on some machines a pulled cable removes the PCI
// device, and it comes back as a new one, while the old device context fails for ever. A rail is a
// place (a PCI address and a port), and the device is the one that is there now. When the card has
// left, this looks at intervals whether a device is in the state. If so, each communicator gives up
// what it has made on the former one, once all paths over it are fenced, and a thread that waits
// for the device registers its memory again. Then the peers are told the new keys, and paths are
// opened as after any loss. A card that was late with the domain of a communicator comes to it in
// the same way (DeviceContext::open_late). Thread: control mutex. Bounds: one look and one
// communicator at a time for each rail.

#include "engine/card_round.h"
#include "engine/link/link_host.h"
#include "engine/link/links.h"
#include "engine/port_events.h"
#include "src/base/thread_pool.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace mesh::engine {

class CardReturns {
 public:
  struct Parts {
    LinkHost& host;
    Links& links;
    PortEvents& events;
    std::vector<verbs::Rail>& rails;
    const Links::Contexts& contexts;
  };
  explicit CardReturns(const Parts& parts) : parts_(parts) {}
  ~CardReturns();
  CardReturns(const CardReturns&) = delete;
  CardReturns& operator=(const CardReturns&) = delete;

  void tend();
  // The context is about to be destroyed. Nothing works for it any more.
  void forget(const Context& context);

 private:
  // How far the return of a rail's card is.
  struct RailReturn {
    ThreadPool::Task task{};  // a look, or the end of a former device
    std::atomic<bool> over{false};
    bool looking = false;
    verbs::ContextHandle found;
    verbs::OpenDevice::Hold former;  // about to be let go by the task
    verbs::OpenDevice::Hold fresh;   // the new card; null: none is there
    std::uint64_t due_ns = 0, pause_ns = 0;
    std::unique_ptr<CardRound> round;
  };

  void tend_rail(std::uint32_t rail);
  void bring_in_late(std::uint32_t rail);
  bool is_away(std::uint32_t rail);
  void look(std::uint32_t rail);
  void take_look(std::uint32_t rail);
  void look_later(RailReturn& state);
  void renew(std::uint32_t rail);
  bool is_fenced(Context& context, const DeviceContext& device,
                 const verbs::OpenDevice::Hold& fresh) const;
  bool begin_round(std::uint32_t rail, Context& context, const verbs::OpenDevice::Hold& card);
  bool finish_round(RailReturn& state);
  void come_back(std::uint32_t rail);
  void let_go(RailReturn& state, verbs::OpenDevice::Hold former);
  void do_off_locks(RailReturn& state, const std::function<void()>& work);

  const Parts parts_;
  std::vector<std::unique_ptr<RailReturn>> returns_;  // by rail
};

}  // namespace mesh::engine
