#pragma once
// The settings of NCCL's own InfiniBand transport, and what becomes of each when this plugin runs
// in its place. Names and defaults are those of the sources of NCCL 2.30.7. Of 2.31.2 the names are
// known from a list of the variables that it reads, and of 2.32 from the index of its user guide;
// what they mean is taken from their names, and from 2.31's latency monitor as others describe it.
// Thread: any (constant). Bound: the table.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

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
  const char* since = "";  // the first version that has it, if it is newer than 2.30.7
};

std::span<const NcclSetting> nccl_table() noexcept;

// Returns the names of all settings that begin with NCCL_IB_, NCCL_NET_ or NCCL_SOCKET_.
std::vector<std::string_view> nccl_network_names();

}  // namespace mesh
