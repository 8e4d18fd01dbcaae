#include "search/anchor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "search/vary.h"
#include "tcc/ir/query.h"
#include "tcc/space/space.h"
#include "tcc/support/hash.h"

namespace tcc::search {

namespace {

constexpr int64_t kRelatives = 4;  // programs that are tried
constexpr int64_t kShapes = 6;     // programs of other shapes that are tried
constexpr double kDoublings = 4;   // that all extents together may differ by
constexpr size_t kSketches = 3;    // that one program of another shape goes to

// Is it a step of tiling, rather than of placing other blocks around the tiles?
bool tiles(schedule::Op op) {
  using schedule::Op;
  return schedule::is_sampling(op) || op == Op::kSplit || op == Op::kReorder || op == Op::kTransformLayout ||
         op == Op::kTensorize || op == Op::kPadEinsum || op == Op::kVectorize || op == Op::kUnroll;
}

// The chain from the anchor's outermost loop to the anchor block.
std::span<const ir::Stmt> anchor_path(const ir::Path& path) {
  TCC_CHECK(path.found(), "the anchor is not in its kernel");
  size_t top = 0;
  while (top + 1 < path.nodes.size() && path.nodes[top]->kind == ir::StmtKind::kSeq) ++top;
  return std::span(path.nodes).subspan(top);
}

// Hashes an anchor's nest without the integers in it: extents, and the strides and bounds that follow from them.
class FamilyHash {
 public:
  explicit FamilyHash(const ir::Kernel& kernel) : kernel_(kernel) {}

  uint64_t of(ir::Stmt nest) {
    ir::visit(nest, [&](ir::Stmt s) {
      add(static_cast<uint64_t>(s->kind));
      if (const auto* block = ir::as<ir::Block>(s)) {
        add(static_cast<uint64_t>(block->reducer));
        for (const ir::Iter& i : block->iters) add(static_cast<uint64_t>(i.kind));
      } else if (const auto* store = ir::as<ir::Store>(s)) {
        add_buffer(store->buffer, true);
      }
      return true;
    });
    ir::visit_roots(nest, [&](ir::Expr root) {
      ir::visit(root, [&](ir::Expr e) {
        add(e);
        return true;
      });
    });
    return hash_ == 0 ? 1 : hash_;
  }

 private:
  void add(uint64_t value) { hash_ = combine_hash(hash_, value); }

  void add(ir::Expr e) {
    // An index may lose a coefficient of 1 or a constant of 0: a sum of one term is its term.
    if (const auto* sum = ir::as<ir::Sum>(e); sum != nullptr && sum->terms.size() < 2) return;
    add(static_cast<uint64_t>(e->kind) * 64 + static_cast<uint64_t>(e->type));
    if (const auto* sum = ir::as<ir::Sum>(e)) add(sum->terms.size());
    if (const auto* var = ir::as<ir::Var>(e)) add(number(variables_, var->id));
    if (const auto* load = ir::as<ir::Load>(e)) add_buffer(load->buffer, false);
    if (const auto* call = ir::as<ir::Call>(e)) add(static_cast<uint64_t>(call->fn));
    if (const auto* value = ir::as<ir::FloatConst>(e)) add(std::bit_cast<uint64_t>(value->value));
  }

  void add_buffer(ir::Id id, bool written) {
    const ir::Buffer* buffer = kernel_.buffer(id);
    add(number(buffers_, id));
    if (buffer == nullptr) return;
    add(static_cast<uint64_t>(buffer->type) * 16 + buffer->shape.size());
    // As for anchor_hash(): another block may make an input, or read the output.
    const bool constant = !written && buffer->role == ir::BufferRole::kWeight;
    add(constant ? 1 : 0);
  }

  // In the order of first mention.
  static uint64_t number(std::vector<ir::Id>& known, ir::Id id) {
    const auto found = std::find(known.begin(), known.end(), id);
    if (found != known.end()) return static_cast<uint64_t>(found - known.begin());
    known.push_back(id);
    return known.size() - 1;
  }

  const ir::Kernel& kernel_;
  uint64_t hash_ = 0x66616d69u;
  std::vector<ir::Id> variables_, buffers_;
};

// The integers of the tiling steps: literal factors and attributes.
std::vector<int64_t> tiling_numbers(const schedule::Trace& trace) {
  std::vector<int64_t> out;
  for (const schedule::Instruction& in : trace.instructions) {
    if (!tiles(in.op)) continue;
    out.insert(out.end(), in.attrs.begin(), in.attrs.end());
    for (const schedule::Input& i : in.inputs)
      if (i.kind == schedule::Input::Kind::kLiteral) out.push_back(i.value);
  }
  return out;
}

// In doublings, over the numbers at equal places; one for each that has no counterpart.
double difference(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const size_t both = std::min(a.size(), b.size());
  double sum = static_cast<double>(std::max(a.size(), b.size()) - both);
  for (size_t i = 0; i < both; ++i)
    sum += std::fabs(std::log2(std::fabs(static_cast<double>(a[i])) + 1) -
                     std::log2(std::fabs(static_cast<double>(b[i])) + 1));
  return sum;
}

}  // namespace

AnchorShape anchor_shape(const task::Task& task) {
  const ir::Path whole = ir::find_path(task.kernel.root, task.anchor_id());
  const std::span<const ir::Stmt> path = anchor_path(whole);
  AnchorShape shape;
  for (const ir::Stmt s : path) {
    const ir::Loop* loop = ir::as<ir::Loop>(s);
    if (loop == nullptr) continue;
    if (!ir::is_int(loop->extent)) return {};
    shape.extents.push_back(ir::int_value(loop->extent));
  }
  shape.family = FamilyHash(task.kernel).of(path.front());
  return shape;
}

uint64_t anchor_hash(const task::Task& task) {
  const ir::Kernel& kernel = task.kernel;
  const ir::Path path = ir::find_path(kernel.root, task.anchor_id());
  const ir::Stmt nest = anchor_path(path).front();

  std::vector<ir::Id> read, written;
  auto note = [](std::vector<ir::Id>& list, ir::Id id) {
    if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
  };
  ir::visit(nest, [&](ir::Stmt s) {
    if (const auto* store = ir::as<ir::Store>(s)) note(written, store->buffer);
    return true;
  });
  ir::visit_loads(nest, [&](const ir::Load& load) { note(read, load.buffer); });
  ir::Kernel alone = kernel;
  alone.arena = std::make_shared<Arena>();
  alone.root = nest;
  std::vector<const ir::Buffer*> buffers;
  for (const std::vector<ir::Id>* list : {&read, &written})
    for (ir::Id id : *list) {
      const ir::Buffer* buffer = kernel.buffer(id);
      const bool output = std::find(written.begin(), written.end(), id) != written.end();
      if (buffer == nullptr || (list == &read && output)) continue;
      ir::Buffer copy = *buffer;
      if (output) copy.role = ir::BufferRole::kOutput;
      if (!output && copy.role == ir::BufferRole::kTemp) copy.role = ir::BufferRole::kInput;
      buffers.push_back(alone.arena->make<ir::Buffer>(copy));
    }
  alone.buffers = alone.arena->copy(buffers);
  return ir::hash_kernel(alone);
}

uint64_t tiling_hash(const schedule::Trace& trace) {
  uint64_t hash = 0x616e6368u;
  for (const schedule::Instruction& in : trace.instructions) {
    if (!tiles(in.op)) continue;
    hash = combine_hash(hash, static_cast<uint64_t>(in.op));
    hash = combine_hash(hash, static_cast<uint64_t>(in.inputs.size()) * 64 + static_cast<uint64_t>(in.outputs));
    for (int64_t a : in.attrs) hash = combine_hash(hash, static_cast<uint64_t>(a));
    hash = combine_hash(hash, hash_bytes(in.text));
  }
  return hash;
}

uint64_t tiling_form(const schedule::Trace& trace) {
  uint64_t hash = 0x666f726du;
  for (const schedule::Instruction& in : trace.instructions) {
    if (!tiles(in.op)) continue;
    hash = combine_hash(hash, static_cast<uint64_t>(in.op));
    hash = combine_hash(hash, static_cast<uint64_t>(in.inputs.size()) * 64 + static_cast<uint64_t>(in.outputs));
    if (in.op == schedule::Op::kTensorize) hash = combine_hash(hash, hash_bytes(in.text));
  }
  return hash;
}

std::vector<Seed> transfer_shape(const schedule::Trace& trace, const std::vector<space::Sketch>& sketches) {
  const uint64_t form = tiling_form(trace);
  const std::vector<int64_t> numbers = tiling_numbers(trace);
  std::vector<std::pair<double, size_t>> near;
  for (size_t s = 0; s < sketches.size(); ++s)
    if (tiling_form(sketches[s].trace) == form)
      near.emplace_back(difference(numbers, tiling_numbers(sketches[s].trace)), s);
  std::stable_sort(near.begin(), near.end());
  if (near.size() > kSketches) near.resize(kSketches);
  std::vector<Seed> out;
  for (const auto& [d, s] : near)
    out.push_back({static_cast<int32_t>(s),
                   transfer_decisions(trace, trace.decisions, sketches[s], sketches[s].trace.decisions)});
  return out;
}

std::vector<Seed> transfer(const schedule::Trace& trace, const std::vector<space::Sketch>& sketches) {
  std::vector<Seed> out;
  const uint64_t hash = tiling_hash(trace);
  for (size_t s = 0; s < sketches.size(); ++s)
    if (tiling_hash(sketches[s].trace) == hash)
      out.push_back({static_cast<int32_t>(s),
                     transfer_decisions(trace, trace.decisions, sketches[s], sketches[s].trace.decisions)});
  const uint64_t key = space::structural_key(trace, trace.decisions);
  std::stable_partition(out.begin(), out.end(),
                        [&](const Seed& seed) { return sketches[static_cast<size_t>(seed.sketch)].key == key; });
  return out;
}

namespace {

// A task as others are related to it.
struct Kin {
  uint64_t anchor = 0, task = 0;
  const AnchorShape& shape;
};

// The fastest programs of tasks with the same anchor, then those of the nearest shapes.
Result<std::vector<record::Record>> relatives_of(const record::Database& database, const Kin& kin,
                                                 const record::Machine& machine, int64_t threads) {
  TCC_TRY(std::vector<record::Record> records,
          database.fastest_relatives(kin.anchor, kin.task, machine, threads, kRelatives));
  TCC_TRY(std::vector<record::Record> shapes,
          database.nearest_shapes(kin.shape.family, kin.shape.extents, machine, threads, kDoublings, kShapes));
  std::move(shapes.begin(), shapes.end(), std::back_inserter(records));
  return records;
}

}  // namespace

Result<void> seed_from_relatives(std::vector<TaskState>& states, const target::Target& target,
                                 const TuneOptions& options, const Environment& env, bool resumed) {
  const record::Store& store = *env.store;
  const record::Machine machine = machine_of(target);
  for (TaskState& state : states) {
    std::vector<record::Record> records;
    if (!resumed) {
      TCC_TRY(records, relatives_of(store, {state.anchor, state.hash, state.shape}, machine, options.threads));
      for (const record::Record& r : records) state.relatives.push_back({r.task, r.id});
    } else {
      for (const RecordName& name : state.relatives) {
        TCC_TRY(std::vector<record::Record> all, store.all(name.task));
        for (record::Record& r : all)
          if (r.id == name.record) records.push_back(std::move(r));
      }
    }
    if (env.others != nullptr) {
      TCC_TRY(std::vector<record::Record> same, env.others->fastest(state.hash, machine, options.threads, kRelatives));
      TCC_TRY(std::vector<record::Record> related,
              relatives_of(*env.others, {state.anchor, state.hash, state.shape}, machine, options.threads));
      records.insert(records.begin(), std::make_move_iterator(same.begin()), std::make_move_iterator(same.end()));
      records.insert(records.end(), std::make_move_iterator(related.begin()), std::make_move_iterator(related.end()));
    }
    for (const record::Record& r : records)
      if (Result<schedule::Trace> trace = schedule::trace_from_json(r.trace); trace) {
        const bool same = r.anchor == state.anchor || r.task == state.hash;
        for (Seed& seed : same ? transfer(*trace, state.sketches) : transfer_shape(*trace, state.sketches))
          state.seeds.push_back(std::move(seed));
      }
  }
  return {};
}

Result<std::optional<Chosen>> relative_program(const task::Task& task, const target::Target& target,
                                               const record::Database& database, int64_t threads, const Gate& gate,
                                               std::string& why) {
  const uint64_t anchor = anchor_hash(task);
  const AnchorShape shape = anchor_shape(task);
  TCC_TRY(std::vector<record::Record> records,
          relatives_of(database, {anchor, task_hash(task), shape}, target::feature_hash(target), threads));
  if (records.empty()) return std::optional<Chosen>();
  const std::string& name = records[0].workload;
  if (!gate) {
    why = fmt::format("; the schedule of '{}' may fit, but its results cannot be checked here", name);
    return std::optional<Chosen>();
  }
  why = fmt::format("; the schedules of '{}' do not fit", name);
  // Traces alone: a handful of programs needs no symbolic kernel.
  std::vector<space::Sketch> sketches;
  for (schedule::Trace& trace : space::generate_space(task.kernel, target)) {
    space::Sketch& sketch = sketches.emplace_back();
    sketch.key = space::structural_key(trace, trace.decisions);
    sketch.trace = std::move(trace);
  }
  for (const record::Record& record : records) {
    Result<schedule::Trace> trace = schedule::trace_from_json(record.trace);
    if (!trace) continue;
    const bool same = record.anchor == anchor;
    for (const Seed& seed : same ? transfer(*trace, sketches) : transfer_shape(*trace, sketches)) {
      schedule::Trace mine = sketches[static_cast<size_t>(seed.sketch)].trace;
      mine.decisions = seed.decisions;
      Result<Chosen> chosen = program_of_trace(mine, task, target);
      if (!chosen) continue;
      if (Result<void> passed = gate(task, *chosen); !passed) {
        why = fmt::format("; the schedule of '{}' was tried and rejected: {}", record.workload, passed.error().message);
        continue;
      }
      chosen->relative = record.workload;
      chosen->note = fmt::format("the schedule of '{}' is used, {}: replayed and checked here", record.workload,
                                 same ? "which has the same anchor" : "the nearest tuned shape of the same operator");
      return std::optional(std::move(*chosen));
    }
  }
  return std::optional<Chosen>();
}

Gate make_gate(measure::Measurer& measurer, const target::Target& target, std::mutex* turns) {
  return [&measurer, target, turns](const task::Task& task, const Chosen& chosen) -> Result<void> {
    TCC_TRY(auto prepared, measurer.prepare(task.kernel, target));
    const auto lock = turns != nullptr ? std::unique_lock(*turns) : std::unique_lock<std::mutex>();
    measure::Candidate candidate;
    candidate.nest_hash = chosen.nest_hash;
    candidate.task = prepared.get();
    candidate.kernel = chosen.lowered;
    TCC_TRY(std::vector<measure::Measurement> measured, measurer.measure({&candidate, 1}));
    if (measured.at(0).status == record::Status::kOk) return {};
    return environment_error("{}: {}", record::status_name(measured[0].status), measured[0].failure);
  };
}

}  // namespace tcc::search
