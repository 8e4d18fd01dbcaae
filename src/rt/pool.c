// Fork-join thread pool.
//
// Each thread has a span of the launch's units, as long as the others'. Its owner takes pieces from the front, each
// half of what is left. A thread whose own span is empty takes pieces from the back of others'. So a core that the
// system disturbs, or a worker that still sleeps, delays a launch by one piece at most. A span is one word, begin and
// end: the thread that changes it has the piece.
//
// A launch ends when all units are done, not when all workers have come. A late worker finds empty spans, or those of
// the next launch, which it may work on. It reads the launch only after it has taken a piece, and the caller does not
// replace a launch with a piece that is not done.
//
// Each worker has a mailbox of its own: a sequence number that the caller increments to wake it. A launch with fewer
// units than threads touches the first mailboxes only. A worker that finds itself on the caller's CPU moves to another
// one: the system may leave both there for long, and a launch takes twice as long then.
//
// Either side first spins, then sleeps on a futex. "I sleep" flags are set before the last look at the word and read
// after writing it (both sequentially consistent), so a wake-up is never lost and an awake partner costs no syscall.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rt/fp_mode.h"
#include "tcc/rt/rt.h"

// Kernels keep small local tiles on the stack; the system default may be tiny or unlimited.
enum { kStackBytes = 8 << 20, kCacheLine = 64, kMaxCpus = 4096 };
// A piece has at least this part of a span: smaller ones cost calls, larger ones let others wait for the last.
enum { kPieces = 16 };

typedef _Atomic uint64_t span;  // begin << 32 | end

typedef struct {
  _Alignas(kCacheLine) _Atomic uint32_t sequence;
  _Atomic uint32_t sleeping;
  atomic_bool call;  // one call for this worker alone
  span units;
  struct tcc_rt_pool* pool;
  int32_t thread_number;
  int64_t next_move_ns;  // not moved before
  pthread_t thread;
} worker;

struct tcc_rt_pool {
  // Written by the caller while no worker has a piece.
  tcc_rt_launch_fn fn;
  void* const* buffers;
  int64_t extent;
  int64_t unit;    // indices of a unit
  uint32_t units;  // of all spans
  uint32_t mode;   // of the floating-point unit while kernels run

  _Atomic uint32_t least;     // units of a piece
  _Atomic int32_t caller_at;  // the CPU that the launch was posted from; -1: not known

  int32_t threads;
  int32_t moves;  // workers leave the caller's CPU: they are not bound, and there are as many CPUs as threads
  int32_t pinned;
  int32_t caller_cpu;        // the one that bound workers leave free; -1: workers are not bound
  int32_t caller_bound;      // caller_before has to be restored
  cpu_set_t* caller_before;  // kMaxCpus bits; NULL unless workers are bound
  int64_t spin_ns;
  worker* workers;  // threads - 1
  _Alignas(kCacheLine) span caller_units;
  _Alignas(kCacheLine) _Atomic uint32_t done;  // units that workers have done
  _Atomic uint32_t caller_sleeping;
  _Alignas(kCacheLine) atomic_bool busy;
  atomic_bool stop;
};

static long futex(_Atomic uint32_t* word, int operation, uint32_t value) {
  return syscall(SYS_futex, (uint32_t*)word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Waits awake while *word == value. False when the time is over and it still is. Yields in between: where the system
// has put the partner on the same CPU, spinning would keep it from doing what is waited for.
static bool spin_while_equal(_Atomic uint32_t* word, uint32_t value, int64_t spin_ns) {
  if (atomic_load_explicit(word, memory_order_acquire) != value) return true;
  if (spin_ns <= 0) return false;
  const int64_t end = now_ns() + spin_ns;
  do {
    for (int i = 0; i < 32; ++i) {
      if (atomic_load_explicit(word, memory_order_acquire) != value) return true;
      relax();
    }
    sched_yield();
  } while (now_ns() < end);
  return false;
}

static span* span_of(tcc_rt_pool* pool, int32_t thread) {
  return thread == 0 ? &pool->caller_units : &pool->workers[thread - 1].units;
}

// Takes a piece from the front or the back. 0: nothing is left.
static uint32_t take(span* units, bool front, uint32_t least, uint32_t* first) {
  uint64_t now = atomic_load_explicit(units, memory_order_acquire);
  for (;;) {
    const uint32_t begin = (uint32_t)(now >> 32), end = (uint32_t)now, rest = end - begin;
    if (rest == 0) return 0;
    uint32_t count = (rest + 1) / 2;
    if (count < least) count = rest < least ? rest : least;
    const uint64_t left = front ? now + ((uint64_t)count << 32) : now - count;
    *first = front ? begin : end - count;
    if (atomic_compare_exchange_weak_explicit(units, &now, left, memory_order_acq_rel, memory_order_acquire))
      return count;
  }
}

static void run_piece(const tcc_rt_pool* pool, uint32_t first, uint32_t count) {
  const uint32_t end = first + count;
  tcc_rt_fp_set(pool->mode);
  pool->fn(pool->buffers, first * pool->unit, end == pool->units ? pool->extent : end * pool->unit);
}

// Runs the thread's own span, or, when that is empty, a piece of another one. The units that it did; 0: it found none.
// Neighbors at powers of two, so that many threads do not read the spans of all.
static uint32_t run_some(tcc_rt_pool* pool, int32_t thread) {
  const uint32_t least = atomic_load_explicit(&pool->least, memory_order_relaxed);
  uint32_t done = 0, first, count;
  while ((count = take(span_of(pool, thread), true, least, &first)) > 0) {
    run_piece(pool, first, count);
    done += count;
  }
  for (int32_t step = 1; done == 0 && step < pool->threads; step *= 2) {
    count = take(span_of(pool, (thread + step) % pool->threads), false, least, &first);
    if (count > 0) run_piece(pool, first, count);
    done = count;
  }
  return done;
}

// Moves this thread, which may run on other CPUs as well, away from the caller's.
static void leave_cpu_of_caller(worker* self) {
  enum { kMoveNs = 1000000 };  // at least, between two moves: they cost some microseconds
  const int cpu = sched_getcpu();
  if (cpu < 0 || cpu != atomic_load_explicit(&self->pool->caller_at, memory_order_relaxed)) return;
  const int64_t now = now_ns();
  if (now < self->next_move_ns) return;
  self->next_move_ns = now + kMoveNs;
  enum { kSets = kMaxCpus / CPU_SETSIZE };
  cpu_set_t all[kSets], others[kSets];
  const size_t bytes = sizeof all;
  if (sched_getaffinity(0, bytes, all) != 0) return;
  memcpy(others, all, bytes);
  CPU_CLR_S(cpu, bytes, others);
  if (CPU_COUNT_S(bytes, others) == 0 || sched_setaffinity(0, bytes, others) != 0) return;
  sched_setaffinity(0, bytes, all);  // where it is now, it may stay
}

static void report(tcc_rt_pool* pool, uint32_t done) {
  atomic_fetch_add(&pool->done, done);
  if (atomic_load(&pool->caller_sleeping)) futex(&pool->done, FUTEX_WAKE, 1);
}

static void* worker_main(void* argument) {
  worker* self = argument;
  tcc_rt_pool* pool = self->pool;
  uint32_t seen = 0;
  for (;;) {
    while (!spin_while_equal(&self->sequence, seen, pool->spin_ns)) {
      atomic_store(&self->sleeping, 1);
      while (atomic_load(&self->sequence) == seen) futex(&self->sequence, FUTEX_WAIT, seen);
      atomic_store(&self->sleeping, 0);
    }
    seen = atomic_load(&self->sequence);
    if (atomic_load(&pool->stop)) return NULL;
    if (pool->moves) leave_cpu_of_caller(self);
    if (atomic_load(&self->call) && atomic_exchange(&self->call, false)) {
      tcc_rt_fp_set(pool->mode);
      pool->fn(pool->buffers, self->thread_number, self->thread_number + 1);
      report(pool, 1);
    }
    uint32_t done;
    while ((done = run_some(pool, self->thread_number)) > 0) report(pool, done);
  }
}

static void post(worker* w) {
  atomic_fetch_add(&w->sequence, 1);
  if (atomic_load(&w->sleeping)) futex(&w->sequence, FUTEX_WAKE, 1);
}

static void wait_for_workers(tcc_rt_pool* pool, uint32_t units) {
  uint32_t done;
  const int64_t end = pool->spin_ns > 0 ? now_ns() + pool->spin_ns : 0;
  while ((done = atomic_load_explicit(&pool->done, memory_order_acquire)) != units) {
    if (spin_while_equal(&pool->done, done, end ? end - now_ns() : 0)) continue;
    atomic_store(&pool->caller_sleeping, 1);
    while ((done = atomic_load(&pool->done)) != units) futex(&pool->done, FUTEX_WAIT, done);
    atomic_store(&pool->caller_sleeping, 0);
  }
}

// Cuts the units into contiguous spans whose lengths differ by at most one, and runs them.
static void run_spans(tcc_rt_pool* pool) {
  const uint32_t threads = (uint32_t)pool->threads, base = pool->units / threads, rest = pool->units % threads;
  atomic_store_explicit(&pool->least, base / kPieces + 1, memory_order_relaxed);
  for (uint32_t i = threads; i-- > 0;) {
    const uint64_t begin = i * base + (i < rest ? i : rest), end = begin + base + (i < rest ? 1 : 0);
    if (begin == end) continue;
    atomic_store_explicit(span_of(pool, (int32_t)i), begin << 32 | end, memory_order_release);
    if (i > 0) post(&pool->workers[i - 1]);
  }
  uint32_t own = 0, done;
  while ((done = run_some(pool, 0)) > 0) own += done;
  wait_for_workers(pool, pool->units - own);
}

static void run_once_each(tcc_rt_pool* pool) {
  for (int32_t i = 0; i < pool->threads - 1; ++i) {
    atomic_store(&pool->workers[i].call, true);
    post(&pool->workers[i]);
  }
  pool->fn(pool->buffers, 0, 1);
  wait_for_workers(pool, (uint32_t)pool->threads - 1);
}

static tcc_status run_launch(tcc_rt_pool* pool, tcc_rt_launch_fn fn, void* const* buffers, int64_t extent,
                             void (*launch)(tcc_rt_pool*)) {
  if (atomic_exchange_explicit(&pool->busy, true, memory_order_acquire)) {
    return tcc_rt_fail(TCC_ERROR_BUSY,
                       "pool run: the pool is running another launch; use one context per thread and "
                       "do not call run() from inside a kernel");
  }
  if (extent > 0) {
    const uint32_t saved_mode = tcc_rt_fp_get();
    tcc_rt_fp_set(pool->mode);
    if (extent == 1 || pool->threads == 1) {
      fn(buffers, 0, extent);
    } else {
      pool->fn = fn;
      pool->buffers = buffers;
      pool->extent = extent;
      pool->unit = (extent >> 31) + 1;
      pool->units = (uint32_t)((extent - 1) / pool->unit + 1);
      atomic_store_explicit(&pool->caller_at, pool->moves ? sched_getcpu() : -1, memory_order_relaxed);
      atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
      launch(pool);
    }
    tcc_rt_fp_set(saved_mode);
  }
  atomic_store_explicit(&pool->busy, false, memory_order_release);
  return TCC_OK;
}

tcc_status tcc_rt_pool_run(tcc_rt_pool* pool, tcc_rt_launch_fn fn, void* const* buffers, int64_t extent) {
  if (!pool || !fn || extent < 0) {
    return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT, "pool run: pool, function and a non-negative extent are needed");
  }
  return run_launch(pool, fn, buffers, extent, run_spans);
}

tcc_status tcc_rt_pool_run_each(tcc_rt_pool* pool, tcc_rt_launch_fn fn, void* const* buffers) {
  if (!pool || !fn) return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT, "pool run: pool and function are needed");
  return run_launch(pool, fn, buffers, pool->threads, run_once_each);
}

tcc_status tcc_rt_run_kernel(tcc_rt_pool* pool, const tcc_rt_kernel* kernel, void* const* buffers) {
  for (uint32_t i = 0; i < kernel->num_launches; ++i) {
    const tcc_status status = tcc_rt_pool_run(pool, kernel->launches[i].fn, buffers, kernel->launches[i].extent);
    if (status != TCC_OK) return status;
  }
  return TCC_OK;
}

// Fault signals stay open, since a blocked fault kills the process past any handler; so does the profiler's.
static void worker_signal_mask(sigset_t* mask) {
  static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
  sigfillset(mask);
  for (size_t i = 0; i < sizeof open / sizeof open[0]; ++i) sigdelset(mask, open[i]);
}

static int start_worker(worker* w) {
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error) return error;
  pthread_attr_setstacksize(&attributes, kStackBytes);
  sigset_t mask, old;
  worker_signal_mask(&mask);
  pthread_sigmask(SIG_SETMASK, &mask, &old);
  error = pthread_create(&w->thread, &attributes, worker_main, w);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  pthread_attr_destroy(&attributes);
  if (!error) pthread_setname_np(w->thread, "tcc-rt");
  return error;
}

// The CPUs the process may use, kMaxCpus bits. Returns their number, or 0 when the system does not say.
static int32_t usable_cpus(cpu_set_t* set) {
  if (sched_getaffinity(0, CPU_ALLOC_SIZE(kMaxCpus), set) != 0) return 0;
  return (int32_t)CPU_COUNT_S(CPU_ALLOC_SIZE(kMaxCpus), set);
}

// Worker i goes to the (i + 1)-th usable CPU, so that the first one is left to the caller.
static void pin_workers(tcc_rt_pool* pool, const cpu_set_t* usable, int32_t num_usable, cpu_set_t* one) {
  const size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  int cpu = -1;
  for (int32_t i = -1; i < pool->threads - 1; ++i) {
    if (num_usable == 0) return;
    do {
      cpu = (cpu + 1) % kMaxCpus;
    } while (!CPU_ISSET_S(cpu, bytes, usable));
    if (i < 0) {
      pool->caller_cpu = cpu;
      continue;
    }
    CPU_ZERO_S(bytes, one);
    CPU_SET_S(cpu, bytes, one);
    if (pthread_setaffinity_np(pool->workers[i].thread, bytes, one) == 0) ++pool->pinned;
  }
}

void tcc_rt_pool_bind_caller(tcc_rt_pool* pool) {
  if (pool->pinned == 0) return;
  const size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  cpu_set_t* before = pool->caller_before;
  if (sched_getaffinity(0, bytes, before) != 0) return;
  // What the thread's owner has said of it goes first.
  if (CPU_COUNT_S(bytes, before) < 2 || !CPU_ISSET_S(pool->caller_cpu, bytes, before)) return;
  cpu_set_t* one = (cpu_set_t*)((char*)before + bytes);
  CPU_ZERO_S(bytes, one);
  CPU_SET_S(pool->caller_cpu, bytes, one);
  pool->caller_bound = sched_setaffinity(0, bytes, one) == 0;
}

void tcc_rt_pool_release_caller(tcc_rt_pool* pool) {
  if (!pool->caller_bound) return;
  sched_setaffinity(0, CPU_ALLOC_SIZE(kMaxCpus), pool->caller_before);
  pool->caller_bound = 0;
}

static void stop_workers(tcc_rt_pool* pool, int32_t started) {
  atomic_store(&pool->stop, true);
  for (int32_t i = 0; i < started; ++i) post(&pool->workers[i]);
  for (int32_t i = 0; i < started; ++i) pthread_join(pool->workers[i].thread, NULL);
}

static void* allocate_zeroed(size_t bytes) {
  void* memory = aligned_alloc(kCacheLine, (bytes + kCacheLine - 1) / kCacheLine * kCacheLine);
  if (memory) memset(memory, 0, bytes);
  return memory;
}

static tcc_status start_pool(tcc_rt_pool* pool) {
  pool->workers = allocate_zeroed(sizeof(worker) * (size_t)(pool->threads - 1));
  if (!pool->workers) return tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for %d threads", pool->threads);
  for (int32_t i = 0; i < pool->threads - 1; ++i) {
    worker* w = &pool->workers[i];
    w->pool = pool;
    w->thread_number = i + 1;
    const int error = start_worker(w);
    if (!error) continue;
    stop_workers(pool, i);
    return tcc_rt_fail(TCC_ERROR_RESOURCES,
                       "cannot start thread %d of %d (%s); ask for fewer threads in the create options", i + 2,
                       pool->threads, strerror(error));
  }
  return TCC_OK;
}

tcc_status tcc_rt_pool_create(int32_t threads, int32_t spin_us, int32_t pin, tcc_rt_pool** out) {
  if (!out) return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT, "pool create: the place for the result is NULL");
  *out = NULL;
  if (threads < 0 || threads > TCC_RT_MAX_THREADS) {
    return tcc_rt_fail(TCC_ERROR_INVALID_ARGUMENT, "threads is %d; it must be 0 (all CPUs) to %d", threads,
                       TCC_RT_MAX_THREADS);
  }
  cpu_set_t* sets = calloc(2, CPU_ALLOC_SIZE(kMaxCpus));
  tcc_rt_pool* pool = allocate_zeroed(sizeof *pool);
  if (!sets || !pool) {
    free(sets);
    free(pool);
    return tcc_rt_fail(TCC_ERROR_RESOURCES, "no memory for a thread pool");
  }
  const int32_t cpus = usable_cpus(sets);
  if (threads == 0) threads = cpus < 1 ? 1 : cpus > TCC_RT_MAX_THREADS ? TCC_RT_MAX_THREADS : cpus;
  pool->threads = threads;
  pool->mode = tcc_rt_fp_kernel_mode();
  pool->caller_cpu = -1;
  pool->moves = !pin && threads <= cpus;
  pool->spin_ns = (spin_us == 0 ? TCC_RT_DEFAULT_SPIN_US : spin_us) * (int64_t)1000;
  const tcc_status status = threads > 1 ? start_pool(pool) : TCC_OK;
  if (status != TCC_OK) {
    free(sets);
    free(pool->workers);
    free(pool);
    return status;
  }
  if (pin) pin_workers(pool, sets, cpus, (cpu_set_t*)((char*)sets + CPU_ALLOC_SIZE(kMaxCpus)));
  if (pool->pinned > 0) {
    pool->caller_before = sets;
  } else {
    free(sets);
  }
  *out = pool;
  return TCC_OK;
}

void tcc_rt_pool_destroy(tcc_rt_pool* pool) {
  if (!pool) return;
  if (pool->threads > 1) stop_workers(pool, pool->threads - 1);
  free(pool->caller_before);
  free(pool->workers);
  free(pool);
}

void tcc_rt_pool_keep_denormals(tcc_rt_pool* pool) {
  pool->mode = tcc_rt_fp_exact_mode();
}

int32_t tcc_rt_pool_threads(const tcc_rt_pool* pool) {
  return pool->threads;
}
int32_t tcc_rt_pool_pinned(const tcc_rt_pool* pool) {
  return pool->pinned;
}
