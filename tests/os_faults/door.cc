#include "tests/os_faults/door.h"

#include <link.h>

namespace mesh::testkit::door {
namespace {

constinit thread_local bool t_inside = false, t_writes_metrics = false;

std::array<std::atomic<std::uint64_t>, kKinds> g_counts{};
std::atomic<std::uint64_t> g_n{0};
std::atomic<Kind> g_kind{Kind::Thread};
std::atomic<Mode> g_mode{Mode::Once};
std::atomic<const char*> g_own_record{nullptr};
std::atomic<const char*>* g_record = &g_own_record;
std::atomic<bool> g_let_go{false}, g_trap{false};

// The loader reacts to a failed allocation of its own with abort(), and the allocations of hwloc
// and libibverbs are not ours to test.
bool is_foreign(const void* caller) noexcept {
  dl_find_object object{};
  if (::_dl_find_object(const_cast<void*>(caller), &object) != 0) return true;
  const std::string_view name(object.dlfo_link_map->l_name);
  return name.find("/ld-linux") != std::string_view::npos ||
         name.find("hwloc") != std::string_view::npos ||
         name.find("libibverbs") != std::string_view::npos;
}

}  // namespace

void arm(const Fault& fault) noexcept {
  g_n.store(0);
  for (auto& count : g_counts) count.store(0);
  g_record->store(nullptr);
  g_let_go.store(false);
  g_kind.store(fault.kind);
  g_mode.store(fault.mode);
  g_n.store(fault.n);
}

void disarm() noexcept { g_n.store(0); }
void let_go() noexcept { g_let_go.store(true); }
void stop_at_fault() noexcept { g_trap.store(true); }
std::uint64_t counted(Kind kind) noexcept {
  return g_counts[static_cast<std::size_t>(kind)].load();
}
void record_symbol_in(std::atomic<const char*>& record) noexcept { g_record = &record; }
bool empty_answer() noexcept { return g_mode.load() == Mode::Empty; }
bool is_inside() noexcept { return t_inside; }
void this_thread_writes_metrics() noexcept { t_writes_metrics = true; }

bool fails(Kind kind, const char* symbol, const void* caller) noexcept {
  if (!t_inside || is_foreign(caller)) return false;
  const Mode mode = g_mode.load();
  if (mode == Mode::Hang && !t_writes_metrics) return false;
  const std::uint64_t number = g_counts[static_cast<std::size_t>(kind)].fetch_add(1) + 1;
  const std::uint64_t n = g_n.load();
  const bool hit =
      n != 0 && kind == g_kind.load() && (number == n || (mode == Mode::FromThere && number > n));
  if (!hit) return false;
  if (number == n) {
    g_record->store(symbol);
    if (g_trap.load()) std::raise(SIGTRAP);
  }
  if (mode != Mode::Hang) return true;
  while (!g_let_go.load()) ::sched_yield();
  return false;
}

Inside::Inside() noexcept : before_(t_inside) { t_inside = true; }
Inside::~Inside() { t_inside = before_; }
Outside::Outside() noexcept : before_(t_inside) { t_inside = false; }
Outside::~Outside() { t_inside = before_; }

// ---- Blocks of memory: open addressing, under a lock that no call is made with.

namespace {

constexpr std::uintptr_t kGone = 1;  // the entry was in use; a search goes on behind it

struct Entry {
  Block block;
  std::uint64_t order = 0;
};
std::array<Entry, kBlocksMax> g_blocks{};
std::size_t g_live = 0;
std::uint64_t g_order = 0, g_mark = 0;
std::atomic_flag g_blocks_lock = ATOMIC_FLAG_INIT;

class BlocksLock {
 public:
  BlocksLock() noexcept {
    while (g_blocks_lock.test_and_set(std::memory_order_acquire)) ::sched_yield();
  }
  ~BlocksLock() { g_blocks_lock.clear(std::memory_order_release); }
  BlocksLock(const BlocksLock&) = delete;
  BlocksLock& operator=(const BlocksLock&) = delete;
};

std::size_t place_of(std::uintptr_t address) noexcept {
  return (address >> 4) * 0x9e3779b97f4a7c15u >> 40 & (kBlocksMax - 1);
}

}  // namespace

void note_block(void* address, std::size_t bytes, const void* caller) noexcept {
  if (address == nullptr || !t_inside || is_foreign(caller)) return;
  const BlocksLock lock;
  const auto key = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t step = 0; step < kBlocksMax; ++step) {
    Entry& entry = g_blocks[(place_of(key) + step) & (kBlocksMax - 1)];
    if (entry.block.address > kGone) continue;
    entry = {.block = {.address = key, .bytes = bytes, .caller = caller}, .order = ++g_order};
    ++g_live;
    return;
  }
}

void forget_block(void* address) noexcept {
  if (address == nullptr || g_live == 0) return;
  const BlocksLock lock;
  const auto key = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t step = 0; step < kBlocksMax; ++step) {
    Entry& entry = g_blocks[(place_of(key) + step) & (kBlocksMax - 1)];
    if (entry.block.address == 0) return;
    if (entry.block.address != key) continue;
    entry.block.address = kGone;
    --g_live;
    return;
  }
}

std::size_t live_blocks() noexcept {
  const BlocksLock lock;
  return g_live;
}

void set_mark() noexcept {
  const BlocksLock lock;
  g_mark = g_order;
}

std::size_t blocks_since_mark(Block* into, std::size_t room) noexcept {
  const BlocksLock lock;
  std::size_t count = 0;
  for (const Entry& entry : g_blocks) {
    if (entry.block.address <= kGone || entry.order <= g_mark) continue;
    if (count < room) into[count] = entry.block;
    ++count;
  }
  return count;
}

}  // namespace mesh::testkit::door
