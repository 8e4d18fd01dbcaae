// Checks of a plan for GPUs, and which of its codes a device runs.
#include "rt/cuda_model.h"

// The layouts that emitted data relies on.
_Static_assert(sizeof(tcc_rt_gpu_launch) == 56 && offsetof(tcc_rt_gpu_launch, tensor_maps) == 40, "layout");
_Static_assert(sizeof(tcc_cuda_tensor_map) == 112 && offsetof(tcc_cuda_tensor_map, box) == 72, "layout");
_Static_assert(offsetof(tcc_rt_gpu_launch, grid) == 8, "layout");
_Static_assert(offsetof(tcc_rt_gpu_launch, block) == 20 && offsetof(tcc_rt_gpu_launch, shared_bytes) == 32, "layout");
_Static_assert(sizeof(tcc_rt_gpu_kernel) == 32 && offsetof(tcc_rt_gpu_kernel, launches) == 16, "layout");
_Static_assert(sizeof(tcc_rt_gpu_step) == 16 && sizeof(tcc_rt_gpu) == 24, "layout");
_Static_assert(sizeof(tcc_rt_gpu_code) == 40 && offsetof(tcc_rt_gpu_code, kernels) == 16, "layout");

enum { kMaxBlockThreads = 1024, kMaxGridYz = 65535 };

static bool launch_is_possible(const tcc_rt_gpu_launch* l) {
  const uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
  return l->symbol && l->grid[0] > 0 && l->grid[1] > 0 && l->grid[2] > 0 && l->grid[0] <= INT32_MAX &&
         l->grid[1] <= kMaxGridYz && l->grid[2] <= kMaxGridYz && threads > 0 && threads <= kMaxBlockThreads;
}

static tcc_status check_code(const tcc_rt_plan* plan, const tcc_rt_gpu_code* code) {
  if (code->num_steps != plan->num_steps) {
    return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: %s has %u steps of %u", code->name, code->num_steps, plan->num_steps);
  }
  for (uint32_t k = 0; k < code->num_kernels; ++k) {
    const tcc_rt_gpu_kernel* kernel = &code->kernels[k];
    bool fine = kernel->image && kernel->image_bytes > 0;
    for (uint32_t l = 0; fine && l < kernel->num_launches; ++l) {
      fine = launch_is_possible(&kernel->launches[l]);
      for (uint32_t m = 0; fine && m < kernel->launches[l].num_tensor_maps; ++m) {
        const tcc_cuda_tensor_map* map = &kernel->launches[l].tensor_maps[m];
        fine = map->buffer < kernel->num_buffers && map->rank >= 1 && map->rank <= 5;
      }
    }
    if (!fine) {
      return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: kernel %u of %s has no code or an impossible launch", k,
                         code->name);
    }
  }
  for (uint32_t s = 0; s < code->num_steps; ++s) {
    if (code->steps[s].kernel >= code->num_kernels) {
      return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: step %u of %s has no kernel", s, code->name);
    }
    for (uint32_t a = 0; a < code->kernels[code->steps[s].kernel].num_buffers; ++a) {
      const tcc_status status = tcc_rt_check_arg(plan, &code->steps[s].args[a], s);
      if (status != TCC_OK) return status;
    }
  }
  return TCC_OK;
}

tcc_status tcc_rt_cuda_check_plan(const tcc_rt_plan* plan) {
  tcc_status status = TCC_OK;
  if (plan->gpu->num_codes == 0) return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: there is code for no GPU");
  for (uint32_t c = 0; status == TCC_OK && c < plan->gpu->num_codes; ++c) {
    status = check_code(plan, &plan->gpu->codes[c]);
  }
  return status;
}

// CUDA C++ Programming Guide, "Binary Compatibility": a cubin runs on its own compute capability and on higher minor
// revisions of the same major one, an architecture-specific one (sm_90a) on its own only; PTX is compiled for its
// architecture and all later ones, architecture-specific PTX for its own.
static bool runs_on(const tcc_rt_gpu_code* code, uint32_t capability) {
  if (code->flags & TCC_RT_GPU_SPECIFIC) return code->architecture == capability;
  if (code->architecture > capability) return false;
  return (code->flags & TCC_RT_GPU_PTX) || code->architecture / 10 == capability / 10;
}

// Binaries go before PTX, then newer architectures, then architecture-specific code.
static uint32_t worth(const tcc_rt_gpu_code* code) {
  return (code->flags & TCC_RT_GPU_PTX ? 0u : 1u << 30) + 2 * code->architecture +
         (code->flags & TCC_RT_GPU_SPECIFIC ? 1u : 0u);
}

const tcc_rt_gpu_code* tcc_rt_cuda_choose_code(const tcc_rt_gpu* gpu, uint32_t capability) {
  const tcc_rt_gpu_code* best = NULL;
  for (uint32_t c = 0; c < gpu->num_codes; ++c) {
    const tcc_rt_gpu_code* code = &gpu->codes[c];
    if (runs_on(code, capability) && (!best || worth(code) > worth(best))) best = code;
  }
  return best;
}
