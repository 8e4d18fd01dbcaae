// CUPTI for tests, beside the fake CUDA driver: the kernels that it executes leave records, in buffers that hold few of
// them. The environment's FAKE_CUPTI: "refused" (another profiler is attached), "old" (a version with other records),
// "lossy" (records are lost).
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rt/fake_cuda.h"

enum { kKernel = 10, kMost = 4096, kRecordsOfBuffer = 3 };

// As CUDA 13 has it, up to the name; what follows is not read.
typedef struct {
  uint32_t kind;
  uint16_t configuration, registers;
  uint32_t partitioned[2];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3], shared[2];
  uint32_t local[2], correlation;
  int64_t grid_id;
  const char* name;
  char rest[104];
} record;
_Static_assert(offsetof(record, start) == 16 && offsetof(record, end) == 24 && offsetof(record, name) == 104 &&
                   sizeof(record) == 216,
               "CUpti_ActivityKernel10");

static void (*request)(uint8_t**, size_t*, size_t*);
static void (*complete)(void*, uint32_t, uint8_t*, size_t, size_t);
static record records[kMost];
static int count, enabled;

static int is_set(const char* what) {
  const char* text = getenv("FAKE_CUPTI");
  return text && strcmp(text, what) == 0;
}

static void seen(const char* symbol, double start, double end) {
  if (!enabled || count == kMost) return;
  record* r = &records[count++];
  memset(r, 0xee, sizeof *r);
  r->kind = kKernel;
  r->start = 1000 + (uint64_t)(start * 1e9);
  r->end = 1000 + (uint64_t)(end * 1e9);
  r->name = symbol;
}

int cuptiGetVersion(uint32_t* version) {
  *version = is_set("old") ? 7 : 130001;
  return 0;
}
int cuptiActivityRegisterCallbacks(void (*r)(uint8_t**, size_t*, size_t*),
                                   void (*c)(void*, uint32_t, uint8_t*, size_t, size_t)) {
  void* driver = dlopen(TCC_FAKE_CUDA, RTLD_NOW | RTLD_NOLOAD);
  fake_cuda_watch_fn watch = driver ? (fake_cuda_watch_fn)dlsym(driver, "fake_cuda_watch") : NULL;
  if (!watch) return 15;  // not initialised
  watch(seen);
  request = r, complete = c;
  return 0;
}
int cuptiActivityEnable(int kind) {
  if (is_set("refused")) return 39;
  enabled = kind == kKernel;
  return enabled ? 0 : 1;
}
int cuptiActivityDisable(int kind) {
  enabled = 0;
  return kind == kKernel ? 0 : 1;
}
int cuptiActivityFlushAll(uint32_t flag) {
  (void)flag;
  for (int done = 0; done < count;) {
    uint8_t* buffer = NULL;
    size_t bytes = 0, most = 0;
    request(&buffer, &bytes, &most);
    int n = count - done < kRecordsOfBuffer ? count - done : kRecordsOfBuffer;
    memcpy(buffer, &records[done], (size_t)n * sizeof(record));
    complete(NULL, 0, buffer, bytes, (size_t)n * sizeof(record));
    done += n;
  }
  count = 0;
  return 0;
}
int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** next) {
  uint8_t* at = *next ? *next + sizeof(record) : buffer;
  if (at + sizeof(record) > buffer + valid) return 12;
  *next = at;
  return 0;
}
int cuptiActivityGetNumDroppedRecords(void* context, uint32_t stream, size_t* dropped) {
  (void)context, (void)stream;
  *dropped = is_set("lossy") ? 5 : 0;
  return 0;
}
