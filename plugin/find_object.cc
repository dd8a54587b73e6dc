// Defines _dl_find_object, by which the unwinder, which is linked into the library, finds the
// tables of an address. glibc has it since 2.35, and libgcc of a newer system asks for it. The
// library must load with glibc 2.34 too, so it has its own, made of a call that every glibc has.

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

#if defined(DLFO_STRUCT_HAS_EH_DBASE) && !DLFO_STRUCT_HAS_EH_DBASE && !DLFO_STRUCT_HAS_EH_COUNT

namespace {

struct Search {
  std::uintptr_t address;
  dl_find_object* found;
};

// Takes an object if one of its segments has the address, and another one the tables.
int look_at(dl_phdr_info* info, std::size_t, void* argument) {
  const auto& search = *static_cast<const Search*>(argument);
  bool has_address = false;
  std::uintptr_t first = UINTPTR_MAX, end = 0, tables = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const std::uintptr_t start = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == DLFO_EH_SEGMENT_TYPE) tables = start;
    if (header.p_type != PT_LOAD) continue;
    if (start < first) first = start;
    if (start + header.p_memsz > end) end = start + header.p_memsz;
    has_address |= search.address - start < header.p_memsz;
  }
  if (!has_address || tables == 0) return 0;
  *search.found = {};
  search.found->dlfo_map_start = reinterpret_cast<void*>(first);
  search.found->dlfo_map_end = reinterpret_cast<void*>(end);
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(tables);
  return 1;
}

}  // namespace

extern "C" __attribute__((visibility("hidden"))) int _dl_find_object(
    void* address, dl_find_object* result) noexcept {
  Search search{.address = reinterpret_cast<std::uintptr_t>(address), .found = result};
  return ::dl_iterate_phdr(look_at, &search) == 1 ? 0 : -1;
}

#endif
