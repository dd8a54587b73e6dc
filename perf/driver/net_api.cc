#include "perf/driver/net_api.h"

#include "perf/driver/net_adapter.h"

#include <dlfcn.h>

#include <type_traits>
#include <utility>

namespace mesh::driver {
namespace {

using Versions = std::make_integer_sequence<int, kNetVersionMax - kNetVersionMin + 1>;

template <int... kOffsets>
std::unique_ptr<NetApi> adapt(int version, Library library, const void* table,
                              std::integer_sequence<int, kOffsets...>) {
  std::unique_ptr<NetApi> api;
  const auto adapt_if = [&]<int kVersion>(std::integral_constant<int, kVersion>) {
    using Net = typename nccl::Version<kVersion>::Net;
    if (version == kVersion)
      api = std::make_unique<NetAdapter<kVersion>>(std::move(library),
                                                   *static_cast<const Net*>(table));
  };
  (adapt_if(std::integral_constant<int, kNetVersionMin + kOffsets>{}), ...);
  return api;
}

}  // namespace

Library::~Library() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* Library::symbol(const char* name) const noexcept { return ::dlsym(handle_, name); }

// The text may grow between two calls, so it is asked for until it fits.
Snapshot Library::snapshot() const {
  using Ask = std::size_t (*)(char*, std::size_t) noexcept;
  const auto ask = reinterpret_cast<Ask>(symbol("nccl_mesh_snapshot"));
  std::string text;
  for (std::size_t needed = 1; ask != nullptr && needed > text.size();) {
    text.resize(needed);
    needed = ask(text.data(), text.size() + 1);
    if (needed <= text.size()) {
      text.resize(needed);
      break;
    }
  }
  std::string why;
  Result<Snapshot> snapshot = snapshot_from(text, &why);
  if (snapshot.ok()) return *std::move(snapshot);
  Snapshot none;
  none.schema = 0;
  return none;
}

ncclDebugLogger_t NetApi::logger() noexcept { return &plugin_log_callback; }

const char* net_result_name(int result) noexcept {
  switch (result) {
    case kDriverTimeout: return "driver timeout";
    case 0: return "ncclSuccess";
    case 1: return "ncclUnhandledCudaError";
    case 2: return "ncclSystemError";
    case 3: return "ncclInternalError";
    case 4: return "ncclInvalidArgument";
    case 5: return "ncclInvalidUsage";
    case 6: return "ncclRemoteError";
    case 7: return "ncclInProgress";
    default: return "unknown result";
  }
}

std::unique_ptr<NetApi> NetApi::load(const std::string& path, int version, std::string& error) {
  if (version < kNetVersionMin || version > kNetVersionMax) {
    error = "ncclNet version " + std::to_string(version) + " is outside " +
            std::to_string(kNetVersionMin) + ".." + std::to_string(kNetVersionMax);
    return nullptr;
  }
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    error = ::dlerror();
    return nullptr;
  }
  Library library(handle);
  const std::string symbol = "ncclNetPlugin_v" + std::to_string(version);
  const void* table = library.symbol(symbol.c_str());
  if (table == nullptr) {
    error = path + " has no symbol " + symbol;
    return nullptr;
  }
  return adapt(version, std::move(library), table, Versions{});
}

std::string unusable_plugin(const std::string& path, int version) {
  std::string error;
  return NetApi::load(path, version, error) == nullptr ? "no plugin: " + error : "";
}

}  // namespace mesh::driver
