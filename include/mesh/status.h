#pragma once
// The result of every call that can fail: one byte that says what happened. The text of an error is
// logged once, where it was decided; a Status only passes the code on. Thread: any (values). Bound:
// none.

#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>

namespace mesh {

enum class Errc : std::uint8_t {
  Ok,
  WouldBlock,       // no error: ask again later
  InvalidArgument,  // the caller's value is outside what the header allows
  NotFound,         // a named thing (device, host, file) does not exist
  Unreachable,      // no local rail shares a subnet with the peer
  Protocol,         // the peer speaks another version or sent something malformed
  PeerClosed,       // the peer closed the channel with this request still open
  PeerGone,         // the peer's process or host is lost
  Truncated,        // a send was larger than its receive
  Revoked,          // the memory of this request was taken back
  Transport,        // the NIC reported an error completion
  Timeout,          // a bounded wait ran out
  Exhausted,        // a fixed table is full
  System,           // the operating system refused
  Internal,         // a mistake of ours
};

// The name of an error code, in static storage. Thread: any.
const char* errc_name(Errc code) noexcept;

// NOLINTBEGIN(google-explicit-constructor): a function returns a value or an error as it is.

class [[nodiscard]] Status {
 public:
  constexpr Status() noexcept = default;
  constexpr Status(Errc code) noexcept : code_(code) {}
  constexpr bool ok() const noexcept { return code_ == Errc::Ok; }
  constexpr Errc code() const noexcept { return code_; }
  friend constexpr bool operator==(Status, Status) noexcept = default;

 private:
  Errc code_ = Errc::Ok;
};

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Errc code) : status_(code) { assert(code != Errc::Ok); }
  Result(Status status) : status_(status) { assert(!status.ok()); }

  bool ok() const noexcept { return status_.ok(); }
  Status status() const noexcept { return status_; }
  Errc code() const noexcept { return status_.code(); }
  T& value() noexcept { return *value_; }
  const T& value() const noexcept { return *value_; }
  T& operator*() noexcept { return *value_; }
  const T& operator*() const noexcept { return *value_; }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

// The form for the hot path: a pointer and a status in two registers, without an optional.
template <typename T>
class [[nodiscard]] Result<T*> {
 public:
  constexpr Result(T* value) noexcept : value_(value) {}
  constexpr Result(Errc code) noexcept : status_(code) {}
  constexpr Result(Status status) noexcept : status_(status) {}

  constexpr bool ok() const noexcept { return status_.ok(); }
  constexpr Status status() const noexcept { return status_; }
  constexpr Errc code() const noexcept { return status_.code(); }
  constexpr T* value() const noexcept { return value_; }
  constexpr T* operator*() const noexcept { return value_; }
  constexpr T* operator->() const noexcept { return value_; }

 private:
  T* value_ = nullptr;
  Status status_;
};

// NOLINTEND(google-explicit-constructor)

}  // namespace mesh
