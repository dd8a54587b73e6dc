#pragma once
// CHECK is for mistakes of ours that would corrupt memory or data; every build has it. DCHECK is
// for our other mistakes; only debug builds have it. External input is validated, never checked.
// Thread: any. Bound: none.

namespace mesh {
[[noreturn]] void check_failed(const char* file, int line, const char* condition) noexcept;
}

#define CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::mesh::check_failed(__FILE__, __LINE__, #condition))
#ifdef NDEBUG
#define DCHECK(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#else
#define DCHECK(condition) CHECK(condition)
#endif
