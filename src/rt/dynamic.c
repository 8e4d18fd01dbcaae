// Plans with dimensions whose sizes the shapes of the inputs say, and with counts, which the steps compute: which
// bucket serves them, and copies between the caller's tensors and those of the bucket.
//
// A bucket's tensor has the extents of its bounds. The elements that count are those whose coordinates, factor by
// factor, are below the actual extents; kernels mask the others. A tensor of the caller's whose extents are the bounds
// is used where it is. So is an output whose outermost axis alone has a count: its elements are the first ones anyway.
#include <stdlib.h>
#include <string.h>

#include "rt/context.h"

static int64_t extent_of(const tcc_rt_factor* factor, const int64_t* sizes) {
  return factor->symbol < 0 ? factor->offset : factor->scale * sizes[factor->symbol] + factor->offset;
}

static void shape_of(const tcc_rt_dynamic_tensor* tensor, int32_t ndim, const int64_t* sizes, int64_t* shape) {
  for (int32_t d = 0; d < ndim; ++d) shape[d] = 1;
  for (uint32_t f = 0; f < tensor->num_factors; ++f)
    shape[tensor->factors[f].axis] *= extent_of(&tensor->factors[f], sizes);
}

static uint64_t elements_of(const tcc_rt_dynamic_tensor* tensor, const int64_t* sizes) {
  uint64_t count = 1;
  for (uint32_t f = 0; f < tensor->num_factors; ++f) count *= (uint64_t)extent_of(&tensor->factors[f], sizes);
  return count;
}

static uint64_t staged_bytes(const tcc_rt_dynamic_tensor* tensor, const tcc_tensor_info* info, const int64_t* bounds) {
  const uint64_t bytes = elements_of(tensor, bounds) * (info->dtype.bits / 8);
  return (bytes + TCC_RT_WORKSPACE_ALIGNMENT - 1) / TCC_RT_WORKSPACE_ALIGNMENT * TCC_RT_WORKSPACE_ALIGNMENT;
}

uint32_t tcc_rt_num_counts(const tcc_rt_plan* plan) {
  return plan->dynamic ? plan->dynamic->num_counts : 0;
}

// --- checks of the plan -------------------------------------------------------------------------------------------

static bool is_sound(const tcc_rt_dynamic_tensor* tensor, const tcc_tensor_info* info, uint32_t num_dims) {
  if (tensor->num_factors > TCC_RT_MAX_FACTORS) return false;
  uint32_t axis = 0;
  for (uint32_t f = 0; f < tensor->num_factors; ++f) {
    const tcc_rt_factor* factor = &tensor->factors[f];
    if (factor->symbol >= (int32_t)num_dims || factor->axis < axis || factor->axis >= (uint32_t)info->ndim)
      return false;
    axis = factor->axis;
  }
  return true;
}

tcc_status tcc_rt_check_dynamic(const tcc_rt_plan* plan) {
  const tcc_rt_dynamic* dynamic = plan->dynamic;
  const tcc_model_info* info = &plan->info;
  if (!dynamic) {
    if (info->num_dims == 0) return TCC_OK;
    return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: %u dimensions of several sizes, and nothing that serves them",
                       info->num_dims);
  }
  const uint32_t sizes = info->num_dims + dynamic->num_counts;
  bool sound = !plan->gpu && sizes > 0 && sizes >= info->num_dims;
  for (uint32_t i = 0; sound && i < info->num_inputs; ++i)
    sound = is_sound(&dynamic->inputs[i], &info->inputs[i], info->num_dims);
  for (uint32_t i = 0; sound && i < info->num_outputs; ++i)
    sound = is_sound(&dynamic->outputs[i], &info->outputs[i], sizes) &&
            dynamic->outputs[i].appends_to < (int32_t)info->num_inputs;
  for (uint32_t b = 0; sound && b < dynamic->num_buckets; ++b) {
    const tcc_rt_bucket* bucket = &dynamic->buckets[b];
    sound = (uint64_t)bucket->first_step + bucket->num_steps <= plan->num_steps;
    uint64_t bytes = dynamic->steps_bytes;
    for (uint32_t i = 0; sound && i < info->num_inputs; ++i)
      bytes += staged_bytes(&dynamic->inputs[i], &info->inputs[i], bucket->bounds);
    for (uint32_t i = 0; sound && i < info->num_outputs; ++i)
      bytes += staged_bytes(&dynamic->outputs[i], &info->outputs[i], bucket->bounds);
    sound = sound && bytes <= info->workspace_bytes;
  }
  if (sound) return TCC_OK;
  return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: the description of its dimensions is damaged");
}

// --- sizes --------------------------------------------------------------------------------------------------------

enum { kUnknown = -1 };

// The size that one axis of an input says, where its extent has one factor with a size.
static tcc_status read_axis(const tcc_model_info* info, uint32_t input, const tcc_rt_dynamic_tensor* tensor,
                            uint32_t axis, int64_t extent, int64_t* sizes) {
  const tcc_rt_factor* sized = NULL;
  int64_t others = 1;
  for (uint32_t f = 0; f < tensor->num_factors; ++f) {
    const tcc_rt_factor* factor = &tensor->factors[f];
    if (factor->axis != axis) continue;
    if (factor->symbol < 0)
      others *= factor->offset;
    else if (sized)
      return TCC_OK;
    else
      sized = factor;
  }
  if (!sized || others == 0 || sized->scale == 0) return TCC_OK;
  const int64_t own = extent / others - sized->offset;
  const tcc_dim_info* dim = &info->dims[sized->symbol];
  const int64_t size = own / sized->scale;
  if (extent % others != 0 || own % sized->scale != 0 || size < dim->low || size > dim->high)
    return tcc_rt_fail(TCC_ERROR_TENSOR,
                       "input %u '%s': axis %u has the extent %lld, for a size of '%s' that is not in %lld to %lld; "
                       "pass a size of this range, or build the library with a wider --dim",
                       input, info->inputs[input].name, axis, (long long)extent, dim->name, (long long)dim->low,
                       (long long)dim->high);
  if (sizes[sized->symbol] != kUnknown && sizes[sized->symbol] != size)
    return tcc_rt_fail(TCC_ERROR_TENSOR,
                       "input %u '%s': axis %u says that '%s' is %lld, and another axis or input says %lld; pass "
                       "tensors of one size",
                       input, info->inputs[input].name, axis, dim->name, (long long)size,
                       (long long)sizes[sized->symbol]);
  sizes[sized->symbol] = size;
  return TCC_OK;
}

static tcc_status read_sizes(const tcc_rt_plan* plan, const tcc_dltensor* inputs, uint32_t num_inputs, int64_t* sizes) {
  const tcc_model_info* info = &plan->info;
  if (num_inputs != info->num_inputs || (num_inputs > 0 && !inputs))
    return tcc_rt_fail(TCC_ERROR_TENSOR, "%u input tensors given, the model has %u; pass all of them in info() order",
                       inputs ? num_inputs : 0, info->num_inputs);
  for (uint32_t d = 0; d < info->num_dims; ++d) sizes[d] = kUnknown;
  for (uint32_t i = 0; i < num_inputs; ++i) {
    if (inputs[i].ndim != info->inputs[i].ndim || (inputs[i].ndim > 0 && !inputs[i].shape))
      return tcc_rt_fail(TCC_ERROR_TENSOR, "input %u '%s': %d dimensions given, the model needs %d", i,
                         info->inputs[i].name, inputs[i].shape ? inputs[i].ndim : 0, info->inputs[i].ndim);
    for (int32_t axis = 0; axis < inputs[i].ndim; ++axis) {
      const tcc_status status =
          read_axis(info, i, &plan->dynamic->inputs[i], (uint32_t)axis, inputs[i].shape[axis], sizes);
      if (status != TCC_OK) return status;
    }
  }
  for (uint32_t d = 0; d < info->num_dims; ++d)
    if (sizes[d] == kUnknown)
      return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: no input says the size of '%s'", info->dims[d].name);
  return TCC_OK;
}

// Until the steps have run, counts are the greatest that there may be.
static void assume_counts(const tcc_rt_plan* plan, const tcc_rt_bucket* bucket, int64_t* sizes) {
  const uint32_t dims = plan->info.num_dims;
  for (uint32_t c = 0; c < plan->dynamic->num_counts; ++c) sizes[dims + c] = bucket->bounds[dims + c];
}

static tcc_status check_counts(const tcc_rt_plan* plan, const tcc_rt_bucket* bucket, const int64_t* sizes) {
  const uint32_t dims = plan->info.num_dims;
  for (uint32_t c = 0; c < plan->dynamic->num_counts; ++c)
    if (sizes[dims + c] < 0 || sizes[dims + c] > bucket->bounds[dims + c])
      return tcc_rt_fail(TCC_ERROR_INTERNAL, "run: the count %u is %lld, expected 0 to %lld", c,
                         (long long)sizes[dims + c], (long long)bucket->bounds[dims + c]);
  return TCC_OK;
}

static const tcc_rt_bucket* find_bucket(const tcc_rt_plan* plan, const int64_t* sizes) {
  for (uint32_t b = 0; b < plan->dynamic->num_buckets; ++b) {
    const tcc_rt_bucket* bucket = &plan->dynamic->buckets[b];
    bool fits = true;
    for (uint32_t d = 0; d < plan->info.num_dims; ++d) fits = fits && sizes[d] <= bucket->bounds[d];
    if (fits) return bucket;
  }
  return NULL;
}

tcc_status tcc_rt_output_shape(const tcc_rt_plan* plan, const tcc_dltensor* inputs, uint32_t num_inputs,
                               uint32_t output, int64_t* shape) {
  if (!plan || output >= plan->info.num_outputs || !shape)
    return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT, "output_shape: output %u of %u, or no room for its shape", output,
                       plan ? plan->info.num_outputs : 0);
  const tcc_tensor_info* info = &plan->info.outputs[output];
  if (!plan->dynamic) {
    memcpy(shape, info->dims, (size_t)info->ndim * sizeof *shape);
    return TCC_OK;
  }
  int64_t* sizes = malloc(((size_t)plan->info.num_dims + plan->dynamic->num_counts) * sizeof *sizes);
  if (!sizes) return tcc_rt_fail(TCC_ERROR_RESOURCES, "output_shape: no memory");
  const tcc_status status = read_sizes(plan, inputs, num_inputs, sizes);
  const tcc_rt_bucket* bucket = status == TCC_OK ? find_bucket(plan, sizes) : NULL;
  if (bucket) assume_counts(plan, bucket, sizes);
  if (status == TCC_OK) shape_of(&plan->dynamic->outputs[output], info->ndim, sizes, shape);
  free(sizes);
  return status;
}

// --- copies -------------------------------------------------------------------------------------------------------

typedef struct copy_loop {
  int64_t extent, staged, own;  // steps in bytes
} copy_loop;

typedef struct copy_plan {
  copy_loop loops[TCC_RT_MAX_FACTORS];
  uint32_t count;
  int64_t run;  // bytes side by side in both
} copy_plan;

static void row_major(const int64_t* shape, int32_t ndim, int64_t* strides) {
  int64_t step = 1;
  for (int32_t d = ndim - 1; d >= 0; --d) {
    strides[d] = step;
    step *= shape[d];
  }
}

// `strides`: elements between neighbors along the caller's axes. The first `kept` factors keep loops of their own.
static void plan_copy(const tcc_rt_dynamic_tensor* tensor, int64_t element, const int64_t* sizes, const int64_t* bounds,
                      const int64_t* strides, uint32_t kept, copy_plan* plan) {
  int64_t staged = element, inner = 1;
  uint32_t axis = UINT32_MAX;
  plan->count = tensor->num_factors;
  plan->run = element;
  for (uint32_t f = tensor->num_factors; f-- > 0;) {
    const tcc_rt_factor* factor = &tensor->factors[f];
    if (factor->axis != axis) inner = 1;
    axis = factor->axis;
    plan->loops[f].extent = extent_of(factor, sizes);
    plan->loops[f].staged = staged;
    plan->loops[f].own = strides[axis] * inner * element;
    inner *= plan->loops[f].extent;
    staged *= extent_of(factor, bounds);
  }
  while (plan->count > kept) {
    const copy_loop* last = &plan->loops[plan->count - 1];
    if (last->extent != 1 && (last->staged != plan->run || last->own != plan->run)) break;
    plan->run *= last->extent;
    --plan->count;
  }
}

static void copy(const copy_plan* plan, uint32_t loop, char* staged, char* own, bool to_staged) {
  if (loop == plan->count) {
    memcpy(to_staged ? staged : own, to_staged ? own : staged, (size_t)plan->run);
    return;
  }
  const copy_loop* l = &plan->loops[loop];
  for (int64_t i = 0; i < l->extent; ++i) copy(plan, loop + 1, staged + i * l->staged, own + i * l->own, to_staged);
}

// --- run ----------------------------------------------------------------------------------------------------------

enum { kMaxRank = 64 };

typedef struct run_state {
  const tcc_rt_plan* plan;
  const tcc_rt_bucket* bucket;
  const int64_t* sizes;
  char* free;  // room for copies
} run_state;

static bool is_dense(const tcc_dltensor* tensor, const int64_t* shape) {
  int64_t step = 1;
  for (int32_t d = tensor->ndim - 1; tensor->strides && d >= 0; --d) {
    if (shape[d] != 1 && tensor->strides[d] != step) return false;
    step *= shape[d];
  }
  return true;
}

static tcc_status check(const run_state* run, const char* role, uint32_t index, const tcc_tensor_info* want,
                        const tcc_rt_dynamic_tensor* tensor, const tcc_dltensor* have, bool output) {
  int64_t shape[kMaxRank];
  tcc_status status = tcc_rt_check_on_host(role, index, want, have);
  if (status != TCC_OK) return status;
  if (want->ndim > kMaxRank) return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: %s %u has too many axes", role, index);
  shape_of(tensor, want->ndim, run->sizes, shape);
  tcc_tensor_info wanted = *want;
  wanted.dims = shape;
  wanted.bytes = elements_of(tensor, run->sizes) * (want->dtype.bits / 8);
  tcc_dltensor dense = *have;
  dense.strides = NULL;
  bool room = output && have->ndim == want->ndim && have->shape;
  for (int32_t d = 0; room && d < want->ndim; ++d) room = have->shape[d] >= shape[d];
  if (room) dense.shape = shape;
  status = tcc_rt_check_tensor(role, index, &wanted, &dense, want->dtype.bits / 8);
  for (int32_t d = 0; status == TCC_OK && have->strides && d < want->ndim; ++d)
    if (have->strides[d] < 0)
      return tcc_rt_fail(TCC_ERROR_TENSOR, "%s %u '%s': the stride of axis %d is negative; pass memory in order", role,
                         index, want->name, d);
  return status;
}

// Bytes from the first element to behind the last one.
static uint64_t span_of(const tcc_dltensor* tensor, const int64_t* shape) {
  int64_t strides[kMaxRank];
  row_major(shape, tensor->ndim, strides);
  int64_t last = 0;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    if (shape[d] == 0) return 0;
    last += (shape[d] - 1) * (tensor->strides ? tensor->strides[d] : strides[d]);
  }
  return (uint64_t)(last + 1) * (tensor->dtype.bits / 8);
}

static char* data_of(const tcc_dltensor* tensor) {
  return (char*)tensor->data + tensor->byte_offset;
}

// Does the output have the memory of the input that it appends to?
static bool appends_in_place(const run_state* run, uint32_t output, const tcc_rt_call* call) {
  const int32_t input = run->plan->dynamic->outputs[output].appends_to;
  return input >= 0 && data_of(&call->outputs[output]) == data_of(&call->inputs[input]);
}

static tcc_status check_memory(const run_state* run, const tcc_rt_call* call, const void* workspace) {
  const tcc_model_info* info = &run->plan->info;
  int64_t shape[kMaxRank], other_shape[kMaxRank];
  for (uint32_t o = 0; o < info->num_outputs; ++o) {
    const tcc_dltensor* out = &call->outputs[o];
    const tcc_rt_dynamic_tensor* tensor = &run->plan->dynamic->outputs[o];
    shape_of(tensor, out->ndim, run->sizes, shape);
    const char *begin = data_of(out), *end = begin + span_of(out, shape);
    const char* other = NULL;
    const bool in_place = appends_in_place(run, o, call);
    if (in_place) {
      const tcc_dltensor* in = &call->inputs[tensor->appends_to];
      bool same = out->strides && in->strides;
      for (int32_t d = 0; same && d < out->ndim; ++d) same = out->strides[d] == in->strides[d];
      // A row must not begin inside the one before it.
      const uint32_t a = tensor->append_axis;
      same = same && (a == 0 || out->strides[a - 1] >= shape[a] * out->strides[a] || shape[a - 1] == 1);
      if (!same)
        return tcc_rt_fail(TCC_ERROR_TENSOR,
                           "output %u '%s' has the memory of input '%s'; give both the same strides, with room for the "
                           "output's %lld rows",
                           o, info->outputs[o].name, info->inputs[tensor->appends_to].name, (long long)shape[a]);
    }
    for (uint32_t i = 0; i < info->num_inputs && !other; ++i) {
      if (in_place && (int32_t)i == tensor->appends_to) continue;
      shape_of(&run->plan->dynamic->inputs[i], call->inputs[i].ndim, run->sizes, other_shape);
      const char* at = data_of(&call->inputs[i]);
      if (at < end && begin < at + span_of(&call->inputs[i], other_shape)) other = info->inputs[i].name;
    }
    for (uint32_t i = 0; i < o && !other; ++i) {
      shape_of(&run->plan->dynamic->outputs[i], call->outputs[i].ndim, run->sizes, other_shape);
      const char* at = data_of(&call->outputs[i]);
      if (at < end && begin < at + span_of(&call->outputs[i], other_shape)) other = info->outputs[i].name;
    }
    const char* room = workspace;
    if (!other && room && room < end && begin < room + info->workspace_bytes) other = "the workspace";
    if (other)
      return tcc_rt_fail(TCC_ERROR_TENSOR,
                         "output %u '%s' shares memory with '%s'; give every output memory of its own", o,
                         info->outputs[o].name, other);
  }
  return TCC_OK;
}

// Are the elements that count side by side in the bucket's tensor, whatever the counts are?
static bool counts_outermost(const tcc_rt_dynamic_tensor* tensor, uint32_t num_dims, const int64_t* sizes) {
  int64_t outside = 1;
  for (uint32_t f = 0; f < tensor->num_factors; ++f) {
    if (tensor->factors[f].symbol >= (int32_t)num_dims && outside != 1) return false;
    outside *= extent_of(&tensor->factors[f], sizes);
  }
  return true;
}

// Where the steps find or leave the tensor: the caller's memory, or room for a copy.
static char* place(run_state* run, const tcc_rt_dynamic_tensor* tensor, const tcc_tensor_info* info,
                   const tcc_dltensor* own, bool in_place) {
  bool whole = !in_place && counts_outermost(tensor, run->plan->info.num_dims, run->sizes);
  for (uint32_t f = 0; f < tensor->num_factors; ++f)
    whole = whole && extent_of(&tensor->factors[f], run->sizes) == extent_of(&tensor->factors[f], run->bucket->bounds);
  int64_t shape[kMaxRank];
  shape_of(tensor, own->ndim, run->sizes, shape);
  if (whole && is_dense(own, shape)) return data_of(own);
  char* at = run->free;
  run->free += staged_bytes(tensor, info, run->bucket->bounds);
  return at;
}

static void move(const run_state* run, const tcc_rt_dynamic_tensor* tensor, const tcc_dltensor* own, char* staged,
                 bool in, bool appended_only) {
  int64_t shape[kMaxRank], strides[kMaxRank];
  copy_plan plan;
  shape_of(tensor, own->ndim, run->sizes, shape);
  row_major(shape, own->ndim, strides);
  const int64_t element = own->dtype.bits / 8;
  if (in) memset(staged, 0, (size_t)(elements_of(tensor, run->bucket->bounds) * (uint64_t)element));
  if (own->strides) memcpy(strides, own->strides, (size_t)own->ndim * sizeof *strides);
  char* memory = data_of(own);
  if (elements_of(tensor, run->sizes) == 0) return;
  uint32_t kept = 0;
  for (uint32_t f = 0; appended_only && f < tensor->num_factors; ++f)
    if (tensor->factors[f].axis == tensor->append_axis) kept = f + 1;
  plan_copy(tensor, element, run->sizes, run->bucket->bounds, strides, kept, &plan);
  if (kept > 0) {
    // Behind the rows of the input. The axis has one factor: the sum of the rows.
    int64_t rows[kMaxRank];
    shape_of(&run->plan->dynamic->inputs[tensor->appends_to], own->ndim, run->sizes, rows);
    copy_loop* axis = &plan.loops[kept - 1];
    staged += rows[tensor->append_axis] * axis->staged;
    memory += rows[tensor->append_axis] * axis->own;
    axis->extent -= rows[tensor->append_axis];
  }
  copy(&plan, 0, staged, memory, in);
}

static tcc_status take_all(run_state* run, const tcc_rt_call* call) {
  const tcc_model_info* info = &run->plan->info;
  const tcc_rt_dynamic* dynamic = run->plan->dynamic;
  tcc_status status = TCC_OK;
  for (uint32_t i = 0; i < info->num_inputs && status == TCC_OK; ++i)
    status = check(run, "input", i, &info->inputs[i], &dynamic->inputs[i], &call->inputs[i], false);
  for (uint32_t o = 0; o < info->num_outputs && status == TCC_OK; ++o)
    status = check(run, "output", o, &info->outputs[o], &dynamic->outputs[o], &call->outputs[o], true);
  return status;
}

static void give_shapes(const run_state* run, const tcc_rt_call* call) {
  int64_t shape[kMaxRank];
  for (uint32_t o = 0; o < run->plan->info.num_outputs; ++o) {
    const tcc_dltensor* out = &call->outputs[o];
    shape_of(&run->plan->dynamic->outputs[o], out->ndim, run->sizes, shape);
    for (int32_t d = 0; d < out->ndim; ++d)
      if (out->shape[d] != shape[d]) out->shape[d] = shape[d];  // the memory may be read-only where it fits
  }
}

tcc_status tcc_rt_run_dynamic(tcc_context* context, uint32_t num_inputs, uint32_t num_outputs,
                              const tcc_rt_call* call) {
  const tcc_rt_plan* plan = context->plan;
  const tcc_model_info* info = &plan->info;
  const tcc_rt_dynamic* dynamic = plan->dynamic;
  tcc_status status = read_sizes(plan, call->inputs, num_inputs, context->sizes);
  if (status != TCC_OK) return status;
  if (num_outputs != info->num_outputs || (num_outputs > 0 && !call->outputs))
    return tcc_rt_fail(TCC_ERROR_TENSOR, "%u output tensors given, the model has %u; pass all of them in info() order",
                       call->outputs ? num_outputs : 0, info->num_outputs);
  run_state run = {plan, find_bucket(plan, context->sizes), context->sizes, NULL};
  if (!run.bucket) return tcc_rt_fail(TCC_ERROR_INTERNAL, "plan: nothing serves these sizes");
  assume_counts(plan, run.bucket, context->sizes);
  void* workspace = NULL;
  status = take_all(&run, call);
  if (status == TCC_OK) status = tcc_rt_choose_workspace(context, context->workspace, call, &workspace);
  if (status == TCC_OK) status = check_memory(&run, call, workspace);
  if (status != TCC_OK) return status;
  run.free = (char*)workspace + dynamic->steps_bytes;
  for (uint32_t i = 0; i < info->num_inputs; ++i) {
    char* at = place(&run, &dynamic->inputs[i], &info->inputs[i], &call->inputs[i], false);
    context->inputs[i] = at;
    if (at != data_of(&call->inputs[i])) move(&run, &dynamic->inputs[i], &call->inputs[i], at, true, false);
  }
  for (uint32_t d = 0; d < info->num_dims; ++d) context->inputs[info->num_inputs + d] = &context->sizes[d];
  for (uint32_t o = 0; o < num_outputs; ++o)
    context->outputs[o] =
        place(&run, &dynamic->outputs[o], &info->outputs[o], &call->outputs[o], appends_in_place(&run, o, call));
  for (uint32_t c = 0; c < dynamic->num_counts; ++c)
    context->outputs[info->num_outputs + c] = &context->sizes[info->num_dims + c];
  if (call->step_ns) memset(call->step_ns, 0, plan->num_steps * sizeof *call->step_ns);
  status = tcc_rt_run_steps(context, workspace, run.bucket->first_step, run.bucket->num_steps, call->step_ns);
  if (status == TCC_OK) status = check_counts(plan, run.bucket, context->sizes);
  if (status != TCC_OK) return status;
  for (uint32_t o = 0; o < num_outputs; ++o) {
    if (context->outputs[o] == (void*)data_of(&call->outputs[o])) continue;
    move(&run, &dynamic->outputs[o], &call->outputs[o], context->outputs[o], false, appends_in_place(&run, o, call));
  }
  give_shapes(&run, call);
  return TCC_OK;
}
