#include "tcc/support/parallel.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tcc {
namespace {
thread_local int current_worker = -1;  // >= 0 inside a body: nested calls run serially
}  // namespace

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable start, done;
  std::vector<std::jthread> threads;
  const std::function<void(int64_t, int)>* body = nullptr;
  std::atomic<int64_t> next{0};
  int64_t n = 0;
  uint64_t round = 0;
  int busy = 0;
  bool stop = false;
  std::exception_ptr failure;  // the first one, std::bad_alloc as a rule; it goes on in the caller's thread

  void drain(int worker) {
    current_worker = worker;
    try {
      for (int64_t i; (i = next.fetch_add(1)) < n;) (*body)(i, worker);
    } catch (...) {
      next = n;  // the others stop after what they are at
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
    current_worker = -1;
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  for (int w = 1; w < threads; ++w) {
    state_->threads.emplace_back([this, w] {
      State& s = *state_;
      uint64_t seen = 0;
      std::unique_lock lock(s.mutex);
      for (;;) {
        s.start.wait(lock, [&] { return s.stop || s.round != seen; });
        if (s.stop) return;
        seen = s.round;
        lock.unlock();
        s.drain(w);
        lock.lock();
        if (--s.busy == 0) s.done.notify_one();
      }
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->start.notify_all();
}

int ThreadPool::size() const {
  return static_cast<int>(state_->threads.size()) + 1;
}

void ThreadPool::parallel_for(int64_t n, const std::function<void(int64_t, int)>& body) {
  if (current_worker >= 0 || size() == 1 || n <= 1) {
    int worker = current_worker < 0 ? 0 : current_worker;
    for (int64_t i = 0; i < n; ++i) body(i, worker);
    return;
  }
  State& s = *state_;
  {
    std::lock_guard lock(s.mutex);
    s.body = &body;
    s.n = n;
    s.next = 0;
    s.busy = static_cast<int>(s.threads.size());
    ++s.round;
  }
  s.start.notify_all();
  s.drain(0);
  std::unique_lock lock(s.mutex);
  s.done.wait(lock, [&] { return s.busy == 0; });
  if (std::exception_ptr failure = std::exchange(s.failure, nullptr)) std::rethrow_exception(failure);
}

void parallel_for(ThreadPool* pool, int64_t n, const std::function<void(int64_t)>& body) {
  if (pool != nullptr) return pool->parallel_for(n, [&](int64_t i, int) { body(i); });
  for (int64_t i = 0; i < n; ++i) body(i);
}

}  // namespace tcc
