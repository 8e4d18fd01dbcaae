// Runs a plan's steps on a stream of a CUDA device. run() makes five kinds of calls only, all of them legal while the
// stream is captured: cuCtxGetCurrent, cuCtxSetCurrent, cuLaunchKernel, cuLaunchCooperativeKernel, and
// cuTensorMapEncodeTiled where a tensor is at another address than in the run before. Copies and waiting come in where
// the caller gave tensors in host memory.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rt/cuda_model.h"

typedef struct {
  tcc_rt_cuda_model* model;
  tcc_cu_ptr workspace;  // 0: none
  tcc_cu_ptr staging;    // room for host tensors: all inputs, then all outputs, as in staging_at; 0: none
  uint64_t staging_bytes;
  uint64_t* staging_at;
  tcc_cu_ptr* tensors;    // scratch of run(): where inputs and outputs are on the device
  tcc_cu_ptr* addresses;  // scratch of run(): buffers of one step
  void** parameters;      // pointers to `addresses`; while something is launched, to its tensor maps behind them
  // Of all launches of all steps, in order, as far as they were needed.
  tcc_cu_tensor_map* maps;
  tcc_cu_ptr* map_addresses;  // of the tensor that each describes; 0: none yet
  uint32_t* first_map;        // of each step
} cuda_context;

static cuda_context* state_of(const tcc_context* context) {
  return context->device;
}

static tcc_status check(const cuda_context* c, tcc_cu_result result, const char* what) {
  return result == 0 ? TCC_OK : tcc_cuda_check(c->model->driver, result, what);
}

// --- entering the CUDA context --------------------------------------------------------------------------------------

static tcc_status enter(const cuda_context* c, tcc_cu_context* before) {
  *before = c->model->cuda;
  tcc_status status = check(c, c->model->driver->cuCtxGetCurrent(before), "asking for the current CUDA context");
  if (status == TCC_OK && *before != c->model->cuda) {
    status = check(c, c->model->driver->cuCtxSetCurrent(c->model->cuda), "entering the CUDA context");
  }
  return status;
}

static void leave(const tcc_cuda_driver* driver, tcc_cu_context cuda, tcc_cu_context before) {
  if (before != cuda) driver->cuCtxSetCurrent(before);
}

// --- memory ---------------------------------------------------------------------------------------------------------

static tcc_status allocate(const cuda_context* c, uint64_t bytes, const char* what, tcc_cu_ptr* memory) {
  char text[96];
  snprintf(text, sizeof text, "allocating %llu bytes for %s", (unsigned long long)bytes, what);
  const tcc_status status = check(c, c->model->driver->cuMemAlloc(memory, bytes), text);
  if (status != TCC_OK) *memory = 0;
  return status;
}

static tcc_status allocate_staging(const tcc_context* context) {
  cuda_context* c = state_of(context);
  const tcc_model_info* info = &context->plan->info;
  const uint32_t count = info->num_inputs + info->num_outputs;
  c->staging_at = calloc((size_t)count + 1, sizeof(uint64_t));
  if (!c->staging_at) return tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for a context");
  uint64_t at = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const tcc_tensor_info* t = i < info->num_inputs ? &info->inputs[i] : &info->outputs[i - info->num_inputs];
    c->staging_at[i] = at;
    at += (t->bytes + 255) / 256 * 256;
  }
  c->staging_bytes = at > 0 ? at : 256;
  return allocate(c, c->staging_bytes, "copies of host tensors", &c->staging);
}

static void free_staging(cuda_context* c) {
  if (c->staging) c->model->driver->cuMemFree(c->staging);
  free(c->staging_at);
  c->staging = 0;
  c->staging_at = NULL;
  c->staging_bytes = 0;
}

// Adds to `most` parameters the tensor maps of the launch that has most of them.
static tcc_status allocate_maps(cuda_context* c, uint32_t* most) {
  const tcc_rt_gpu_code* code = c->model->code;
  uint32_t all = 0, of_launch = 0;
  c->first_map = calloc((size_t)code->num_steps + 1, sizeof(uint32_t));
  if (!c->first_map) return tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for a context");
  for (uint32_t s = 0; s < code->num_steps; ++s) {
    const tcc_rt_gpu_kernel* kernel = &code->kernels[code->steps[s].kernel];
    c->first_map[s] = all;
    for (uint32_t l = 0; l < kernel->num_launches; ++l) {
      const uint32_t here = kernel->launches[l].num_tensor_maps;
      all += here;
      if (here > of_launch) of_launch = here;
    }
  }
  *most += of_launch;
  if (all == 0) return TCC_OK;
  if (!c->model->driver->cuTensorMapEncodeTiled) {
    const tcc_cuda_tensor_map none = {.rank = 0};
    tcc_cu_tensor_map unused;
    return tcc_cuda_encode_tensor_map(c->model->driver, &none, 0, &unused);  // says what is missing
  }
  c->maps = aligned_alloc(_Alignof(tcc_cu_tensor_map), all * sizeof(tcc_cu_tensor_map));
  c->map_addresses = calloc(all, sizeof(tcc_cu_ptr));
  return c->maps && c->map_addresses ? TCC_OK : tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for a context");
}

static tcc_status allocate_scratch(const tcc_context* context) {
  cuda_context* c = state_of(context);
  const tcc_model_info* info = &context->plan->info;
  const tcc_rt_gpu_code* code = c->model->code;
  uint32_t most = 0;
  for (uint32_t k = 0; k < code->num_kernels; ++k) {
    if (code->kernels[k].num_buffers > most) most = code->kernels[k].num_buffers;
  }
  const tcc_status status = allocate_maps(c, &most);
  if (status != TCC_OK) return status;
  c->tensors = calloc((size_t)info->num_inputs + info->num_outputs + 1, sizeof(tcc_cu_ptr));
  c->addresses = calloc((size_t)most + 1, sizeof(tcc_cu_ptr));
  c->parameters = calloc((size_t)most + 1, sizeof(void*));
  if (!c->tensors || !c->addresses || !c->parameters)
    return tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for a context");
  for (uint32_t i = 0; i < most; ++i) c->parameters[i] = &c->addresses[i];
  return TCC_OK;
}

// --- create, destroy ------------------------------------------------------------------------------------------------

static void free_context(cuda_context* c) {
  if (c->workspace) c->model->driver->cuMemFree(c->workspace);
  free_staging(c);
  if (c->model) tcc_rt_cuda_model_leave(c->model);
  free(c->tensors);
  free(c->addresses);
  free(c->parameters);
  free(c->maps);
  free(c->map_addresses);
  free(c->first_map);
  free(c);
}

static tcc_status fill(tcc_context* context, const tcc_create_options* options) {
  cuda_context* c = state_of(context);
  const uint64_t workspace = context->plan->info.workspace_bytes;
  tcc_status status = allocate_scratch(context);
  if (status == TCC_OK && workspace > 0 && !(options->flags & TCC_CREATE_NO_WORKSPACE)) {
    status = allocate(c, workspace, "the workspace", &c->workspace);
  }
  if (status == TCC_OK && (options->flags & TCC_CREATE_HOST_TENSORS)) status = allocate_staging(context);
  return status;
}

static tcc_status create(tcc_context* context, const tcc_create_options* options) {
  const tcc_cuda_driver* driver = NULL;
  tcc_status status = tcc_cuda_driver_open(options->cuda_driver, &driver);
  if (status != TCC_OK) return status;
  cuda_context* c = calloc(1, sizeof *c);
  if (!c) return tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for a context");
  tcc_cu_context before = NULL;
  status = tcc_cuda_check(driver, driver->cuCtxGetCurrent(&before), "asking for the current CUDA context");
  if (status == TCC_OK) status = tcc_rt_cuda_model_take(context->plan, options, driver, &c->model);
  context->device = c;
  if (status == TCC_OK) status = fill(context, options);
  if (status != TCC_OK) {
    free_context(c);
    context->device = NULL;
  }
  driver->cuCtxSetCurrent(before);
  return status;
}

static void destroy(tcc_context* context) {
  cuda_context* c = state_of(context);
  const tcc_cuda_driver* driver = c->model->driver;
  tcc_cu_context before = NULL;
  driver->cuCtxGetCurrent(&before);
  driver->cuCtxSetCurrent(c->model->cuda);
  driver->cuCtxSynchronize();  // work that is under way still uses the workspace
  free_context(c);
  driver->cuCtxSetCurrent(before);
}

static void info(const tcc_context* context, tcc_context_info* info) {
  const cuda_context* c = state_of(context);
  info->threads = 1;
  info->device = c->model->device;
  info->capability = c->model->capability;
  info->code_architecture = c->model->code->architecture;
  info->jit = (c->model->code->flags & TCC_RT_GPU_PTX) != 0;
  info->device_weight_bytes = c->model->weights ? context->plan->info.weights_bytes : 0;
  info->device_context_bytes = (c->workspace ? context->plan->info.workspace_bytes : 0) + c->staging_bytes;
}

// --- run ------------------------------------------------------------------------------------------------------------

static bool is_host(const tcc_dltensor* t) {
  return t->device.device_type == TCC_DEVICE_CPU || t->device.device_type == TCC_DEVICE_CUDA_HOST;
}

// Where one tensor is on the device.
static tcc_status place_tensor(const tcc_context* context, const char* role, uint32_t index, uint32_t slot,
                               const tcc_tensor_info* want, const tcc_dltensor* have, void* data, bool* on_host) {
  const cuda_context* c = state_of(context);
  c->tensors[slot] = (tcc_cu_ptr)(uintptr_t)data;
  if (is_host(have)) {
    if (!c->staging) {
      return tcc_rt_fail(TCC_ERROR_TENSOR,
                         "%s %u '%s' is in host memory, the model runs on a GPU; pass memory of the device (device "
                         "type %d), or create the context with TCC_CREATE_HOST_TENSORS",
                         role, index, want->name, TCC_DEVICE_CUDA);
    }
    c->tensors[slot] = c->staging + c->staging_at[slot];
    *on_host = true;
    return TCC_OK;
  }
  const int32_t type = have->device.device_type;
  if (type != TCC_DEVICE_CUDA && type != TCC_DEVICE_CUDA_MANAGED) {
    return tcc_rt_fail(TCC_ERROR_TENSOR, "%s %u '%s': device type is %d, the model needs memory of a CUDA device (%d)",
                       role, index, want->name, type, TCC_DEVICE_CUDA);
  }
  if (type == TCC_DEVICE_CUDA && have->device.device_id != c->model->device) {
    return tcc_rt_fail(TCC_ERROR_TENSOR,
                       "%s %u '%s' is on CUDA device %d, the context on device %d; copy it there, or create a context "
                       "on its device (TCC_CREATE_ON_DEVICE)",
                       role, index, want->name, have->device.device_id, c->model->device);
  }
  return TCC_OK;
}

static tcc_status place_tensors(const tcc_context* context, const tcc_rt_call* call, bool* on_host) {
  const tcc_model_info* info = &context->plan->info;
  tcc_status status = TCC_OK;
  for (uint32_t i = 0; status == TCC_OK && i < info->num_inputs; ++i) {
    status = place_tensor(context, "input", i, i, &info->inputs[i], &call->inputs[i], context->inputs[i], on_host);
  }
  for (uint32_t i = 0; status == TCC_OK && i < info->num_outputs; ++i) {
    status = place_tensor(context, "output", i, info->num_inputs + i, &info->outputs[i], &call->outputs[i],
                          context->outputs[i], on_host);
  }
  return status;
}

static tcc_status copy_in(const tcc_context* context, const tcc_rt_call* call) {
  const cuda_context* c = state_of(context);
  const tcc_model_info* info = &context->plan->info;
  tcc_status status = TCC_OK;
  for (uint32_t i = 0; status == TCC_OK && i < info->num_inputs; ++i) {
    if (!is_host(&call->inputs[i]) || info->inputs[i].bytes == 0) continue;
    status = check(
        c, c->model->driver->cuMemcpyHtoDAsync(c->tensors[i], context->inputs[i], info->inputs[i].bytes, call->stream),
        "copying an input to the device");
  }
  return status;
}

static tcc_status copy_out(const tcc_context* context, const tcc_rt_call* call) {
  const cuda_context* c = state_of(context);
  const tcc_model_info* info = &context->plan->info;
  tcc_status status = TCC_OK;
  for (uint32_t i = 0; status == TCC_OK && i < info->num_outputs; ++i) {
    if (!is_host(&call->outputs[i]) || info->outputs[i].bytes == 0) continue;
    status = check(c,
                   c->model->driver->cuMemcpyDtoHAsync(context->outputs[i], c->tensors[info->num_inputs + i],
                                                       info->outputs[i].bytes, call->stream),
                   "copying an output from the device");
  }
  if (status != TCC_OK) return status;
  return check(c, c->model->driver->cuStreamSynchronize(call->stream), "waiting for the device");
}

static void resolve_buffers(const tcc_context* context, const tcc_rt_gpu_kernel* kernel, const tcc_rt_gpu_step* step,
                            tcc_cu_ptr workspace) {
  const cuda_context* c = state_of(context);
  for (uint32_t i = 0; i < kernel->num_buffers; ++i) {
    const tcc_rt_arg* arg = &step->args[i];
    const tcc_cu_ptr base = arg->kind == TCC_RT_ARG_INPUT    ? c->tensors[arg->index]
                            : arg->kind == TCC_RT_ARG_OUTPUT ? c->tensors[context->plan->info.num_inputs + arg->index]
                            : arg->kind == TCC_RT_ARG_WEIGHT ? c->model->weights
                                                             : workspace;
    c->addresses[i] = base ? base + arg->offset : 0;
  }
}

// The launch's tensor maps as parameters behind the addresses; `first` is the number of the first of them.
static tcc_status place_maps(const cuda_context* c, const tcc_rt_gpu_kernel* kernel, const tcc_rt_gpu_launch* l,
                             uint32_t first) {
  tcc_status status = TCC_OK;
  for (uint32_t m = 0; status == TCC_OK && m < l->num_tensor_maps; ++m) {
    const tcc_cu_ptr address = c->addresses[l->tensor_maps[m].buffer];
    tcc_cu_tensor_map* map = &c->maps[first + m];
    if (c->map_addresses[first + m] != address || address == 0) {
      c->map_addresses[first + m] = 0;
      status = tcc_cuda_encode_tensor_map(c->model->driver, &l->tensor_maps[m], address, map);
      if (status == TCC_OK) c->map_addresses[first + m] = address;
    }
    c->parameters[kernel->num_buffers + m] = map;
  }
  return status;
}

static tcc_status launch(const cuda_context* c, tcc_cu_function function, const tcc_rt_gpu_launch* l,
                         tcc_cu_stream stream) {
  const tcc_cuda_driver* driver = c->model->driver;
  const tcc_cu_result result =
      l->flags & TCC_RT_GPU_COOPERATIVE
          ? driver->cuLaunchCooperativeKernel(function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                                              l->block[2], l->shared_bytes, stream, c->parameters)
          : driver->cuLaunchKernel(function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
                                   l->shared_bytes, stream, c->parameters, NULL);
  return check(c, result, l->symbol);
}

static tcc_status run_step(const tcc_context* context, uint32_t s, tcc_cu_ptr workspace, tcc_cu_stream stream) {
  const cuda_context* c = state_of(context);
  const tcc_rt_gpu_step* step = &c->model->code->steps[s];
  const tcc_rt_gpu_kernel* kernel = &c->model->code->kernels[step->kernel];
  const tcc_cu_function* functions = c->model->functions + c->model->first_function[step->kernel];
  resolve_buffers(context, kernel, step, workspace);
  tcc_status status = TCC_OK;
  uint32_t map = c->first_map[s];
  for (uint32_t l = 0; status == TCC_OK && l < kernel->num_launches; ++l) {
    const tcc_rt_gpu_launch* here = &kernel->launches[l];
    status = place_maps(c, kernel, here, map);
    if (status == TCC_OK) status = launch(c, functions[l], here, stream);
    for (uint32_t m = 0; m < here->num_tensor_maps; ++m) {
      c->parameters[kernel->num_buffers + m] = &c->addresses[kernel->num_buffers + m];
    }
    map += here->num_tensor_maps;
  }
  return status;
}

// --- timed ----------------------------------------------------------------------------------------------------------

static tcc_status read_times(const cuda_context* c, const tcc_cu_event* events, uint32_t steps, uint64_t* step_ns) {
  tcc_status status = check(c, c->model->driver->cuEventSynchronize(events[steps]), "waiting for the device");
  for (uint32_t s = 0; status == TCC_OK && s < steps; ++s) {
    float milliseconds = 0;
    status = check(c, c->model->driver->cuEventElapsedTime(&milliseconds, events[s], events[s + 1]), "reading a time");
    step_ns[s] = (uint64_t)((double)milliseconds * 1e6 + 0.5);
  }
  return status;
}

// One event before each step, and one at the end.
static tcc_status run_with_events(const tcc_context* context, tcc_cu_ptr workspace, tcc_cu_stream stream,
                                  tcc_cu_event* events, uint64_t* step_ns) {
  const cuda_context* c = state_of(context);
  const uint32_t steps = context->plan->num_steps;
  tcc_status status = TCC_OK;
  for (uint32_t s = 0; status == TCC_OK && s <= steps; ++s) {
    status = check(c, c->model->driver->cuEventRecord(events[s], stream), "recording an event");
    if (status == TCC_OK && s < steps) status = run_step(context, s, workspace, stream);
  }
  return status == TCC_OK ? read_times(c, events, steps, step_ns) : status;
}

static tcc_status run_timed(const tcc_context* context, const tcc_rt_call* call, tcc_cu_ptr workspace) {
  const cuda_context* c = state_of(context);
  const tcc_cuda_driver* driver = c->model->driver;
  const uint32_t steps = context->plan->num_steps;
  tcc_cu_event* events = calloc((size_t)steps + 1, sizeof(tcc_cu_event));
  if (!events) return tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for events");
  tcc_rt_call on_stream = *call;
  tcc_cu_stream stream = NULL;
  tcc_status status = check(c, driver->cuStreamCreate(&stream, TCC_CU_STREAM_NON_BLOCKING), "making a stream");
  for (uint32_t s = 0; status == TCC_OK && s <= steps; ++s) {
    status = check(c, driver->cuEventCreate(&events[s], 0), "making an event");
  }
  on_stream.stream = stream;
  if (status == TCC_OK) status = copy_in(context, &on_stream);
  if (status == TCC_OK) status = run_with_events(context, workspace, stream, events, call->step_ns);
  if (status == TCC_OK) status = copy_out(context, &on_stream);
  for (uint32_t s = 0; s <= steps; ++s) {
    if (events[s]) driver->cuEventDestroy(events[s]);
  }
  if (stream) driver->cuStreamDestroy(stream);
  free(events);
  return status;
}

static tcc_status run_entered(const tcc_context* context, const tcc_rt_call* call, tcc_cu_ptr workspace, bool on_host) {
  if (call->step_ns) return run_timed(context, call, workspace);
  tcc_status status = on_host ? copy_in(context, call) : TCC_OK;
  for (uint32_t s = 0; status == TCC_OK && s < context->plan->num_steps; ++s) {
    status = run_step(context, s, workspace, call->stream);
  }
  return status == TCC_OK && on_host ? copy_out(context, call) : status;
}

static tcc_status run(tcc_context* context, const tcc_rt_call* call) {
  const cuda_context* c = state_of(context);
  bool on_host = false;
  void* workspace = NULL;
  tcc_status status = place_tensors(context, call, &on_host);
  if (status == TCC_OK) {
    status = tcc_rt_choose_workspace(context, (void*)(uintptr_t)c->workspace, call, &workspace);
  }
  if (status == TCC_OK) status = tcc_rt_check_overlap(context, workspace);
  if (status != TCC_OK) return status;
  tcc_cu_context before = NULL;
  status = enter(c, &before);
  if (status == TCC_OK) status = run_entered(context, call, (tcc_cu_ptr)(uintptr_t)workspace, on_host);
  leave(c->model->driver, c->model->cuda, before);
  return status;
}

// --- the self test's memory -----------------------------------------------------------------------------------------

enum { kMadeStaging = 1, kMadeWorkspace = 2 };

static tcc_status begin_self_test(tcc_context* context, uint32_t* made) {
  cuda_context* c = state_of(context);
  const uint64_t workspace = context->plan->info.workspace_bytes;
  tcc_cu_context before = NULL;
  tcc_status status = enter(c, &before);
  if (status == TCC_OK && !c->staging) {
    *made |= kMadeStaging;
    status = allocate_staging(context);
  }
  if (status == TCC_OK && !c->workspace && workspace > 0) {
    *made |= kMadeWorkspace;
    status = allocate(c, workspace, "the workspace", &c->workspace);
  }
  leave(c->model->driver, c->model->cuda, before);
  return status;
}

static void end_self_test(tcc_context* context, uint32_t made) {
  cuda_context* c = state_of(context);
  tcc_cu_context before = NULL;
  enter(c, &before);  // where the context is lost, so is the memory
  if (made & kMadeStaging) free_staging(c);
  if ((made & kMadeWorkspace) && c->workspace) c->model->driver->cuMemFree(c->workspace);
  if (made & kMadeWorkspace) c->workspace = 0;
  leave(c->model->driver, c->model->cuda, before);
}

const tcc_rt_device_ops tcc_rt_cuda_ops = {
    .check_plan = tcc_rt_cuda_check_plan,
    .create = create,
    .destroy = destroy,
    .run = run,
    .info = info,
    .begin_self_test = begin_self_test,
    .end_self_test = end_self_test,
};
