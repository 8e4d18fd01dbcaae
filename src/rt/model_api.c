// The table of a shipped library. It alone refers to tcc_rt_the_plan, so that a program which links rt as a static
// library and hands plans over itself need not define one.
#include "tcc/rt/rt.h"

extern const tcc_rt_plan tcc_rt_the_plan __attribute__((visibility("hidden")));
// The same model for CPUs with fewer features, from the most to the fewest; NULL behind the last one.
extern const tcc_rt_plan* const tcc_rt_older_plans[] __attribute__((visibility("hidden")));

// The first plan whose features this CPU has, and else the last one, whose refusal names what is missing.
static const tcc_rt_plan* plan_of_this_cpu(void) {
  const tcc_rt_plan* plan = &tcc_rt_the_plan;
  const uint64_t here = tcc_rt_older_plans[0] ? tcc_rt_cpu_features() : 0;
  for (const tcc_rt_plan* const* older = tcc_rt_older_plans; *older && (plan->info.cpu_features & ~here); ++older)
    plan = *older;
  return plan;
}

static const tcc_model_info* model_info(void) {
  return &plan_of_this_cpu()->info;
}

static uint64_t workspace_bytes(void) {
  return tcc_rt_the_plan.info.workspace_bytes;
}

static tcc_status create(const tcc_create_options* options, tcc_context** context) {
  return tcc_rt_context_create(plan_of_this_cpu(), options, context);
}

static const char* metadata_json(uint64_t* length) {
  if (length) *length = tcc_rt_the_plan.metadata_bytes;
  return tcc_rt_the_plan.metadata_json;
}

static tcc_status run_timed(tcc_context* context, const tcc_dltensor* inputs, uint32_t num_inputs,
                            const tcc_dltensor* outputs, uint32_t num_outputs, void* workspace,
                            uint64_t workspace_bytes, uint64_t* step_ns, uint32_t num_steps) {
  if (num_steps != tcc_rt_the_plan.num_steps) {
    return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT, "timed run: there is room for %u times, the model has %u steps",
                       num_steps, tcc_rt_the_plan.num_steps);
  }
  return tcc_rt_run_plan_timed(context, inputs, num_inputs, outputs, num_outputs, workspace, workspace_bytes, step_ns);
}

static tcc_status output_shape(const tcc_dltensor* inputs, uint32_t num_inputs, uint32_t output, int64_t* shape) {
  return tcc_rt_output_shape(&tcc_rt_the_plan, inputs, num_inputs, output, shape);
}

const tcc_model_api* tcc_rt_query(uint32_t max_abi) {
  static const tcc_model_api api = {
      .abi_version = TCC_MODEL_ABI_VERSION,
      .struct_size = sizeof(tcc_model_api),
      .info = model_info,
      .workspace_bytes = workspace_bytes,
      .create = create,
      .run = tcc_rt_run_plan,
      .destroy = tcc_rt_context_destroy,
      .status_string = tcc_rt_status_string,
      .last_error = tcc_rt_last_error,
      .metadata_json = metadata_json,
      .self_test = tcc_rt_self_test,
      .context_info = tcc_rt_context_info,
      .run_timed = run_timed,
      .output_shape = output_shape,
  };
  return max_abi >= TCC_MODEL_ABI_VERSION ? &api : NULL;
}
