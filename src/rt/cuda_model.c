// Loading a model into a CUDA context: choosing the context, the code and the functions, copying the weights.
#define _GNU_SOURCE
#include "rt/cuda_model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kUploadBytes = 16 << 20 };

static pthread_mutex_t models_mutex = PTHREAD_MUTEX_INITIALIZER;
static tcc_rt_cuda_model* models;

static tcc_status check(const tcc_rt_cuda_model* model, tcc_cu_result result, const char* what) {
  return tcc_cuda_check(model->driver, result, what);
}

// --- which CUDA context ---------------------------------------------------------------------------------------------

static tcc_status retain_primary(tcc_rt_cuda_model* model, int ordinal) {
  int count = 0;
  tcc_status status = check(model, model->driver->cuDeviceGetCount(&count), "counting CUDA devices");
  if (status == TCC_OK && (ordinal < 0 || ordinal >= count)) {
    return tcc_rt_fail(TCC_ERROR_DEVICE,
                       "there is no CUDA device %d: the driver shows %d; look at nvidia-smi and CUDA_VISIBLE_DEVICES",
                       ordinal, count);
  }
  if (status == TCC_OK)
    status = check(model, model->driver->cuDeviceGet(&model->device, ordinal), "finding the device");
  if (status == TCC_OK) {
    status = check(model, model->driver->cuDevicePrimaryCtxRetain(&model->cuda, model->device),
                   "making a CUDA context on the device");
  }
  model->retained = status == TCC_OK;
  if (status == TCC_OK) status = check(model, model->driver->cuCtxSetCurrent(model->cuda), "entering the CUDA context");
  return status;
}

// The current one. If it is its device's primary context, it is held: others may let go of it.
static tcc_status use_current(tcc_rt_cuda_model* model) {
  tcc_status status = check(model, model->driver->cuCtxGetDevice(&model->device), "finding the current device");
  tcc_cu_context primary = NULL;
  if (status != TCC_OK || model->driver->cuDevicePrimaryCtxRetain(&primary, model->device) != 0) return status;
  model->retained = primary == model->cuda;
  if (!model->retained) model->driver->cuDevicePrimaryCtxRelease(model->device);
  return status;
}

static tcc_status choose_cuda_context(tcc_rt_cuda_model* model, const tcc_create_options* options) {
  if (options->flags & TCC_CREATE_ON_DEVICE) return retain_primary(model, options->device);
  const tcc_status status =
      check(model, model->driver->cuCtxGetCurrent(&model->cuda), "asking for the current CUDA context");
  if (status != TCC_OK) return status;
  return model->cuda ? use_current(model) : retain_primary(model, 0);
}

// --- which code -----------------------------------------------------------------------------------------------------

// A target of tcc for a compute capability, for messages.
static const char* target_name(uint32_t capability) {
  static const struct {
    uint32_t capability;
    const char* name;
  } targets[] = {{70, "v100"},     {75, "t4"},   {80, "a100"}, {86, "rtx-3090"},
                 {89, "rtx-4090"}, {90, "h100"}, {100, "b200"}};
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; ++i) {
    if (targets[i].capability == capability) return targets[i].name;
  }
  return NULL;
}

static tcc_status refuse_device(const tcc_rt_cuda_model* model) {
  char device[128] = "this device", inside[256] = "", target[64] = "a target of that capability (tcc targets)";
  model->driver->cuDeviceGetName(device, sizeof device - 1, model->device);
  const tcc_rt_gpu* gpu = model->plan->gpu;
  for (uint32_t c = 0, used = 0; c < gpu->num_codes && used + 32 < sizeof inside; ++c) {
    used += (uint32_t)snprintf(inside + used, sizeof inside - used, "%s%s%s", c ? ", " : "", gpu->codes[c].name,
                               gpu->codes[c].flags & TCC_RT_GPU_PTX ? " (PTX)" : "");
  }
  if (target_name(model->capability)) snprintf(target, sizeof target, "%s", target_name(model->capability));
  return tcc_rt_fail(TCC_ERROR_DEVICE,
                     "%s has compute capability %u.%u, and the library holds no code that it runs, only %s; build it "
                     "with --target %s, or with --allow-jit for an older architecture",
                     device, model->capability / 10, model->capability % 10, inside, target);
}

static tcc_status choose_code(tcc_rt_cuda_model* model) {
  int major = 0, minor = 0;
  tcc_status status =
      check(model, model->driver->cuDeviceGetAttribute(&major, TCC_CU_COMPUTE_CAPABILITY_MAJOR, model->device),
            "asking for the compute capability");
  if (status == TCC_OK) {
    status = check(model, model->driver->cuDeviceGetAttribute(&minor, TCC_CU_COMPUTE_CAPABILITY_MINOR, model->device),
                   "asking for the compute capability");
  }
  if (status != TCC_OK) return status;
  model->capability = (uint32_t)(10 * major + minor);
  model->code = tcc_rt_cuda_choose_code(model->plan->gpu, model->capability);
  return model->code ? TCC_OK : refuse_device(model);
}

// --- code -----------------------------------------------------------------------------------------------------------

// A driver that is older than the toolkit which made the code is the likely reason for refusing it.
static tcc_status explain_image(const tcc_rt_cuda_model* model, tcc_cu_result result) {
  int version = 0;
  const uint32_t toolkit = model->plan->gpu->toolkit;
  model->driver->cuDriverGetVersion(&version);
  if (result == 2 || version >= (int)toolkit) return check(model, result, "loading the device code");
  return tcc_rt_fail(
      TCC_ERROR_DEVICE,
      "the NVIDIA driver supports CUDA %d.%d and does not load the library's code, which CUDA %u.%u made "
      "(error %d); install a newer driver, or build the library with NVRTC of CUDA %d",
      version / 1000, version % 1000 / 10, toolkit / 1000, toolkit % 1000 / 10, result, version / 1000);
}

static tcc_status load_function(tcc_rt_cuda_model* model, tcc_cu_module module, const tcc_rt_gpu_launch* launch,
                                tcc_cu_function* function) {
  const tcc_cuda_driver* driver = model->driver;
  tcc_status status = check(model, driver->cuModuleGetFunction(function, module, launch->symbol), launch->symbol);
  if (status == TCC_OK && launch->shared_bytes > 0) {
    status = check(
        model, driver->cuFuncSetAttribute(*function, TCC_CU_FUNC_MAX_DYNAMIC_SHARED_BYTES, (int)launch->shared_bytes),
        "asking for dynamic shared memory");
  }
  // Asking also makes a driver that loads code lazily do it now, and not in the first run.
  int threads = 0;
  if (status == TCC_OK) {
    status = check(model, driver->cuFuncGetAttribute(&threads, TCC_CU_FUNC_MAX_THREADS_PER_BLOCK, *function),
                   "asking for the limits of a kernel");
  }
  const uint32_t wanted = launch->block[0] * launch->block[1] * launch->block[2];
  if (status == TCC_OK && (uint32_t)threads < wanted) {
    return tcc_rt_fail(TCC_ERROR_DEVICE,
                       "%s runs with at most %d threads a block on this device and needs %u; build the library for the "
                       "device (tcc targets)",
                       launch->symbol, threads, wanted);
  }
  return status;
}

static tcc_status load_code(tcc_rt_cuda_model* model) {
  const tcc_rt_gpu_code* code = model->code;
  uint32_t launches = 0;
  for (uint32_t k = 0; k < code->num_kernels; ++k) launches += code->kernels[k].num_launches;
  model->modules = calloc((size_t)code->num_kernels + 1, sizeof(tcc_cu_module));
  model->functions = calloc((size_t)launches + 1, sizeof(tcc_cu_function));
  model->first_function = calloc((size_t)code->num_kernels + 1, sizeof(uint32_t));
  if (!model->modules || !model->functions || !model->first_function) {
    return tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for the model's functions");
  }
  for (uint32_t k = 0, f = 0; k < code->num_kernels; ++k) {
    const tcc_rt_gpu_kernel* kernel = &code->kernels[k];
    const tcc_cu_result result = model->driver->cuModuleLoadData(&model->modules[k], kernel->image);
    if (result != 0) {
      model->modules[k] = NULL;
      return explain_image(model, result);
    }
    model->first_function[k] = f;
    for (uint32_t l = 0; l < kernel->num_launches; ++l, ++f) {
      const tcc_status status = load_function(model, model->modules[k], &kernel->launches[l], &model->functions[f]);
      if (status != TCC_OK) return status;
    }
  }
  return TCC_OK;
}

// --- weights --------------------------------------------------------------------------------------------------------

// The weights are pages of the library's file. What has been copied may leave memory again: it is not held twice.
// Advice only, which old systems refuse.
static void give_up_pages(const unsigned char* from, uint64_t bytes) {
#ifdef MADV_PAGEOUT
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t begin = ((uintptr_t)from + page - 1) / page * page, end = ((uintptr_t)from + bytes) / page * page;
  if (begin < end) madvise((void*)begin, end - begin, MADV_PAGEOUT);
#else
  (void)from, (void)bytes;
#endif
}

static tcc_status upload(tcc_rt_cuda_model* model, tcc_cu_stream stream) {
  const unsigned char* from = model->plan->weights;
  const uint64_t bytes = model->plan->info.weights_bytes;
  for (uint64_t at = 0; at < bytes; at += kUploadBytes) {
    const uint64_t part = bytes - at < kUploadBytes ? bytes - at : kUploadBytes;
    tcc_status status = check(model, model->driver->cuMemcpyHtoDAsync(model->weights + at, from + at, part, stream),
                              "copying the weights to the device");
    if (status == TCC_OK) {
      status = check(model, model->driver->cuStreamSynchronize(stream), "copying the weights to the device");
    }
    if (status != TCC_OK) return status;
    give_up_pages(from + at, part);
  }
  return TCC_OK;
}

static tcc_status load_weights(tcc_rt_cuda_model* model) {
  const uint64_t bytes = model->plan->info.weights_bytes;
  if (bytes == 0) return TCC_OK;
  char what[96];
  snprintf(what, sizeof what, "allocating %llu bytes for the weights", (unsigned long long)bytes);
  tcc_status status = check(model, model->driver->cuMemAlloc(&model->weights, bytes), what);
  if (status != TCC_OK) {
    model->weights = 0;
    return status;
  }
  // A stream of its own, which waits for nothing else: an ordinary copy may still be under way when it returns.
  tcc_cu_stream stream = NULL;
  status = check(model, model->driver->cuStreamCreate(&stream, TCC_CU_STREAM_NON_BLOCKING), "making a stream");
  if (status != TCC_OK) return status;
  status = upload(model, stream);
  model->driver->cuStreamDestroy(stream);
  return status;
}

// --- the list -------------------------------------------------------------------------------------------------------

static void free_model(tcc_rt_cuda_model* model) {
  if (model->weights) model->driver->cuMemFree(model->weights);
  for (uint32_t k = 0; model->modules && k < model->code->num_kernels; ++k) {
    if (model->modules[k]) model->driver->cuModuleUnload(model->modules[k]);
  }
  if (model->retained) model->driver->cuDevicePrimaryCtxRelease(model->device);
  free(model->modules);
  free(model->functions);
  free(model->first_function);
  free(model);
}

static tcc_rt_cuda_model* find(const tcc_rt_cuda_model* like) {
  for (tcc_rt_cuda_model* m = models; m; m = m->next) {
    if (m->plan == like->plan && m->cuda == like->cuda && m->driver == like->driver) return m;
  }
  return NULL;
}

static tcc_status find_or_load(const tcc_rt_plan* plan, const tcc_create_options* options,
                               const tcc_cuda_driver* driver, tcc_rt_cuda_model** out) {
  tcc_rt_cuda_model* model = calloc(1, sizeof *model);
  if (!model) return tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for a model");
  model->plan = plan;
  model->driver = driver;
  tcc_status status = choose_cuda_context(model, options);
  tcc_rt_cuda_model* known = status == TCC_OK ? find(model) : NULL;
  if (known) {
    free_model(model);
    ++known->users;
    *out = known;
    return TCC_OK;
  }
  if (status == TCC_OK) status = choose_code(model);
  if (status == TCC_OK) status = load_code(model);
  if (status == TCC_OK) status = load_weights(model);
  if (status != TCC_OK) {
    free_model(model);
    return status;
  }
  model->users = 1;
  model->next = models;
  models = model;
  *out = model;
  return TCC_OK;
}

tcc_status tcc_rt_cuda_model_take(const tcc_rt_plan* plan, const tcc_create_options* options,
                                  const tcc_cuda_driver* driver, tcc_rt_cuda_model** model) {
  pthread_mutex_lock(&models_mutex);
  const tcc_status status = find_or_load(plan, options, driver, model);
  pthread_mutex_unlock(&models_mutex);
  return status;
}

void tcc_rt_cuda_model_leave(tcc_rt_cuda_model* model) {
  pthread_mutex_lock(&models_mutex);
  if (--model->users == 0) {
    tcc_rt_cuda_model** link = &models;
    while (*link != model) link = &(*link)->next;
    *link = model->next;
    free_model(model);
  }
  pthread_mutex_unlock(&models_mutex);
}
