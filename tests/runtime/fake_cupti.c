// CUPTI for tests, beside the fake CUDA driver: the kernels that it executes leave records, in buffers that hold few of
// them, and the ranges of its profiler count them, in two passes. The environment's FAKE_CUPTI: "refused" (another
// profiler is attached), "old" (a version with other records), "lossy" (records are lost), "private" (counters are for
// administrators), "plain" (the chip has no tensor cores).
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rt/fake_cuda.h"
#include "runtime/cupti_counters.h"

enum { kKernel = 10, kMax = 4096, kRecordsOfBuffer = 3 };

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
static record records[kMax];
static int count, enabled;
static int counting = -1;  // kernels of the open range, -1: none
static double counted_seconds;

static int is_set(const char* what) {
  const char* text = getenv("FAKE_CUPTI");
  return text && strcmp(text, what) == 0;
}

static void seen(const char* symbol, double start, double end) {
  if (counting >= 0) ++counting, counted_seconds += end - start;
  if (!enabled || count == kMax) return;
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
static int attach(void) {
  void* driver = dlopen(TCC_FAKE_CUDA, RTLD_NOW | RTLD_NOLOAD);
  fake_cuda_watch_fn watch = driver ? (fake_cuda_watch_fn)dlsym(driver, "fake_cuda_watch") : NULL;
  if (!watch) return 15;  // not initialized
  watch(seen);
  return 0;
}
int cuptiActivityRegisterCallbacks(void (*r)(uint8_t**, size_t*, size_t*),
                                   void (*c)(void*, uint32_t, uint8_t*, size_t, size_t)) {
  const int status = attach();
  if (status) return status;
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

// --- ranges: what a real profiler refuses, this one does too

enum { kInvalid = 1, kPasses = 2, kImageBytes = 64 };
typedef struct {
  const char* names[8];
  size_t count;
} host;
static int pass, started, configured;
static double kernels_of_run, seconds_of_run;

#define SIZED(p, type, last) ((p)->struct_size == TCC_CUPTI_SIZE(type, last) && (p)->private_data == NULL)

int cuptiProfilerInitialize(tcc_cupti_initialize* p) {
  return SIZED(p, tcc_cupti_initialize, private_data) ? attach() : kInvalid;
}
int cuptiDeviceGetChipName(tcc_cupti_chip* p) {
  if (!SIZED(p, tcc_cupti_chip, chip)) return kInvalid;
  p->chip = "FAKE100";
  return 0;
}
int cuptiProfilerGetCounterAvailability(tcc_cupti_availability* p) {
  if (!SIZED(p, tcc_cupti_availability, image) || !p->context) return kInvalid;
  if (is_set("private")) return TCC_CUPTI_NO_PRIVILEGES;
  if (p->image) memset(p->image, 0x5a, kImageBytes);
  p->image_bytes = kImageBytes;
  return 0;
}
int cuptiProfilerHostInitialize(tcc_cupti_host* p) {
  if (!SIZED(p, tcc_cupti_host, host) || p->profiler != TCC_CUPTI_RANGE_PROFILER || strcmp(p->chip, "FAKE100") != 0 ||
      !p->availability || p->availability[0] != 0x5a)
    return kInvalid;
  p->host = calloc(1, sizeof(host));
  return 0;
}
int cuptiProfilerHostDeinitialize(tcc_cupti_host_end* p) {
  if (!SIZED(p, tcc_cupti_host_end, host)) return kInvalid;
  free(p->host);
  return 0;
}
int cuptiProfilerHostConfigAddMetrics(tcc_cupti_add_metrics* p) {
  if (!SIZED(p, tcc_cupti_add_metrics, num_metrics)) return kInvalid;
  host* h = p->host;
  for (size_t i = 0; i < p->num_metrics; ++i) {
    const char* name = p->metrics[i];
    const int tensor = strstr(name, "pipe_tensor") != NULL;
    if ((tensor && is_set("plain")) || (tensor && strstr(name, "inst_executed"))) return kInvalid;
    h->names[h->count++] = name;
  }
  return 0;
}
int cuptiProfilerHostGetConfigImageSize(tcc_cupti_config_size* p) {
  if (!SIZED(p, tcc_cupti_config_size, bytes)) return kInvalid;
  p->bytes = kImageBytes;
  return 0;
}
int cuptiProfilerHostGetConfigImage(tcc_cupti_config* p) {
  if (!SIZED(p, tcc_cupti_config, image) || p->bytes < kImageBytes) return kInvalid;
  memset(p->image, 0x6b, kImageBytes);
  return 0;
}
int cuptiRangeProfilerEnable(tcc_cupti_enable* p) {
  if (!SIZED(p, tcc_cupti_enable, ranges) || !p->context) return kInvalid;
  if (is_set("refused")) return 39;
  p->ranges = &pass;
  return 0;
}
int cuptiRangeProfilerDisable(tcc_cupti_ranges* p) {
  configured = started = 0;
  return SIZED(p, tcc_cupti_ranges, ranges) && p->ranges == &pass ? 0 : kInvalid;
}
int cuptiRangeProfilerGetCounterDataSize(tcc_cupti_counter_size* p) {
  if (!SIZED(p, tcc_cupti_counter_size, bytes) || p->max_nodes < p->max_ranges) return kInvalid;
  p->bytes = kImageBytes;
  return 0;
}
int cuptiRangeProfilerCounterDataImageInitialize(tcc_cupti_counter_image* p) {
  if (!SIZED(p, tcc_cupti_counter_image, counters) || p->bytes < kImageBytes) return kInvalid;
  memset(p->counters, 0, kImageBytes);
  return 0;
}
int cuptiRangeProfilerSetConfig(tcc_cupti_set_config* p) {
  if (!SIZED(p, tcc_cupti_set_config, target_nesting) || !p->config || p->config[0] != 0x6b || !p->counters ||
      p->range != TCC_CUPTI_USER_RANGE || p->replay != TCC_CUPTI_USER_REPLAY || p->max_ranges != 1 ||
      p->nesting_levels != 1)
    return kInvalid;
  configured = 1;
  pass = 0;
  return 0;
}
int cuptiRangeProfilerStart(tcc_cupti_ranges* p) {
  if (!SIZED(p, tcc_cupti_ranges, ranges) || !configured || started) return kInvalid;
  started = 1;
  return 0;
}
int cuptiRangeProfilerPushRange(tcc_cupti_push* p) {
  if (!SIZED(p, tcc_cupti_push, name) || !started || counting >= 0) return kInvalid;
  counting = 0;
  counted_seconds = 0;
  return 0;
}
int cuptiRangeProfilerPopRange(tcc_cupti_ranges* p) {
  if (!SIZED(p, tcc_cupti_ranges, ranges) || counting < 0) return kInvalid;
  kernels_of_run = counting;
  seconds_of_run = counted_seconds;
  counting = -1;
  return 0;
}
int cuptiRangeProfilerStop(tcc_cupti_stop* p) {
  if (!SIZED(p, tcc_cupti_stop, all_passes) || !started) return kInvalid;
  started = 0;
  p->pass = (size_t)++pass;
  p->all_passes = pass == kPasses;
  return 0;
}
int cuptiRangeProfilerDecodeData(tcc_cupti_decode* p) {
  if (!SIZED(p, tcc_cupti_decode, dropped) || pass != kPasses) return kInvalid;
  p->dropped = is_set("lossy") ? 1 : 0;
  return 0;
}
// Of each kernel 1,000 bytes are read and 500 written; the tensor cores work a quarter of the time; the more time the
// device takes, the more warps it has, half of them at most.
int cuptiProfilerHostEvaluateToGpuValues(tcc_cupti_evaluate* p) {
  const host* h = p->host;
  if (!SIZED(p, tcc_cupti_evaluate, values) || p->range != 0 || p->num_metrics != h->count) return kInvalid;
  for (size_t i = 0; i < p->num_metrics; ++i) {
    const char* name = p->metrics[i];
    p->values[i] = strstr(name, "read")     ? 1000 * kernels_of_run
                   : strstr(name, "write")  ? 500 * kernels_of_run
                   : strstr(name, "tensor") ? 25
                   : seconds_of_run > 0     ? 50
                                            : 0;
  }
  return 0;
}
