#pragma once
// Places where a tracer such as bpftrace may look into a running process (USDT, provider
// nccl_mesh). A probe is one instruction that does nothing until somebody traces it, and a note in
// the library that tells the tracer where its arguments are. No probe lies on the way of a message
// that nobody watches. A build without <sys/sdt.h> (systemtap-sdt-dev) has no probes. Thread: any.

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define MESH_PROBE2(name, first, second) DTRACE_PROBE2(nccl_mesh, name, first, second)
#define MESH_PROBE3(name, first, second, third) DTRACE_PROBE3(nccl_mesh, name, first, second, third)
#define MESH_PROBE4(name, first, second, third, fourth) \
  DTRACE_PROBE4(nccl_mesh, name, first, second, third, fourth)
#else
#define MESH_PROBE2(name, first, second) static_cast<void>(first), static_cast<void>(second)
#define MESH_PROBE3(name, first, second, third) \
  MESH_PROBE2(name, first, second), static_cast<void>(third)
#define MESH_PROBE4(name, first, second, third, fourth) \
  MESH_PROBE3(name, first, second, third), static_cast<void>(fourth)
#endif
