#pragma once
// Asks each RDMA card for what a communicator asks of it first. A card whose firmware hangs answers
// no command, and whoever waits for it hangs too, so all cards are asked side by side and for a
// limited time. Thread: one owner; each card has a thread meanwhile. Bounds: kCardLookToLateNs; a
// thread for each card, which stays with a card that does not answer.

#include <mesh/config.h>

#include "perf/mesh_doctor/host_facts.h"
#include "src/base/timeouts.h"
#include "src/verbs/provider.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mesh::doctor {

struct CardAnswers {
  std::vector<SilentCard> silent;
  // NCCL_IB_HCA for the ports that it leaves now, without those of silent cards; empty: it leaves
  // none.
  std::string hca;
};

// Asks the cards that NCCL_IB_HCA leaves. The provider lives until the last card has answered.
CardAnswers ask_cards(const std::shared_ptr<verbs::Provider>& provider, const Settings& settings,
                      std::uint64_t patience_ns = kCardLookToLateNs);

// Asks with a provider of our own, which is closed again unless a card is silent. No card is asked
// if there is no libibverbs, or a setting of the plugin's is wrong.
CardAnswers ask_own_cards();

}  // namespace mesh::doctor
