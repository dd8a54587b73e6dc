#pragma once
// The tables of plugin/REFERENCE.md, each made from what the code has. Thread: main. Bound: that of
// the tables in code.

#include "tests/standard.h"

namespace mesh::reference {

using Cells = std::vector<std::string>;

// Returns a line of a table.
std::string row(const Cells& cells);
// Returns the two lines that begin a table.
std::string head(const Cells& names);

std::string settings();
std::string nccl_settings();
std::string metrics();
std::string snapshot_fields();
std::string frames();
std::string time_outs();
std::string findings();
std::string exit_codes();

}  // namespace mesh::reference
