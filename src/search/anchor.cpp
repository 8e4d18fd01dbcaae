#include "search/anchor.h"

#include <algorithm>

#include "search/vary.h"
#include "tcc/ir/query.h"
#include "tcc/space/space.h"
#include "tcc/support/hash.h"

namespace tcc::search {

namespace {

constexpr int64_t kRelatives = 4;  // programs that are tried

// Is it a step of tiling, rather than of placing other blocks around the tiles?
bool tiles(schedule::Op op) {
  using schedule::Op;
  return schedule::is_sampling(op) || op == Op::kSplit || op == Op::kReorder || op == Op::kTransformLayout ||
         op == Op::kTensorize || op == Op::kPadEinsum || op == Op::kVectorize || op == Op::kUnroll;
}

}  // namespace

uint64_t anchor_hash(const task::Task& task) {
  const ir::Kernel& kernel = task.kernel;
  ir::Path path = ir::find_path(kernel.root, task.anchor_id());
  TCC_CHECK(path.found(), "the anchor is not in its kernel");
  size_t top = 0;
  while (top + 1 < path.nodes.size() && path.nodes[top]->kind == ir::StmtKind::kSeq) ++top;
  ir::Stmt nest = path.nodes[top];

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

Result<void> seed_from_relatives(std::vector<TaskState>& states, const target::Target& target,
                                 const TuneOptions& options, const Environment& env, bool resumed) {
  const record::Store& store = *env.store;
  const record::Machine machine = machine_of(target);
  for (TaskState& state : states) {
    std::vector<record::Record> records;
    if (!resumed) {
      TCC_TRY(records, store.fastest_relatives(state.anchor, state.hash, machine, options.threads, kRelatives));
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
              env.others->fastest_relatives(state.anchor, state.hash, machine, options.threads, kRelatives));
      records.insert(records.begin(), std::make_move_iterator(same.begin()), std::make_move_iterator(same.end()));
      records.insert(records.end(), std::make_move_iterator(related.begin()), std::make_move_iterator(related.end()));
    }
    for (const record::Record& r : records)
      if (Result<schedule::Trace> trace = schedule::trace_from_json(r.trace); trace)
        for (Seed& seed : transfer(*trace, state.sketches)) state.seeds.push_back(std::move(seed));
  }
  return {};
}

Result<std::optional<Chosen>> relative_program(const task::Task& task, const target::Target& target,
                                               const record::Database& database, int64_t threads, const Gate& gate,
                                               std::string& why) {
  TCC_TRY(std::vector<record::Record> records,
          database.fastest_relatives(anchor_hash(task), task_hash(task), target::feature_hash(target), threads,
                                     kRelatives));
  if (records.empty()) return std::optional<Chosen>();
  const std::string& name = records[0].workload;
  if (!gate) {
    why = fmt::format("; the schedule of '{}' may fit, but its results cannot be checked here", name);
    return std::optional<Chosen>();
  }
  why = fmt::format("; the schedules of '{}' do not fit", name);
  std::vector<space::Sketch> sketches;
  for (const schedule::Trace& trace : space::generate_space(task.kernel, target))
    if (ir::Legal<space::Sketch> sketch = space::make_sketch(trace, task.kernel, target); sketch)
      sketches.push_back(std::move(*sketch));
  for (const record::Record& record : records) {
    Result<schedule::Trace> trace = schedule::trace_from_json(record.trace);
    if (!trace) continue;
    for (const Seed& seed : transfer(*trace, sketches)) {
      schedule::Trace mine = sketches[static_cast<size_t>(seed.sketch)].trace;
      mine.decisions = seed.decisions;
      Result<Chosen> chosen = program_of_trace(mine, task, target);
      if (!chosen) continue;
      if (Result<void> passed = gate(task, *chosen); !passed) {
        why = fmt::format("; the schedule of '{}' was tried and turned down: {}", record.workload,
                          passed.error().message);
        continue;
      }
      chosen->relative = record.workload;
      return std::optional(std::move(*chosen));
    }
  }
  return std::optional<Chosen>();
}

Gate make_gate(measure::Measurer& measurer, const target::Target& target) {
  return [&measurer, target](const task::Task& task, const Chosen& chosen) -> Result<void> {
    TCC_TRY(auto prepared, measurer.prepare(task.kernel, target));
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
