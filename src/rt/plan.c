// Checks of a plan when a context is made, so that run() need not look again.
#include "rt/context.h"

// The layouts that emitted data relies on.
_Static_assert(sizeof(tcc_rt_launch) == 16 && sizeof(tcc_rt_kernel) == 16, "layout");
_Static_assert(sizeof(tcc_rt_arg) == 16 && sizeof(tcc_rt_step) == 16, "layout");
_Static_assert(sizeof(tcc_dltensor) == 48 && offsetof(tcc_dltensor, shape) == 24, "layout");
_Static_assert(offsetof(tcc_dltensor, dtype) == 20 && offsetof(tcc_dltensor, byte_offset) == 40, "layout");
_Static_assert(sizeof(tcc_tensor_info) == 48 && offsetof(tcc_tensor_info, dtype) == 24, "layout");
_Static_assert(offsetof(tcc_tensor_info, ndim) == 28 && offsetof(tcc_tensor_info, alignment) == 32, "layout");
_Static_assert(sizeof(tcc_model_info) == 88 && offsetof(tcc_model_info, id) == 8, "layout");
_Static_assert(offsetof(tcc_model_info, num_inputs) == 32 && offsetof(tcc_model_info, cpu_features) == 64, "layout");
_Static_assert(sizeof(tcc_rt_plan) == 160 && offsetof(tcc_rt_plan, steps) == 8, "layout");
_Static_assert(offsetof(tcc_rt_plan, self_test_tolerance) == 48 && offsetof(tcc_rt_plan, info) == 56, "layout");
_Static_assert(offsetof(tcc_rt_plan, gpu) == 144 && offsetof(tcc_model_info, device_type) == 72, "layout");
_Static_assert(sizeof(tcc_rt_factor) == 24 && sizeof(tcc_rt_dynamic_tensor) == 24, "layout");
_Static_assert(sizeof(tcc_rt_bucket) == 16 && sizeof(tcc_rt_dynamic) == 40 && sizeof(tcc_dim_info) == 24, "layout");

static tcc_status check_tensors(const char* role, const tcc_tensor_info* tensors, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const tcc_tensor_info* t = &tensors[i];
    if (t->dtype.bits == 0 || t->dtype.bits % 8 != 0 || t->dtype.lanes != 1 || t->ndim < 0) {
      return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: %s %u has an impossible type or rank", role, i);
    }
    uint64_t bytes = t->dtype.bits / 8;
    if ((t->alignment & (t->alignment - 1)) != 0) {
      return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: %s %u: expected an alignment that is a power of two", role, i);
    }
    for (int32_t d = 0; d < t->ndim; ++d) {
      if (t->dims[d] < 0 || __builtin_mul_overflow(bytes, (uint64_t)t->dims[d], &bytes)) {
        return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: %s %u has an impossible extent in dim %d", role, i, d);
      }
    }
    if (bytes != t->bytes) {
      return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: %s %u has %llu bytes, its shape says %llu", role, i,
                         (unsigned long long)t->bytes, (unsigned long long)bytes);
    }
  }
  return TCC_OK;
}

tcc_status tcc_rt_check_arg(const tcc_rt_plan* plan, const tcc_rt_arg* arg, uint32_t step) {
  uint64_t bytes = 0;
  uint32_t count = 1;
  switch ((tcc_rt_arg_kind)arg->kind) {
    case TCC_RT_ARG_INPUT:
      count = plan->info.num_inputs + plan->info.num_dims;
      if (arg->index < plan->info.num_inputs)
        bytes = plan->info.inputs[arg->index].bytes;
      else if (arg->index < count)
        bytes = sizeof(int64_t);
      break;
    case TCC_RT_ARG_OUTPUT:
      count = plan->info.num_outputs + tcc_rt_num_counts(plan);
      if (arg->index < plan->info.num_outputs)
        bytes = plan->info.outputs[arg->index].bytes;
      else if (arg->index < count)
        bytes = sizeof(int64_t);
      break;
    case TCC_RT_ARG_WEIGHT:
      bytes = plan->info.weights_bytes;
      break;
    case TCC_RT_ARG_WORKSPACE:
      bytes = plan->info.workspace_bytes;
      break;
  }
  if (arg->kind > TCC_RT_ARG_WORKSPACE || arg->index >= count || arg->offset > bytes) {
    return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: step %u has a buffer out of bounds (kind %u, index %u, offset %llu)",
                       step, arg->kind, arg->index, (unsigned long long)arg->offset);
  }
  return TCC_OK;
}

tcc_status tcc_rt_check_plan(const tcc_rt_plan* plan) {
  if (!plan) return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT, "the plan is NULL");
  if (plan->rt_version != TCC_RT_VERSION || plan->info.struct_size != sizeof(tcc_model_info)) {
    return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: version %u with info of %u bytes; this runtime needs %u and %zu",
                       plan->rt_version, plan->info.struct_size, TCC_RT_VERSION, sizeof(tcc_model_info));
  }
  const uint64_t alignment = plan->info.workspace_alignment;
  if (alignment < TCC_RT_WORKSPACE_ALIGNMENT || (alignment & (alignment - 1)) != 0) {
    return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: workspace alignment %llu is not a power of two from %u on",
                       (unsigned long long)alignment, TCC_RT_WORKSPACE_ALIGNMENT);
  }
  if (plan->info.weights_bytes > 0 && (!plan->weights || (uintptr_t)plan->weights % TCC_RT_WORKSPACE_ALIGNMENT != 0)) {
    return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: the weights are missing or not aligned to %u bytes",
                       TCC_RT_WORKSPACE_ALIGNMENT);
  }
  tcc_status status = check_tensors("input", plan->info.inputs, plan->info.num_inputs);
  if (status == TCC_OK) status = check_tensors("output", plan->info.outputs, plan->info.num_outputs);
  if (status == TCC_OK) status = tcc_rt_check_dynamic(plan);
  if (plan->gpu) return status == TCC_OK ? plan->gpu->ops->check_plan(plan) : status;
  for (uint32_t s = 0; status == TCC_OK && s < plan->num_steps; ++s) {
    const tcc_rt_step* step = &plan->steps[s];
    for (uint32_t l = 0; l < step->kernel->num_launches; ++l) {
      if (step->kernel->launches[l].fn && step->kernel->launches[l].extent >= 0) continue;
      return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: launch %u of step %u has no function or a negative extent", l, s);
    }
    for (uint32_t a = 0; status == TCC_OK && a < step->kernel->num_buffers; ++a) {
      status = tcc_rt_check_arg(plan, &step->args[a], s);
    }
  }
  return status;
}
