// The table of a shipped library. It alone refers to tcc_rt_the_plan, so that a program which links rt as a static
// library and hands plans over itself need not define one.
#include "tcc/rt/rt.h"

extern const tcc_rt_plan tcc_rt_the_plan __attribute__((visibility("hidden")));

static const tcc_model_info* model_info(void) {
  return &tcc_rt_the_plan.info;
}

static uint64_t workspace_bytes(void) {
  return tcc_rt_the_plan.info.workspace_bytes;
}

static tcc_status create(const tcc_create_options* options, tcc_context** context) {
  return tcc_rt_context_create(&tcc_rt_the_plan, options, context);
}

static const char* metadata_json(uint64_t* length) {
  if (length) *length = tcc_rt_the_plan.metadata_bytes;
  return tcc_rt_the_plan.metadata_json;
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
  };
  return max_abi >= TCC_MODEL_ABI_VERSION ? &api : NULL;
}
