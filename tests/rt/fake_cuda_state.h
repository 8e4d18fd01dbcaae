// What the parts of the fake CUDA driver share: its memory, streams and faults. fake_cuda.c is about settings, counts,
// devices and contexts; the other files are named after what they hold.
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "fake_cuda.h"

#define API __attribute__((visibility("default")))
typedef unsigned long long address;

enum { kMax = 4096, kMaxDevices = 4, kMaxParameters = 64, kMaxMaps = 8, kGuard = 64 };

typedef struct {
  unsigned char* begin;
  size_t bytes;
} memory;
typedef struct module module;
typedef struct {
  char name[128];
  module* owner;
  int parameters, max_threads, dynamic_limit;
  int maps;             // of the parameters, the last ones
  unsigned cluster[3];  // blocks that start together, as the code says; 1 where it does not
} function;
struct module {
  function functions[16];
  int count;
  char* ptx;
};
typedef struct event {
  double seconds;
} event;
typedef struct {
  enum { kLaunch, kCopy, kFill, kStamp } kind;
  function* f;
  unsigned long long values[kMaxParameters];
  fake_cuda_tensor_map maps[kMaxMaps];
  fake_cuda_shape shape;
  double cost;
  unsigned char *to, *owned;  // kCopy: from `owned`, or from `from` when it is NULL
  const unsigned char* from;
  size_t bytes;
  int fill;
  event* stamp;
} work;
typedef struct {
  work* items;
  size_t count;
} queue;
typedef struct stream {
  queue todo;
  queue captured;
  int capturing;
} stream;

#pragma GCC visibility push(hidden)

// Where the library is linked with something that runs PTX.
extern int fake_cuda_run(const char* ptx, const char* symbol, fake_cuda_shape shape, const fake_cuda_piece* parameters,
                         int count, const fake_cuda_tensor_map* maps, int map_count, double* seconds)
    __attribute__((weak, visibility("default")));

// What the driver pretends to be.
extern struct fake_settings {
  int arch, driver, devices;
  size_t memory_bytes;
  char fail_name[64];
  int fail_code, fail_from;
  char crash_name[64], hang_name[64], gone[256], ptx_folder[256];
  int crash_code;
  void* code;  // a library with kernels by their symbols
} set;

// What has become of it.
extern struct fake_state {
  memory memories[kMax];
  size_t used;
  int live_things;  // not released
  int lost;         // the error that lost the context; every later call returns it
  int captures;     // streams that capture
  double now;       // seconds, moved by work alone
  int cold;         // the caches were written over, and nobody has waited since
  stream default_stream;
  stream* streams[kMax];
  struct {
    char symbol[128];
    void (*kernel)(void**);
  } kernels[256];
  int kernel_count;
  void (*seen)(const char* symbol, double start, double end);
} state;
extern __thread void* current;  // context

void violate(const char* what, const char* name);
void note(const char* word);
// Every entry point begins here: the error it has to return, or 0.
int enter(const char* name);
pthread_mutex_t* hold(void);
void let_go(pthread_mutex_t** held);
void lose_context(int code);

memory* owner_of(address at);
int holds(address at, size_t bytes, const char* name);
// A launch's tensor map is one that this driver made, of memory that is there.
int is_tensor_map(const fake_cuda_tensor_map* map, const char* name);
// Frees all memory and streams without a word.
void forget_memory(void);
void forget_streams(void);

void push(queue* q, const work* w);
void enqueue(void* handle, const work* w);
void drain_all(void);
// Executes a launch by the function that was given for it.
void run_launch(const work* w);

#pragma GCC visibility pop

#define ENTER()                                                             \
  pthread_mutex_t* held_ __attribute__((cleanup(let_go), unused)) = hold(); \
  const int wrong_ = enter(__func__);                                       \
  if (wrong_) return wrong_
#define NEEDS_CONTEXT() \
  if (!current) return 201
// What waits, or may: illegal anywhere in the thread that captures.
#define NOT_WHILE_CAPTURING() \
  if (state.captures) return 900
