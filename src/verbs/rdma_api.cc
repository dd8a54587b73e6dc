#include "src/verbs/rdma_api.h"

#include "src/base/log.h"

#include <dlfcn.h>

namespace mesh::verbs {

namespace {
// Binds each name to the version whose signature we compiled against, because the default version
// may differ some day.
class Binder {
 public:
  explicit Binder(void* library) : library_(library) {}

  template <typename Function>
  void need(Function*& function, const char* name) {
    want(function, name, "IBVERBS_1.1");
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  template <typename Function>
  void want(Function*& function, const char* name, const char* version) {
    function = reinterpret_cast<Function*>(::dlvsym(library_, name, version));
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

void bind_devices(Binder& binder, VerbsApi& api) {
  binder.need(api.fork_init, "ibv_fork_init");
  binder.need(api.get_device_list, "ibv_get_device_list");
  binder.need(api.free_device_list, "ibv_free_device_list");
  binder.need(api.get_device_name, "ibv_get_device_name");
  binder.need(api.open_device, "ibv_open_device");
  binder.need(api.close_device, "ibv_close_device");
  binder.need(api.query_device, "ibv_query_device");
  binder.need(api.query_port, "ibv_query_port");
  binder.need(api.query_gid, "ibv_query_gid");
  binder.need(api.query_pkey, "ibv_query_pkey");
  binder.need(api.get_async_event, "ibv_get_async_event");
  binder.need(api.ack_async_event, "ibv_ack_async_event");
  binder.want(api.query_gid_table, "_ibv_query_gid_table", "IBVERBS_1.11");
  binder.want(api.query_port_speed, "ibv_query_port_speed", "IBVERBS_1.16");
}

void bind_objects(Binder& binder, VerbsApi& api) {
  binder.need(api.alloc_pd, "ibv_alloc_pd");
  binder.need(api.dealloc_pd, "ibv_dealloc_pd");
  binder.need(api.reg_mr, "ibv_reg_mr");
  binder.need(api.dereg_mr, "ibv_dereg_mr");
  binder.need(api.create_cq, "ibv_create_cq");
  binder.need(api.destroy_cq, "ibv_destroy_cq");
  binder.need(api.create_qp, "ibv_create_qp");
  binder.need(api.modify_qp, "ibv_modify_qp");
  binder.need(api.destroy_qp, "ibv_destroy_qp");
  binder.want(api.reg_mr_iova2, "ibv_reg_mr_iova2", "IBVERBS_1.8");
  binder.want(api.reg_dmabuf_mr, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
  binder.want(api.query_ece, "ibv_query_ece", "IBVERBS_1.10");
  binder.want(api.set_ece, "ibv_set_ece", "IBVERBS_1.10");
}
}  // namespace

Result<VerbsApi> load_verbs_api(const char* library) {
  void* const opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* const reason = ::dlerror();
    LOG_INFO("no RDMA: {} does not load ({}); install rdma-core", library,
             reason != nullptr ? reason : "no reason given");
    return Errc::NotFound;
  }
  VerbsApi api;
  Binder binder(opened);
  bind_devices(binder, api);
  bind_objects(binder, api);
  if (binder.missing() != nullptr) {
    LOG_INFO("no RDMA: {} has no function {}; a newer rdma-core is needed", library,
             binder.missing());
    return Errc::NotFound;
  }
  return api;
}

}  // namespace mesh::verbs
