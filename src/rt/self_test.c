// The model's own check: two runs on the same seeded inputs must agree. Outputs are filled with one pattern before the
// first run and with another before the second: an element that no kernel writes still holds both. NaN, infinities and
// outputs that are the same everywhere are right: the inputs are random, and the model may say so of them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rt/context.h"

static uint64_t next_random(uint64_t* state) {  // splitmix64
  uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// float32 to float16, truncating; exact zero below the smallest normal. For |value| <= 1 only.
static uint16_t half_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  const uint32_t sign = bits >> 16 & 0x8000u, exponent = bits >> 23 & 0xffu;
  if (exponent < 113) return (uint16_t)sign;
  return (uint16_t)(sign | (exponent - 112) << 10 | (bits >> 13 & 0x3ffu));
}

static float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static float half_value(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 1023u;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = (float)fraction * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

// Types whose values are looked at; others are compared as bytes.
static bool is_floating(tcc_dldtype type) {
  if (type.code == TCC_DTYPE_BFLOAT) return type.bits == 16;
  return type.code == TCC_DTYPE_FLOAT && (type.bits == 16 || type.bits == 32 || type.bits == 64);
}

static double element_value(const tcc_tensor_info* info, const unsigned char* data, uint64_t index) {
  const unsigned char* at = data + index * (info->dtype.bits / 8);
  if (info->dtype.bits == 64) {
    double value;
    memcpy(&value, at, 8);
    return value;
  }
  if (info->dtype.bits == 32) {
    float value;
    memcpy(&value, at, 4);
    return value;
  }
  uint16_t bits;
  memcpy(&bits, at, 2);
  if (info->dtype.code == TCC_DTYPE_FLOAT) return half_value(bits);
  return float_of_bits((uint32_t)bits << 16);
}

static void fill_random(const tcc_tensor_info* info, unsigned char* data, uint64_t* state) {
  const unsigned element = info->dtype.bits / 8;
  memset(data, 0, info->bytes);
  for (uint64_t i = 0; i < info->bytes / element; ++i) {
    unsigned char* at = data + i * element;
    const uint64_t random = next_random(state);
    if (!is_floating(info->dtype)) {
      at[0] = random >> 63;  // little-endian 0 or 1 of any width
      continue;
    }
    const float value = (float)((double)(random >> 40) * 0x1p-23 - 1.0);
    const double wide = value;
    uint32_t bits;
    memcpy(&bits, &value, 4);
    const uint16_t top = info->dtype.code == TCC_DTYPE_FLOAT ? half_bits(value) : (uint16_t)(bits >> 16);
    memcpy(at, element == 8 ? (const void*)&wide : element == 4 ? (const void*)&value : (const void*)&top, element);
  }
}

enum { kFirstPattern = 0xff, kSecondPattern = 0x11 };  // NaN in every float type, and a small number

static bool holds(const unsigned char* element, unsigned bytes, int pattern) {
  for (unsigned i = 0; i < bytes; ++i)
    if (element[i] != pattern) return false;
  return true;
}

static bool agree(double a, double b, double tolerance) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  const double larger = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
  return a == b || fabs(a - b) <= tolerance * larger;
}

static tcc_status check_output(const tcc_tensor_info* info, uint32_t index, const unsigned char* first,
                               const unsigned char* second, uint64_t count, double tolerance) {
  const unsigned element = info->dtype.bits / 8;
  for (uint64_t i = 0; i < count; ++i) {
    const unsigned char *one = first + i * element, *two = second + i * element;
    if (memcmp(one, two, element) == 0) continue;
    if (holds(one, element, kFirstPattern) && holds(two, element, kSecondPattern)) {
      return tcc_rt_fail(TCC_ERROR_SELF_TEST, "output %u '%s' element %llu is written by no kernel", index, info->name,
                         (unsigned long long)i);
    }
    if (!is_floating(info->dtype)) {
      return tcc_rt_fail(TCC_ERROR_SELF_TEST, "output %u '%s' element %llu differs between two runs on the same inputs",
                         index, info->name, (unsigned long long)i);
    }
    const double a = element_value(info, first, i), b = element_value(info, second, i);
    if (!agree(a, b, tolerance)) {
      return tcc_rt_fail(TCC_ERROR_SELF_TEST, "output %u '%s' element %llu is %g in one run and %g in the next", index,
                         info->name, (unsigned long long)i, a, b);
    }
  }
  return TCC_OK;
}

typedef struct {
  tcc_dltensor *inputs, *first, *second;
  void* workspace;
} test_memory;

static bool allocate_tensors(const tcc_tensor_info* infos, uint32_t count, tcc_dltensor** tensors) {
  *tensors = calloc((size_t)count + 1, sizeof(tcc_dltensor));
  if (!*tensors) return false;
  for (uint32_t i = 0; i < count; ++i) {
    tcc_dltensor* t = &(*tensors)[i];
    t->device.device_type = TCC_DEVICE_CPU;
    t->ndim = infos[i].ndim;
    t->dtype = infos[i].dtype;
    t->shape = malloc(((size_t)infos[i].ndim + 1) * sizeof(int64_t));  // run() writes the extents that depend on data
    t->data = malloc(infos[i].bytes + 1);
    if (!t->data || !t->shape) return false;
    if (infos[i].ndim > 0) memcpy(t->shape, infos[i].dims, (size_t)infos[i].ndim * sizeof(int64_t));
  }
  return true;
}

static void free_tensors(tcc_dltensor* tensors, uint32_t count) {
  for (uint32_t i = 0; tensors && i < count; ++i) {
    free(tensors[i].data);
    free(tensors[i].shape);
  }
  free(tensors);
}

static tcc_status run_filled(tcc_context* context, const test_memory* memory, tcc_dltensor* outputs, int pattern) {
  const tcc_model_info* info = &context->plan->info;
  for (uint32_t i = 0; i < info->num_outputs; ++i) memset(outputs[i].data, pattern, info->outputs[i].bytes);
  return tcc_rt_run_plan(context, memory->inputs, info->num_inputs, outputs, info->num_outputs, memory->workspace,
                         memory->workspace ? info->workspace_bytes : 0, NULL);
}

static tcc_status run_twice(tcc_context* context, test_memory* memory) {
  const tcc_model_info* info = &context->plan->info;
  const bool own_workspace = !context->device && info->workspace_bytes > 0 && !context->workspace;
  if (own_workspace) memory->workspace = tcc_rt_allocate_workspace(context->plan);
  if (!allocate_tensors(info->inputs, info->num_inputs, &memory->inputs) ||
      !allocate_tensors(info->outputs, info->num_outputs, &memory->first) ||
      !allocate_tensors(info->outputs, info->num_outputs, &memory->second) || (own_workspace && !memory->workspace)) {
    return tcc_rt_fail(TCC_ERROR_RESOURCES, "self test: no memory for the model's inputs and outputs");
  }
  uint64_t state = context->plan->self_test_seed;
  for (uint32_t i = 0; i < info->num_inputs; ++i) fill_random(&info->inputs[i], memory->inputs[i].data, &state);
  tcc_status status = run_filled(context, memory, memory->first, kFirstPattern);
  if (status == TCC_OK) status = run_filled(context, memory, memory->second, kSecondPattern);
  for (uint32_t i = 0; status == TCC_OK && i < info->num_outputs; ++i) {
    uint64_t counts[2] = {1, 1};
    for (int32_t d = 0; d < info->outputs[i].ndim; ++d) {
      counts[0] *= (uint64_t)memory->first[i].shape[d];
      counts[1] *= (uint64_t)memory->second[i].shape[d];
    }
    if (counts[0] != counts[1])
      return tcc_rt_fail(TCC_ERROR_SELF_TEST, "output %u '%s' has %llu elements in one run and %llu in the next", i,
                         info->outputs[i].name, (unsigned long long)counts[0], (unsigned long long)counts[1]);
    status = check_output(&info->outputs[i], i, memory->first[i].data, memory->second[i].data, counts[0],
                          context->plan->self_test_tolerance);
  }
  return status;
}

tcc_status tcc_rt_self_test(tcc_context* context) {
  if (!context) return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT, "self test: the context is NULL");
  tcc_status status = tcc_rt_check_process(context, "self test");
  if (status != TCC_OK) return status;
  const tcc_model_info* info = &context->plan->info;
  test_memory memory = {NULL, NULL, NULL, NULL};
  uint32_t made = 0;
  if (context->device) status = context->plan->gpu->ops->begin_self_test(context, &made);
  if (status == TCC_OK) status = run_twice(context, &memory);
  if (context->device) context->plan->gpu->ops->end_self_test(context, made);
  free_tensors(memory.inputs, info->num_inputs);
  free_tensors(memory.first, info->num_outputs);
  free_tensors(memory.second, info->num_outputs);
  free(memory.workspace);
  return status;
}
