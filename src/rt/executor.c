// Contexts, and running a plan's steps in order on one pool.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "rt/context.h"

enum { kHugePage = 2 << 20 };

void* tcc_rt_allocate_workspace(const tcc_rt_plan* plan) {
  const uint64_t bytes = plan->info.workspace_bytes;
  if (bytes > SIZE_MAX / 2) return NULL;
  const bool huge = bytes >= 2 * (uint64_t)kHugePage;
  uint64_t alignment = plan->info.workspace_alignment;
  if (huge && alignment < kHugePage) alignment = kHugePage;
  void* memory = NULL;
  if (posix_memalign(&memory, (size_t)alignment, (size_t)bytes) != 0) return NULL;
  // Advice only: a kernel without huge pages gives small ones.
  if (huge) madvise(memory, (size_t)(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
  return memory;
}

// The weights are pages of the library's file. They are mapped at once, since otherwise the first run would take a
// fault for each page, and a page whose elements are all masked off would never come: processors skip such a load
// slowly, hundreds of nanoseconds each time. Advice only: kernels before Linux 5.14 do not know it.
static void map_weights(const tcc_rt_plan* plan) {
#ifdef MADV_POPULATE_READ
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t begin = (uintptr_t)plan->weights / page * page;
  const uintptr_t end = (uintptr_t)plan->weights + plan->info.weights_bytes;
  if (plan->info.weights_bytes > 0) madvise((void*)begin, end - begin, MADV_POPULATE_READ);
#else
  (void)plan;
#endif
}

static tcc_status read_options(const tcc_create_options* given, tcc_create_options* options) {
  memset(options, 0, sizeof *options);
  if (!given) return TCC_OK;
  if (given->struct_size < sizeof(uint32_t)) {
    return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT,
                       "create options: struct_size is %u; set it to sizeof(tcc_create_options)", given->struct_size);
  }
  memcpy(options, given, given->struct_size < sizeof *options ? given->struct_size : sizeof *options);
  const uint32_t known = TCC_CREATE_PIN_THREADS | TCC_CREATE_NO_WORKSPACE | TCC_CREATE_HOST_TENSORS |
                         TCC_CREATE_ON_DEVICE | TCC_CREATE_KEEP_DENORMALS;
  if (options->flags & ~known) {
    return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT, "create options: unknown flags 0x%x", options->flags & ~known);
  }
  return TCC_OK;
}

static uint32_t most_buffers(const tcc_rt_plan* plan) {
  uint32_t most = 0;
  if (plan->gpu) return 0;  // its executor keeps addresses of its own
  for (uint32_t s = 0; s < plan->num_steps; ++s) {
    if (plan->steps[s].kernel->num_buffers > most) most = plan->steps[s].kernel->num_buffers;
  }
  return most;
}

static tcc_status fill_context(tcc_context* context, const tcc_create_options* options) {
  const tcc_rt_plan* plan = context->plan;
  const uint32_t counts = tcc_rt_num_counts(plan);
  const size_t slots =
      (size_t)most_buffers(plan) + plan->info.num_inputs + plan->info.num_dims + plan->info.num_outputs + counts;
  context->buffers = calloc(slots + 1, sizeof(void*));
  context->sizes = calloc((size_t)plan->info.num_dims + counts + 1, sizeof(int64_t));
  if (!context->buffers || !context->sizes) return tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for a context");
  context->inputs = context->buffers + most_buffers(plan);
  context->outputs = context->inputs + plan->info.num_inputs + plan->info.num_dims;
  if (plan->gpu && (options->flags & TCC_CREATE_KEEP_DENORMALS)) {
    return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT,
                       "create options: TCC_CREATE_KEEP_DENORMALS is for models on a CPU; leave it out");
  }
  if (plan->gpu) return plan->gpu->ops->create(context, options);
  map_weights(plan);
  if (plan->info.workspace_bytes > 0 && !(options->flags & TCC_CREATE_NO_WORKSPACE)) {
    context->workspace = tcc_rt_allocate_workspace(plan);
    if (!context->workspace) {
      return tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for a workspace of %llu bytes",
                         (unsigned long long)plan->info.workspace_bytes);
    }
  }
  const tcc_status status = tcc_rt_pool_create(options->threads, options->spin_us,
                                               (options->flags & TCC_CREATE_PIN_THREADS) != 0, &context->pool);
  if (status == TCC_OK && (options->flags & TCC_CREATE_KEEP_DENORMALS)) tcc_rt_pool_keep_denormals(context->pool);
  return status;
}

tcc_status tcc_rt_context_create(const tcc_rt_plan* plan, const tcc_create_options* given, tcc_context** out) {
  if (!out) return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT, "create: the place for the context is NULL");
  *out = NULL;
  tcc_create_options options;
  tcc_status status = tcc_rt_check_plan(plan);
  if (status == TCC_OK) status = read_options(given, &options);
  if (status == TCC_OK) status = tcc_rt_require_cpu(plan->info.cpu_features);
  if (status != TCC_OK) return status;
  tcc_context* context = calloc(1, sizeof *context);
  if (!context) return tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for a context");
  context->plan = plan;
  context->process = getpid();
  status = fill_context(context, &options);
  if (status != TCC_OK) {
    tcc_rt_context_destroy(context);
    return status;
  }
  *out = context;
  return TCC_OK;
}

void tcc_rt_context_destroy(tcc_context* context) {
  if (!context) return;
  // In a forked child there are no threads to end, and the driver must not be called: both stay with the parent.
  if (context->process == getpid()) {
    if (context->device) context->plan->gpu->ops->destroy(context);
    tcc_rt_pool_destroy(context->pool);
  }
  free(context->workspace);
  free(context->buffers);
  free(context->sizes);
  free(context);
}

tcc_status tcc_rt_check_process(const tcc_context* context, const char* what) {
  const pid_t here = getpid();
  if (context->process == here) return TCC_OK;
  return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT,
                     "%s: process %ld made the context, and this is process %ld; contexts do not survive fork(): call "
                     "create() in this process",
                     what, (long)context->process, (long)here);
}

tcc_status tcc_rt_context_info(const tcc_context* context, tcc_context_info* info) {
  if (!context || !info || info->struct_size < sizeof(uint32_t)) {
    return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT,
                       "context_info: a context and an info with struct_size = sizeof(tcc_context_info) are needed");
  }
  tcc_context_info all = {.struct_size = info->struct_size};
  if (context->device) {
    context->plan->gpu->ops->info(context, &all);
  } else {
    all.threads = tcc_rt_pool_threads(context->pool);
    all.pinned_threads = tcc_rt_pool_pinned(context->pool);
  }
  memcpy(info, &all, info->struct_size < sizeof all ? info->struct_size : sizeof all);
  return TCC_OK;
}

// --- run ----------------------------------------------------------------------------------------------------------

static bool overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return x < y + b_bytes && y < x + a_bytes;
}

tcc_status tcc_rt_check_overlap(const tcc_context* context, const void* workspace) {
  const tcc_model_info* info = &context->plan->info;
  for (uint32_t o = 0; o < info->num_outputs; ++o) {
    const void* data = context->outputs[o];
    const uint64_t bytes = info->outputs[o].bytes;
    const char* other = NULL;
    for (uint32_t i = 0; i < info->num_inputs && !other; ++i) {
      if (overlap(data, bytes, context->inputs[i], info->inputs[i].bytes)) other = info->inputs[i].name;
    }
    for (uint32_t i = 0; i < o && !other; ++i) {
      if (overlap(data, bytes, context->outputs[i], info->outputs[i].bytes)) other = info->outputs[i].name;
    }
    if (!other && overlap(data, bytes, workspace, workspace ? info->workspace_bytes : 0)) other = "the workspace";
    if (!other) continue;
    return tcc_rt_fail(TCC_ERROR_TENSOR, "output %u '%s' shares memory with '%s'; give every output memory of its own",
                       o, info->outputs[o].name, other);
  }
  return TCC_OK;
}

static bool is_in_host_memory(const tcc_dltensor* t) {
  return t->device.device_type == TCC_DEVICE_CPU || t->device.device_type == TCC_DEVICE_CUDA_HOST;
}

tcc_status tcc_rt_check_on_host(const char* role, uint32_t index, const tcc_tensor_info* want,
                                const tcc_dltensor* have) {
  if (is_in_host_memory(have)) return TCC_OK;
  return tcc_rt_fail(TCC_ERROR_TENSOR,
                     "%s %u '%s': device type is %d, the model runs on the CPU; copy the data to "
                     "host memory and set device_type to %d",
                     role, index, want->name, have->device.device_type, TCC_DEVICE_CPU);
}

// Kernels for a CPU assume the element size only; copies to a device do, too.
static uint64_t alignment_of(const tcc_tensor_info* want, const tcc_dltensor* have, bool on_cpu) {
  return on_cpu || is_in_host_memory(have) || want->alignment == 0 ? want->dtype.bits / 8 : want->alignment;
}

static tcc_status take_tensors(const char* role, const tcc_tensor_info* wanted, uint32_t num_wanted,
                               const tcc_dltensor* given, uint32_t num_given, void** data, bool on_cpu) {
  if (num_given != num_wanted || (num_wanted > 0 && !given)) {
    return tcc_rt_fail(TCC_ERROR_TENSOR, "%u %s tensors given, the model has %u; pass all of them in info() order",
                       given ? num_given : 0, role, num_wanted);
  }
  for (uint32_t i = 0; i < num_wanted; ++i) {
    tcc_status status = on_cpu ? tcc_rt_check_on_host(role, i, &wanted[i], &given[i]) : TCC_OK;
    if (status == TCC_OK) {
      status = tcc_rt_check_tensor(role, i, &wanted[i], &given[i], alignment_of(&wanted[i], &given[i], on_cpu));
    }
    if (status != TCC_OK) return status;
    data[i] = wanted[i].bytes ? (char*)given[i].data + given[i].byte_offset : NULL;
  }
  return TCC_OK;
}

tcc_status tcc_rt_choose_workspace(const tcc_context* context, void* own, const tcc_rt_call* call, void** workspace) {
  const tcc_model_info* info = &context->plan->info;
  void* given = call->workspace;
  const uint64_t bytes = call->workspace_bytes;
  *workspace = own;
  if (info->workspace_bytes == 0) return TCC_OK;
  if (!given) {
    if (own) return TCC_OK;
    return tcc_rt_fail(TCC_ERROR_WORKSPACE,
                       "the context was made without a workspace: pass %llu bytes aligned to %llu to run()",
                       (unsigned long long)info->workspace_bytes, (unsigned long long)info->workspace_alignment);
  }
  if (bytes < info->workspace_bytes || (uintptr_t)given % info->workspace_alignment != 0) {
    return tcc_rt_fail(TCC_ERROR_WORKSPACE,
                       "the workspace has %llu bytes at %p; the model needs %llu bytes aligned to %llu, or NULL to use "
                       "the context's own",
                       (unsigned long long)bytes, given, (unsigned long long)info->workspace_bytes,
                       (unsigned long long)info->workspace_alignment);
  }
  *workspace = given;
  return TCC_OK;
}

static void resolve_buffers(const tcc_context* context, const tcc_rt_step* step, void* workspace) {
  for (uint32_t i = 0; i < step->kernel->num_buffers; ++i) {
    const tcc_rt_arg* arg = &step->args[i];
    char* base = arg->kind == TCC_RT_ARG_INPUT    ? context->inputs[arg->index]
                 : arg->kind == TCC_RT_ARG_OUTPUT ? context->outputs[arg->index]
                 : arg->kind == TCC_RT_ARG_WEIGHT ? (char*)(uintptr_t)context->plan->weights
                                                  : workspace;
    // An empty buffer has no base; kernels have no iterations that touch it.
    context->buffers[i] = base ? base + arg->offset : NULL;
  }
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

tcc_status tcc_rt_run_steps(tcc_context* context, void* workspace, uint32_t first, uint32_t count, uint64_t* step_ns) {
  const tcc_rt_plan* plan = context->plan;
  tcc_status status = TCC_OK;
  tcc_rt_pool_bind_caller(context->pool);
  uint64_t before = step_ns ? now_ns() : 0;
  for (uint32_t s = first; s < first + count; ++s) {
    resolve_buffers(context, &plan->steps[s], workspace);
    status = tcc_rt_run_kernel(context->pool, plan->steps[s].kernel, context->buffers);
    if (status != TCC_OK) break;
    if (step_ns) {
      const uint64_t after = now_ns();
      step_ns[s] = after - before;
      before = after;
    }
  }
  tcc_rt_pool_release_caller(context->pool);
  return status;
}

static tcc_status run_on_cpu(tcc_context* context, const tcc_rt_call* call) {
  void* workspace = NULL;
  tcc_status status = tcc_rt_choose_workspace(context, context->workspace, call, &workspace);
  if (status == TCC_OK) status = tcc_rt_check_overlap(context, workspace);
  return status == TCC_OK ? tcc_rt_run_steps(context, workspace, 0, context->plan->num_steps, call->step_ns) : status;
}

static tcc_status run_checked(tcc_context* context, uint32_t num_inputs, uint32_t num_outputs,
                              const tcc_rt_call* call) {
  if (!context) return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT, "run: the context is NULL");
  tcc_status status = tcc_rt_check_process(context, "run");
  if (status != TCC_OK) return status;
  if (atomic_exchange_explicit(&context->busy, true, memory_order_acquire)) {
    return tcc_rt_fail(TCC_ERROR_BUSY, "run: the context is inside another call; make one context per thread");
  }
  if (context->plan->dynamic) {
    status = tcc_rt_run_dynamic(context, num_inputs, num_outputs, call);
    atomic_store_explicit(&context->busy, false, memory_order_release);
    return status;
  }
  const tcc_model_info* info = &context->plan->info;
  const bool on_cpu = !context->device;
  status = take_tensors("input", info->inputs, info->num_inputs, call->inputs, num_inputs, context->inputs, on_cpu);
  if (status == TCC_OK) {
    status =
        take_tensors("output", info->outputs, info->num_outputs, call->outputs, num_outputs, context->outputs, on_cpu);
  }
  if (status == TCC_OK) status = on_cpu ? run_on_cpu(context, call) : context->plan->gpu->ops->run(context, call);
  atomic_store_explicit(&context->busy, false, memory_order_release);
  return status;
}

tcc_status tcc_rt_run_plan(tcc_context* context, const tcc_dltensor* inputs, uint32_t num_inputs,
                           const tcc_dltensor* outputs, uint32_t num_outputs, void* workspace, uint64_t workspace_bytes,
                           void* stream) {
  const tcc_rt_call call = {inputs, outputs, workspace, workspace_bytes, stream, NULL};
  return run_checked(context, num_inputs, num_outputs, &call);
}

tcc_status tcc_rt_run_plan_timed(tcc_context* context, const tcc_dltensor* inputs, uint32_t num_inputs,
                                 const tcc_dltensor* outputs, uint32_t num_outputs, void* workspace,
                                 uint64_t workspace_bytes, uint64_t* step_ns) {
  if (!step_ns) return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT, "timed run: the place for the times is NULL");
  const tcc_rt_call call = {inputs, outputs, workspace, workspace_bytes, NULL, step_ns};
  return run_checked(context, num_inputs, num_outputs, &call);
}
