#pragma once
// Reads and prints the value of one setting. This plugin's variables (NCCL_MESH_*) are read
// strictly. NCCL's variables are read as NCCL reads them, and no value of theirs stops the plugin:
// jobs set them in their recipes for NCCL's own transport. Thread: any (pure, but for the
// warnings). Bound: one value.

#include <mesh/config.h>

#include "src/base/config.h"
#include "src/base/settings_table.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace mesh {

struct NcclNumber {
  std::int64_t value = 0;
  bool whole = true;  // nothing follows the digits
};

// Reads a number as NCCL reads its parameters: blanks in front are skipped, 0x is hexadecimal, a
// leading 0 is octal, and what follows the digits is ignored (in NCCL's sources: ncclLoadParam,
// strtoll with base 0). Returns no value if there is no digit (NCCL reads 0), or if the number has
// more than 64 bits (NCCL takes its default).
std::optional<NcclNumber> read_nccl_number(const std::string& text);

using EnvironmentVariable = std::pair<const std::string, std::string>;

enum class Taken : std::uint8_t {
  Given,     // the setting has what the variable says, or the nearest value in its range
  Unset,     // a variable of NCCL's says that it is not set, or cannot be used; the default stays
  Unusable,  // a variable of ours cannot be used
};

// Puts the value of `variable`, which decides the setting, into `settings`. Every value that is not
// taken as it is written gets one warning with the variable, its text and the range.
Taken take_value(const Setting& setting, const EnvironmentVariable& variable, Settings& settings);

// Returns the variable that decides a setting, or null if none is set.
const EnvironmentVariable* deciding(const Setting& setting, const Environment& environment);

// Reads a number of bytes, decimal or 0x hexadecimal, with an optional K, M or G behind a decimal
// one. Returns no value for any other text.
std::optional<std::int64_t> read_bytes(std::string_view text);
std::string bytes_text(std::int64_t value);  // "64K", "220"
std::string range_text(const Setting& setting);
std::string value_text(const Setting& setting, const Settings& settings);

}  // namespace mesh
