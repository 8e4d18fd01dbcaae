/* The parameter structures of CUPTI's range profiler that tcc fills, by NVIDIA's documentation of cupti_target.h,
 * cupti_profiler_target.h, cupti_profiler_host.h and cupti_range_profiler.h. Each says its own size up to its last
 * field, by which CUPTI knows the version. C, because a library for tests that pretends to be CUPTI shares it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
  TCC_CUPTI_RANGE_PROFILER = 0,        /* CUPTI_PROFILER_TYPE_RANGE_PROFILER */
  TCC_CUPTI_USER_RANGE = 2,            /* CUPTI_UserRange */
  TCC_CUPTI_USER_REPLAY = 3,           /* CUPTI_UserReplay */
  TCC_CUPTI_NO_PRIVILEGES = 35,        /* CUPTI_ERROR_INSUFFICIENT_PRIVILEGES */
  TCC_CUPTI_NO_PRIVILEGES_INSIDE = 40, /* CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES */
};

#define TCC_CUPTI_HEAD \
  size_t struct_size;  \
  void* private_data

typedef struct {
  TCC_CUPTI_HEAD;
} tcc_cupti_initialize; /* cuptiProfilerInitialize, cuptiProfilerDeInitialize */
typedef struct {
  TCC_CUPTI_HEAD;
  size_t device;
  const char* chip; /* out */
} tcc_cupti_chip;   /* cuptiDeviceGetChipName */
typedef struct {
  TCC_CUPTI_HEAD;
  void* context;
  size_t image_bytes;     /* in and out */
  uint8_t* image;         /* may be null */
} tcc_cupti_availability; /* cuptiProfilerGetCounterAvailability */

typedef struct {
  TCC_CUPTI_HEAD;
  int profiler;
  const char* chip;
  const uint8_t* availability;
  void* host;     /* out */
} tcc_cupti_host; /* cuptiProfilerHostInitialize */
typedef struct {
  TCC_CUPTI_HEAD;
  void* host;
} tcc_cupti_host_end; /* cuptiProfilerHostDeinitialize */
typedef struct {
  TCC_CUPTI_HEAD;
  void* host;
  const char** metrics;
  size_t num_metrics;
} tcc_cupti_add_metrics; /* cuptiProfilerHostConfigAddMetrics */
typedef struct {
  TCC_CUPTI_HEAD;
  void* host;
  size_t bytes;          /* out */
} tcc_cupti_config_size; /* cuptiProfilerHostGetConfigImageSize */
typedef struct {
  TCC_CUPTI_HEAD;
  void* host;
  size_t bytes;
  uint8_t* image;
} tcc_cupti_config; /* cuptiProfilerHostGetConfigImage */
typedef struct {
  TCC_CUPTI_HEAD;
  void* host;
  const uint8_t* counters;
  size_t counter_bytes;
  size_t range;
  const char** metrics;
  size_t num_metrics;
  double* values;     /* out */
} tcc_cupti_evaluate; /* cuptiProfilerHostEvaluateToGpuValues */

typedef struct {
  TCC_CUPTI_HEAD;
  void* context;
  void* ranges;     /* out */
} tcc_cupti_enable; /* cuptiRangeProfilerEnable */
typedef struct {
  TCC_CUPTI_HEAD;
  void* ranges;
} tcc_cupti_ranges; /* cuptiRangeProfilerDisable, Start, PopRange */
typedef struct {
  TCC_CUPTI_HEAD;
  void* ranges;
  const char** metrics;
  size_t num_metrics;
  size_t max_ranges;
  uint32_t max_nodes;
  size_t bytes;           /* out */
} tcc_cupti_counter_size; /* cuptiRangeProfilerGetCounterDataSize */
typedef struct {
  TCC_CUPTI_HEAD;
  void* ranges;
  size_t bytes;
  uint8_t* counters;
} tcc_cupti_counter_image; /* cuptiRangeProfilerCounterDataImageInitialize */
typedef struct {
  TCC_CUPTI_HEAD;
  void* ranges;
  size_t config_bytes;
  const uint8_t* config;
  size_t counter_bytes;
  uint8_t* counters;
  int range;  /* TCC_CUPTI_USER_RANGE */
  int replay; /* TCC_CUPTI_USER_REPLAY */
  size_t max_ranges;
  uint16_t nesting_levels, least_nesting;
  size_t pass;
  uint16_t target_nesting;
} tcc_cupti_set_config; /* cuptiRangeProfilerSetConfig */
typedef struct {
  TCC_CUPTI_HEAD;
  void* ranges;
  const char* name;
} tcc_cupti_push; /* cuptiRangeProfilerPushRange */
typedef struct {
  TCC_CUPTI_HEAD;
  void* ranges;
  size_t pass, target_nesting; /* out */
  uint8_t all_passes;          /* out: nothing is left to run */
} tcc_cupti_stop;              /* cuptiRangeProfilerStop */
typedef struct {
  TCC_CUPTI_HEAD;
  void* ranges;
  size_t dropped;   /* out: ranges */
} tcc_cupti_decode; /* cuptiRangeProfilerDecodeData */

/* What struct_size must be, given the last field. */
#define TCC_CUPTI_SIZE(type, last) (offsetof(type, last) + sizeof(((type*)0)->last))
