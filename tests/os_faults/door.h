#pragma once
// The fault door of the operating system. A program that is linked with door_calls.cc intercepts
// the plugin's calls of libc, whether the plugin is linked in or loaded. The door counts the calls
// by kind; the n-th call of a kind, or every call from there on, fails as the system would let it
// fail. Only the plugin's calls count: the calls of a thread while it holds an Inside, and the
// calls of threads that were made there. Calls of the loader or of a foreign library always go
// through. Thread: any.

#include "tests/standard.h"

namespace mesh::testkit::door {

enum class Kind : std::uint8_t {
  Thread,      // pthread_create
  Descriptor,  // whatever makes a descriptor: the process has none left
  Socket,      // bind, connect, send, epoll_ctl and their like
  Memory,      // malloc and its like, mmap, ftruncate
  File,        // open, read, write, rename and their like
  Address,     // interfaces and names: an error, or with Empty a list without any
  Other,       // random numbers, affinity
};
inline constexpr std::size_t kKinds = 7;
inline constexpr std::array<const char*, kKinds> kKindNames{
    "thread", "descriptor", "socket", "memory", "file", "address", "other"};

enum class Mode : std::uint8_t {
  Once,
  FromThere,  // a process at its limits
  // The call does not return before let_go(); only calls of the thread that writes metrics count.
  Hang,
  Empty,  // the call succeeds and returns nothing
};

struct Fault {
  Kind kind = Kind::Thread;
  Mode mode = Mode::Once;
  std::uint64_t n = 0;  // counted from 1; 0: nothing fails, calls are counted
};

void arm(const Fault& fault) noexcept;  // counts begin anew
void disarm() noexcept;                 // nothing fails any more; the counts stay
void let_go() noexcept;                 // calls that hang return
std::uint64_t counted(Kind kind) noexcept;
// Makes the door store in `record` the name of the first call that fails, a literal of this
// program; null: none has. For a process that may not live to tell.
void record_symbol_in(std::atomic<const char*>& record) noexcept;
void stop_at_fault() noexcept;  // for a debugger: the call that is to fail raises SIGTRAP first

// Returns whether this call is to fail. For door_calls.cc.
bool fails(Kind kind, const char* symbol, const void* caller) noexcept;
bool empty_answer() noexcept;  // whether that call is to succeed with nothing

// Calls of this thread count while it lives.
class Inside {
 public:
  Inside() noexcept;
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  bool before_;
};
bool is_inside() noexcept;
void this_thread_writes_metrics() noexcept;

// Calls of this thread do not count while it lives: for a callback of ours that runs inside.
class Outside {
 public:
  Outside() noexcept;
  ~Outside();
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  bool before_;
};

// Blocks of memory that were taken inside and not given back. Bound: kBlocksMax at a time.
inline constexpr std::size_t kBlocksMax = std::size_t{1} << 17;
struct Block {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  const void* caller = nullptr;
};
void note_block(void* address, std::size_t bytes, const void* caller) noexcept;
void forget_block(void* address) noexcept;
std::size_t live_blocks() noexcept;
// Copies at most `room` of the blocks taken since set_mark(), and returns how many there are.
void set_mark() noexcept;
std::size_t blocks_since_mark(Block* into, std::size_t room) noexcept;

}  // namespace mesh::testkit::door
