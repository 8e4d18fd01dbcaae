// Contexts of one model in several threads, built with ThreadSanitizer: the runtime's sources, the model's plan, and
// its kernels when they were instrumented. `separate` must be silent, `shared` must not: there two contexts are told to
// write one output, which shows that a race would be seen.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include MODEL_HEADER

// LLVM 19 calls these where GCC 12's ThreadSanitizer has the plain functions only.
__attribute__((weak)) void* __tsan_memcpy(void* to, const void* from, size_t n) {
  return memcpy(to, from, n);
}
__attribute__((weak)) void* __tsan_memmove(void* to, const void* from, size_t n) {
  return memmove(to, from, n);
}
__attribute__((weak)) void* __tsan_memset(void* to, int value, size_t n) {
  return memset(to, value, n);
}

enum { kThreads = 4, kSeeds = 2, kRuns = 12 };

static const tcc_model_api* api;
static float* expected[kSeeds];
static float* one_output;
static tcc_context* one_context;
static atomic_int failures, busy, passed;

static void fail(const char* what) {
  fprintf(stderr, "two_threads: %s: %s\n", what, api->last_error());
  atomic_fetch_add(&failures, 1);
}

static tcc_context* make_context(void) {
  const tcc_create_options options = {sizeof options, 2, 0, 0};
  tcc_context* context = NULL;
  if (api->create(&options, &context) != TCC_OK) fail("create");
  return context;
}

static float* make_input(int seed) {
  const uint64_t count = api->info()->inputs[0].bytes / sizeof(float);
  float* data = malloc(count * sizeof(float));
  for (uint64_t i = 0; i < count; ++i) data[i] = (float)((i * 37 + (uint64_t)seed * 11) % 101) / 101 - 0.5f;
  return data;
}

static tcc_dltensor view(const tcc_tensor_info* info, void* data) {
  const tcc_dltensor t = {data, {TCC_DEVICE_CPU, 0}, info->ndim, info->dtype, (int64_t*)info->dims, NULL, 0};
  return t;
}

static tcc_status run(tcc_context* context, float* input, float* output) {
  const tcc_model_info* info = api->info();
  const tcc_dltensor in = view(&info->inputs[0], input), out = view(&info->outputs[0], output);
  return api->run(context, &in, 1, &out, 1, NULL, 0, NULL);
}

// A context of the thread's own, made again half-way; mistakes in between, whose messages are the thread's own.
static void* use_own_context(void* argument) {
  const int thread = (int)(intptr_t)argument, seed = thread % kSeeds;
  const tcc_model_info* info = api->info();
  float *input = make_input(seed), *output = malloc(info->outputs[0].bytes);
  tcc_context* context = make_context();
  for (int i = 0; i < kRuns && context != NULL; ++i) {
    memset(output, 0xff, info->outputs[0].bytes);
    if (run(context, input, output) != TCC_OK) fail("run");
    if (memcmp(output, expected[seed], info->outputs[0].bytes) != 0) fail("another result than alone");
    if (thread == 1) {
      const tcc_dltensor none = view(&info->outputs[0], NULL);
      if (api->run(context, &none, 1, &none, 1, NULL, 0, NULL) != TCC_ERROR_TENSOR) fail("a null tensor was taken");
      if (strlen(api->last_error()) == 0) fail("no message");
    } else if (strlen(api->last_error()) != 0) {
      fail("another thread's message");
    }
    if (thread == 2 && strlen(api->metadata_json(NULL)) == 0) fail("no metadata");
    if (i == kRuns / 2) {
      api->destroy(context);
      context = make_context();
    }
  }
  api->destroy(context);
  free(input);
  free(output);
  return NULL;
}

// One context for all threads: run() tells the second thread so and touches nothing.
static void* use_one_context(void* argument) {
  (void)argument;
  const tcc_model_info* info = api->info();
  float *input = make_input(0), *output = malloc(info->outputs[0].bytes);
  for (int i = 0; i < kRuns; ++i) {
    const tcc_status status = run(one_context, input, output);
    if (status == TCC_ERROR_BUSY) atomic_fetch_add(&busy, 1);
    if (status != TCC_ERROR_BUSY && status != TCC_OK) fail("run of a shared context");
    if (status != TCC_OK) continue;
    atomic_fetch_add(&passed, 1);
    if (memcmp(output, expected[0], info->outputs[0].bytes) != 0) fail("a shared context's result");
  }
  free(input);
  free(output);
  return NULL;
}

static void* write_one_output(void* argument) {
  (void)argument;
  float* input = make_input(0);
  tcc_context* context = make_context();
  for (int i = 0; i < kRuns; ++i)
    if (run(context, input, one_output) != TCC_OK) fail("run");
  api->destroy(context);
  free(input);
  return NULL;
}

static void in_threads(void* (*body)(void*)) {
  pthread_t threads[kThreads];
  for (intptr_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, body, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
}

int main(int argc, char** argv) {
  api = MODEL_QUERY(TCC_MODEL_ABI_VERSION);
  const uint64_t bytes = api->info()->outputs[0].bytes;
  if (argc > 1 && strcmp(argv[1], "shared") == 0) {
    one_output = malloc(bytes);
    in_threads(write_one_output);
    free(one_output);
    return failures != 0;
  }
  tcc_context* context = make_context();
  for (int seed = 0; seed < kSeeds; ++seed) {
    float* input = make_input(seed);
    expected[seed] = malloc(bytes);
    if (run(context, input, expected[seed]) != TCC_OK) fail("run");
    free(input);
  }
  api->destroy(context);
  if (memcmp(expected[0], expected[1], bytes) == 0) fail("the seeds give the same result");
  in_threads(use_own_context);
  one_context = make_context();
  in_threads(use_one_context);
  api->destroy(one_context);
  for (int seed = 0; seed < kSeeds; ++seed) free(expected[seed]);
  printf("%d runs of one context passed, %d were refused, %d failures\n", (int)passed, (int)busy, (int)failures);
  return failures != 0;
}
