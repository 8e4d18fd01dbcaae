#include "tcc/rt/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tcc/rt/rt.h"

static const char kDriverLibrary[] = "libcuda.so.1";

static const struct {
  const char* symbol;
  size_t offset;
  int needed;
} functions[] = {
#define TCC_ROW(member, symbol, parameters) {symbol, offsetof(tcc_cuda_driver, member), 1},
    TCC_CUDA_DRIVER_FUNCTIONS(TCC_ROW)
#undef TCC_ROW
#define TCC_ROW(member, symbol, parameters) {symbol, offsetof(tcc_cuda_driver, member), 0},
        TCC_CUDA_GRAPH_FUNCTIONS(TCC_ROW) TCC_CUDA_TENSOR_MAP_FUNCTIONS(TCC_ROW) TCC_CUDA_CLUSTER_FUNCTIONS(TCC_ROW)
#undef TCC_ROW
};

tcc_status tcc_cuda_driver_load(const char* library, tcc_cuda_driver* driver) {
  memset(driver, 0, sizeof *driver);
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    return tcc_rt_fail(TCC_ERROR_DEVICE,
                       "the CUDA driver library cannot be opened: %s; install the NVIDIA driver, or use a CPU target",
                       dlerror());
  }
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; ++i) {
    void* function = dlsym(handle, functions[i].symbol);
    if (!function && functions[i].needed) {
      dlclose(handle);
      memset(driver, 0, sizeof *driver);
      return tcc_rt_fail(TCC_ERROR_DEVICE,
                         "%s has no function %s: it is not a CUDA driver, or too old; install a newer "
                         "NVIDIA driver",
                         library, functions[i].symbol);
    }
    memcpy((char*)driver + functions[i].offset, &function, sizeof function);
  }
  return TCC_OK;
}

// --- what to do about an error of the driver ------------------------------------------------------------------------

static const struct {
  tcc_cu_result first, last;
  const char* advice;
} advices[] = {
    {2, 2, "free device memory (nvidia-smi shows who has it), use a smaller batch, or another device"},
    {34, 34, "this libcuda is the toolkit's stub for linking; install the NVIDIA driver"},
    {46, 46, "another process has the device for itself; end it, or use another device"},
    {100, 100, "look whether nvidia-smi shows a GPU, and at CUDA_VISIBLE_DEVICES"},
    {101, 101, "nvidia-smi lists the devices by number"},
    {200, 201, "the image or the CUDA context is not valid; a stream must belong to the context that create() used"},
    {214, 214, "the device's memory is faulty or needs a reset; nvidia-smi -q -d ECC tells"},
    {400, 400, "a stream or address must belong to the CUDA context that create() used"},
    {700, 700, "a kernel reached beyond its tensors, and the CUDA context is lost; start the process again"},
    {701, 701, "the kernel does not fit this device; build the library for it (tcc targets)"},
    {702, 702, "the kernel ran too long for a device that also drives a screen; the CUDA context is lost"},
    {709, 719, "the CUDA context is lost; start the process again"},
    {802, 804, "driver and kernel module do not fit together; reinstall the NVIDIA driver or start the machine again"},
    {900, 908, "the stream is being captured: pass device tensors, and create contexts before"},
    {999, 999, "the device may be lost (nvidia-smi, dmesg); start the process again"},
};

tcc_status tcc_cuda_check(const tcc_cuda_driver* driver, tcc_cu_result result, const char* what) {
  if (result == 0) return TCC_OK;
  const char *name = NULL, *text = NULL, *advice = "";
  driver->cuGetErrorName(result, &name);
  driver->cuGetErrorString(result, &text);
  for (size_t i = 0; i < sizeof advices / sizeof advices[0]; ++i) {
    if (result >= advices[i].first && result <= advices[i].last) advice = advices[i].advice;
  }
  return tcc_rt_fail(result == 2 ? TCC_ERROR_RESOURCES : TCC_ERROR_DEVICE, "%s: %s %d (%s)%s%s", what,
                     name ? name : "CUDA error", result, text ? text : "the driver has no text for it",
                     advice[0] ? "; " : "", advice);
}

tcc_status tcc_cuda_encode_tensor_map(const tcc_cuda_driver* driver, const tcc_cuda_tensor_map* what,
                                      tcc_cu_ptr address, tcc_cu_tensor_map* map) {
  enum { kPromoteTo256Bytes = 3 };
  const uint32_t dense[5] = {1, 1, 1, 1, 1};
  if (!driver->cuTensorMapEncodeTiled) {
    return tcc_rt_fail(
        TCC_ERROR_DEVICE,
        "the CUDA driver has no tensor maps (cuTensorMapEncodeTiled): it is older than CUDA 12.0; install "
        "a newer NVIDIA driver");
  }
  const int swizzle = what->swizzle == 128 ? 3 : what->swizzle == 64 ? 2 : what->swizzle == 32 ? 1 : 0;
  return tcc_cuda_check(
      driver,
      driver->cuTensorMapEncodeTiled(map, (int)what->type, what->rank, (void*)(uintptr_t)address, what->dims,
                                     what->strides, what->box, dense, 0, swizzle, kPromoteTo256Bytes, 0),
      "describing a tensor for bulk copies");
}

// --- drivers that are open ------------------------------------------------------------------------------------------

// One entry a library for the life of the process: what failed once fails with the same words again.
typedef struct open_driver {
  struct open_driver* next;
  tcc_cuda_driver driver;
  tcc_status status;
  char error[1024];
  char library[];
} open_driver;

static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;
static open_driver* open_drivers;

static open_driver* find_or_load(const char* library) {
  for (open_driver* d = open_drivers; d; d = d->next) {
    if (strcmp(d->library, library) == 0) return d;
  }
  open_driver* d = calloc(1, sizeof *d + strlen(library) + 1);
  if (!d) return NULL;
  strcpy(d->library, library);
  d->status = tcc_cuda_driver_load(library, &d->driver);
  if (d->status == TCC_OK) d->status = tcc_cuda_check(&d->driver, d->driver.cuInit(0), "starting the CUDA driver");
  if (d->status != TCC_OK) snprintf(d->error, sizeof d->error, "%s", tcc_rt_last_error());
  d->next = open_drivers;
  open_drivers = d;
  return d;
}

tcc_status tcc_cuda_driver_open(const char* library, const tcc_cuda_driver** driver) {
  pthread_mutex_lock(&open_mutex);
  const open_driver* d = find_or_load(library ? library : kDriverLibrary);
  pthread_mutex_unlock(&open_mutex);
  *driver = d && d->status == TCC_OK ? &d->driver : NULL;
  if (!d) return tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for the CUDA driver's table of functions");
  return d->status == TCC_OK ? TCC_OK : tcc_rt_fail(d->status, "%s", d->error);
}

tcc_status tcc_cuda_driver_get(const tcc_cuda_driver** driver) {
  return tcc_cuda_driver_open(NULL, driver);
}
