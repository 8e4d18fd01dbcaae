// Memory of the fake CUDA driver: allocations between guards, copies and fills.
#include <stdlib.h>
#include <string.h>

#include "fake_cuda_state.h"

memory* owner_of(address at) {
  for (int i = 0; i < kMax; ++i) {
    const address begin = (address)(uintptr_t)state.memories[i].begin;
    if (begin && at >= begin && at < begin + state.memories[i].bytes) return &state.memories[i];
  }
  return NULL;
}

int holds(address at, size_t bytes, const char* name) {
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
  if (state.used + bytes > set.memory_bytes) return 2;
  for (int i = 0; i < kMax; ++i) {
    if (state.memories[i].begin) continue;
    unsigned char* all = aligned_alloc(256, (bytes + 2 * kGuard + 511) / 256 * 256);
    if (!all) return 2;
    memset(all, 0x5a, bytes + 2 * kGuard);
    memset(all + kGuard, 0xcd, bytes);
    state.memories[i].begin = all + kGuard;
    state.memories[i].bytes = bytes;
    state.used += bytes;
    ++state.live_things;
    *pointer = (address)(uintptr_t)state.memories[i].begin;
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
  state.used -= m->bytes;
  --state.live_things;
  free(m->begin - kGuard);
  m->begin = NULL;
  return 0;
}

API int cuMemAllocHost_v2(void** pointer, size_t bytes) {
  ENTER();
  *pointer = malloc(bytes);
  ++state.live_things;
  return *pointer ? 0 : 2;
}
API int cuMemFreeHost(void* pointer) {
  ENTER();
  --state.live_things;
  free(pointer);
  return 0;
}
API int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  ENTER();
  NEEDS_CONTEXT();
  *total = set.memory_bytes;
  *free_bytes = set.memory_bytes - state.used;
  return 0;
}

void forget_memory(void) {
  for (int i = 0; i < kMax; ++i) {
    if (state.memories[i].begin) free(state.memories[i].begin - kGuard);
  }
  memset(state.memories, 0, sizeof state.memories);
}

// --- copies, fills ---------------------------------------------------------------------------------------------------

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
