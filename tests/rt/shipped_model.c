// What the compiler emits around rt.o, written by hand: y = 2 * x + w.
#include "tcc/rt/rt.h"

#ifndef TCC_TEST_CPU_FEATURES  // of the first plan
#define TCC_TEST_CPU_FEATURES 0
#endif

static void scale_add(void* const* buffers, int64_t begin, int64_t end) {
  const float *x = buffers[0], *w = buffers[1];
  float* y = buffers[2];
  for (int64_t i = begin; i < end; ++i) y[i] = 2 * x[i] + w[i];
}

static const _Alignas(64) float weights[4] = {1, 2, 3, 4};
static const int64_t dims[] = {4};
static const tcc_rt_launch launches[] = {{scale_add, 4}};
static const tcc_rt_kernel kernel = {launches, 1, 3};
static const tcc_rt_arg args[] = {{TCC_RT_ARG_INPUT, 0, 0}, {TCC_RT_ARG_WEIGHT, 0, 0}, {TCC_RT_ARG_OUTPUT, 0, 0}};
static const tcc_rt_step steps[] = {{&kernel, args}};
static const tcc_tensor_info inputs[] = {{"x", dims, 16, {TCC_DTYPE_FLOAT, 32, 1}, 1, 0, 0}};
static const tcc_tensor_info outputs[] = {{"y", dims, 16, {TCC_DTYPE_FLOAT, 32, 1}, 1, 0, 0}};

__attribute__((visibility("hidden"))) const tcc_rt_plan tcc_rt_the_plan = {
    TCC_RT_VERSION,
    1,
    steps,
    weights,
    "{\"id\":\"example\"}",
    16,
    42,
    0.0,
    {sizeof(tcc_model_info), 0, "example", inputs, outputs, 1, 1, 0, 64, sizeof weights, TCC_TEST_CPU_FEATURES}};

// The same for a CPU without the feature that the plan above asks for, which no CPU has.
static const tcc_rt_plan older = {
    TCC_RT_VERSION,
    1,
    steps,
    weights,
    "{\"id\":\"example\"}",
    16,
    42,
    0.0,
    {sizeof(tcc_model_info), 0, "example", inputs, outputs, 1, 1, 0, 64, sizeof weights, 0}};
__attribute__((visibility("hidden"))) const tcc_rt_plan* const tcc_rt_older_plans[] = {&older, 0};

__attribute__((visibility("default"))) const tcc_model_api* tcc_example_query(uint32_t max_abi) {
  return tcc_rt_query(max_abi);
}
