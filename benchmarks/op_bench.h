// Operators on this CPU beside their peers: what the cpu-ops and metaschedule-ops suites share.
//
// tcc's program runs in the measuring worker, the peers in their own processes. Every peer gets the same contract: NCHW
// in and out, constant weights packed ahead. Contenders are timed in turns, slice by slice, on the same cores.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bench.h"
#include "peers/op_case.h"
#include "peers/peer_process.h"
#include "tcc/measure/host.h"
#include "tcc/search/search.h"
#include "tcc/support/files.h"

namespace tcc::benchmarks {

// The cost model that `tcc tune` uses for the target, with the checkpoint that ships.
void use_default_model(search::TuneOptions& tune, const target::Target& target);

constexpr double kSlice = 0.06;  // seconds

// The twelve operators that MetaSchedule was judged by (its appendix A.2, batch 1).
std::vector<OpCase> metaschedule_cases();

// The tasks of an operator, as tcc makes them of its model.
Result<std::vector<task::Task>> case_tasks(const OpCase& c);

// Inputs and reference outputs by naive kernel. Making them runs the unscheduled kernel in f64, which takes minutes for
// the large GEMMs, and one serves every number of threads.
class References {
 public:
  References(measure::IsolatedHostMeasurer& measurer, const target::Target& host) : measurer_(measurer), host_(host) {}
  // Threads may call it at once; they wait for each other.
  Result<std::shared_ptr<const measure::MeasureTask>> get(const ir::Kernel& naive);

 private:
  std::mutex mutex_;
  measure::IsolatedHostMeasurer& measurer_;
  const target::Target& host_;
  std::map<uint64_t, std::shared_ptr<const measure::MeasureTask>> known_;  // by the hash of the naive kernel
};

// What one number of threads needs: the worker and the cores.
struct OpBench {
  const target::Target& host;
  record::Store& store;
  ThreadPool& pool;
  References& references;
  measure::IsolatedHostMeasurer& measurer;
  std::string suite;  // of notes, and of the store's marks
  int threads = measurer.options().threads;
  std::vector<int> cpus = measurer.options().cpus;
  search::TuneOptions tune = {};      // strategy, seed and space; threads are `threads`
  int64_t trials = options().trials;  // of each operator, shared by its tasks
};

struct OwnKernel {
  std::shared_ptr<const measure::MeasureTask> task;
  std::shared_ptr<const codegen::Artifact> artifact;
  int64_t weight = 1;  // how often the operator runs it
  std::string workload;
};
struct OwnOperator {
  std::vector<OwnKernel> kernels;
  double tuning_seconds = 0;
};
// Tunes the operator's tasks with bench.trials in all, unless the store says that this has been done.
Result<OwnOperator> own_operator(const OpCase& c, OpBench& bench);
// Seconds of a call. The worker ends a measurement early when it has converged, so several make one slice.
Result<double> own_slice(const std::vector<OwnKernel>& kernels, OpBench& bench);

struct Contender {
  std::string name;
  bool ranked = false;  // may be the row's peer
  std::function<Result<double>()> slice;
  std::vector<double> seconds = {};
  std::string failure = {};   // not empty: it ran no more
  double tuning_seconds = 0;  // own, and of peers that tune
  double median_seconds() const;
};
Contender own_contender(const std::string& name, const OpCase& c, OpBench& bench);

struct PeerProgram {
  std::string name;
  std::vector<std::string> command;
  std::string absent;  // why the peer has no time
  bool ranked = true, plain = true;
  int64_t trials = 0;  // of a peer that tunes each operator by itself
};
std::vector<PeerProgram> peer_programs();
// TVM, which tunes with MetaSchedule.
PeerProgram tvm_program(int64_t trials);

// The model files that ONNX Runtime reads.
class Models {
 public:
  static Result<Models> create();
  Result<std::string> words(const OpCase& c) const;

 private:
  std::string tiny() const { return folder_->path() + "/tiny.onnx"; }
  std::unique_ptr<TemporaryDirectory> folder_;
};

// Starts and prepares those of the peers that offer the operator. Their outputs must add up to the same sum.
std::vector<Contender> peer_contenders(const OpCase& c, const Models& models, const OpBench& bench,
                                       const std::vector<PeerProgram>& peers = peer_programs());

// In turns, for about `seconds` and seven rounds at least.
void run_rounds(std::vector<Contender>& contenders, double seconds);
// The fastest of the ranked ones; nullptr: none ran.
const Contender* best_peer(const std::vector<Contender>& contenders);

}  // namespace tcc::benchmarks
