#include "space/access.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "tcc/ir/query.h"
#include "tcc/target/last_cache.h"

namespace tcc::space {

std::optional<NaiveNest> naive_nest(const Kernel& kernel, const Block& block) {
  const std::string name = name_hint(kernel, block.id);
  if (schedule::find_block_by_name(kernel, name) != block.id) return std::nullopt;
  std::vector<Id> loops = schedule::loops_of(kernel, block.id);
  if (loops.size() != block.iters.size()) return std::nullopt;
  std::vector<int64_t> extents;
  for (size_t i = 0; i < loops.size(); ++i) {
    const Iter& it = block.iters[i];
    const Loop* l = find_loop(kernel.root, loops[i]);
    const Var* v = as<Var>(it.binding);
    if (v == nullptr || v->id != loops[i] || !is_int(l->extent) || l->loop_kind != LoopKind::kSerial)
      return std::nullopt;
    if (!l->annotations.empty() || l->body->kind == StmtKind::kSeq) return std::nullopt;
    if (it.kind != IterKind::kSpatial && it.kind != IterKind::kReduce) return std::nullopt;
    extents.push_back(int_value(l->extent));
  }
  std::optional<analysis::Contraction> found = analysis::classify(kernel, block, std::move(extents));
  return found ? std::optional(NaiveNest{std::move(*found), name}) : std::nullopt;
}

ReducedRun find_run(const NaiveNest& nest, int64_t lanes) {
  constexpr int64_t kIndependentSums = 4;
  ReducedRun run;
  int64_t length = 1;
  std::vector<std::optional<int64_t>> steps;  // of each operand along the run
  for (size_t i = nest.extents.size(); i-- > 0;) {
    if (!nest.reduce[i]) continue;
    if (nest.extents[i] > 1 && length > 1) {
      bool known = nest.group[i] == 0, joins = known;
      for (size_t j = 0; j < steps.size(); ++j) {
        const std::optional<int64_t> stride = nest.operands[j].stride[i];
        known &= stride && steps[j];
        joins &= known && *stride == *steps[j] * length;
      }
      if (!joins) {
        const int64_t most = kMaxPartialVectors * lanes, several = std::lcm(length, lanes);
        run.several =
            known && length < kIndependentSums * lanes && several <= most && nest.extents[i] * length >= 2 * several;
        run.unit = run.several ? several : length <= most ? length : 0;
        break;
      }
    } else if (nest.extents[i] > 1) {
      for (const analysis::Operand& o : nest.operands) steps.push_back(o.stride[i]);
    }
    ++run.iterators;
    length *= nest.extents[i];
  }
  return run;
}

bool has_scheduled_loop(const Kernel& kernel, Id block) {
  for (Id id : schedule::loops_of(kernel, block))
    if (find_loop(kernel.root, id)->loop_kind != LoopKind::kSerial) return true;
  return false;
}

int64_t vector_lanes(const target::Target& target, Type type) {
  return std::max<int64_t>(target.cpu.vector_bits / 8 / std::max<int64_t>(type_bytes(type), 1), 1);
}

int64_t vector_registers(const target::Target& target) {
  return std::max<int64_t>(target.cpu.num_vector_registers, 8);
}

int64_t best_divisor(int64_t n, int64_t limit) {
  for (int64_t d = std::min(n, limit); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

std::vector<LoopRv> pick(std::span<const LoopRv> loops, const std::vector<size_t>& iterators) {
  std::vector<LoopRv> out;
  for (size_t i : iterators) out.push_back(loops[i]);
  return out;
}

bool fuse_parallel(schedule::Schedule& s, std::span<const schedule::LoopRv> loops, schedule::LoopRv* fused) {
  if (!s.ok() || loops.empty()) return false;
  return keep_if_legal(s, [&](Schedule& trial) {
    const LoopRv outer = loops.size() > 1 ? trial.fuse(loops) : loops[0];
    trial.parallel(outer);
    if (fused != nullptr) *fused = outer;
  });
}

double buffer_bytes(const Kernel& kernel, bool outputs) {
  double bytes = 0;
  for (const Buffer* b : kernel.buffers) {
    if ((b->role == BufferRole::kOutput) != outputs) continue;
    auto n = static_cast<double>(type_bytes(b->type));
    for (Expr e : b->shape) n *= is_int(e) ? static_cast<double>(int_value(e)) : 1;
    bytes += n;
  }
  return bytes;
}
double output_bytes(const Kernel& kernel) {
  return buffer_bytes(kernel, true);
}

void stream_large_output(schedule::Schedule& s, schedule::LoopRv loop, const target::Target& target) {
  // The operands want their place in the cache too. An output that exceeds it is written to memory anyway.
  const double bytes = output_bytes(s.kernel());
  const auto cache = static_cast<double>(target::last_cache_bytes(target.cpu));
  if (2 * bytes < cache) return;
  s.annotate(loop, AnnotationKey::kNonTemporal, bytes > cache ? lit(1) : s.sample_categorical({0, 1}, {0.4, 0.6}));
}

}  // namespace tcc::space
