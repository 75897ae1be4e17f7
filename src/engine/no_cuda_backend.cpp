#include "base/error.hpp"
#include "engine/backend.hpp"

namespace ple {

Result<std::unique_ptr<Backend>> make_cuda_backend(std::int32_t device_index, SlotPlace,
                                                   std::int32_t) {
  return error(StatusCode::unsupported,
               "device 'cuda:{}': this build has no CUDA (PLE_ENABLE_CUDA)", device_index);
}

}  // namespace ple
