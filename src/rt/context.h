// What a context is; private to rt.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tcc/rt/rt.h"

struct tcc_context {
  const tcc_rt_plan* plan;
  tcc_rt_pool* pool;
  void* workspace;  // NULL with TCC_CREATE_NO_WORKSPACE, or when the plan needs none
  void** buffers;   // scratch of run(): the resolved buffers of one step
  void** inputs;    // scratch of run(): data + byte_offset
  void** outputs;
  int64_t* sizes;  // scratch of run(): the actual sizes of plan->info.dims, then the counts
  void* device;    // of plan->gpu->ops; NULL on a CPU
  pid_t process;   // that made it; a forked child has neither the pool's threads nor the driver's state
  atomic_bool busy;
};

// One run, its tensors checked against the plan but for where they are.
typedef struct tcc_rt_call {
  const tcc_dltensor *inputs, *outputs;
  void* workspace;  // the caller's, or NULL
  uint64_t workspace_bytes;
  void* stream;
  uint64_t* step_ns;  // NULL: not timed
} tcc_rt_call;

struct tcc_rt_device_ops {
  tcc_status (*check_plan)(const tcc_rt_plan* plan);
  // Fills context->device, or fails and leaves nothing behind.
  tcc_status (*create)(tcc_context* context, const tcc_create_options* options);
  void (*destroy)(tcc_context* context);
  tcc_status (*run)(tcc_context* context, const tcc_rt_call* call);
  void (*info)(const tcc_context* context, tcc_context_info* info);
  // Around a self test: what create() was not asked for, a workspace and room for host tensors, which end frees again.
  tcc_status (*begin_self_test)(tcc_context* context, uint32_t* made);
  void (*end_self_test)(tcc_context* context, uint32_t made);
};

// Checks what a damaged or wrongly emitted plan could break: versions, dims, bounds of every argument.
tcc_status tcc_rt_check_plan(const tcc_rt_plan* plan);
tcc_status tcc_rt_check_arg(const tcc_rt_plan* plan, const tcc_rt_arg* arg, uint32_t step);

// Checks one tensor against what the plan says of it; `role` is "input" or "output". Whether it is on the right device
// is for the caller to check; `alignment` is what its data must be aligned to.
tcc_status tcc_rt_check_tensor(const char* role, uint32_t index, const tcc_tensor_info* want, const tcc_dltensor* have,
                               uint64_t alignment);

// The workspace that a run uses: the caller's `given`, checked, or the context's `own`.
tcc_status tcc_rt_choose_workspace(const tcc_context* context, void* own, const tcc_rt_call* call, void** workspace);
// The calling process made the context; `what` begins the message otherwise.
tcc_status tcc_rt_check_process(const tcc_context* context, const char* what);
// No output shares memory with another tensor or the workspace: kernels read inputs after writing outputs.
tcc_status tcc_rt_check_overlap(const tcc_context* context, const void* workspace);

// Steps [first, first + count) on the context's buffers, which are resolved.
tcc_status tcc_rt_run_steps(tcc_context* context, void* workspace, uint32_t first, uint32_t count, uint64_t* step_ns);
// Tensors in host memory, or an error that names the one that is not.
tcc_status tcc_rt_check_on_host(const char* role, uint32_t index, const tcc_tensor_info* want,
                                const tcc_dltensor* have);

// Plans with dimensions of several sizes, or with counts (dynamic.c).
uint32_t tcc_rt_num_counts(const tcc_rt_plan* plan);
tcc_status tcc_rt_check_dynamic(const tcc_rt_plan* plan);
tcc_status tcc_rt_run_dynamic(tcc_context* context, uint32_t num_inputs, uint32_t num_outputs, const tcc_rt_call* call);

// The workspace of a context: aligned for the plan, on huge pages where it is large.
void* tcc_rt_allocate_workspace(const tcc_rt_plan* plan);
