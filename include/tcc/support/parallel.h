// Threads of the compiler itself (never of measured kernels).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace tcc {

// A fixed set of workers. parallel_for calls body(i, worker) for i in [0, n), worker in [0, size()), and returns
// when all are done. Calls from inside a body run serially on that worker. The first exception of a body is thrown
// again here, after the other workers have ended their bodies.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  int size() const;
  void parallel_for(int64_t n, const std::function<void(int64_t i, int worker)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// body(i) for i in [0, n): by the pool, or one after the other where it is nullptr.
void parallel_for(ThreadPool* pool, int64_t n, const std::function<void(int64_t i)>& body);

}  // namespace tcc
