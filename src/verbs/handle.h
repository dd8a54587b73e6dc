#pragma once
// Owning handles for the objects that a provider makes. Declare them in the order of creation, so
// that children are destroyed before their parents. If a destroy fails, it is our mistake or a dead
// device; it is logged, and the object is given up. Thread: one owner. Bound: one object.

#include "src/base/check.h"
#include "src/verbs/provider.h"

#include <memory>
#include <utility>

namespace mesh::verbs {

// Logs one WARN line that names the object and the errno value.
void report_destroy_failure(const Provider& provider, const char* object, int error) noexcept;

constexpr const char* object_name(const ibv_context*) noexcept { return "device context"; }
constexpr const char* object_name(const ibv_pd*) noexcept { return "protection domain"; }
constexpr const char* object_name(const ibv_mr*) noexcept { return "memory region"; }
constexpr const char* object_name(const ibv_comp_channel*) noexcept { return "channel"; }
constexpr const char* object_name(const ibv_cq*) noexcept { return "completion queue"; }
constexpr const char* object_name(const ibv_qp*) noexcept { return "queue pair"; }

template <typename T, int (Provider::*Destroy)(T*)>
class Handle {
 public:
  constexpr Handle() noexcept = default;
  // A null object makes an empty handle. `on` is what the object was made on: the handle holds it
  // until the object is destroyed, and may then destroy it, too.
  Handle(Provider& provider, T* object, std::shared_ptr<const void> on = nullptr) noexcept
      : provider_(&provider), object_(object) {
    if (object != nullptr) on_ = std::move(on);
  }
  Handle(Handle&& other) noexcept
      : provider_(other.provider_),
        object_(std::exchange(other.object_, nullptr)),
        on_(std::move(other.on_)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      provider_ = other.provider_;
      object_ = std::exchange(other.object_, nullptr);
      on_ = std::move(other.on_);
    }
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { reset(); }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  Provider* provider() const noexcept { return provider_; }

  void reset() noexcept {
    T* object = std::exchange(object_, nullptr);
    if (object == nullptr) return;
    DCHECK(provider_ != nullptr);
    if (const int error = (provider_->*Destroy)(object); error != 0)
      report_destroy_failure(*provider_, object_name(object), error);
    on_.reset();
  }

 private:
  Provider* provider_ = nullptr;
  T* object_ = nullptr;
  std::shared_ptr<const void> on_;
};

using ContextHandle = Handle<ibv_context, &Provider::close_device>;
using PdHandle = Handle<ibv_pd, &Provider::dealloc_pd>;
using MrHandle = Handle<ibv_mr, &Provider::dereg_mr>;
using ChannelHandle = Handle<ibv_comp_channel, &Provider::destroy_channel>;
using CqHandle = Handle<ibv_cq, &Provider::destroy_cq>;
using QpHandle = Handle<ibv_qp, &Provider::destroy_qp>;

}  // namespace mesh::verbs
