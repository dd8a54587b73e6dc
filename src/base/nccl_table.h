#pragma once
// The settings of NCCL's own InfiniBand transport, and what becomes of each when this plugin runs
// in its place. The names and defaults are those of NCCL 2.30. Thread: any (constant). Bound: the
// table.

#include <cstdint>
#include <span>
#include <string>

namespace mesh {

enum class Standing : std::uint8_t {
  Honoured,     // settings_table.cc reads it, and it has an effect
  Meaningless,  // the thing it steers does not exist here, or is always so
  NotBuilt,     // it could have an effect, and has none yet
};

struct NcclSetting {
  const char* name;
  const char* usual;  // NCCL's default
  Standing standing;
  const char* reason;
};

std::span<const NcclSetting> nccl_table() noexcept;

std::string nccl_markdown();  // the table in plugin/README.md

}  // namespace mesh
