#include "src/relay/end_queue_pair.h"

#include "src/relay/end_completion_queue.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace mesh::relay {

namespace {

// Returns the depth of the real send queue: two work requests for each of the user's, a few that
// wait to be polled, and the mark of the end.
constexpr std::uint32_t real_depth(std::uint32_t depth, std::uint32_t device_limit) noexcept {
  return std::min(RingWriter::kRequestsMax * depth + kSpareRequests, device_limit);
}

// Inline bytes to ask for: a whole slot at best, and none at worst, as headers can go out of
// registered memory.
constexpr std::uint32_t kInlineTries[] = {kSlotBytes, 128, 0};

bool is_asked_right(const ibv_qp_init_attr& attr, const ibv_device_attr& device) noexcept {
  return attr.cap.max_send_sge <= 1 && attr.cap.max_inline_data <= kSlotPayloadBytes &&
         attr.cap.max_send_wr <= static_cast<std::uint32_t>(device.max_qp_wr) &&
         attr.cap.max_send_wr <= kRingSlotsMax;
}

// Makes the real queue pair. Returns false with errno.
bool make_real(verbs::Provider& real, ibv_pd* pd, const ibv_qp_init_attr& asked,
               EndQueuePair::Parts* parts) {
  for (const std::uint32_t tried : kInlineTries) {
    ibv_qp_init_attr attr = asked;
    attr.send_cq = parts->sends->real_sends();
    attr.recv_cq = parts->receives->real_receives();
    attr.sq_sig_all = 0;
    attr.cap.max_send_wr = parts->real_depth;
    attr.cap.max_send_sge = SendBatch::kElements;
    attr.cap.max_inline_data = tried;
    parts->real = verbs::QpHandle(real, real.create_qp(pd, &attr));
    if (!parts->real) continue;
    parts->real_inline = std::min(attr.cap.max_inline_data, kSlotBytes);
    parts->granted = attr.cap;
    return true;
  }
  return false;
}

bool make_memory(verbs::Provider& real, ibv_pd* pd, EndQueuePair::Parts* parts) {
  const std::size_t bytes = EndQueuePair::memory_bytes(parts->depth);
  parts->memory = make_pages(bytes);
  if (parts->memory == nullptr) return errno = ENOMEM, false;
  parts->mr = verbs::MrHandle(real, real.reg_mr(pd, parts->memory.get(), whole_pages(bytes),
                                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  return static_cast<bool>(parts->mr);
}

void fill_in(ibv_qp& qp, const EndQueuePair& end, const ibv_qp_init_attr& attr) {
  const ibv_qp& real = *end.parts().real.get();
  qp.qp_context = attr.qp_context;
  qp.pd = real.pd;
  qp.send_cq = attr.send_cq;
  qp.recv_cq = attr.recv_cq;
  qp.qp_num = real.qp_num;
  qp.qp_type = IBV_QPT_RC;
  qp.state = IBV_QPS_RESET;
}

// Joins both completion queues or none.
bool join(EndQueuePair& end) {
  EndCompletionQueue &sends = *end.parts().sends, &receives = *end.parts().receives;
  if (!receives.add_receiver(end)) return false;
  bool joined = false;
  try {
    joined = sends.add_sender(end);
  } catch (const std::bad_alloc&) {
  }
  if (!joined) receives.remove_receiver(end);
  return joined;
}

}  // namespace

std::unique_ptr<EndQueuePair> make_end(verbs::Provider& real, ibv_pd* pd, const EndQueues& queues,
                                       ibv_qp_init_attr* attr) try {
  ibv_device_attr device{};
  const int error = real.query_device(pd->context, &device);
  if (error != 0 || !is_asked_right(*attr, device))
    return errno = error != 0 ? error : EINVAL, nullptr;
  EndQueuePair::Parts parts;
  parts.provider = &real;
  parts.sends = queues.sends;
  parts.receives = queues.receives;
  parts.depth = std::max(attr->cap.max_send_wr, 1u);
  parts.real_depth = real_depth(parts.depth, static_cast<std::uint32_t>(device.max_qp_wr));
  parts.inline_bytes = attr->cap.max_inline_data;
  parts.signal_all = attr->sq_sig_all != 0;
  if (!make_memory(real, pd, &parts) || !make_real(real, pd, *attr, &parts)) return nullptr;
  const ibv_qp_cap granted = parts.granted;
  auto end = std::make_unique<EndQueuePair>(std::move(parts));
  fill_in(end->verbs, *end, *attr);
  if (!join(*end)) return errno = ENOMEM, nullptr;
  attr->cap.max_send_wr = end->parts().depth;
  attr->cap.max_recv_wr = granted.max_recv_wr;
  attr->cap.max_send_sge = 1;
  attr->cap.max_recv_sge = granted.max_recv_sge;
  return end;
} catch (const std::bad_alloc&) {
  return errno = ENOMEM, nullptr;  // as a device that has no memory
}

}  // namespace mesh::relay
