#include "plugin/collnet.h"

#include "plugin/calls.h"
#include "plugin/collnet_seat.h"
#include "plugin/collnet_seats.h"
#include "plugin/logger.h"
#include "plugin/registry.h"
#include "plugin/result.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"

#include <cstring>
#include <exception>
#include <memory>
#include <utility>

namespace mesh::plugin::collnet {

namespace {

template <typename Call>
ncclResult_t guarded(const char* name, Call&& call) noexcept {
  if (in_forked_child()) return ncclSystemError;
  try {
    return call();
  } catch (const std::exception& error) {
    LOG_WARN("one-shot all-reduce: {} failed: {}", name, error.what());
    return ncclSystemError;
  }
}

ncclResult_t refuse(const char* reason) {
  LOG_WARN("one-shot all-reduce: {}", reason);
  return ncclInvalidUsage;
}

}  // namespace

ncclResult_t init_process(ncclDebugLogger_t logger) noexcept {
  return guarded("init", [&] {
    use_logger(logger);
    if (Registry::instance().one_shot_bytes() == 0) return ncclInvalidUsage;
    CollNetSeats::instance().note_process();
    return ncclSuccess;
  });
}

ncclResult_t init_communicator(std::uint64_t comm_id, ncclDebugLogger_t logger,
                               void** context) noexcept {
  *context = nullptr;
  return guarded("init", [&] {
    use_logger(logger);
    if (Registry::instance().one_shot_bytes() == 0) return ncclInvalidUsage;
    if (!Registry::instance().hold()) return refuse("init before the net's");
    try {
      *context = CollNetSeats::instance().add(comm_id);
    } catch (...) {
      Registry::instance().release();
      throw;
    }
    return ncclSuccess;
  });
}

ncclResult_t finalize(void* context) noexcept {
  if (context == nullptr) return ncclSuccess;
  return guarded("finalize", [&] {
    if (!CollNetSeats::instance().remove(static_cast<CollNetCommunicator*>(context)))
      return refuse("finalize without an open communicator");
    Registry::instance().release();
    return ncclSuccess;
  });
}

ncclResult_t devices(int* count) noexcept {
  *count = 1;
  return ncclSuccess;
}

ncclResult_t properties(int device, nccl::NewestProperties* properties) noexcept {
  return calls::newest_properties(device, properties);
}

ncclResult_t listen(void* context, int device, void* handle, void** listen_comm) noexcept {
  *listen_comm = nullptr;
  return guarded("listen", [&] {
    Engine* const engine = Registry::instance().engine();
    if (engine == nullptr) return refuse("listen before a successful init");
    if (device != 0) return refuse("listen on a device other than the first");
    HandleBytes bytes{};
    std::unique_ptr<CollNetSeat> seat = CollNetSeat::listen(*engine, bytes);
    *listen_comm = CollNetSeats::instance().add(static_cast<const CollNetCommunicator*>(context),
                                                std::move(seat));
    std::memcpy(handle, bytes.data(), bytes.size());
    return ncclSuccess;
  });
}

ncclResult_t connect(const Members& members, void* listen_comm, void** coll_comm) noexcept {
  *coll_comm = nullptr;
  return guarded("connect", [&] {
    CollNetSeat* const seat = CollNetSeats::instance().find(listen_comm);
    if (seat == nullptr || seat->connected()) return refuse("connect without a listener");
    seat->connect({.handles = {members.handles, static_cast<std::size_t>(members.count)},
                   .rank = static_cast<std::size_t>(members.rank),
                   .bound = Registry::instance().one_shot_bytes(),
                   .host = Registry::instance().host(),
                   .stall_seconds = Registry::instance().stall_seconds()});
    CollNetSeats::instance().count_in(*seat);
    *coll_comm = seat;
    return ncclSuccess;
  });
}

// The listener's comm and the group's are one object. A group that stands keeps it.
ncclResult_t close_listen(void* listen_comm) noexcept {
  if (listen_comm == nullptr) return ncclSuccess;
  return guarded("closeListen", [&] {
    CollNetSeat* const seat = CollNetSeats::instance().find(listen_comm);
    if (seat == nullptr) return ncclSuccess;  // it was closed with its communicator
    if (seat->connected())
      seat->close_listener();
    else
      CollNetSeats::instance().take(listen_comm);
    return ncclSuccess;
  });
}

ncclResult_t close_coll(void* coll_comm) noexcept {
  return guarded("closeColl", [&] {
    CollNetSeats::instance().take(coll_comm);
    return ncclSuccess;
  });
}

ncclResult_t reduce_support(const NcclReduction& reduction, int* supported) noexcept {
  const bool known = reduction.type >= 0 && reduction.type < int{oneshot::kElements} &&
                     reduction.operation >= 0 && reduction.operation < int{oneshot::kOperations};
  *supported = known && !in_forked_child() && CollNetSeats::instance().empty_seats() == 0 ? 1 : 0;
  return ncclSuccess;
}

ncclResult_t reg_mr(void* coll_comm, int type, void** mhandle) noexcept {
  *mhandle = nullptr;
  return guarded("regMr", [&] {
    const CollNetSeat* const seat = CollNetSeats::instance().find(coll_comm);
    if (seat == nullptr) return refuse("regMr without a group");
    if (seat->group() != nullptr && type != NCCL_PTR_HOST)
      return refuse("regMr of memory that is not the host's");
    *mhandle = coll_comm;
    return ncclSuccess;
  });
}

ncclResult_t iallreduce(void* coll_comm, const Buffers& buffers, const NcclReduction& reduction,
                        void** request) noexcept {
  *request = nullptr;
  if (in_forked_child()) return ncclSystemError;
  oneshot::Group* const group =
      coll_comm == nullptr ? nullptr : static_cast<CollNetSeat*>(coll_comm)->group();
  if (group == nullptr) return refuse("iallreduce without a group");
  const Result<oneshot::Job*> job =
      group->all_reduce({.from = static_cast<const std::byte*>(buffers.send),
                         .to = static_cast<std::byte*>(buffers.receive),
                         .count = buffers.count,
                         .reduction = {static_cast<oneshot::Element>(reduction.type),
                                       static_cast<oneshot::Operation>(reduction.operation)}});
  if (job.ok()) *request = job.value();
  return to_result(job.code());
}

ncclResult_t test(void* request, int* done, int* bytes) noexcept {
  *done = 0;
  if (in_forked_child()) return ncclSystemError;
  if (request == nullptr) return refuse("test of no request");
  auto& job = *static_cast<oneshot::Job*>(request);
  const std::size_t size = job.work.bytes();
  const Status status = job.group->test(job);
  if (!status.ok()) return to_result(status.code());
  return calls::finished(size, done, bytes);
}

bool has_communicator(const std::uint64_t* comm_id) noexcept {
  return CollNetSeats::instance().has(comm_id);
}

}  // namespace mesh::plugin::collnet
