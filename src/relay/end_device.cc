#include "src/relay/end_device.h"

#include "src/relay/end_completion_queue.h"
#include "src/relay/end_queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace mesh::relay {

namespace {

EndQueuePair& end_of(ibv_qp* qp) { return *reinterpret_cast<EndQueuePair*>(qp); }
const EndQueuePair& end_of(const ibv_qp* qp) { return *reinterpret_cast<const EndQueuePair*>(qp); }
EndCompletionQueue& end_of(ibv_cq* cq) { return *reinterpret_cast<EndCompletionQueue*>(cq); }

int end_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  EndQueuePair& end = end_of(qp);
  const std::lock_guard guard(end.parts().sends->lock());
  return end.post(wr, bad);
}
int end_post_receive(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  return ibv_post_recv(end_of(qp).parts().real.get(), wr, bad);
}
int end_poll(ibv_cq* cq, int count, ibv_wc* wc) { return end_of(cq).poll(count, wc); }

}  // namespace

EndDevice::EndDevice(verbs::Provider& real, ibv_context* context, Stopper* stopper) noexcept
    : ForwardingProvider(real), real_(real), stopper_(stopper) {
  device_ = *context->device;
  context_.device = &device_;
  context_.cmd_fd = context->cmd_fd;
  context_.async_fd = context->async_fd;
  context_.num_comp_vectors = context->num_comp_vectors;
  context_.ops.post_send = end_post_send;
  context_.ops.post_recv = end_post_receive;
  context_.ops.poll_cq = end_poll;
}

Status EndDevice::set_ring(ibv_qp* qp, const RingTarget& ring) {
  EndQueuePair& end = end_of(qp);
  const std::lock_guard guard(end.parts().sends->lock());
  return is_ring(ring) && end.set_ring(ring) ? Status{} : Status{Errc::InvalidArgument};
}

CountsTarget EndDevice::counts(const ibv_qp* qp) const { return end_of(qp).counts(); }

void EndDevice::fail(ibv_qp* qp, ibv_wc_status status) noexcept {
  EndQueuePair& end = end_of(qp);
  const std::lock_guard guard(end.parts().sends->lock());
  end.fail(status);
}

EndProgress EndDevice::progress(const ibv_qp* qp) const noexcept {
  const EndQueuePair& end = end_of(qp);
  return {.outstanding = end.outstanding(), .moved = end.moved(), .failed = end.failed()};
}

bool EndDevice::stuck(ibv_qp* qp, std::uint64_t now_ns) noexcept {
  EndQueuePair& end = end_of(qp);
  const std::lock_guard guard(end.parts().sends->lock());
  return end.stuck(now_ns);
}

// The real queue for sends has twice the entries: a queue pair leaves as many there as its real
// send queue is deep.
ibv_cq* EndDevice::create_cq(ibv_context* context, int entries) {
  ibv_device_attr device{};
  if (const int error = real_.query_device(context, &device); error != 0)
    return verbs::null_with_errno(error);
  verbs::CqHandle receives(real_, real_.create_cq(context, entries));
  if (!receives) return nullptr;
  const std::int64_t wanted = std::int64_t{entries} * RingWriter::kRequestsMax + kSpareRequests;
  const int sends_entries = static_cast<int>(std::min<std::int64_t>(wanted, device.max_cqe));
  verbs::CqHandle sends(real_, real_.create_cq(context, sends_entries));
  if (!sends) return nullptr;
  auto* const queue = new (std::nothrow) EndCompletionQueue(std::move(sends), std::move(receives));
  if (queue == nullptr) return verbs::null_with_errno(ENOMEM);
  queue->verbs.context = &context_;
  queue->verbs.cqe = entries;
  return &queue->verbs;
}

int EndDevice::destroy_cq(ibv_cq* cq) {
  if (!is_ours(cq->context)) return real_.destroy_cq(cq);
  if (end_of(cq).in_use()) return EBUSY;
  delete &end_of(cq);
  return 0;
}

ibv_qp* EndDevice::create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (attr->send_cq == nullptr || attr->recv_cq == nullptr) return verbs::null_with_errno(EINVAL);
  if (!is_ours(attr->send_cq->context)) return real_.create_qp(pd, attr);
  if (!is_ours(attr->recv_cq->context)) return verbs::null_with_errno(EINVAL);
  std::unique_ptr<EndQueuePair> end =
      make_end({real_, stopper_}, pd, {&end_of(attr->send_cq), &end_of(attr->recv_cq)}, attr);
  if (end == nullptr) return nullptr;
  end->verbs.context = &context_;
  return &end.release()->verbs;
}

// Destroys the real queue pair first: until then its device may use the memory.
int EndDevice::destroy_qp(ibv_qp* qp) {
  if (!is_ours(qp->context)) return real_.destroy_qp(qp);
  EndQueuePair& end = end_of(qp);
  end.parts().receives->remove_receiver(end);
  end.parts().sends->remove_sender(end);
  delete &end;
  return 0;
}

int EndDevice::modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if (!is_ours(qp->context)) return real_.modify_qp(qp, attr, mask);
  EndQueuePair& end = end_of(qp);
  const bool to_state = (mask & IBV_QP_STATE) != 0;
  if (to_state && attr->qp_state == IBV_QPS_RTS && !end.has_ring()) return EINVAL;
  const int error = real_.modify_qp(end.parts().real.get(), attr, mask);
  if (error != 0 || !to_state) return error;
  const std::lock_guard guard(end.parts().sends->lock());
  qp->state = attr->qp_state;
  if (attr->qp_state == IBV_QPS_ERR) {
    end.note_stopped();
    end.fail(IBV_WC_WR_FLUSH_ERR);
  }
  if (attr->qp_state == IBV_QPS_RESET) end.reset();
  return 0;
}

int EndDevice::query_ece(ibv_qp* qp, ibv_ece* ece) {
  return real_.query_ece(is_ours(qp->context) ? end_of(qp).parts().real.get() : qp, ece);
}

int EndDevice::set_ece(ibv_qp* qp, ibv_ece* ece) {
  return real_.set_ece(is_ours(qp->context) ? end_of(qp).parts().real.get() : qp, ece);
}

}  // namespace mesh::relay
