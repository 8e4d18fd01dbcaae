// A CUDA driver for tests: device memory is host memory, streams execute when somebody waits for them, launches are
// checked against what the cubin says of its kernels. It knows nothing of tcc; fake_cuda.h says how to talk to it.
// Time is a made-up clock that only work moves, so what a benchmark prints here is always the same.
#define _GNU_SOURCE
#include "fake_cuda.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
typedef unsigned long long address;

// Where the library is linked with something that runs PTX.
extern int fake_cuda_run(const char* ptx, const char* symbol, fake_cuda_shape shape, const fake_cuda_piece* parameters,
                         int count, double* seconds) __attribute__((weak));

enum { kMost = 4096, kMostDevices = 4, kMostParameters = 64, kLogBytes = 1 << 20, kGuard = 64 };

typedef struct {
  unsigned char* begin;
  size_t bytes;
} memory;
typedef struct module module;
typedef struct {
  char name[128];
  module* owner;
  int parameters, max_threads, dynamic_limit;
} function;
struct module {
  function functions[16];
  int count;
  int live;
  char* ptx;
};
typedef struct {
  enum { kLaunch, kCopy, kFill, kStamp } kind;
  function* f;
  unsigned long long values[kMostParameters];
  fake_cuda_shape shape;
  double cost;
  unsigned char *to, *owned;  // kCopy: from `owned`, or from `from` when it is NULL
  const unsigned char* from;
  size_t bytes;
  int fill;
  struct event* stamp;
} work;
typedef struct {
  work* items;
  size_t count;
} queue;
typedef struct stream {
  queue todo;
  queue captured;
  int capturing, live;
} stream;
typedef struct event {
  double seconds;
  int live;
} event;
typedef struct {
  queue items;
} graph;

static struct {
  int arch, driver, devices;
  size_t memory_bytes, used;
  char fail_name[64];
  int fail_code, fail_from;
  char crash_name[64], gone[256];
  int crash_code;
  void* code;  // a library with kernels by their symbols
} set;
static memory memories[kMost];
static int live_things, retained[kMostDevices], lost, captures;
static int contexts[kMostDevices];  // their addresses are the contexts
static stream default_stream;
static stream* streams[kMost];
static double now;
static int cold;
static char log_text[kLogBytes], violation[512];
static size_t log_used;
static struct {
  char name[64];
  int calls;
} counts[128];
static struct {
  char symbol[128];
  void (*kernel)(void**);
} kernels[256];
static int kernel_count;
static __thread void* current;
static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

// --- settings, counts
// ---------------------------------------------------------------------------------------------------

static void violate(const char* what, const char* name) {
  if (!violation[0]) snprintf(violation, sizeof violation, "%s: %s", name, what);
}

static int* count_of(const char* name) {
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
    if (!counts[i].name[0]) snprintf(counts[i].name, sizeof counts[i].name, "%s", name);
    if (strcmp(counts[i].name, name) == 0) return &counts[i].calls;
  }
  abort();
}

static void note(const char* word) {
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
  for (int i = 0; i < kMost; ++i) {
    if (memories[i].begin) free(memories[i].begin - kGuard);
  }
  memset(memories, 0, sizeof memories);
  memset(retained, 0, sizeof retained);
  memset(&set, 0, sizeof set);
  set.arch = 80, set.driver = 13000, set.devices = 1, set.memory_bytes = (size_t)1 << 30;
  live_things = lost = captures = kernel_count = cold = 0;
  default_stream.todo.count = 0;
  for (int i = 0; i < kMost; ++i) {
    if (streams[i]) free(streams[i]->todo.items);
    free(streams[i]);
    streams[i] = NULL;
  }
  now = 0;
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
    sscanf(word, "crash=%63[^:]:%d", set.crash_name, &set.crash_code);
    if (strncmp(word, "kernels=", 8) == 0) set.code = dlopen(word + 8, RTLD_NOW | RTLD_LOCAL);
    if (sscanf(word, "fail=%63[^:]:%d:%d", set.fail_name, &set.fail_code, &set.fail_from) == 2) set.fail_from = 1;
  }
}

API void fake_cuda_register(const char* symbol, void (*kernel)(void**)) {
  snprintf(kernels[kernel_count].symbol, sizeof kernels[0].symbol, "%s", symbol);
  kernels[kernel_count++].kernel = kernel;
}
API int fake_cuda_calls(const char* name) {
  return *count_of(name);
}
API const char* fake_cuda_log(void) {
  return log_text;
}
API int fake_cuda_live(void) {
  int live = live_things;
  for (int d = 0; d < kMostDevices; ++d) live += retained[d];
  return live;
}
API const char* fake_cuda_violation(void) {
  return violation;
}

static int loses_context(int code) {
  return code == 700 || code == 702 || (code >= 709 && code <= 719);
}

// Every entry point begins here: the error it has to return, or 0.
static int enter(const char* name) {
  const int calls = ++*count_of(name);
  note(name);
  int result = lost;
  if (!result && set.fail_name[0] && strcmp(set.fail_name, name) == 0 && calls >= set.fail_from) {
    result = set.fail_code;
    if (set.gone[0]) fclose(fopen(set.gone, "w"));
    if (loses_context(result)) lost = result;
  }
  return result;
}

static pthread_mutex_t* hold(void) {
  pthread_mutex_lock(&mutex);
  return &mutex;
}
static void let_go(pthread_mutex_t** held) {
  pthread_mutex_unlock(*held);
}
#define ENTER()                                                             \
  pthread_mutex_t* held_ __attribute__((cleanup(let_go), unused)) = hold(); \
  const int wrong_ = enter(__func__);                                       \
  if (wrong_) return wrong_
#define NEEDS_CONTEXT() \
  if (!current) return 201
// What waits, or may: illegal anywhere in the thread that captures.
#define NOT_WHILE_CAPTURING() \
  if (captures) return 900

// --- memory
// -------------------------------------------------------------------------------------------------------------

static memory* owner_of(address at) {
  for (int i = 0; i < kMost; ++i) {
    const address begin = (address)(uintptr_t)memories[i].begin;
    if (begin && at >= begin && at < begin + memories[i].bytes) return &memories[i];
  }
  return NULL;
}

static int holds(address at, size_t bytes, const char* name) {
  const memory* m = owner_of(at);
  if (m && at + bytes <= (address)(uintptr_t)m->begin + m->bytes) return 1;
  violate("an address outside of the device's memory", name);
  return 0;
}

static int guards_are_whole(const memory* m) {
  for (int i = 0; i < kGuard; ++i) {
    if (m->begin[i - kGuard] != 0x5a || m->begin[m->bytes + (size_t)i] != 0x5a) return 0;
  }
  return 1;
}

API int cuMemAlloc_v2(address* pointer, size_t bytes) {
  ENTER();
  NEEDS_CONTEXT();
  NOT_WHILE_CAPTURING();
  if (bytes == 0) return 1;
  if (set.used + bytes > set.memory_bytes) return 2;
  for (int i = 0; i < kMost; ++i) {
    if (memories[i].begin) continue;
    unsigned char* all = aligned_alloc(256, (bytes + 2 * kGuard + 511) / 256 * 256);
    if (!all) return 2;
    memset(all, 0x5a, bytes + 2 * kGuard);
    memset(all + kGuard, 0xcd, bytes);
    memories[i].begin = all + kGuard;
    memories[i].bytes = bytes;
    set.used += bytes;
    ++live_things;
    *pointer = (address)(uintptr_t)memories[i].begin;
    return 0;
  }
  return 2;
}

API int cuMemFree_v2(address pointer) {
  ENTER();
  NEEDS_CONTEXT();
  NOT_WHILE_CAPTURING();
  memory* m = owner_of(pointer);
  if (!m || (address)(uintptr_t)m->begin != pointer) return 1;
  if (!guards_are_whole(m)) violate("something wrote beside an allocation", __func__);
  set.used -= m->bytes;
  --live_things;
  free(m->begin - kGuard);
  m->begin = NULL;
  return 0;
}

API int cuMemAllocHost_v2(void** pointer, size_t bytes) {
  ENTER();
  *pointer = malloc(bytes);
  ++live_things;
  return *pointer ? 0 : 2;
}
API int cuMemFreeHost(void* pointer) {
  ENTER();
  --live_things;
  free(pointer);
  return 0;
}
API int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  ENTER();
  NEEDS_CONTEXT();
  *total = set.memory_bytes;
  *free_bytes = set.memory_bytes - set.used;
  return 0;
}

// --- streams
// ------------------------------------------------------------------------------------------------------------

static stream* stream_of(void* handle) {
  return handle ? handle : &default_stream;
}

static void lose_context(int code) {
  pthread_mutex_lock(&mutex);
  lost = code;
  pthread_mutex_unlock(&mutex);
}

static void run_code(const work* w) {
  if (set.crash_name[0] && strstr(w->f->name, set.crash_name)) return lose_context(set.crash_code);
  void (*kernel)(void**) = NULL;
  if (set.code) *(void**)&kernel = dlsym(set.code, w->f->name);
  void* parameters[kMostParameters];
  for (int p = 0; p < kMostParameters; ++p) parameters[p] = (void*)&w->values[p];
  if (kernel) return kernel(parameters);
  if (!fake_cuda_run || !w->f->owner->ptx) return;
  fake_cuda_piece pieces[kMostParameters];
  for (int p = 0; p < w->f->parameters; ++p) {
    const memory* m = owner_of(w->values[p]);
    pieces[p].begin = (void*)(uintptr_t)w->values[p];
    pieces[p].bytes = m ? (size_t)(m->begin + m->bytes - (unsigned char*)pieces[p].begin) : 0;
  }
  double seconds = 0;
  const int code = fake_cuda_run(w->f->owner->ptx, w->f->name, w->shape, pieces, w->f->parameters, &seconds);
  now += seconds;
  if (code) lose_context(code);
}

static void execute(const work* w) {
  now += w->cost * (w->kind == kLaunch && cold ? 2 : 1);
  switch (w->kind) {
    case kLaunch:
      for (int k = 0; k < kernel_count; ++k) {
        if (strcmp(kernels[k].symbol, w->f->name) != 0) continue;
        void* parameters[kMostParameters];
        for (int p = 0; p < kMostParameters; ++p) parameters[p] = (void*)&w->values[p];
        kernels[k].kernel(parameters);
      }
      run_code(w);
      break;
    case kCopy:
      memcpy(w->to, w->owned ? w->owned : w->from, w->bytes);
      break;
    case kFill:
      memset(w->to, w->fill, w->bytes);
      if (w->bytes >= 1 << 20) cold = 1;  // it went through the cache
      break;
    case kStamp:
      w->stamp->seconds = now;
      break;
  }
}

static void drain(stream* s) {
  for (size_t i = 0; i < s->todo.count; ++i) {
    execute(&s->todo.items[i]);
    free(s->todo.items[i].owned);
  }
  s->todo.count = 0;
}

static void drain_all(void) {
  drain(&default_stream);
  for (int i = 0; i < kMost; ++i) {
    if (streams[i]) drain(streams[i]);
  }
}

static void push(queue* q, const work* w) {
  q->items = realloc(q->items, (q->count + 1) * sizeof *w);
  if (!q->items) abort();
  q->items[q->count++] = *w;
}

static void enqueue(void* handle, const work* w) {
  stream* s = stream_of(handle);
  push(s->capturing ? &s->captured : &s->todo, w);
}

API int cuStreamCreate(void** out, unsigned flags) {
  ENTER();
  NEEDS_CONTEXT();
  (void)flags;
  for (int i = 0; i < kMost; ++i) {
    if (streams[i]) continue;
    *out = streams[i] = calloc(1, sizeof(stream));
    ++live_things;
    return *out ? 0 : 2;
  }
  return 2;
}
API int cuStreamDestroy_v2(void* handle) {
  ENTER();
  drain(handle);
  for (int i = 0; i < kMost; ++i) {
    if (streams[i] != handle) continue;
    streams[i] = NULL;
    --live_things;
    free(stream_of(handle)->todo.items);
    free(handle);
    return 0;
  }
  return 400;
}
API int cuStreamSynchronize(void* handle) {
  ENTER();
  NEEDS_CONTEXT();
  NOT_WHILE_CAPTURING();
  drain(stream_of(handle));
  cold = 0;
  return lost;
}
API int cuStreamWaitEvent(void* handle, void* e, unsigned flags) {
  ENTER();
  (void)handle, (void)e, (void)flags;
  return 0;
}
API int cuCtxSynchronize(void) {
  ENTER();
  NEEDS_CONTEXT();
  NOT_WHILE_CAPTURING();
  drain_all();
  return lost;
}

API int cuMemcpyHtoD_v2(address to, const void* from, size_t bytes) {
  ENTER();
  NEEDS_CONTEXT();
  NOT_WHILE_CAPTURING();
  if (!holds(to, bytes, __func__)) return 1;
  drain_all();
  memcpy((void*)(uintptr_t)to, from, bytes);
  return 0;
}
API int cuMemcpyDtoH_v2(void* to, address from, size_t bytes) {
  ENTER();
  NEEDS_CONTEXT();
  NOT_WHILE_CAPTURING();
  if (!holds(from, bytes, __func__)) return 1;
  drain_all();
  memcpy(to, (void*)(uintptr_t)from, bytes);
  return 0;
}

static double copy_cost(size_t bytes) {
  return 5e-6 + (double)bytes / 1e10;
}

API int cuMemcpyHtoDAsync_v2(address to, const void* from, size_t bytes, void* handle) {
  ENTER();
  NEEDS_CONTEXT();
  if (!holds(to, bytes, __func__)) return 1;
  work w = {.kind = kCopy, .to = (unsigned char*)(uintptr_t)to, .bytes = bytes, .cost = copy_cost(bytes)};
  w.owned = malloc(bytes ? bytes : 1);  // pageable memory is read at once
  memcpy(w.owned, from, bytes);
  enqueue(handle, &w);
  return 0;
}
API int cuMemcpyDtoHAsync_v2(void* to, address from, size_t bytes, void* handle) {
  ENTER();
  NEEDS_CONTEXT();
  if (!holds(from, bytes, __func__)) return 1;
  const work w = {.kind = kCopy, .to = to, .from = (void*)(uintptr_t)from, .bytes = bytes, .cost = copy_cost(bytes)};
  enqueue(handle, &w);
  return 0;
}
API int cuMemcpyDtoDAsync_v2(address to, address from, size_t bytes, void* handle) {
  ENTER();
  NEEDS_CONTEXT();
  if (!holds(from, bytes, __func__) || !holds(to, bytes, __func__)) return 1;
  const work w = {.kind = kCopy,
                  .to = (void*)(uintptr_t)to,
                  .from = (void*)(uintptr_t)from,
                  .bytes = bytes,
                  .cost = (double)bytes / 1e12};
  enqueue(handle, &w);
  return 0;
}
API int cuMemsetD8Async(address to, unsigned char value, size_t bytes, void* handle) {
  ENTER();
  NEEDS_CONTEXT();
  if (!holds(to, bytes, __func__)) return 1;
  const work w = {
      .kind = kFill, .to = (void*)(uintptr_t)to, .fill = value, .bytes = bytes, .cost = 2e-6 + (double)bytes / 1e12};
  enqueue(handle, &w);
  return 0;
}
API int cuMemsetD8_v2(address to, unsigned char value, size_t bytes) {
  ENTER();
  NEEDS_CONTEXT();
  if (!holds(to, bytes, __func__)) return 1;
  memset((void*)(uintptr_t)to, value, bytes);
  return 0;
}

// --- events
// -------------------------------------------------------------------------------------------------------------

API int cuEventCreate(void** out, unsigned flags) {
  ENTER();
  NEEDS_CONTEXT();
  (void)flags;
  *out = calloc(1, sizeof(event));
  ++live_things;
  return 0;
}
API int cuEventDestroy_v2(void* e) {
  ENTER();
  drain_all();
  --live_things;
  free(e);
  return 0;
}
API int cuEventRecord(void* e, void* handle) {
  ENTER();
  const work w = {.kind = kStamp, .stamp = e};
  enqueue(handle, &w);
  return 0;
}
API int cuEventQuery(void* e) {
  ENTER();
  (void)e;
  return 0;
}
API int cuEventSynchronize(void* e) {
  ENTER();
  NOT_WHILE_CAPTURING();
  (void)e;
  drain_all();
  cold = 0;
  return lost;
}
API int cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  ENTER();
  *milliseconds = (float)((((event*)end)->seconds - ((event*)start)->seconds) * 1e3);
  return 0;
}

// --- graphs
// -------------------------------------------------------------------------------------------------------------

API int cuStreamBeginCapture_v2(void* handle, int mode) {
  ENTER();
  (void)mode;
  if (!handle) return 901;  // the default stream cannot be captured
  stream* s = handle;
  s->capturing = 1;
  s->captured.items = NULL;
  s->captured.count = 0;
  ++captures;
  return 0;
}
API int cuStreamEndCapture(void* handle, void** out) {
  ENTER();
  stream* s = handle;
  graph* g = calloc(1, sizeof *g);
  g->items = s->captured;
  s->capturing = 0;
  s->captured.items = NULL;
  s->captured.count = 0;
  --captures;
  ++live_things;
  *out = g;
  return 0;
}
API int cuGraphInstantiateWithFlags(void** out, void* handle, unsigned long long flags) {
  ENTER();
  (void)flags;
  const graph* from = handle;
  graph* g = calloc(1, sizeof *g);
  for (size_t i = 0; i < from->items.count; ++i) push(&g->items, &from->items.items[i]);
  ++live_things;
  *out = g;
  return 0;
}
API int cuGraphLaunch(void* handle, void* stream_handle) {
  ENTER();
  NEEDS_CONTEXT();
  const graph* g = handle;
  for (size_t i = 0; i < g->items.count; ++i) {
    work w = g->items.items[i];
    w.cost *= w.kind == kLaunch ? 0.75 : 1;  // launches of a graph cost less
    enqueue(stream_handle, &w);
  }
  return 0;
}
static int destroy_graph(void* handle) {
  free(((graph*)handle)->items.items);
  free(handle);
  --live_things;
  return 0;
}
API int cuGraphExecDestroy(void* handle) {
  ENTER();
  return destroy_graph(handle);
}
API int cuGraphDestroy(void* handle) {
  ENTER();
  return destroy_graph(handle);
}

// --- modules
// ------------------------------------------------------------------------------------------------------------

// .nv.info of a kernel: attributes of four bytes (format, name, 16-bit value) and, with format 4, that many bytes more.
static void read_attributes(function* f, const unsigned char* at, size_t bytes) {
  for (size_t i = 0; i + 4 <= bytes;) {
    uint16_t size;
    memcpy(&size, at + i + 2, 2);
    if (at[i] == 4 && at[i + 1] == 0x17) ++f->parameters;  // EIATTR_KPARAM_INFO
    if (at[i] == 4 && at[i + 1] == 0x05) {                 // EIATTR_MAX_THREADS
      uint32_t dims[3];
      memcpy(dims, at + i + 4, sizeof dims);
      f->max_threads = (int)(dims[0] * dims[1] * dims[2]);
    }
    i += 4 + (at[i] == 4 ? size : 0);
  }
}

static function* add_function(module* m, const char* name, size_t length) {
  function* f = &m->functions[m->count++];
  snprintf(f->name, sizeof f->name, "%.*s", (int)length, name);
  f->owner = m;
  f->max_threads = 1024;
  f->dynamic_limit = 48 << 10;
  return f;
}

static int load_cubin(module* m, const unsigned char* image) {
  Elf64_Ehdr header;
  memcpy(&header, image, sizeof header);
  const int new_format = image[EI_ABIVERSION] >= 8;  // of CUDA 13
  const int arch = (int)(new_format ? header.e_flags >> 8 & 0xff : header.e_flags & 0xff);
  if (new_format && set.driver < 13000) return 200;
  if (arch / 10 != set.arch / 10 || arch > set.arch) return 209;
  const Elf64_Shdr* sections = (const void*)(image + header.e_shoff);
  const char* names = (const char*)image + sections[header.e_shstrndx].sh_offset;
  for (int s = 0; s < header.e_shnum; ++s) {
    const char* name = names + sections[s].sh_name;
    if (strncmp(name, ".nv.info.", 9) != 0) continue;
    read_attributes(add_function(m, name + 9, strlen(name + 9)), image + sections[s].sh_offset, sections[s].sh_size);
  }
  return 0;
}

static int load_ptx(module* m, const char* text) {
  int arch = 0;
  const char* target = strstr(text, ".target sm_");
  if (!target || sscanf(target, ".target sm_%d", &arch) != 1) return 218;
  if (set.driver < 13000) return 222;
  if (arch > set.arch) return 218;
  if (fake_cuda_run) {
    const fake_cuda_shape none = {{0}, {0}, 0, 0};
    const int code = fake_cuda_run(text, NULL, none, NULL, 0, NULL);
    if (code) return code;
  }
  m->ptx = strdup(text);
  for (const char* at = strstr(text, ".entry "); at; at = strstr(at + 1, ".entry ")) {
    const char *name = at + 7, *end = name + strcspn(name, "( \n"), *close = strchr(end, ')');
    function* f = add_function(m, name, (size_t)(end - name));
    for (const char* p = strstr(end, ".param"); p && p < close; p = strstr(p + 1, ".param")) ++f->parameters;
  }
  return 0;
}

API int cuModuleLoadData(void** out, const void* image) {
  ENTER();
  NEEDS_CONTEXT();
  NOT_WHILE_CAPTURING();
  module* m = calloc(1, sizeof *m);
  const int wrong = memcmp(image, ELFMAG, SELFMAG) == 0 ? load_cubin(m, image) : load_ptx(m, image);
  if (wrong) {
    free(m);
    return wrong;
  }
  ++live_things;
  *out = m;
  return 0;
}
static void free_module(module* m) {
  free(m->ptx);
  free(m);
}
API int cuModuleUnload(void* m) {
  if (lost) free_module(m);  // nothing of a lost context is used again
  ENTER();
  drain_all();
  --live_things;
  free_module(m);
  return 0;
}
API int cuModuleGetFunction(void** out, void* handle, const char* name) {
  ENTER();
  module* m = handle;
  for (int i = 0; i < m->count; ++i) {
    if (strcmp(m->functions[i].name, name) == 0) return *out = &m->functions[i], 0;
  }
  return 500;
}
API int cuModuleGetGlobal_v2(address* pointer, size_t* bytes, void* m, const char* name) {
  ENTER();
  (void)pointer, (void)bytes, (void)m, (void)name;
  return 500;
}
API int cuFuncGetAttribute(int* value, int attribute, void* handle) {
  ENTER();
  const function* f = handle;
  *value = attribute == 0 ? f->max_threads : attribute == 8 ? f->dynamic_limit : attribute == 4 ? 32 : 0;
  return 0;
}
API int cuFuncSetAttribute(void* handle, int attribute, int value) {
  ENTER();
  if (attribute != 8 || value > 227 << 10) return 1;
  ((function*)handle)->dynamic_limit = value;
  return 0;
}

static int launch(function* f, const unsigned* grid, const unsigned* block, unsigned shared, int cooperative,
                  void* handle, void** parameters) {
  const unsigned threads = block[0] * block[1] * block[2];
  if (threads == 0 || grid[0] * grid[1] * grid[2] == 0 || grid[1] > 65535 || grid[2] > 65535) return 1;
  if (threads > 1024 || (int)threads > f->max_threads) return 701;
  if ((int)shared > f->dynamic_limit) return 1;
  if (f->parameters > kMostParameters) abort();
  work w = {.kind = kLaunch, .f = f, .cost = 2e-6 + 1e-8 * grid[0] * grid[1] * grid[2]};
  for (int i = 0; i < 3; ++i) w.shape.grid[i] = grid[i], w.shape.block[i] = block[i];
  w.shape.shared = shared;
  w.shape.cooperative = cooperative;
  for (int p = 0; p < f->parameters; ++p) {
    memcpy(&w.values[p], parameters[p], sizeof w.values[p]);
    if (!holds(w.values[p], 1, f->name)) return 1;
  }
  note(f->name);
  enqueue(handle, &w);
  return 0;
}

API int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void* handle, void** parameters, void** extra) {
  ENTER();
  NEEDS_CONTEXT();
  (void)extra;
  return launch(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, 0, handle, parameters);
}
API int cuLaunchCooperativeKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                  unsigned shared, void* handle, void** parameters) {
  ENTER();
  NEEDS_CONTEXT();
  return launch(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, 1, handle, parameters);
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* f, int threads, size_t shared) {
  ENTER();
  (void)f, (void)shared;
  *blocks = 2048 / threads;
  return 0;
}

// --- devices, contexts
// --------------------------------------------------------------------------------------------------

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
