// Who may run where while a candidate is measured. CPUs that measure run nothing else of this process: threads that
// compile are kept off them, and off their hyper-threads, from begin_measuring() to end_measuring(). Between jobs they
// may use every CPU again, so that no core idles when compiling is what is waited for.
#pragma once

#include <sched.h>

#include <mutex>
#include <span>
#include <vector>

namespace tcc::measure {

class CpuShare {
 public:
  // `cpus`: those of this process; `threads`: that a candidate runs on. It gets the last of them.
  void divide(std::span<const int> cpus, int threads, bool may_bind);

  // True: compiling goes on beside measuring. False: the two alternate, because every CPU measures, or because threads
  // may not be bound.
  bool divided() const { return !compile_cpus_.empty(); }
  const std::vector<int>& measure_cpus() const { return measure_cpus_; }
  const std::vector<int>& compile_cpus() const { return compile_cpus_; }

  void begin_measuring();
  void end_measuring();

  // The calling thread compiles while this lives.
  class Compiling {
   public:
    explicit Compiling(CpuShare& share);
    ~Compiling();
    Compiling(const Compiling&) = delete;
    Compiling& operator=(const Compiling&) = delete;

   private:
    CpuShare& share_;
    cpu_set_t before_;
    bool bound_ = false;
  };

 private:
  void move_compilers();

  std::vector<int> measure_cpus_, compile_cpus_;
  cpu_set_t all_, compile_;
  std::mutex mutex_;
  std::vector<pid_t> compilers_;
  bool measuring_ = false;
};

}  // namespace tcc::measure
