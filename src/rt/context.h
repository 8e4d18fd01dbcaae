// What a context is; private to rt.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "tcc/rt/rt.h"

struct tcc_context {
  const tcc_rt_plan* plan;
  tcc_rt_pool* pool;
  void* workspace;  // NULL with TCC_CREATE_NO_WORKSPACE, or when the plan needs none
  void** buffers;   // scratch of run(): the resolved buffers of one step
  void** inputs;    // scratch of run(): data + byte_offset
  void** outputs;
  atomic_bool busy;
};

// Checks what a damaged or wrongly emitted plan could break: versions, dims, bounds of every argument.
tcc_status tcc_rt_check_plan(const tcc_rt_plan* plan);

// Checks one tensor against what the plan says of it; `role` is "input" or "output".
tcc_status tcc_rt_check_tensor(const char* role, uint32_t index, const tcc_tensor_info* want, const tcc_dltensor* have);

// The workspace of a context: aligned for the plan, on huge pages where it is large.
void* tcc_rt_allocate_workspace(const tcc_rt_plan* plan);
