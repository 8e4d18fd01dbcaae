// The binary interface of a model library made by tcc. C99, no dependency but the two standard headers.
//
// A library exports one function, `const tcc_model_api *tcc_ID_query(uint32_t max_abi)`. Pass the newest version
// this header knows (TCC_MODEL_ABI_VERSION); the result is a table of that version or an older one, or NULL when the
// library is too new for the caller. Within one version the table only grows at its end: read a member only when
// struct_size covers it.
//
// Threads: the model itself (code, weights, info, metadata) is immutable and shared. A context belongs to one call at
// a time; make one per thread. Contexts do not survive fork(): in the child run() and self_test() return
// TCC_ERROR_INVALID_ARGUMENT, and destroy() frees memory only.
//
// CUDA models (info()->device_type is TCC_DEVICE_CUDA): the library loads, and info() and metadata_json() work, where
// there is no GPU and no driver; create() opens the driver. run() only enqueues work on the caller's stream: it
// allocates nothing, waits for nothing, and may be captured in a graph. All runs of a context use its workspace: order
// them, by one stream or by events, or bring a workspace for each. Code and weights are loaded at the first create() in
// a CUDA context and freed when its last tcc_context goes. No CUDA header is needed: a stream is passed as void*.
#ifndef TCC_MODEL_ABI_H
#define TCC_MODEL_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TCC_MODEL_ABI_VERSION 1u

typedef int32_t tcc_status;
enum {
  TCC_OK = 0,
  TCC_ERROR_INVALID_ARGUMENT = 1,  // a null pointer or an option out of range
  TCC_ERROR_TENSOR = 2,            // a tensor of the wrong count, type, shape, layout, device or alignment
  TCC_ERROR_WORKSPACE = 3,         // workspace missing, too small or not aligned
  TCC_ERROR_RESOURCES = 4,         // no memory or no threads left
  TCC_ERROR_UNSUPPORTED_CPU = 5,   // the CPU lacks an instruction set that the kernels use
  TCC_ERROR_BUSY = 6,              // the context is inside another call (from this or another thread)
  TCC_ERROR_SELF_TEST = 7,         // the model ran, but its results are not sane
  TCC_ERROR_DEVICE = 8,            // a device or its driver is missing or failed
  TCC_ERROR_INTERNAL = 9           // the library is damaged or was built wrongly
};

// The same memory layout as DLPack's DLDevice, DLDataType and DLTensor, so a DLManagedTensor's inner struct can be
// passed as it is.
enum { TCC_DEVICE_CPU = 1, TCC_DEVICE_CUDA = 2, TCC_DEVICE_CUDA_HOST = 3, TCC_DEVICE_CUDA_MANAGED = 13 };
enum { TCC_DTYPE_INT = 0, TCC_DTYPE_UINT = 1, TCC_DTYPE_FLOAT = 2, TCC_DTYPE_BFLOAT = 4, TCC_DTYPE_BOOL = 6 };

typedef struct tcc_dldevice {
  int32_t device_type;
  int32_t device_id;
} tcc_dldevice;

typedef struct tcc_dldtype {
  uint8_t code;    // TCC_DTYPE_*
  uint8_t bits;    // bits of one element; 8 for bool
  uint16_t lanes;  // 1
} tcc_dldtype;

typedef struct tcc_dltensor {
  void* data;
  tcc_dldevice device;
  int32_t ndim;
  tcc_dldtype dtype;
  int64_t* shape;        // ndim extents
  int64_t* strides;      // ndim steps in elements, or NULL for row-major
  uint64_t byte_offset;  // added to data
} tcc_dltensor;

// A dimension whose size is known at run time only: low to high, both included.
typedef struct tcc_dim_info {
  const char* name;  // UTF-8, as in the model or given when the library was built
  int64_t low, high;
} tcc_dim_info;

// What the model wants of one input or gives as one output. Of models with dimensions of several sizes (info()->dims),
// dims and bytes are those at the largest sizes; output_shape() tells the others. Of an output whose number of elements
// depends on the data, such as that of NonZero, they are the largest ones that there may be, and run() tells the
// actual.
typedef struct tcc_tensor_info {
  const char* name;  // UTF-8, as in the model
  const int64_t* dims;
  uint64_t bytes;
  tcc_dldtype dtype;
  int32_t ndim;
  uint64_t alignment;  // bytes that data + byte_offset is a multiple of; 0: the element size
  uint64_t reserved;
} tcc_tensor_info;

typedef struct tcc_model_info {
  uint32_t struct_size;
  uint32_t reserved;
  const char* id;
  const tcc_tensor_info* inputs;
  const tcc_tensor_info* outputs;
  uint32_t num_inputs;
  uint32_t num_outputs;
  uint64_t workspace_bytes;
  uint64_t workspace_alignment;  // bytes; what a workspace of the caller must be aligned to
  uint64_t weights_bytes;
  uint64_t cpu_features;     // instruction sets the kernels use; create() checks them
  int32_t device_type;       // where the model runs: TCC_DEVICE_CPU or TCC_DEVICE_CUDA. Not in older libraries: CPU
  uint32_t num_dims;         // of `dims`; 0: every size is fixed
  const tcc_dim_info* dims;  // not in older libraries: read it where struct_size covers it
} tcc_model_info;

enum {
  // Bind each worker thread to one CPU (see tcc_context_info.pinned_threads), and for the length of each run() its
  // caller to one that is left. A caller that is bound to one CPU already stays there.
  TCC_CREATE_PIN_THREADS = 1,
  TCC_CREATE_NO_WORKSPACE = 2,  // allocate no workspace: every run() brings its own
  // CUDA: make room for copies of all inputs and outputs on the device, so that run() takes tensors in host memory,
  // too.
  // A run() with any such tensor copies, and returns when the outputs are written: it waits, and cannot be captured.
  TCC_CREATE_HOST_TENSORS = 4,
  // CUDA: on the device number `device`, in its primary context. Without it: in the CUDA context that is current in the
  // calling thread; where none is current, in the primary context of device 0.
  TCC_CREATE_ON_DEVICE = 8,
  // CPU: sums, products, quotients and square roots below the smallest normal number are kept. Functions such as exp
  // may still give 0 there. Without it such numbers become 0, which is faster where they occur.
  TCC_CREATE_KEEP_DENORMALS = 16
};

// Zero-initialize, then set struct_size. Every 0 means the default.
typedef struct tcc_create_options {
  uint32_t struct_size;
  int32_t threads;  // threads that work on one run(), the caller's included; 0: all CPUs the process may use
  int32_t spin_us;  // microseconds a worker waits awake for the next kernel; 0: 50; negative: sleeps at once
  uint32_t flags;   // TCC_CREATE_*
  int32_t device;   // with TCC_CREATE_ON_DEVICE
  uint32_t reserved;
  const char* cuda_driver;  // file of the CUDA driver library; NULL: libcuda.so.1, by the loader's rules
} tcc_create_options;

typedef struct tcc_context_info {
  uint32_t struct_size;
  int32_t threads;         // the caller's thread included
  int32_t pinned_threads;  // workers bound to a CPU; fewer than threads - 1 when binding was refused or not asked for
  uint32_t reserved;
  // CUDA; 0 on a CPU.
  int32_t device;                 // its number
  uint32_t capability;            // compute capability of the device, 86 for 8.6
  uint32_t code_architecture;     // of the code in use, 80 for sm_80
  uint32_t jit;                   // 1: that code was PTX, compiled by the driver
  uint64_t device_weight_bytes;   // on the device, shared by the contexts of one model and CUDA context
  uint64_t device_context_bytes;  // on the device, of this context: workspace and room for host tensors
} tcc_context_info;

typedef struct tcc_context tcc_context;

typedef struct tcc_model_api {
  uint32_t abi_version;
  uint32_t struct_size;

  const tcc_model_info* (*info)(void);

  // Bytes a workspace of the caller needs; its alignment is info()->workspace_alignment.
  uint64_t (*workspace_bytes)(void);

  // Makes a context: threads, and a workspace unless TCC_CREATE_NO_WORKSPACE. NULL options mean all defaults. CUDA
  // models take no threads. Not while a stream of the process is captured.
  tcc_status (*create)(const tcc_create_options* options, tcc_context** context);

  // Runs the model once and returns when the outputs are written. Tensors have info() order, row-major, data
  // aligned as info() says; outputs overlap no other tensor and not the workspace. workspace: NULL for the
  // context's own, else workspace_bytes of memory. stream: ignored by CPU models.
  // Allocates nothing. Flushes denormals inside; the caller's floating-point mode is put back.
  //
  // Models with dimensions of several sizes (info()->dims): the shapes of the inputs say the sizes, which must agree.
  // The shape of an output is the room that it has, at least the actual extents; run() writes the actual ones into
  // `shape` where they differ. Without strides the data of a tensor is row-major by its actual extents. Strides may
  // leave room between rows, for example in a cache with room for the largest size. An output that is an input with
  // rows appended (present keys behind the past ones) may have the data pointer and the strides of that input: then
  // run() writes the appended rows only.
  //
  // An output whose number of elements depends on the data has the room that info() says, too. run() writes its actual
  // extents into `shape`, which is memory of the caller's own, not info()'s; its data is row-major by these, and what
  // is behind them is undefined. Set `shape` to the room again before the next run().
  //
  // CUDA models: tensors and workspace are memory of the context's device (TCC_DEVICE_CUDA or TCC_DEVICE_CUDA_MANAGED);
  // stream is a CUstream or cudaStream_t of its CUDA context, NULL the default stream. Returns when all is enqueued,
  // except with tensors in host memory, see TCC_CREATE_HOST_TENSORS. What goes wrong on the device later is reported by
  // whatever waits for the stream.
  tcc_status (*run)(tcc_context* context, const tcc_dltensor* inputs, uint32_t num_inputs, const tcc_dltensor* outputs,
                    uint32_t num_outputs, void* workspace, uint64_t workspace_bytes, void* stream);

  // NULL is allowed. CUDA models: waits for the device.
  void (*destroy)(tcc_context* context);

  // A few words for a status; never NULL.
  const char* (*status_string)(tcc_status status);

  // What went wrong in the last failed call of this thread; "" when none has failed. Valid until the next failure.
  const char* (*last_error)(void);

  // How the library was made, as JSON; zero-terminated. length may be NULL.
  const char* (*metadata_json)(uint64_t* length);

  // Runs the model twice on seeded random inputs (floats in [-1, 1), integers and bools 0 or 1). Fails unless floating
  // outputs are finite, those of more than one element are not all equal, and both runs agree. Allocates.
  tcc_status (*self_test)(tcc_context* context);

  // Set info->struct_size first.
  tcc_status (*context_info)(const tcc_context* context, tcc_context_info* info);

  // run(), which also writes the nanoseconds of each step, in the order of the metadata's "steps". num_steps is the
  // room in step_ns and must be the number of steps. CUDA models: on a stream of its own; waits, and allocates.
  tcc_status (*run_timed)(tcc_context* context, const tcc_dltensor* inputs, uint32_t num_inputs,
                          const tcc_dltensor* outputs, uint32_t num_outputs, void* workspace, uint64_t workspace_bytes,
                          uint64_t* step_ns, uint32_t num_steps);

  // The actual shape of output number `output` for these inputs, of which only ndim and shape are read; the largest one
  // where it depends on the data. `shape` has info()->outputs[output].ndim elements. Not in older libraries: see
  // struct_size.
  tcc_status (*output_shape)(const tcc_dltensor* inputs, uint32_t num_inputs, uint32_t output, int64_t* shape);
} tcc_model_api;

#ifdef __cplusplus
}
#endif

#endif  // TCC_MODEL_ABI_H
