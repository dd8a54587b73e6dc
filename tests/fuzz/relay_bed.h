#pragma once
// The parts that the players of a chain's hosts share: a device, statuses and shapes of rings.
// Thread: one. Bound: kStepsMax steps.

#include "src/relay/chain.h"
#include "tests/fuzz/fuzz_verbs.h"
#include "tests/fuzz/input.h"

namespace mesh::fuzz {

inline constexpr int kStepsMax = 400;

// A device with all that the set-up of a chain looks at.
struct RelayBed {
  RelayBed() {
    for (std::size_t i = 0; i < 2; ++i) {
      contexts[i] = verbs.open_device(i == 0 ? "n0" : "n1");
      contexts[i]->device = &device;
    }
    pd = verbs.alloc_pd(contexts[0]);
    pd->context = contexts[0];
  }
  ~RelayBed() {
    for (ibv_context* const context : contexts) verbs.close_device(context);
  }
  FuzzVerbs verbs;
  ibv_device device{};
  std::array<ibv_context*, 2> contexts{};
  ibv_pd* pd = nullptr;
};

inline ibv_wc_status status_of(std::uint8_t byte) {
  constexpr std::array kAll = {IBV_WC_SUCCESS,       IBV_WC_SUCCESS,         IBV_WC_SUCCESS,
                               IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR,  IBV_WC_WR_FLUSH_ERR,
                               IBV_WC_LOC_PROT_ERR,  IBV_WC_REM_INV_REQ_ERR, IBV_WC_GENERAL_ERR};
  return kAll[byte % kAll.size()];
}

inline relay::RingShape shape_of(Input& input) {
  relay::RingShape shape;
  shape.slots = 1 + input.below(8);
  shape.payload_bytes = input.below(8) * 512;
  shape.wr_bytes = shape.payload_bytes == 0 ? input.below(relay::kSlotPayloadBytes + 1)
                                            : shape.payload_bytes / 2;
  return shape;
}

}  // namespace mesh::fuzz
