// Streams, events and graphs of the fake CUDA driver. Work waits in queues until somebody waits for it.
#include <stdlib.h>
#include <string.h>

#include "fake_cuda_state.h"

typedef struct {
  queue items;
} graph;

static stream* stream_of(void* handle) {
  return handle ? handle : &state.default_stream;
}

static void execute(const work* w) {
  const double start = state.now;
  state.now += w->cost * (w->kind == kLaunch && state.cold ? 2 : 1);
  switch (w->kind) {
    case kLaunch:
      run_launch(w);
      if (state.seen) state.seen(w->f->name, start, state.now);
      break;
    case kCopy:
      memcpy(w->to, w->owned ? w->owned : w->from, w->bytes);
      break;
    case kFill:
      memset(w->to, w->fill, w->bytes);
      if (w->bytes >= 1 << 20) state.cold = 1;  // it went through the cache
      break;
    case kStamp:
      w->stamp->seconds = state.now;
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

void drain_all(void) {
  drain(&state.default_stream);
  for (int i = 0; i < kMax; ++i) {
    if (state.streams[i]) drain(state.streams[i]);
  }
}

void push(queue* q, const work* w) {
  q->items = realloc(q->items, (q->count + 1) * sizeof *w);
  if (!q->items) abort();
  q->items[q->count++] = *w;
}

void enqueue(void* handle, const work* w) {
  stream* s = stream_of(handle);
  push(s->capturing ? &s->captured : &s->todo, w);
}

API int cuStreamCreate(void** out, unsigned flags) {
  ENTER();
  NEEDS_CONTEXT();
  (void)flags;
  for (int i = 0; i < kMax; ++i) {
    if (state.streams[i]) continue;
    *out = state.streams[i] = calloc(1, sizeof(stream));
    ++state.live_things;
    return *out ? 0 : 2;
  }
  return 2;
}
API int cuStreamDestroy_v2(void* handle) {
  ENTER();
  drain(handle);
  for (int i = 0; i < kMax; ++i) {
    if (state.streams[i] != handle) continue;
    state.streams[i] = NULL;
    --state.live_things;
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
  state.cold = 0;
  return state.lost;
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
  return state.lost;
}

void forget_streams(void) {
  state.default_stream.todo.count = 0;
  for (int i = 0; i < kMax; ++i) {
    if (state.streams[i]) free(state.streams[i]->todo.items);
    free(state.streams[i]);
    state.streams[i] = NULL;
  }
}

// --- events ----------------------------------------------------------------------------------------------------------

API int cuEventCreate(void** out, unsigned flags) {
  ENTER();
  NEEDS_CONTEXT();
  (void)flags;
  *out = calloc(1, sizeof(event));
  ++state.live_things;
  return 0;
}
API int cuEventDestroy_v2(void* e) {
  ENTER();
  drain_all();
  --state.live_things;
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
  state.cold = 0;
  return state.lost;
}
API int cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  ENTER();
  *milliseconds = (float)((((event*)end)->seconds - ((event*)start)->seconds) * 1e3);
  return 0;
}

// --- graphs ----------------------------------------------------------------------------------------------------------

API int cuStreamBeginCapture_v2(void* handle, int mode) {
  ENTER();
  (void)mode;
  if (!handle) return 901;  // the default stream cannot be captured
  stream* s = handle;
  s->capturing = 1;
  s->captured.items = NULL;
  s->captured.count = 0;
  ++state.captures;
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
  --state.captures;
  ++state.live_things;
  *out = g;
  return 0;
}
API int cuGraphInstantiateWithFlags(void** out, void* handle, unsigned long long flags) {
  ENTER();
  (void)flags;
  const graph* from = handle;
  graph* g = calloc(1, sizeof *g);
  for (size_t i = 0; i < from->items.count; ++i) push(&g->items, &from->items.items[i]);
  ++state.live_things;
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
  --state.live_things;
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
