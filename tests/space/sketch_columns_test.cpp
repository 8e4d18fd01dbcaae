// Columns say of every draw what instantiated kernels say: legality, extents, storage, footprints.
#include "tcc/space/sketch_columns.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "run_kernel.h"
#include "sample_tasks.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/interval.h"
#include "tcc/ir/query.h"

using namespace tcc;
using analysis::AccessColumns;
using analysis::Column;

namespace {

// Loads and stores of one statement of a kernel with numbers, in the order of StatementColumns.
struct NumberedAccess {
  ir::Id buffer;
  std::span<const ir::Expr> indices;
  std::vector<int64_t> tile;
};
struct NumberedStatement {
  std::vector<const ir::Loop*> loops;
  std::vector<NumberedAccess> accesses;
};

class Lister {
 public:
  std::vector<NumberedStatement> statements;
  std::map<ir::Id, int64_t> extents;

  void stmt(ir::Stmt s) {
    if (const ir::Store* store = ir::as<ir::Store>(s)) {
      NumberedStatement out = {loops_, {}};
      ir::visit(store->value, [&](ir::Expr e) {
        const ir::Load* l = ir::as<ir::Load>(e);
        if (l != nullptr) out.accesses.push_back({l->buffer, l->indices, {}});
        return l == nullptr;
      });
      out.accesses.push_back({store->buffer, store->indices, {}});
      statements.push_back(std::move(out));
    } else if (const ir::InstrCall* call = ir::as<ir::InstrCall>(s)) {
      instruction(*call);
    }
    const ir::Loop* l = ir::as<ir::Loop>(s);
    if (l != nullptr) loops_.push_back(l), extents[l->id] = ir::int_value(l->extent);
    ir::visit_children(s, [&](ir::Stmt c) { stmt(c); });
    if (l != nullptr) loops_.pop_back();
  }

 private:
  void instruction(const ir::InstrCall& call) {
    const ir::Instruction& row = ir::instruction(call.instr);
    NumberedStatement out = {loops_, {}};
    std::vector<NumberedAccess> written;
    bool first = true;
    for (size_t i = 0; i < row.operands.size(); ++i) {
      const ir::OperandSpec& spec = row.operands[i];
      std::vector<int64_t> tile;
      for (int32_t d = 0; d < spec.rank; ++d)
        tile.push_back(
            std::max<int64_t>(spec.tile[d] > 0 ? spec.tile[d] : ir::int_value(call.args[static_cast<size_t>(d)]), 1));
      const NumberedAccess a = {call.operands[i].buffer, call.operands[i].indices, tile};
      if (spec.access != ir::Access::kWrite) out.accesses.push_back(a);
      if (spec.access != ir::Access::kRead) (first ? written.push_back(a) : out.accesses.push_back(a)), first = false;
    }
    if (written.empty()) return;
    out.accesses.push_back(written[0]);
    statements.push_back(std::move(out));
  }
  std::vector<const ir::Loop*> loops_;
};

double box(const ir::Kernel& k, const NumberedStatement& s, const NumberedAccess& a, size_t depth) {
  const ir::Buffer& b = *k.buffer(a.buffer);
  double elements = 1;
  for (size_t d = 0; d < a.indices.size(); ++d) {
    const ir::Interval range = ir::interval_of(a.indices[d], [&](ir::Id id) -> ir::Interval {
      for (size_t i = 0; i < s.loops.size(); ++i)
        if (s.loops[i]->id == id) return {0, i < depth ? 0 : ir::int_value(s.loops[i]->extent) - 1};
      return {};
    });
    const size_t skipped = a.indices.size() - a.tile.size();
    const int64_t tile = d >= skipped && d - skipped < a.tile.size() ? a.tile[d - skipped] : 1;
    const int64_t shape = std::max<int64_t>(ir::int_value(b.shape[d]), 1);
    // An index that comes from memory has at most as many values as its loops have iterations.
    int64_t values = tile;
    for (size_t i = depth; i < s.loops.size(); ++i)
      if (ir::mentions(a.indices[d], s.loops[i]->id)) values *= ir::int_value(s.loops[i]->extent);
    elements *= static_cast<double>(std::min(range.known() ? range.high - range.low + tile : values, shape));
  }
  return elements;
}

struct Totals {
  int64_t sketches = 0, concrete = 0, draws = 0, undecided = 0, legal = 0, rejected = 0, unmatched = 0;
  int64_t steps = 0, registers = 0;
};

class Comparison {
 public:
  Comparison(const space::Sketch& sketch, const target::Target& target, space::SketchColumns& columns)
      : sketch_(sketch), target_(target), columns_(columns) {
    wanted_ = {columns.legal, columns.decided, columns.identity};
    if (columns.limits.threads != analysis::kNoColumn)
      wanted_.insert(wanted_.end(), {columns.limits.threads, columns.limits.shared_bytes, columns.limits.local_bytes});
    for (const analysis::LoopColumns& l : columns.nest.loops) wanted_.push_back(l.extent);
    for (const analysis::BufferColumns& b : columns.nest.buffers) wanted_.push_back(b.elements);
    for (const analysis::StatementColumns& s : columns.nest.statements) {
      wanted_.push_back(s.executions);
      for (const AccessColumns& a : s.accesses) wanted_.insert(wanted_.end(), a.touched.begin(), a.touched.end());
    }
    for (size_t i = 0; i < wanted_.size(); ++i) place_.try_emplace(wanted_[i], i);
    program_ = columns.builder.finish(wanted_);
  }

  void run(int64_t draws, uint64_t seed, Totals& totals) {
    const auto slots = sketch_.trace.decisions.size();
    const size_t room = static_cast<size_t>((draws + 127) / 128 * 128);
    std::vector<std::vector<int64_t>> decisions;
    std::vector<std::vector<double>> inputs(slots, std::vector<double>(room, 1)),
        outputs(wanted_.size(), std::vector<double>(room));
    Rng rng(seed);
    for (int64_t i = 0; i < draws; ++i) {
      decisions.push_back(sketch_.trace.decisions);
      if (i > 0) space::draw_decisions(sketch_, decisions.back(), rng);
      for (size_t s = 0; s < slots; ++s) inputs[s][static_cast<size_t>(i)] = static_cast<double>(decisions.back()[s]);
    }
    std::vector<const double*> in;
    std::vector<double*> out;
    for (auto& c : inputs) in.push_back(c.data());
    for (auto& c : outputs) out.push_back(c.data());
    std::vector<double> scratch;
    program_.run(in, out, draws, scratch);
    totals.steps += program_.steps(), totals.registers += program_.registers();
    values_ = &outputs;
    for (int64_t i = 0; i < draws; ++i) compare(decisions[static_cast<size_t>(i)], static_cast<size_t>(i), totals);
  }

 private:
  double value(Column c, size_t row) const { return (*values_)[place_.at(c)][row]; }

  void compare(const std::vector<int64_t>& decisions, size_t row, Totals& totals) {
    ++totals.draws;
    auto arena = std::make_shared<Arena>();
    ir::Legal<ir::Kernel> nest = space::instantiate(sketch_, decisions, target_, arena);
    if (value(columns_.decided, row) == 0) {
      ++totals.undecided;
      return;
    }
    INFO("decisions " << Catch::Detail::stringify(decisions));
    INFO((nest ? ir::print(*nest) : nest.error().text));
    REQUIRE((value(columns_.legal, row) == 1) == nest.has_value());
    if (nest && columns_.limits.threads != analysis::kNoColumn) same_block(*nest, row);
    ++(nest ? totals.legal : totals.rejected);
    if (!nest) return;
    same_programs(row, ir::hash_kernel(*nest));
    Lister lister;
    lister.stmt(nest->root);
    for (const analysis::LoopColumns& l : columns_.nest.loops) {
      INFO("loop " << ir::name_hint(*nest, l.loop->id));
      auto at = lister.extents.find(l.loop->id);
      REQUIRE(value(l.extent, row) == static_cast<double>(at == lister.extents.end() ? 1 : at->second));
    }
    for (const ir::Buffer* b : nest->buffers) {
      double elements = 1;
      for (ir::Expr e : b->shape) elements *= static_cast<double>(std::max<int64_t>(ir::int_value(e), 1));
      if (b->layout != nullptr) elements = static_cast<double>(b->layout->size);
      REQUIRE(value(columns_.nest.buffer(b->id).elements, row) == elements);
    }
    // A predicate that never holds takes its statement along.
    if (lister.statements.size() != columns_.nest.statements.size()) {
      ++totals.unmatched;
      return;
    }
    for (size_t s = 0; s < lister.statements.size(); ++s)
      compare(*nest, lister.statements[s], columns_.nest.statements[s], row);
  }

  void compare(const ir::Kernel& nest, const NumberedStatement& got, const analysis::StatementColumns& columns,
               size_t row) {
    double executions = 1;
    for (const ir::Loop* l : got.loops) executions *= static_cast<double>(ir::int_value(l->extent));
    REQUIRE(value(columns.executions, row) == executions);
    REQUIRE(got.accesses.size() == columns.accesses.size());
    for (size_t a = 0; a < got.accesses.size(); ++a) {
      const AccessColumns& access = columns.accesses[a];
      REQUIRE(got.accesses[a].buffer == access.buffer->id);
      for (size_t depth = 0; depth <= got.loops.size(); ++depth) {
        size_t position = columns.loops.size();
        for (size_t p = 0; p < columns.loops.size() && depth < got.loops.size(); ++p)
          if (columns_.nest.loops[static_cast<size_t>(columns.loops[p])].loop->id == got.loops[depth]->id) position = p;
        INFO("access " << a << " of " << ir::name_hint(nest, access.buffer->id) << " from loop " << depth);
        const double expected = box(nest, got, got.accesses[a], depth);
        REQUIRE(value(access.touched[position], row) == expected);
      }
    }
  }

  // Threads and shared memory of a block, where one launch has no pipelines and all of its buffers fit side by side.
  void same_block(const ir::Kernel& nest, size_t row) {
    std::map<ir::Axis, double> axes;
    double shared = 0;
    bool plain = true, warps = false;
    ir::visit(nest.root, [&](ir::Stmt s) {
      if (const ir::Loop* l = ir::as<ir::Loop>(s)) {
        plain &= !ir::has_annotation(*l, ir::AnnotationKey::kPipelineDepth);
        if (!ir::is_thread(l->axis) || l->axis == ir::Axis::kWarpgroup) return true;
        double& n = axes.try_emplace(l->axis, 1.0).first->second;
        n = std::max(n, static_cast<double>(ir::int_value(l->extent)));
      }
      if (const ir::InstrCall* call = ir::as<ir::InstrCall>(s))
        warps |= ir::instruction(call->instr).participants == ir::Participants::kWarp;
      if (const ir::Alloc* a = ir::as<ir::Alloc>(s))
        for (ir::Id id : a->buffers)
          if (const ir::Buffer& b = *nest.buffer(id); b.scope == ir::Scope::kShared) {
            double bytes = static_cast<double>(ir::type_bytes(b.type));
            for (ir::Expr e : b.shape) bytes *= static_cast<double>(ir::int_value(e));
            plain &= b.layout == nullptr;
            const double align = std::max(b.alignment, 16);
            shared = std::ceil(shared / align) * align + bytes;
          }
      return true;
    });
    const bool one = ir::as<ir::Loop>(nest.root) != nullptr;
    double threads = warps ? 32 : 1;
    for (const auto& [axis, n] : axes) threads *= n;
    if (one) REQUIRE(value(columns_.limits.threads, row) == threads);
    if (one && plain && shared > 0 && shared <= static_cast<double>(target_.cuda.shared_per_block))
      REQUIRE(value(columns_.limits.shared_bytes, row) == shared);
  }

  // Programs with one identity are one program.
  void same_programs(size_t row, uint64_t hash) {
    uint64_t bits = 0;
    const double identity = value(columns_.identity, row);
    std::memcpy(&bits, &identity, sizeof bits);
    auto [at, fresh] = programs_.try_emplace(bits, hash);
    if (!fresh) REQUIRE(at->second == hash);
    hashes_.insert(hash);
  }

 public:
  size_t identities() const { return programs_.size(); }
  size_t programs() const { return hashes_.size(); }

 private:
  const space::Sketch& sketch_;
  const target::Target& target_;
  space::SketchColumns& columns_;
  std::vector<Column> wanted_;
  std::map<Column, size_t> place_;
  analysis::ColumnProgram program_;
  const std::vector<std::vector<double>>* values_ = nullptr;
  std::map<uint64_t, uint64_t> programs_;
  std::set<uint64_t> hashes_;
};

std::vector<task::Task> cpu_tasks() {
  std::vector<task::Task> tasks;
  tasks.push_back(task::make_gemm({.m = 1024, .n = 1024, .k = 1024}));
  tasks.push_back(task::make_gemm({.m = 13, .n = 70, .k = 17, .bias = true, .relu = true, .constant_weights = true}));
  tasks.push_back(
      task::make_gemm({.m = 1, .n = 100, .k = 40, .bias = true, .constant_weights = true, .trans_b = true}));
  tasks.push_back(task::make_conv({.channels = 3,
                                   .filters = 64,
                                   .size = {224, 224},
                                   .kernel = {7, 7},
                                   .strides = {2, 2},
                                   .pads = {3, 3},
                                   .bias = true,
                                   .relu = true}));
  tasks.push_back(task::make_conv({.channels = 64,
                                   .filters = 96,
                                   .size = {28, 30},
                                   .kernel = {3, 3},
                                   .pads = {1, 1},
                                   .bias = true,
                                   .relu = true,
                                   .residual = true}));
  tasks.push_back(task::make_conv(
      {.channels = 64, .filters = 64, .group = 64, .size = {56, 56}, .kernel = {3, 3}, .pads = {1, 1}, .relu = true}));
  tasks.push_back(task::make_conv(
      {.batch = 2, .channels = 4, .filters = 8, .group = 2, .size = {8, 8}, .kernel = {3, 3}, .strides = {2, 2}}));
  tasks.push_back(
      task::make_pool({.channels = 4, .size = {14, 14}, .kernel = {3, 3}, .strides = {2, 2}, .pads = {1, 1}}));
  tasks.push_back(task::make_attention({.heads = 4, .queries = 32, .keys = 48, .depth = 16}));
  tasks.push_back(task::make_softmax({12, 40}, 1));
  tasks.push_back(task::make_reduction({6, 33, 5}, {1}, graph::Op::kReduceMean));
  tasks.push_back(task::make_elementwise({2, 8, 7, 7}));
  return tasks;
}

std::vector<task::Task> gpu_tasks() {
  std::vector<task::Task> tasks = cpu_tasks();
  tasks.push_back(task::make_gemm({.m = 256, .n = 384, .k = 512, .dtype = graph::DType::kF16}));
  return tasks;
}

Totals compare_all(const std::vector<task::Task>& tasks, const target::Target& target, bool wide, int64_t draws) {
  Totals totals;
  if (std::getenv("TCC_SOAK") != nullptr) draws = 10000;
  size_t identities = 0, programs = 0;
  for (const task::Task& t : tasks) {
    INFO(t.workload);
    space::SpaceOptions options;
    options.metaschedule = wide;
    const std::vector<schedule::Trace> traces = space::generate_space(t.kernel, target, options);
    for (size_t i = 0; i < traces.size(); ++i) {
      INFO(schedule::print_trace(traces[i]));
      ir::Legal<space::Sketch> sketch = space::make_sketch(traces[i], t.kernel, target);
      REQUIRE(sketch.has_value());
      ++totals.sketches;
      space::SketchColumns columns;
      std::string why;
      if (!space::sketch_columns(*sketch, target, columns, why)) {
        CHECK(!why.empty());
        ++totals.concrete;
        continue;
      }
      Comparison comparison(*sketch, target, columns);
      comparison.run(std::max<int64_t>(draws / std::ssize(traces), 4), 7 + i, totals);
      identities += comparison.identities(), programs += comparison.programs();
    }
  }
  if (std::getenv("TCC_SOAK") != nullptr) {
    WARN("sketches " << totals.sketches << ", without columns " << totals.concrete << ", draws " << totals.draws
                     << ", undecided " << totals.undecided << ", legal " << totals.legal << ", rejected "
                     << totals.rejected << ", unmatched " << totals.unmatched << ", identities " << identities
                     << ", programs " << programs << ", steps " << totals.steps << ", registers " << totals.registers);
  }
  return totals;
}

}  // namespace

TEST_CASE("columns are the numbers of instantiated kernels on GPUs") {
  for (const char* name : {"a100", "t4"}) {
    INFO(name);
    const Totals totals = compare_all(gpu_tasks(), named_target(name), false, 400);
    CHECK(totals.concrete * 2 < totals.sketches);
    CHECK(totals.undecided * 10 < totals.draws);
    CHECK(totals.unmatched * 10 < totals.draws);
    CHECK(totals.legal > 100);
    CHECK(totals.rejected > 100);
  }
}

TEST_CASE("columns are the numbers of instantiated kernels on CPUs") {
  for (bool wide : {false, true}) {
    const Totals totals = compare_all(cpu_tasks(), named_target("x86-64-v4"), wide, 200);
    CHECK(totals.concrete * 4 < totals.sketches);
    CHECK(totals.undecided * 10 < totals.draws);
    CHECK(totals.unmatched * 20 < totals.draws);
    CHECK(totals.legal * 4 > totals.draws);
  }
}
