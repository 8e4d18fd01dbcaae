// A CUDA driver for tests: device memory is host memory, streams execute when somebody waits for them, launches are
// checked against what the cubin says of its kernels. It knows nothing of tcc; fake_cuda.h says how to talk to it.
// Time is a made-up clock that only work moves, so what a benchmark prints here is always the same.
#define _GNU_SOURCE  // of the recursive mutex
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda_state.h"

enum { kLogBytes = 1 << 20 };

struct fake_settings set;
struct fake_state state;
__thread void* current;
static int retained[kMaxDevices];
static int contexts[kMaxDevices];  // their addresses are the contexts
static char log_text[kLogBytes], violation[512];
static size_t log_used;
static struct {
  char name[64];
  int calls;
} counts[128];
static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void violate(const char* what, const char* name) {
  if (!violation[0]) snprintf(violation, sizeof violation, "%s: %s", name, what);
}

static int* count_of(const char* name) {
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
    if (!counts[i].name[0]) snprintf(counts[i].name, sizeof counts[i].name, "%s", name);
    if (strcmp(counts[i].name, name) == 0) return &counts[i].calls;
  }
  abort();
}

void note(const char* word) {
  const size_t n = strlen(word);
  if (log_used + n + 2 > sizeof log_text) return;
  if (log_used) log_text[log_used++] = ' ';
  memcpy(log_text + log_used, word, n + 1);
  log_used += n;
}

API void fake_cuda_clear(void) {
  memset(counts, 0, sizeof counts);
  log_used = 0;
  log_text[0] = 0;
}

API void fake_cuda_configure(const char* text) {
  char copy[512];
  forget_memory();
  forget_streams();
  memset(retained, 0, sizeof retained);
  memset(&set, 0, sizeof set);
  set.arch = 80, set.driver = 13000, set.devices = 1, set.memory_bytes = (size_t)1 << 30;
  state.used = 0;
  state.live_things = state.lost = state.captures = state.kernel_count = state.cold = 0;
  state.now = 0;
  state.seen = NULL;
  violation[0] = 0;
  current = NULL;
  fake_cuda_clear();
  if (!text) text = getenv("FAKE_CUDA");
  snprintf(copy, sizeof copy, "%s", text ? text : "");
  for (char* word = strtok(copy, ","); word; word = strtok(NULL, ",")) {
    sscanf(word, "arch=%d", &set.arch);
    sscanf(word, "driver=%d", &set.driver);
    sscanf(word, "devices=%d", &set.devices);
    sscanf(word, "memory=%zu", &set.memory_bytes);
    sscanf(word, "gone=%255s", set.gone);
    sscanf(word, "ptx=%255s", set.ptx_folder);
    sscanf(word, "hang=%63s", set.hang_name);
    sscanf(word, "crash=%63[^:]:%d", set.crash_name, &set.crash_code);
    if (strncmp(word, "kernels=", 8) == 0) set.code = dlopen(word + 8, RTLD_NOW | RTLD_LOCAL);
    if (sscanf(word, "fail=%63[^:]:%d:%d", set.fail_name, &set.fail_code, &set.fail_from) == 2) set.fail_from = 1;
  }
}

API void fake_cuda_register(const char* symbol, void (*kernel)(void**)) {
  snprintf(state.kernels[state.kernel_count].symbol, sizeof state.kernels[0].symbol, "%s", symbol);
  state.kernels[state.kernel_count++].kernel = kernel;
}
API int fake_cuda_calls(const char* name) {
  return *count_of(name);
}
API const char* fake_cuda_log(void) {
  return log_text;
}
API int fake_cuda_live(void) {
  int live = state.live_things;
  for (int d = 0; d < kMaxDevices; ++d) live += retained[d];
  return live;
}
API void fake_cuda_watch(void (*seen)(const char* symbol, double start, double end)) {
  state.seen = seen;
}
API const char* fake_cuda_violation(void) {
  return violation;
}

static int loses_context(int code) {
  return code == 700 || code == 702 || (code >= 709 && code <= 719);
}

int enter(const char* name) {
  const int calls = ++*count_of(name);
  note(name);
  int result = state.lost;
  if (!result && set.fail_name[0] && strcmp(set.fail_name, name) == 0 && calls >= set.fail_from) {
    result = set.fail_code;
    if (set.gone[0]) fclose(fopen(set.gone, "w"));
    if (loses_context(result)) state.lost = result;
  }
  return result;
}

pthread_mutex_t* hold(void) {
  pthread_mutex_lock(&mutex);
  return &mutex;
}
void let_go(pthread_mutex_t** held) {
  pthread_mutex_unlock(*held);
}
void lose_context(int code) {
  pthread_mutex_lock(&mutex);
  state.lost = code;
  pthread_mutex_unlock(&mutex);
}

// --- devices, contexts -----------------------------------------------------------------------------------------------

API int cuInit(unsigned flags) {
  (void)flags;
  if (!set.arch) fake_cuda_configure(NULL);
  if (set.gone[0] && access(set.gone, F_OK) == 0) return 100;
  ENTER();
  return 0;
}
API int cuDriverGetVersion(int* version) {
  ENTER();
  *version = set.driver;
  return 0;
}
// NVRTC looks for the system's driver while it compiles, and where this function is missing it reads through a pointer
// that nobody set. The tables are not public; a driver without one says so.
API int cuGetExportTable(const void** table, const void* uuid) {
  (void)uuid;
  ENTER();
  *table = NULL;
  return 500;  // CUDA_ERROR_NOT_FOUND
}
API int cuGetErrorName(int error, const char** text) {
  *text = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return 0;
}
API int cuGetErrorString(int error, const char** text) {
  *text = error == 2 ? "out of memory" : "an error of the fake driver";
  return 0;
}
API int cuDeviceGetCount(int* count) {
  ENTER();
  *count = set.devices;
  return 0;
}
API int cuDeviceGet(int* device, int ordinal) {
  ENTER();
  *device = ordinal;
  return ordinal < set.devices ? 0 : 101;
}
API int cuDeviceGetName(char* name, int bytes, int device) {
  ENTER();
  (void)device;
  snprintf(name, (size_t)bytes, "Fake GPU");
  return 0;
}
API int cuDeviceGetUuid(void* uuid, int device) {
  ENTER();
  memset(uuid, device, 16);
  return 0;
}
API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  ENTER();
  (void)device;
  switch (attribute) {
    case 75:
      *value = set.arch / 10;
      break;
    case 76:
      *value = set.arch % 10;
      break;
    case 16:
      *value = 108;
      break;
    case 13:
      *value = 1410000;
      break;
    case 36:
      *value = 1215000;
      break;
    case 37:
      *value = 5120;
      break;
    case 38:
      *value = 1 << 20;
      break;
    case 39:
      *value = 2048;
      break;
    case 0x7463:  // asked of emulated devices: is PTX all that they take?
      *value = fake_cuda_run ? 0x7463 : 0;
      break;
    default:
      *value = 65536;
  }
  return 0;
}
API int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  ENTER();
  (void)device;
  *bytes = set.memory_bytes;
  return 0;
}
API int cuDevicePrimaryCtxRetain(void** context, int device) {
  ENTER();
  ++retained[device];
  *context = &contexts[device];
  return 0;
}
API int cuDevicePrimaryCtxRelease_v2(int device) {
  ENTER();
  --retained[device];
  return 0;
}
API int cuCtxSetCurrent(void* context) {
  ENTER();
  current = context;
  return 0;
}
API int cuCtxGetCurrent(void** context) {
  ENTER();
  *context = current;
  return 0;
}
API int cuCtxGetDevice(int* device) {
  ENTER();
  NEEDS_CONTEXT();
  *device = (int)((int*)current - contexts);
  return 0;
}
