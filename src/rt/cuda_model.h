// What all contexts of one model share in one CUDA context: modules, functions, weights. Private to rt.
#pragma once

#include "rt/context.h"
#include "tcc/rt/cuda_driver.h"

typedef struct tcc_rt_cuda_model {
  struct tcc_rt_cuda_model* next;
  int users;  // contexts
  const tcc_rt_plan* plan;
  const tcc_cuda_driver* driver;
  tcc_cu_context cuda;
  tcc_cu_device device;
  bool retained;  // `cuda` is the device's primary context, and this holds it
  uint32_t capability;
  const tcc_rt_gpu_code* code;
  tcc_cu_module* modules;      // one a kernel
  tcc_cu_function* functions;  // of all launches, kernel by kernel
  uint32_t* first_function;    // of each kernel
  tcc_cu_ptr weights;
} tcc_rt_cuda_model;

// The model's in the CUDA context that the options choose, loaded when this is the first to ask. That CUDA context is
// current afterwards, also on failure; who was before is the caller's to put back.
tcc_status tcc_rt_cuda_model_take(const tcc_rt_plan* plan, const tcc_create_options* options,
                                  const tcc_cuda_driver* driver, tcc_rt_cuda_model** model);
// Frees it with its last user. Its CUDA context is current.
void tcc_rt_cuda_model_leave(tcc_rt_cuda_model* model);

// Checks of the GPU part of a plan.
tcc_status tcc_rt_cuda_check_plan(const tcc_rt_plan* plan);

// The code that runs on a device of this compute capability, the best of several; NULL: none does.
const tcc_rt_gpu_code* tcc_rt_cuda_choose_code(const tcc_rt_gpu* gpu, uint32_t capability);
