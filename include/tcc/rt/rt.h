// What compiler-emitted code and data meet at run time: launches, plans, the thread pool and the plan executor.
// The same C code runs candidates while tuning and ships inside every library. C11; libc, libm and pthread only.
//
// A shipped library contains rt.o (see blob.h) and an emitted object that defines, with hidden visibility,
//   const tcc_rt_plan tcc_rt_the_plan;
// and exports one function that calls tcc_rt_query():
//   const tcc_model_api *tcc_ID_query(uint32_t max_abi) { return tcc_rt_query(max_abi); }
// The structs below are fixed layouts without padding (checked in src/rt/plan.c), so they may be emitted as plain data.
#pragma once

#include "tcc/rt/model_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TCC_RT_VERSION 4u               // layout version of tcc_rt_plan
#define TCC_RT_WORKSPACE_ALIGNMENT 64u  // kernels may assume this of the workspace's and the weights' base
#define TCC_RT_MAX_THREADS 1024
#define TCC_RT_DEFAULT_SPIN_US 50

// --- kernels ------------------------------------------------------------------------------------------------------

// Runs the iterations [begin, end). `buffers` is in the kernel's parameter order. Kernels may assume element-size
// alignment of inputs and outputs, and TCC_RT_WORKSPACE_ALIGNMENT at offset 0 of workspace and weights.
typedef void (*tcc_rt_launch_fn)(void* const* buffers, int64_t begin, int64_t end);

// Parallel over [0, extent): fn is called with disjoint, contiguous, non-empty ranges that cover it, in no order.
// extent 1: called once with (0, 1) on the caller's thread. extent 0: not called.
typedef struct tcc_rt_launch {
  tcc_rt_launch_fn fn;
  int64_t extent;
} tcc_rt_launch;

// One tuned task; its launches run one after the other.
typedef struct tcc_rt_kernel {
  const tcc_rt_launch* launches;
  uint32_t num_launches;
  uint32_t num_buffers;
} tcc_rt_kernel;

// --- plans --------------------------------------------------------------------------------------------------------

typedef enum tcc_rt_arg_kind {
  TCC_RT_ARG_INPUT = 0,
  TCC_RT_ARG_OUTPUT = 1,
  TCC_RT_ARG_WEIGHT = 2,
  TCC_RT_ARG_WORKSPACE = 3
} tcc_rt_arg_kind;

// Where a kernel's buffer lives: base of (kind, index) plus offset bytes. index is 0 for weight and workspace.
typedef struct tcc_rt_arg {
  uint32_t kind;  // tcc_rt_arg_kind
  uint32_t index;
  uint64_t offset;
} tcc_rt_arg;

typedef struct tcc_rt_step {
  const tcc_rt_kernel* kernel;
  const tcc_rt_arg* args;  // kernel->num_buffers of them
} tcc_rt_step;

// --- code for GPUs ------------------------------------------------------------------------------------------------

enum { TCC_RT_GPU_COOPERATIVE = 1 };  // tcc_rt_gpu_launch.flags

typedef struct tcc_rt_gpu_launch {
  const char* symbol;  // takes the addresses of the kernel's buffers, in order
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;  // dynamic
  uint32_t flags;
  const struct tcc_cuda_tensor_map* tensor_maps;  // by value behind the addresses
  uint32_t num_tensor_maps;
  uint32_t reserved;
} tcc_rt_gpu_launch;

// One tuned task for one architecture; its launches run one after the other.
typedef struct tcc_rt_gpu_kernel {
  const void* image;  // cubin, or zero-terminated PTX
  uint64_t image_bytes;
  const tcc_rt_gpu_launch* launches;
  uint32_t num_launches;
  uint32_t num_buffers;
} tcc_rt_gpu_kernel;

typedef struct tcc_rt_gpu_step {
  uint32_t kernel;  // index
  uint32_t reserved;
  const tcc_rt_arg* args;  // as many as the kernel has buffers
} tcc_rt_gpu_step;

enum {
  TCC_RT_GPU_PTX = 1,      // compiled by the driver: for its architecture and newer ones
  TCC_RT_GPU_SPECIFIC = 2  // sm_90a: for this very compute capability
};

// The whole model for one architecture.
typedef struct tcc_rt_gpu_code {
  uint32_t architecture;  // 80 for sm_80
  uint32_t flags;
  uint32_t num_kernels;
  uint32_t num_steps;  // the plan's
  const tcc_rt_gpu_kernel* kernels;
  const tcc_rt_gpu_step* steps;
  const char* name;  // "sm_80"
} tcc_rt_gpu_code;

// How a plan runs where it does not run on threads of the CPU. A plan refers to the one it needs, so that libraries
// without it carry none of its code.
typedef struct tcc_rt_device_ops tcc_rt_device_ops;
extern const tcc_rt_device_ops tcc_rt_cuda_ops;

typedef struct tcc_rt_gpu {
  const tcc_rt_device_ops* ops;  // &tcc_rt_cuda_ops
  const tcc_rt_gpu_code* codes;
  uint32_t num_codes;
  uint32_t toolkit;  // that made the code, 13000 for 13.0
} tcc_rt_gpu;

// --- sizes known at run time --------------------------------------------------------------------------------------

#define TCC_RT_MAX_FACTORS 64  // of one tensor

// A factor of the extent of `axis`: scale * size + offset, `symbol` being the number of the size; symbol -1: `offset`.
// From info.num_dims on, sizes are counts: extents of outputs that the steps compute.
// Factors are in the order of the axes and, in an axis, from the outermost on.
typedef struct tcc_rt_factor {
  int32_t symbol;
  uint32_t axis;
  int64_t scale, offset;
} tcc_rt_factor;

typedef struct tcc_rt_dynamic_tensor {
  const tcc_rt_factor* factors;
  uint32_t num_factors;
  int32_t appends_to;  // outputs: the input whose elements come first along append_axis; -1: none
  uint32_t append_axis;
  uint32_t reserved;
} tcc_rt_dynamic_tensor;

// The steps that compute all sizes up to `bounds`. Their inputs and outputs have the extents of the bounds. Where a
// size is smaller, or a tensor is not row-major, they work on copies of the caller's tensors behind the plan's own
// workspace.
typedef struct tcc_rt_bucket {
  const int64_t* bounds;  // one a dimension, then the greatest value of each count
  uint32_t first_step, num_steps;
} tcc_rt_bucket;

// The dimensions are info.dims. Steps read the actual size of dimension d, an int64_t, as input number
// info.num_inputs + d, and write count c, an int64_t, as output number info.num_outputs + c. Buckets are in the order
// in which they are tried.
typedef struct tcc_rt_dynamic {
  const tcc_rt_dynamic_tensor *inputs, *outputs;
  const tcc_rt_bucket* buckets;
  uint32_t num_buckets;
  uint32_t num_counts;
  uint64_t steps_bytes;  // of the workspace, that steps use
} tcc_rt_dynamic;

// --- the model ----------------------------------------------------------------------------------------------------

// A whole model. Dims are static (non-negative). info.struct_size is sizeof(tcc_model_info).
typedef struct tcc_rt_plan {
  uint32_t rt_version;  // TCC_RT_VERSION
  uint32_t num_steps;
  const tcc_rt_step* steps;   // NULL where gpu is not
  const void* weights;        // info.weights_bytes of them, aligned to TCC_RT_WORKSPACE_ALIGNMENT; NULL when 0
  const char* metadata_json;  // zero-terminated; metadata_bytes without the zero
  uint64_t metadata_bytes;
  uint64_t self_test_seed;
  double self_test_tolerance;  // allowed |a - b| / max(|a|, |b|) between two runs; 0: bit-identical
  tcc_model_info info;
  const tcc_rt_gpu* gpu;          // NULL: runs on the CPU
  const tcc_rt_dynamic* dynamic;  // NULL: every size is fixed
} tcc_rt_plan;

// --- errors -------------------------------------------------------------------------------------------------------

// Stores the formatted text as this thread's last error and returns `status`.
tcc_status tcc_rt_fail(tcc_status status, const char* format, ...) __attribute__((format(printf, 2, 3)));
const char* tcc_rt_last_error(void);
const char* tcc_rt_status_string(tcc_status status);

// --- CPU ----------------------------------------------------------------------------------------------------------

// Instruction sets this CPU has and the operating system lets programs use, as a mask of tcc_rt_cpu_feature() bits.
uint64_t tcc_rt_cpu_features(void);
// The bit of a feature by LLVM's spelling ("avx2", "avx512bw", "amx-bf16"); 0 when rt has no check for the name.
uint64_t tcc_rt_cpu_feature(const char* name);
// Checks `needed` against this CPU and asks the kernel for AMX state if it is among them.
tcc_status tcc_rt_require_cpu(uint64_t needed);

// --- pool ---------------------------------------------------------------------------------------------------------
// Fork-join over `threads` threads, the caller's included; one thread means that no thread is made. Each thread begins
// with a contiguous range of its own, the same for equal extents. Then it takes pieces of the ranges of threads that
// are behind: a slow or disturbed core gets less to do. Workers wait awake for spin_us, then sleep. Kernels run with
// round-to-nearest on every thread, and with denormals flushed unless the pool keeps them.

typedef struct tcc_rt_pool tcc_rt_pool;

// threads: 0 for all CPUs of the process's affinity mask; at most TCC_RT_MAX_THREADS. spin_us as in
// tcc_create_options. pin: bind worker i to the i-th CPU of the mask; a refused binding is not an error,
// see tcc_rt_pool_pinned(). On failure *pool is NULL and no thread is left.
tcc_status tcc_rt_pool_create(int32_t threads, int32_t spin_us, int32_t pin, tcc_rt_pool** pool);
void tcc_rt_pool_destroy(tcc_rt_pool* pool);
void tcc_rt_pool_keep_denormals(tcc_rt_pool* pool);  // while nothing runs
int32_t tcc_rt_pool_threads(const tcc_rt_pool* pool);
int32_t tcc_rt_pool_pinned(const tcc_rt_pool* pool);

// Where workers are bound, the first CPU of the mask is the caller's: without this the system may put the caller beside
// a worker, and one of the two waits for the other. Binds the calling thread until it is released; neither does
// anything where workers are not bound, where the thread is bound to one CPU already, or where it may not use that CPU.
void tcc_rt_pool_bind_caller(tcc_rt_pool* pool);
void tcc_rt_pool_release_caller(tcc_rt_pool* pool);

// Runs fn over [0, extent) and returns when all of it is done. A call from inside a running fn, or from a second
// thread meanwhile, is refused with TCC_ERROR_BUSY and runs nothing.
tcc_status tcc_rt_pool_run(tcc_rt_pool* pool, tcc_rt_launch_fn fn, void* const* buffers, int64_t extent);

// Runs fn over [i, i + 1) on thread i, for each of the pool's threads; otherwise as tcc_rt_pool_run.
tcc_status tcc_rt_pool_run_each(tcc_rt_pool* pool, tcc_rt_launch_fn fn, void* const* buffers);

// All launches of one kernel, in order.
tcc_status tcc_rt_run_kernel(tcc_rt_pool* pool, const tcc_rt_kernel* kernel, void* const* buffers);

// --- executor -----------------------------------------------------------------------------------------------------

// Checks the plan (versions, bounds of every argument, CPU) and makes a context for it. The plan must outlive it.
tcc_status tcc_rt_context_create(const tcc_rt_plan* plan, const tcc_create_options* options, tcc_context** context);
void tcc_rt_context_destroy(tcc_context* context);
tcc_status tcc_rt_context_info(const tcc_context* context, tcc_context_info* info);

// tcc_model_api.run for any context.
tcc_status tcc_rt_run_plan(tcc_context* context, const tcc_dltensor* inputs, uint32_t num_inputs,
                           const tcc_dltensor* outputs, uint32_t num_outputs, void* workspace, uint64_t workspace_bytes,
                           void* stream);

// The same, and writes the nanoseconds of each step to step_ns[plan->num_steps]. For `bench --per-kernel`.
tcc_status tcc_rt_run_plan_timed(tcc_context* context, const tcc_dltensor* inputs, uint32_t num_inputs,
                                 const tcc_dltensor* outputs, uint32_t num_outputs, void* workspace,
                                 uint64_t workspace_bytes, uint64_t* step_ns);

// tcc_model_api.output_shape for any plan.
tcc_status tcc_rt_output_shape(const tcc_rt_plan* plan, const tcc_dltensor* inputs, uint32_t num_inputs,
                               uint32_t output, int64_t* shape);

// tcc_model_api.self_test for any context.
tcc_status tcc_rt_self_test(tcc_context* context);

// --- shipped library ----------------------------------------------------------------------------------------------

// The table over tcc_rt_the_plan, or NULL when max_abi is older than the oldest table rt can give.
// Referencing this function needs tcc_rt_the_plan to be defined.
const tcc_model_api* tcc_rt_query(uint32_t max_abi);

#ifdef __cplusplus
}
#endif
