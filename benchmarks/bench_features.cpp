// Extraction of features, and how well a trace's table tells programs apart.
//
// extract.TABLE: candidates a second and core from nests, the row of the hottest statement included. candidate.TABLE:
// the same with making the nest. shared.TABLE: programs of random draws whose table another program has as well, in
// percent.
#include "bench_features.h"

#include <map>
#include <set>

#include "sample_tasks.h"
#include "tcc/features/features.h"
#include "tcc/features/sample.h"
#include "tcc/space/sketch.h"
#include "tcc/space/space.h"
#include "tcc/support/rng.h"

namespace tcc::benchmarks {
namespace {

constexpr int kDraws = 40;  // of a sketch

struct Program {
  const task::Task* task;
  const space::Sketch* sketch;
  std::vector<int64_t> decisions;
  ir::Kernel nest;
};

std::vector<task::Task> tasks() {
  std::vector<task::Task> out = {task::make_softmax({128, 384}, 1), task::make_elementwise({2, 64, 28, 28}),
                                 task::make_attention({.heads = 4, .queries = 128, .keys = 128, .depth = 32})};
  for (int64_t n : {96, 512, 1000})
    for (int64_t k : {64, 384}) out.push_back(task::make_gemm({.m = 128, .n = n, .k = k, .bias = true}));
  for (int64_t size : {14, 28, 56})
    for (int64_t k : {1, 3})
      out.push_back(task::make_conv({.channels = 64,
                                     .filters = 96,
                                     .size = {size, size},
                                     .kernel = {k, k},
                                     .pads = {k / 2, k / 2},
                                     .bias = true,
                                     .relu = true}));
  return out;
}

class Programs {
 public:
  explicit Programs(const target::Target& target) : target(target), tasks_(tasks()) {
    Rng rng(1);
    for (const task::Task& t : tasks_)
      for (const schedule::Trace& trace : space::generate_space(t.kernel, target))
        if (auto sketch = space::make_sketch(trace, t.kernel, target)) {
          sketches_.push_back(std::make_unique<space::Sketch>(std::move(*sketch)));
          const space::Sketch& made = *sketches_.back();
          std::vector<int64_t> decisions = trace.decisions;
          for (int i = 0; i < kDraws; ++i) {
            space::draw_decisions(made, decisions, rng);
            auto nest = space::instantiate(made, decisions, target, std::make_shared<Arena>());
            if (nest) all.push_back({&t, &made, decisions, std::move(*nest)});
          }
        }
  }
  features::Program operator[](size_t i) const {
    const Program& p = all[i % all.size()];
    return {*p.task, p.sketch->trace, p.decisions, p.nest, target, 1};
  }

  const target::Target target;
  std::vector<Program> all;

 private:
  std::vector<task::Task> tasks_;
  std::vector<std::unique_ptr<space::Sketch>> sketches_;
};

Row rate_row(const std::string& name, const Programs& programs, const features::Table& table, bool makes_nest,
             double seconds) {
  const int threads = static_cast<int>(std::max<size_t>(usable_cpus().size(), 1));
  struct Worker {
    ArenaPtr arena = std::make_shared<Arena>();
    features::Workspace workspace = {};
    features::Sample sample = {};
    size_t next = 0;
  };
  std::vector<Worker> workers(static_cast<size_t>(threads));
  const features::Table* const tables[] = {&table};
  const features::Needs needs(features::kHotStatement, tables);
  const double rate = rate_per_thread(threads, seconds, [&](int worker) {
    Worker& w = workers[static_cast<size_t>(worker)];
    for (int i = 0; i < 64; ++i) {
      const Program& p = programs.all[w.next++ % programs.all.size()];
      if (makes_nest) {
        w.arena->reset();
        auto nest = space::instantiate(*p.sketch, p.decisions, programs.target, w.arena);
        features::extract(needs, {*p.task, p.sketch->trace, p.decisions, *nest, programs.target, 1}, w.workspace,
                          w.sample);
      } else {
        features::extract(needs, {*p.task, p.sketch->trace, p.decisions, p.nest, programs.target, 1}, w.workspace,
                          w.sample);
      }
    }
    return 64.0;
  });
  return {name, rate, fmt::format("candidates/s a core, {} busy", threads), "", 0, 0};
}

Row shared_row(const std::string& name, const Programs& programs, const features::Table& table) {
  std::map<std::vector<float>, std::set<uint64_t>> nests;
  std::set<uint64_t> all;
  for (size_t i = 0; i < programs.all.size(); ++i) {
    const uint64_t nest = ir::hash_kernel(programs.all[i].nest);
    nests[features::extract(table, programs[i])].insert(nest);
    all.insert(nest);
  }
  size_t shared = 0;
  for (const auto& [values, programs_of] : nests) shared += programs_of.size() - 1;
  return {name,
          100.0 * static_cast<double>(shared) / static_cast<double>(std::max<size_t>(all.size(), 1)),
          fmt::format("% of {} programs", all.size()),
          "",
          0,
          0};
}

}  // namespace

std::vector<Row> feature_rows(double seconds) {
  std::vector<Row> out;
  for (const char* name : {"x86-64-v4", "a100"}) {
    const Programs programs(*target::find_target(name));
    const bool gpu = programs.target.cuda.sm_count > 0;
    const features::Table& trace = gpu ? features::kTraceGpu : features::kTraceCpu;
    for (const features::Table* table : {&features::kStatements, &features::kDataflow, &trace}) {
      const std::string of = fmt::format("{}{}", table->name, gpu && table != &trace ? "-gpu" : "");
      for (bool makes_nest : {false, true})
        if (const std::string row = (makes_nest ? "candidate." : "extract.") + of; wanted(row))
          out.push_back(rate_row(row, programs, *table, makes_nest, seconds));
    }
    if (const std::string row = fmt::format("shared.{}", trace.name); wanted(row))
      out.push_back(shared_row(row, programs, trace));
  }
  return out;
}

}  // namespace tcc::benchmarks
