// One hand-written trace for GEMM 512^3 with weights packed ahead, through the real worker, beside oneDNN on one
// thread.
#include <algorithm>
#include <array>
#include <vector>

#include "bench.h"
#include "gemm_packed.h"
#include "sample_tasks.h"
#include "tcc/codegen/llvm.h"
#include "tcc/lower/lower.h"
#include "tcc/measure/host.h"
#include "tcc/measure/task.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/task/task.h"
#ifdef TCC_HAVE_DNNL
#include <omp.h>
#include <dnnl.hpp>
#endif

namespace tcc::benchmarks {

schedule::Trace packed_gemm_trace(const ir::Kernel& start, const std::string& block, const target::Target& target) {
  using namespace schedule;
  // Two vectors of columns, and rows until the tile, a row of the right operand and an element of the left fill the
  // registers (as src/space/matmul_tiling.cpp has it).
  const int64_t columns = 2 * target.cpu.vector_bits / 32;
  const int64_t rows = std::min<int64_t>((target.cpu.num_vector_registers - 3) / 2, 8);
  Schedule s(start, std::make_shared<Arena>(), nullptr);
  BlockRv b = s.get_block(block);
  std::vector<LoopRv> l = s.get_loops(b);
  s.transform_layout(b, 1, std::array<int32_t, 2>{1, 0}, std::array<std::pair<int32_t, int64_t>, 1>{{{1, columns}}});
  BlockRv out = s.cache_write(b, ir::Scope::kLocal);
  std::vector<LoopRv> i = s.split(l[0], std::array{ExprRv{}, lit(rows)});
  std::vector<LoopRv> j = s.split(l[1], std::array{ExprRv{}, lit(columns)});
  std::vector<LoopRv> k = s.split(l[2], std::array{ExprRv{}, lit(4)});
  s.reorder(std::array{j[0], i[0], k[0], k[1], i[1], j[1]});
  s.reverse_compute_at(out, i[0]);
  s.parallel(j[0]);
  s.unroll(i[1]);
  s.unroll(k[1]);
  s.vectorize(j[1]);
  s.decompose_reduction(b, k[0]);
  std::vector<LoopRv> copy = s.get_loops(out);
  s.unroll(copy[copy.size() - 2]);
  s.vectorize(copy.back());
  TCC_CHECK(s.ok(), "{}", s.ok() ? "" : s.reject().text);
  return s.trace();
}

namespace {

#ifdef TCC_HAVE_DNNL
// Seconds a call over about `seconds`, weights in the library's preferred layout.
class DnnlGemm {
 public:
  DnnlGemm(int64_t m, int64_t n, int64_t k) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using dnnl::memory;
    memory::desc a({m, k}, memory::data_type::f32, memory::format_tag::ab),
        c({m, n}, memory::data_type::f32, memory::format_tag::ab);
    memory::desc any({k, n}, memory::data_type::f32, memory::format_tag::any),
        plain({k, n}, memory::data_type::f32, memory::format_tag::ab);
    dnnl::matmul::primitive_desc desc({a, any, c}, engine_);
    a_ = memory(a, engine_);
    c_ = memory(c, engine_);
    b_ = memory(desc.weights_desc(), engine_);
    memory unpacked(plain, engine_);
    fill(a_, m * k);
    fill(unpacked, k * n);
    dnnl::reorder(unpacked, b_).execute(stream_, unpacked, b_);
    stream_.wait();
    primitive_ = dnnl::matmul(desc);
  }
  // Median seconds of a call.
  double time(double seconds) {
    run();
    std::vector<double> calls;
    Stopwatch watch;
    do {
      Stopwatch call;
      run();
      calls.push_back(call.seconds());
    } while (watch.seconds() < seconds);
    return median(calls);
  }

 private:
  static void fill(dnnl::memory& m, int64_t n) {
    auto* data = static_cast<float*>(m.get_data_handle());
    Rng rng(5);
    for (int64_t i = 0; i < n; ++i) data[i] = static_cast<float>(rng.uniform() * 2 - 1);
  }
  void run() {
    primitive_.execute(stream_, {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}});
    stream_.wait();
  }
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::memory a_, b_, c_;
  dnnl::matmul primitive_;
};
#endif

}  // namespace

std::vector<Row> run_cpu_gemm_suite(double seconds) {
  constexpr int64_t kN = 512;
  target::Target host = target::host_target();
  task::Task gemm = task::make_gemm({.m = kN, .n = kN, .k = kN, .constant_weights = true});
  auto arena = std::make_shared<Arena>();
  schedule::Trace trace = packed_gemm_trace(gemm.kernel, gemm.anchor_block, host);
  ir::Legal<ir::Kernel> scheduled = schedule::replay(trace, trace.decisions, gemm.kernel, arena);
  TCC_CHECK(scheduled.has_value());
  ir::Legal<ir::Kernel> lowered = lower::lower(*scheduled, host, ir::Stage::kLowered, arena);
  TCC_CHECK(lowered.has_value(), "{}", lowered ? "" : lowered.error().text);

  measure::HostMeasureOptions options;
  options.worker_path = TCC_WORKER_PATH;
  options.budget_seconds = 0.1;
  auto measurer = measure::IsolatedHostMeasurer::create(options);
  TCC_CHECK(measurer.has_value(), "{}", measurer ? "" : measurer.error().message);
  auto prepared = measure::MeasureTask::create(**measurer, gemm.kernel, host, {});
  TCC_CHECK(prepared.has_value(), "{}", prepared ? "" : prepared.error().message);

  std::vector<double> ours, theirs;
#ifdef TCC_HAVE_DNNL
  omp_set_num_threads(1);
  DnnlGemm peer(kN, kN, kN);
#endif
  Stopwatch watch;
  int rounds = 0;
  do {
    measure::Candidate c;
    c.id = 1;
    c.task = prepared->get();
    c.kernel = *lowered;
    auto result = (*measurer)->measure({&c, 1});
    TCC_CHECK(result.has_value() && (*result)[0].status == record::Status::kOk, "{}",
              result ? (*result)[0].failure : result.error().message);
    ours.push_back((*result)[0].median);
#ifdef TCC_HAVE_DNNL
    theirs.push_back(peer.time(0.1));
#endif
  } while (++rounds < 5 || watch.seconds() < seconds);
  double flops = 2.0 * kN * kN * kN;
  Row row{"gemm512.packed.1t", flops / median(ours) / 1e9, "GFLOP/s", "oneDNN", 0, 0};
  if (theirs.empty()) {
    row.peer = "oneDNN: absent";
  } else {
    row.peer_value = flops / median(theirs) / 1e9;
    row.ratio = row.value / row.peer_value;
  }
  return {row};
}

}  // namespace tcc::benchmarks
