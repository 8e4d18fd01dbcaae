// The CUDA driver, opened with dlopen: no cuda.h, no link-time dependency, so one binary runs with or without a GPU.
// Members carry the driver's own names; types mirror cuda.h's. All functions return 0 for success.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tcc/rt/model_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int tcc_cu_result;
typedef int tcc_cu_device;
typedef unsigned long long tcc_cu_ptr;
typedef struct CUctx_st* tcc_cu_context;
typedef struct CUmod_st* tcc_cu_module;
typedef struct CUfunc_st* tcc_cu_function;
typedef struct CUstream_st* tcc_cu_stream;
typedef struct CUevent_st* tcc_cu_event;
typedef struct CUgraph_st* tcc_cu_graph;
typedef struct CUgraphExec_st* tcc_cu_graph_exec;
typedef struct tcc_cu_uuid {
  char bytes[16];
} tcc_cu_uuid;

// Device attributes (CU_DEVICE_ATTRIBUTE_*).
enum {
  TCC_CU_MAX_THREADS_PER_BLOCK = 1,
  TCC_CU_MAX_SHARED_BYTES_PER_BLOCK = 8,
  TCC_CU_WARP_SIZE = 10,
  TCC_CU_MAX_REGISTERS_PER_BLOCK = 12,
  TCC_CU_CLOCK_KHZ = 13,
  TCC_CU_MULTIPROCESSORS = 16,
  TCC_CU_ECC_ENABLED = 32,
  TCC_CU_MEMORY_CLOCK_KHZ = 36,
  TCC_CU_MEMORY_BUS_BITS = 37,
  TCC_CU_L2_BYTES = 38,
  TCC_CU_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  TCC_CU_COMPUTE_CAPABILITY_MAJOR = 75,
  TCC_CU_COMPUTE_CAPABILITY_MINOR = 76,
  TCC_CU_MAX_SHARED_BYTES_PER_MULTIPROCESSOR = 81,
  TCC_CU_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
  TCC_CU_COOPERATIVE_LAUNCH = 95,
  TCC_CU_MAX_SHARED_BYTES_PER_BLOCK_OPTIN = 97,
  TCC_CU_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
  TCC_CU_RESERVED_SHARED_BYTES_PER_BLOCK = 111
};

// Function attributes (CU_FUNC_ATTRIBUTE_*).
enum {
  TCC_CU_FUNC_MAX_THREADS_PER_BLOCK = 0,
  TCC_CU_FUNC_STATIC_SHARED_BYTES = 1,
  TCC_CU_FUNC_LOCAL_BYTES = 3,
  TCC_CU_FUNC_REGISTERS = 4,
  TCC_CU_FUNC_BINARY_VERSION = 6,
  TCC_CU_FUNC_MAX_DYNAMIC_SHARED_BYTES = 8
};

enum { TCC_CU_STREAM_NON_BLOCKING = 1, TCC_CU_EVENT_DISABLE_TIMING = 2, TCC_CU_CAPTURE_THREAD_LOCAL = 1 };

// X(member, exported symbol, parameter list): the one list of what is loaded.
#define TCC_CUDA_DRIVER_FUNCTIONS(X)                                                                                  \
  X(cuInit, "cuInit", (unsigned flags))                                                                               \
  X(cuDriverGetVersion, "cuDriverGetVersion", (int* version))                                                         \
  X(cuGetErrorName, "cuGetErrorName", (tcc_cu_result error, const char** text))                                       \
  X(cuGetErrorString, "cuGetErrorString", (tcc_cu_result error, const char** text))                                   \
  X(cuDeviceGetCount, "cuDeviceGetCount", (int* count))                                                               \
  X(cuDeviceGet, "cuDeviceGet", (tcc_cu_device * device, int ordinal))                                                \
  X(cuDeviceGetName, "cuDeviceGetName", (char* name, int bytes, tcc_cu_device device))                                \
  X(cuDeviceGetUuid, "cuDeviceGetUuid", (tcc_cu_uuid * uuid, tcc_cu_device device))                                   \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int* value, int attribute, tcc_cu_device device))                  \
  X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t* bytes, tcc_cu_device device))                                   \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (tcc_cu_context * context, tcc_cu_device device))           \
  X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (tcc_cu_device device))                                \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", (tcc_cu_context context))                                                     \
  X(cuCtxGetCurrent, "cuCtxGetCurrent", (tcc_cu_context * context))                                                   \
  X(cuCtxGetDevice, "cuCtxGetDevice", (tcc_cu_device * device))                                                       \
  X(cuCtxSynchronize, "cuCtxSynchronize", (void))                                                                     \
  X(cuModuleLoadData, "cuModuleLoadData", (tcc_cu_module * module, const void* image))                                \
  X(cuModuleUnload, "cuModuleUnload", (tcc_cu_module module))                                                         \
  X(cuModuleGetFunction, "cuModuleGetFunction", (tcc_cu_function * function, tcc_cu_module module, const char* name)) \
  X(cuModuleGetGlobal, "cuModuleGetGlobal_v2",                                                                        \
    (tcc_cu_ptr * pointer, size_t* bytes, tcc_cu_module module, const char* name))                                    \
  X(cuFuncGetAttribute, "cuFuncGetAttribute", (int* value, int attribute, tcc_cu_function function))                  \
  X(cuFuncSetAttribute, "cuFuncSetAttribute", (tcc_cu_function function, int attribute, int value))                   \
  X(cuLaunchKernel, "cuLaunchKernel",                                                                                 \
    (tcc_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned dynamic_shared_bytes, tcc_cu_stream stream, void** parameters, void** extra))         \
  X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel",                                                           \
    (tcc_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned dynamic_shared_bytes, tcc_cu_stream stream, void** parameters))                       \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                       \
    (int* blocks, tcc_cu_function function, int block_threads, size_t dynamic_shared_bytes))                          \
  X(cuMemAlloc, "cuMemAlloc_v2", (tcc_cu_ptr * pointer, size_t bytes))                                                \
  X(cuMemFree, "cuMemFree_v2", (tcc_cu_ptr pointer))                                                                  \
  X(cuMemAllocHost, "cuMemAllocHost_v2", (void** pointer, size_t bytes))                                              \
  X(cuMemFreeHost, "cuMemFreeHost", (void* pointer))                                                                  \
  X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t* free_bytes, size_t* total_bytes))                                       \
  X(cuMemcpyHtoD, "cuMemcpyHtoD_v2", (tcc_cu_ptr to, const void* from, size_t bytes))                                 \
  X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void* to, tcc_cu_ptr from, size_t bytes))                                       \
  X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (tcc_cu_ptr to, const void* from, size_t bytes, tcc_cu_stream stream)) \
  X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void* to, tcc_cu_ptr from, size_t bytes, tcc_cu_stream stream))       \
  X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (tcc_cu_ptr to, tcc_cu_ptr from, size_t bytes, tcc_cu_stream stream))  \
  X(cuMemsetD8, "cuMemsetD8_v2", (tcc_cu_ptr to, unsigned char value, size_t bytes))                                  \
  X(cuMemsetD8Async, "cuMemsetD8Async", (tcc_cu_ptr to, unsigned char value, size_t bytes, tcc_cu_stream stream))     \
  X(cuStreamCreate, "cuStreamCreate", (tcc_cu_stream * stream, unsigned flags))                                       \
  X(cuStreamDestroy, "cuStreamDestroy_v2", (tcc_cu_stream stream))                                                    \
  X(cuStreamSynchronize, "cuStreamSynchronize", (tcc_cu_stream stream))                                               \
  X(cuStreamWaitEvent, "cuStreamWaitEvent", (tcc_cu_stream stream, tcc_cu_event event, unsigned flags))               \
  X(cuEventCreate, "cuEventCreate", (tcc_cu_event * event, unsigned flags))                                           \
  X(cuEventDestroy, "cuEventDestroy_v2", (tcc_cu_event event))                                                        \
  X(cuEventRecord, "cuEventRecord", (tcc_cu_event event, tcc_cu_stream stream))                                       \
  X(cuEventQuery, "cuEventQuery", (tcc_cu_event event))                                                               \
  X(cuEventSynchronize, "cuEventSynchronize", (tcc_cu_event event))                                                   \
  X(cuEventElapsedTime, "cuEventElapsedTime", (float* milliseconds, tcc_cu_event start, tcc_cu_event end))

// Those of CUDA graphs, which drivers before 11.4 lack: NULL there.
#define TCC_CUDA_GRAPH_FUNCTIONS(X)                                                         \
  X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (tcc_cu_stream stream, int mode))      \
  X(cuStreamEndCapture, "cuStreamEndCapture", (tcc_cu_stream stream, tcc_cu_graph * graph)) \
  X(cuGraphInstantiate, "cuGraphInstantiateWithFlags",                                      \
    (tcc_cu_graph_exec * exec, tcc_cu_graph graph, unsigned long long flags))               \
  X(cuGraphLaunch, "cuGraphLaunch", (tcc_cu_graph_exec exec, tcc_cu_stream stream))         \
  X(cuGraphExecDestroy, "cuGraphExecDestroy", (tcc_cu_graph_exec exec))                     \
  X(cuGraphDestroy, "cuGraphDestroy", (tcc_cu_graph graph))

// Tensor maps, which drivers before 12.0 lack: NULL there. Numbers are those of CUtensorMapDataType and so on.
typedef struct tcc_cu_tensor_map {
  uint64_t opaque[16];
} __attribute__((aligned(64))) tcc_cu_tensor_map;
#define TCC_CUDA_TENSOR_MAP_FUNCTIONS(X)                                                                             \
  X(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled",                                                                \
    (tcc_cu_tensor_map * map, int type, uint32_t rank, void* address, const uint64_t* dims, const uint64_t* strides, \
     const uint32_t* box, const uint32_t* element_strides, int interleave, int swizzle, int promotion, int fill))

// How many clusters of blocks a device holds, which drivers before 11.8 do not tell: NULL there. The configuration of a
// launch is cuda.h's CUlaunchConfig, with cluster dimensions (CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) as only attribute.
enum { TCC_CU_LAUNCH_CLUSTER = 4 };
typedef struct tcc_cu_launch_attribute {
  int id;
  char pad[4];
  unsigned value[16];
} tcc_cu_launch_attribute;
typedef struct tcc_cu_launch_config {
  unsigned grid[3], block[3];
  unsigned dynamic_shared_bytes;
  tcc_cu_stream stream;
  tcc_cu_launch_attribute* attributes;
  unsigned attribute_count;
} tcc_cu_launch_config;
#define TCC_CUDA_CLUSTER_FUNCTIONS(X)                             \
  X(cuOccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters", \
    (int* clusters, tcc_cu_function function, const tcc_cu_launch_config* config))

typedef struct tcc_cuda_driver {
#define TCC_DECLARE(member, symbol, parameters) tcc_cu_result(*member) parameters;
  TCC_CUDA_DRIVER_FUNCTIONS(TCC_DECLARE)
  TCC_CUDA_GRAPH_FUNCTIONS(TCC_DECLARE)
  TCC_CUDA_TENSOR_MAP_FUNCTIONS(TCC_DECLARE)
  TCC_CUDA_CLUSTER_FUNCTIONS(TCC_DECLARE)
#undef TCC_DECLARE
} tcc_cuda_driver;

// Opens `library` and fills the table; the library stays open. Does not call cuInit. TCC_ERROR_DEVICE when it does not
// load or lacks a function: tcc_rt_last_error() says which.
tcc_status tcc_cuda_driver_load(const char* library, tcc_cuda_driver* driver);

// The driver in `library` (NULL: the system's, libcuda.so.1), loaded and initialized once per process, then shared. On
// failure *driver is NULL and every call for that library reports the same reason.
tcc_status tcc_cuda_driver_open(const char* library, const tcc_cuda_driver** driver);
// The system's.
tcc_status tcc_cuda_driver_get(const tcc_cuda_driver** driver);

// TCC_OK for 0; else "<what>: CUDA_ERROR_NAME number (text)" and what to do about it as last error, with
// TCC_ERROR_RESOURCES where the device is out of memory and TCC_ERROR_DEVICE otherwise.
tcc_status tcc_cuda_check(const tcc_cuda_driver* driver, tcc_cu_result result, const char* what);

// A tensor map that a launch takes behind its pointers, all but the tensor's address. Dimensions innermost first.
typedef struct tcc_cuda_tensor_map {
  uint64_t dims[5];     // elements
  uint64_t strides[4];  // bytes, from the second dimension on
  uint32_t box[5];      // elements
  uint32_t rank;
  uint32_t type;     // tcc_cuda_tensor_type
  uint32_t swizzle;  // bytes of a row in shared memory: 0, 32, 64 or 128
  uint32_t buffer;   // number of the launch's buffer that begins where the tensor does
  uint32_t reserved;
} tcc_cuda_tensor_map;
enum { TCC_CUDA_TENSOR_F16 = 6, TCC_CUDA_TENSOR_F32 = 7, TCC_CUDA_TENSOR_BF16 = 9, TCC_CUDA_TENSOR_TF32 = 11 };

// The map of a tensor at `address`. No memory is taken and nothing waits, so it is legal while a stream is captured.
// TCC_ERROR_DEVICE where the driver has no tensor maps or refuses this one.
tcc_status tcc_cuda_encode_tensor_map(const tcc_cuda_driver* driver, const tcc_cuda_tensor_map* what,
                                      tcc_cu_ptr address, tcc_cu_tensor_map* map);

#ifdef __cplusplus
}
#endif
