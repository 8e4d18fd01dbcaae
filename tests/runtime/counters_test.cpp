// Counters by CUPTI's range profiler, by a library that only pretends; and the structures against NVIDIA's own.
#include "tcc/runtime/cuda_counters.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "runtime/cupti_counters.h"

#if __has_include(<cupti_range_profiler.h>) && __has_include(<cupti_profiler_host.h>)
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#define TCC_SAME_SIZE(mine, last, theirs) \
  static_assert(sizeof(mine) == sizeof(theirs) && TCC_CUPTI_SIZE(mine, last) == theirs##_STRUCT_SIZE)
#define TCC_SAME_PLACE(mine, field, theirs, name) static_assert(offsetof(mine, field) == offsetof(theirs, name))

TCC_SAME_SIZE(tcc_cupti_initialize, private_data, CUpti_Profiler_Initialize_Params);
TCC_SAME_SIZE(tcc_cupti_chip, chip, CUpti_Device_GetChipName_Params);
TCC_SAME_SIZE(tcc_cupti_availability, image, CUpti_Profiler_GetCounterAvailability_Params);
TCC_SAME_SIZE(tcc_cupti_host, host, CUpti_Profiler_Host_Initialize_Params);
TCC_SAME_SIZE(tcc_cupti_host_end, host, CUpti_Profiler_Host_Deinitialize_Params);
TCC_SAME_SIZE(tcc_cupti_add_metrics, num_metrics, CUpti_Profiler_Host_ConfigAddMetrics_Params);
TCC_SAME_SIZE(tcc_cupti_config_size, bytes, CUpti_Profiler_Host_GetConfigImageSize_Params);
TCC_SAME_SIZE(tcc_cupti_config, image, CUpti_Profiler_Host_GetConfigImage_Params);
TCC_SAME_SIZE(tcc_cupti_evaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params);
TCC_SAME_SIZE(tcc_cupti_enable, ranges, CUpti_RangeProfiler_Enable_Params);
TCC_SAME_SIZE(tcc_cupti_ranges, ranges, CUpti_RangeProfiler_Disable_Params);
TCC_SAME_SIZE(tcc_cupti_ranges, ranges, CUpti_RangeProfiler_Start_Params);
TCC_SAME_SIZE(tcc_cupti_ranges, ranges, CUpti_RangeProfiler_PopRange_Params);
TCC_SAME_SIZE(tcc_cupti_counter_size, bytes, CUpti_RangeProfiler_GetCounterDataSize_Params);
TCC_SAME_SIZE(tcc_cupti_counter_image, counters, CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
TCC_SAME_SIZE(tcc_cupti_set_config, target_nesting, CUpti_RangeProfiler_SetConfig_Params);
TCC_SAME_SIZE(tcc_cupti_push, name, CUpti_RangeProfiler_PushRange_Params);
TCC_SAME_SIZE(tcc_cupti_stop, all_passes, CUpti_RangeProfiler_Stop_Params);
TCC_SAME_SIZE(tcc_cupti_decode, dropped, CUpti_RangeProfiler_DecodeData_Params);
TCC_SAME_PLACE(tcc_cupti_host, chip, CUpti_Profiler_Host_Initialize_Params, pChipName);
TCC_SAME_PLACE(tcc_cupti_evaluate, metrics, CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames);
TCC_SAME_PLACE(tcc_cupti_evaluate, range, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex);
TCC_SAME_PLACE(tcc_cupti_counter_size, max_nodes, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumRangeTreeNodes);
TCC_SAME_PLACE(tcc_cupti_counter_image, counters, CUpti_RangeProfiler_CounterDataImage_Initialize_Params, pCounterData);
TCC_SAME_PLACE(tcc_cupti_set_config, config, CUpti_RangeProfiler_SetConfig_Params, pConfig);
TCC_SAME_PLACE(tcc_cupti_set_config, counters, CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage);
TCC_SAME_PLACE(tcc_cupti_set_config, replay, CUpti_RangeProfiler_SetConfig_Params, replayMode);
TCC_SAME_PLACE(tcc_cupti_set_config, nesting_levels, CUpti_RangeProfiler_SetConfig_Params, numNestingLevels);
TCC_SAME_PLACE(tcc_cupti_set_config, pass, CUpti_RangeProfiler_SetConfig_Params, passIndex);
TCC_SAME_PLACE(tcc_cupti_stop, all_passes, CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted);
static_assert(TCC_CUPTI_RANGE_PROFILER == CUPTI_PROFILER_TYPE_RANGE_PROFILER);
static_assert(TCC_CUPTI_USER_RANGE == CUPTI_UserRange && TCC_CUPTI_USER_REPLAY == CUPTI_UserReplay);
static_assert(TCC_CUPTI_NO_PRIVILEGES == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES &&
              TCC_CUPTI_NO_PRIVILEGES_INSIDE == CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
#endif

using namespace tcc;

namespace {

struct Setting {
  explicit Setting(const char* text) { setenv("FAKE_CUPTI", text, 1); }
  ~Setting() { unsetenv("FAKE_CUPTI"); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
};

// Two launches.
codegen::Artifact program() {
  codegen::Artifact artifact;
  artifact.format = codegen::CodeFormat::kPtx;
  artifact.code =
      ".version 8.0\n.target sm_80\n.visible .entry tcc_a_0(.param .u64 x)\n.visible .entry tcc_a_1(.param .u64 x)\n";
  for (const char* symbol : {"tcc_a_0", "tcc_a_1"})
    artifact.launches.push_back({.symbol = symbol, .block = {32, 1, 1}});
  artifact.buffers.push_back({ir::BufferRole::kOutput, ir::Type::kF32, {8}, "", 32, 16});
  return artifact;
}

}  // namespace

TEST_CASE("cupti: what a run moves and keeps busy is counted, pass by pass", "[unit]") {
  auto device = runtime::CudaDevice::open(0, TCC_FAKE_CUDA);
  REQUIRE(device);
  auto memory = (*device)->allocate(32);
  auto kernel = (*device)->load(program());
  REQUIRE((memory && kernel));
  const uint64_t params[] = {memory->address()};
  int runs = 0;
  const auto run = [&] {
    ++runs;
    return (*kernel)->launch(params);
  };
  auto counters = runtime::CudaCounters::open(**device, 0, TCC_FAKE_CUPTI);
  if (!counters) FAIL(counters.error().message);
  for (int i = 0; i < 2; ++i) {
    runs = 0;
    REQUIRE(run());  // before: of no range
    auto counts = (*counters)->count(run);
    if (!counts) FAIL(counts.error().message);
    CHECK(runs == 3);
    CHECK(counts->dram_bytes == 2 * 1500);
    CHECK(counts->tensor_share == Approx(0.25));
    CHECK(counts->occupancy == Approx(0.5));
  }
  // What goes wrong inside leaves them usable.
  CHECK_FALSE((*counters)->count([&] { return (*kernel)->launch({}); }));
  CHECK((*counters)->count(run).has_value());
  Setting plain("plain");
  auto fewer = runtime::CudaCounters::open(**device, 0, TCC_FAKE_CUPTI);
  REQUIRE(fewer);
  auto counts = (*fewer)->count(run);
  REQUIRE(counts);
  CHECK(counts->tensor_share < 0);
  CHECK(counts->dram_bytes == 2 * 1500);
}

TEST_CASE("cupti: counters that cannot be had say why and what to do", "[unit]") {
  auto device = runtime::CudaDevice::open(0, TCC_FAKE_CUDA);
  REQUIRE(device);
  CHECK_FALSE(runtime::CudaCounters::open(**device, 0, "/nonexistent/libcupti.so"));
  CHECK_THAT(runtime::CudaCounters::open(**device, 0, TCC_FAKE_NVML).error().message,
             Catch::Contains("older than CUDA 12.6"));
  {
    Setting locked("private");
    auto counters = runtime::CudaCounters::open(**device, 0, TCC_FAKE_CUPTI);
    REQUIRE_FALSE(counters);
    CHECK_THAT(counters.error().message, Catch::Contains("may not read the device's counters"));
    CHECK_THAT(counters.error().hint, Catch::Contains("NVreg_RestrictProfilingToAdminUsers=0"));
  }
  auto counters = runtime::CudaCounters::open(**device, 0, TCC_FAKE_CUPTI);
  REQUIRE(counters);
  const auto nothing = [] { return Result<void>(); };
  {
    Setting refused("refused");
    CHECK_THAT((*counters)->count(nothing).error().message, Catch::Contains("status 39"));
  }
  {
    Setting lossy("lossy");
    CHECK_THAT((*counters)->count(nothing).error().message, Catch::Contains("dropped 1 ranges"));
  }
}
