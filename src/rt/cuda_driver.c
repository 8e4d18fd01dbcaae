#include "tcc/rt/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tcc/rt/rt.h"

static const char kDriverLibrary[] = "libcuda.so.1";

static const struct {
  const char* symbol;
  size_t offset;
} functions[] = {
#define TCC_ROW(member, symbol, parameters) {symbol, offsetof(tcc_cuda_driver, member)},
    TCC_CUDA_DRIVER_FUNCTIONS(TCC_ROW)
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
    if (!function) {
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

tcc_status tcc_cuda_check(const tcc_cuda_driver* driver, tcc_cu_result result, const char* what) {
  if (result == 0) return TCC_OK;
  const char *name = NULL, *text = NULL;
  driver->cuGetErrorName(result, &name);
  driver->cuGetErrorString(result, &text);
  return tcc_rt_fail(TCC_ERROR_DEVICE, "%s: %s %d (%s)", what, name ? name : "CUDA error", result,
                     text ? text : "the driver has no text for it");
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tcc_cuda_driver system_driver;
static tcc_status system_status;
static char system_error[1024];

static void load_system_driver(void) {
  system_status = tcc_cuda_driver_load(kDriverLibrary, &system_driver);
  if (system_status == TCC_OK) system_status = tcc_cuda_check(&system_driver, system_driver.cuInit(0), "cuInit");
  if (system_status != TCC_OK) snprintf(system_error, sizeof system_error, "%s", tcc_rt_last_error());
}

tcc_status tcc_cuda_driver_get(const tcc_cuda_driver** driver) {
  pthread_once(&once, load_system_driver);
  *driver = system_status == TCC_OK ? &system_driver : NULL;
  return system_status == TCC_OK ? TCC_OK : tcc_rt_fail(system_status, "%s", system_error);
}
