#include "tests/unit/engine/sick_rail.h"

#include "tests/prelude.h"
#include "tests/unit/engine/patience.h"

namespace mesh::testkit {

std::string test_name_of(Call call) {
  std::string name = name_of(call);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

std::vector<Call> all_calls() {
  std::vector<Call> calls;
  for (std::size_t i = 0; i < kCalls; ++i) calls.push_back(static_cast<Call>(i));
  return calls;
}

void SickRail::note(Call call, const ibv_context* context) {
  if (context == nullptr || std::string_view(context->device->name) != kDevice) return;
  Counts& counts = counts_[static_cast<std::size_t>(call)];
  counts.all.fetch_add(1);
  if (held_here().control_mutexes != 0) counts.control.fetch_add(1);
  if (held_here().progress_locks != 0) counts.progress.fetch_add(1);
  const auto is_slow = [this, call] { return slow_.load() == static_cast<int>(call); };
  if (!is_slow()) return;
  const std::uint64_t number = waiting_.fetch_add(1) + 1;
  EXPECT_TRUE(wait_until([&] { return let_go_.load() >= number || !is_slow(); }));
  waited_.fetch_add(1);
}

Call SickRail::call_of(ibv_qp_state state) {
  switch (state) {
    case IBV_QPS_INIT: return Call::ModifyToInit;
    case IBV_QPS_RTR: return Call::ModifyToRtr;
    case IBV_QPS_RTS: return Call::ModifyToRts;
    default: return Call::ModifyToErr;
  }
}

}  // namespace mesh::testkit
