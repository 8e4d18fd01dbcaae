// Talking to the fake CUDA driver from a test that opened it: look the functions up by name.
//
// What it pretends to be is text, "arch=80,driver=13000": from the environment's FAKE_CUDA when the driver starts, or
// from fake_cuda_configure(). Keys:
//   arch=86           compute capability 8.6 of every device                  [80]
//   driver=12040      supports CUDA 12.4                                      [13000]
//   devices=2                                                                 [1]
//   memory=1000000    bytes of device memory                                  [1 GiB]
//   fail=NAME:CODE    calls of NAME return CODE; fail=NAME:CODE:3 from the third on. Codes that lose the CUDA context
//                     (700, 702, 709 to 719) are returned by every later call, too.
//   kernels=LIBRARY   code of kernels, functions of type void(void** parameters) by the kernels' symbols
//   crash=PART:CODE   a kernel with PART in its symbol loses the CUDA context when it is executed
//   hang=PART         a kernel with PART in its symbol never ends when it is executed
//   ptx=FOLDER        a cubin for sm_90 whose kernels are those of a file *.sm_90*.ptx there is executed by that text.
//                     Kernels of other cubins are not executed, which a line on standard error says once
//   gone=FILE         a call that `fail` makes fail leaves FILE, and where FILE is, a driver that starts has no device
//
// Linked with a function fake_cuda_run, it executes PTX by that, and says so: attribute 0x7463 of a device is 0x7463.
// That returns the error that loses the context, or 0, and the time that this launch takes beyond every launch's.
// Without a symbol it only says whether the text can be run at all.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  unsigned grid[3], block[3], shared;
  int cooperative;
} fake_cuda_shape;
// What a parameter points to: from there to the end of its allocation.
typedef struct {
  void* begin;
  unsigned long bytes;
} fake_cuda_piece;

// What the fake driver makes of a tensor map. Dimensions innermost first.
typedef struct {
  char mark[8];  // "FAKEMAP"
  void* address;
  unsigned long long dims[5], strides[4];
  unsigned short box[5];
  unsigned short rank, type, swizzle;  // type: CUtensorMapDataType; swizzle: bytes
  char rest[24];
} fake_cuda_tensor_map;

// Forgets contexts, memory, counts and kernels, then reads the text. NULL: the environment's.
typedef void (*fake_cuda_configure_fn)(const char* text);
// Code for a kernel by its symbol; it gets cuLaunchKernel's parameters when the launch is executed. Launches of other
// kernels are checked and change nothing.
typedef void (*fake_cuda_register_fn)(const char* symbol, void (*kernel)(void** parameters));
// How often a function was called since the last configure or clear.
typedef int (*fake_cuda_calls_fn)(const char* name);
typedef void (*fake_cuda_clear_fn)(void);
// One word a call: the names of all functions called since, in order, and symbols behind launches.
typedef const char* (*fake_cuda_log_fn)(void);
// Allocations, modules, streams, events, graphs and retained contexts that are not released.
typedef int (*fake_cuda_live_fn)(void);
// Is called with every kernel that is executed, its symbol and its time on the device's clock.
typedef void (*fake_cuda_watch_fn)(void (*seen)(const char* symbol, double start, double end));
// What was wrong with a call, for people: an address outside of allocations, a launch beyond a limit; "" = nothing.
typedef const char* (*fake_cuda_violation_fn)(void);

#ifdef __cplusplus
}
#endif
