#include "tcc/features/features.h"

#include <algorithm>
#include <cmath>

#include "features/statement.h"
#include "tcc/ir/walk.h"

namespace tcc::features {

using namespace ir;

namespace {

constexpr std::string_view kColumns[] = {
#define TCC_X(name) #name,
    TCC_FEATURES(TCC_X)
#undef TCC_X
};

constexpr int64_t kTileRegisters = 8;  // of AMX: Intel 64 manual, volume 1, 18.1

float slog(double x) {
  return static_cast<float>(std::log2(1 + std::max(x, 0.0)));
}

double buffer_bytes(const Buffer& b) {
  double n = static_cast<double>(type_bytes(b.type));
  for (Expr e : b.shape) n *= is_int(e) ? static_cast<double>(std::max<int64_t>(int_value(e), 1)) : 1;
  return n;
}

// Position of the vectorized loop that becomes lanes (the innermost); -1: none.
int vector_loop(const Statement& s) {
  for (size_t i = s.loops.size(); i-- > 0;)
    if (s.loops[i].kind == LoopKind::kVectorized) return static_cast<int>(i);
  return -1;
}

bool in_registers(const Buffer& b) {
  return b.scope == Scope::kLocal || b.scope == Scope::kAmxTile;
}

bool in_vectors(const Statement& s) {
  return s.instr != nullptr || vector_loop(s) >= 0;
}

enum class Pattern { kVector, kBroadcast, kStrided, kGather };
Pattern pattern_of(const Statement& s, const Access& a) {
  // An instruction's operand that is smaller than the result is used by several lanes.
  if (s.instr != nullptr) return a.bytes() < s.accesses.back().bytes() ? Pattern::kBroadcast : Pattern::kVector;
  const int vector = vector_loop(s);
  if (vector < 0) return Pattern::kBroadcast;
  auto v = static_cast<size_t>(vector);
  if (!a.moves[v]) return Pattern::kBroadcast;
  if (a.irregular[v]) return Pattern::kGather;
  if (a.buffer->scope == Scope::kLocal) {  // the lowering puts the vectorized dimension last
    int64_t moving = 0, steps = 0;
    for (const std::vector<int64_t>& dim : a.dims) moving += dim[v] != 0 ? 1 : 0, steps += std::abs(dim[v]);
    if (moving == 1 && steps == 1) return Pattern::kVector;
  }
  int64_t stride = std::abs(a.stride[v]);
  return stride == 1 ? Pattern::kVector : stride <= 4 ? Pattern::kStrided : Pattern::kGather;
}

class Extractor {
 public:
  Extractor(const Kernel& nest, const target::Target& target, int64_t threads, std::span<float> row)
      : kernel_(nest),
        target_(target),
        threads_(std::max<int64_t>(threads, 1)),
        statements_(list_statements(nest)),
        row_(row) {}

  void run() {
    whole_program();
    if (const Statement* hot = hottest()) {
      loops_around(*hot);
      register_tile(*hot);
      accesses_of(*hot);
      memory(*hot);
    }
    for (float& v : row_)
      if (!std::isfinite(v)) v = 0;
  }

 private:
  void put(Feature f, float v) { row_[static_cast<size_t>(f)] = v; }
  void put_log(Feature f, double v) { put(f, slog(v)); }
  double lanes() const { return static_cast<double>(std::max<int64_t>(target_.cpu.vector_bits / 32, 1)); }

  const Statement* hottest() const {
    const Statement* best = nullptr;
    double most = -1;
    for (const Statement& s : statements_) {
      double work = s.executions * (s.operations() + 0.01);
      if (work > most) most = work, best = &s;
    }
    return best;
  }

  void whole_program() {
    double flops = 0, ints = 0, operations = 0, stores = 0, loads = 0, vector_work = 0, calls = 0, gathers = 0,
           masked = 0, strided = 0;
    double copied = 0, copied_in_vectors = 0, stored_out = 0;
    size_t loops = 0;
    for (const Statement& s : statements_) {
      double n = s.executions, work = n * s.operations();
      flops += n * s.flops, ints += n * s.int_ops, operations += work, stores += n, calls += n * s.calls;
      loads += n * static_cast<double>(s.accesses.size() - 1);
      if (in_vectors(s)) vector_work += work;
      for (const Access& a : s.accesses) {
        Pattern p = pattern_of(s, a);
        gathers += p == Pattern::kGather ? n : 0;
        masked += a.predicated ? n : 0;
        strided += a.write && (p == Pattern::kStrided || p == Pattern::kGather) ? n : 0;
      }
      const Access& store = s.accesses.back();
      double bytes = n * static_cast<double>(store.bytes());
      // An instruction that fills a tile register is a load.
      if (s.operations() == 0 && store.buffer->scope != Scope::kAmxTile)
        copied += bytes, copied_in_vectors += in_vectors(s) ? bytes : 0;
      if (store.buffer->role == BufferRole::kOutput && s.accesses.size() > 1) stored_out += bytes;
      loops = std::max(loops, s.loops.size());
    }
    double params = 0, out = 0, local = 0, workspace = 0;
    for (const Buffer* b : kernel_.buffers) {
      double bytes = buffer_bytes(*b);
      if (b->role != BufferRole::kTemp) params += bytes;
      if (b->role == BufferRole::kOutput) out += bytes;
      if (b->role == BufferRole::kTemp) (in_registers(*b) ? local : workspace) += bytes;
    }
    const Seq* top = as<Seq>(kernel_.root);
    put_log(Feature::flops, flops), put_log(Feature::int_ops, ints), put_log(Feature::stores, stores),
        put_log(Feature::loads, loads);
    put_log(Feature::param_bytes, params), put_log(Feature::intensity, operations / std::max(params, 1.0));
    put_log(Feature::statements, static_cast<double>(statements_.size())),
        put_log(Feature::loops, static_cast<double>(loops));
    put(Feature::vector_share, operations > 0 ? static_cast<float>(vector_work / operations) : 0.f);
    put_log(Feature::scalar_flops, operations - vector_work);
    put_log(Feature::math_calls, calls), put_log(Feature::gather_accesses, gathers),
        put_log(Feature::masked_accesses, masked);
    put_log(Feature::strided_stores, strided);
    put_log(Feature::tail_waste, out > 0 ? std::max(stored_out / out - 1, 0.0) : 0);
    put_log(Feature::local_bytes, local), put_log(Feature::workspace_bytes, workspace);
    put_log(Feature::copy_bytes, copied),
        put(Feature::copy_vector_share, copied > 0 ? static_cast<float>(copied_in_vectors / copied) : 1.f);
    put(Feature::launches, static_cast<float>(top != nullptr ? top->stmts.size() : 1));
    put_log(Feature::threads, static_cast<double>(threads_)), put_log(Feature::vector_lanes, lanes());
    operations_ = operations;
  }

  void loops_around(const Statement& s) {
    double parallel = 1, inner_trip = 1, innermost = 1;
    bool seen_serial = false, reduce_inside = false;
    const Access& store = s.accesses.back();
    for (size_t i = s.loops.size(); i-- > 0;) {
      const LoopInfo& l = s.loops[i];
      if (l.kind == LoopKind::kParallel) parallel *= static_cast<double>(l.extent);
      if (l.kind != LoopKind::kSerial || l.extent == 1) continue;
      if (!seen_serial) innermost = static_cast<double>(l.extent), reduce_inside = !store.moves[i];
      seen_serial = true;
      if (!store.moves[i]) inner_trip *= static_cast<double>(l.extent);
    }
    auto threads = static_cast<double>(threads_);
    put_log(Feature::parallel_extent, parallel);
    put(Feature::parallel_balance, static_cast<float>(parallel / (std::ceil(parallel / threads) * threads)));
    put_log(Feature::parallel_grain_flops, operations_ / parallel);
    put(Feature::hot_share, operations_ > 0 ? static_cast<float>(s.executions * s.operations() / operations_) : 0.f);
    put(Feature::hot_depth, static_cast<float>(s.loops.size()));
    put_log(Feature::hot_inner_serial, innermost), put_log(Feature::hot_inner_trip, inner_trip);
    put(Feature::hot_reduce_inside, reduce_inside ? 1.f : 0.f);
    put(Feature::hot_accumulator_local, in_registers(*store.buffer) ? 1.f : 0.f);
    put(Feature::hot_predicate, s.predicated ? 1.f : 0.f);
    put_log(Feature::div_mod, s.divisions);
  }

  void register_tile(const Statement& s) {
    const int v = vector_loop(s);
    const Access& store = s.accesses.back();
    const bool matrix = store.buffer->scope == Scope::kAmxTile;  // one register holds a whole tile
    double width = s.instr != nullptr ? static_cast<double>(store.elements())
                   : v >= 0           ? static_cast<double>(s.loops[static_cast<size_t>(v)].extent)
                                      : 1;
    double registers = matrix ? 1 : std::ceil(width / lanes()), unroll = 1, tile = registers, loops = 0,
           code = registers;
    int64_t unroll_max = 0;
    for (size_t i = s.loops.size(); i-- > 0;) {
      const LoopInfo& l = s.loops[i];
      auto n = static_cast<double>(l.extent);
      if (l.kind == LoopKind::kUnrolled) {
        unroll *= n, ++loops, code *= n;
        if (store.moves[i]) tile *= n;
      }
      unroll_max = std::max(unroll_max, l.unroll_max);
    }
    // Serial loops that the annotation expands, innermost first.
    double expanded = unroll;
    for (size_t i = s.loops.size(); i-- > 0 && unroll_max > 0;) {
      const LoopInfo& l = s.loops[i];
      if (l.kind != LoopKind::kSerial) continue;
      if (expanded * static_cast<double>(l.extent) > static_cast<double>(unroll_max)) break;
      expanded *= static_cast<double>(l.extent);
      if (l.unroll_max > 0) break;
    }
    code *= expanded / unroll;
    const int64_t available_registers =
        matrix ? kTileRegisters : std::max<int64_t>(target_.cpu.num_vector_registers, 16);
    const auto available = static_cast<double>(available_registers);
    // Operands take registers of their own: the vectors of one row, and one broadcast.
    double pressure = (tile + registers + 1) / available;
    put_log(Feature::hot_vector, width), put_log(Feature::hot_vector_registers, registers);
    put(Feature::hot_vector_fill, matrix ? 1.f : static_cast<float>(width / (registers * lanes())));
    put_log(Feature::hot_unroll, unroll), put(Feature::hot_unroll_loops, static_cast<float>(loops));
    put_log(Feature::hot_register_tile, tile),
        put(Feature::hot_register_pressure, static_cast<float>(std::min(pressure, 64.0)));
    put_log(Feature::hot_spills, std::max(pressure - 1, 0.0) * available);
    put_log(Feature::code_size, code);
    tile_ = tile, registers_ = registers;
  }

  void accesses_of(const Statement& s) {
    double counts[4] = {0, 0, 0, 0}, per_tile = 0, masked = 0;
    for (size_t k = 0; k + 1 < s.accesses.size(); ++k) {
      const Access& a = s.accesses[k];
      Pattern p = pattern_of(s, a);
      counts[static_cast<size_t>(p)] += 1;
      masked += a.predicated ? 1 : 0;
      if (a.buffer == s.accesses.back().buffer) continue;  // the accumulator
      double loads = p == Pattern::kBroadcast ? 1 : registers_;
      for (size_t i = 0; i < s.loops.size(); ++i)
        if (s.loops[i].kind == LoopKind::kUnrolled && a.moves[i]) loads *= static_cast<double>(s.loops[i].extent);
      per_tile += loads;
    }
    put(Feature::hot_loads_vector, static_cast<float>(counts[0])),
        put(Feature::hot_loads_broadcast, static_cast<float>(counts[1]));
    put(Feature::hot_loads_strided, static_cast<float>(counts[2])),
        put(Feature::hot_loads_gather, static_cast<float>(counts[3]));
    put(Feature::hot_masked, static_cast<float>(masked));
    put_log(Feature::hot_loads_per_flop, per_tile / std::max(tile_, 1.0));
    const Access& store = s.accesses.back();
    const int v = vector_loop(s);
    const bool in_order = in_vectors(s) && pattern_of(s, store) == Pattern::kVector;
    put_log(Feature::hot_store_stride, in_order ? 1
                                       : v < 0  ? 0
                                                : static_cast<double>(std::abs(store.stride[static_cast<size_t>(v)])));
  }

  // Bytes that move into a cache: what the largest loop nest that fits it touches, times how often that nest runs.
  void memory(const Statement& s) {
    size_t n = s.loops.size();
    std::vector<double> touched(n + 1);
    for (size_t d = 0; d <= n; ++d) touched[d] = touched_bytes(s, d);
    auto traffic = [&](double cache, Feature level, Feature total, Feature per_flop) {
      size_t fits = n;
      while (fits > 0 && touched[fits - 1] <= cache) --fits;
      double runs = 1;
      for (size_t i = 0; i < fits; ++i) runs *= static_cast<double>(s.loops[i].extent);
      double bytes = touched[fits] * runs;
      put(level, n == 0 ? 0.f : static_cast<float>(n - fits) / static_cast<float>(n));
      put_log(total, bytes), put_log(per_flop, 16 * bytes / std::max(operations_, 1.0));
    };
    traffic(static_cast<double>(target_.cpu.l1_bytes) * 0.8, Feature::level_l1, Feature::traffic_l1,
            Feature::traffic_per_flop_l1);
    traffic(static_cast<double>(target_.cpu.l2_bytes) * 0.8, Feature::level_l2, Feature::traffic_l2,
            Feature::traffic_per_flop_l2);
    size_t outer = 0, inner = n;
    for (size_t i = 0; i < n; ++i) {
      if (s.loops[i].kind == LoopKind::kParallel) outer = i + 1;
      if (s.loops[i].kind == LoopKind::kSerial && s.loops[i].extent > 1) inner = i + 1;
    }
    put_log(Feature::touched_inner, touched[inner]), put_log(Feature::touched_outer, touched[outer]);
    put_log(Feature::touched_middle, touched[(inner + outer) / 2]);
  }

  const Kernel& kernel_;
  const target::Target& target_;
  int64_t threads_;
  std::vector<Statement> statements_;
  std::span<float> row_;
  double operations_ = 0, tile_ = 1, registers_ = 1;
};

void extract_hot_statement(const Kernel& nest, const target::Target& target, int64_t threads, std::span<float> row) {
  Extractor(nest, target, threads, row).run();
}

}  // namespace

constinit const Schema kHotStatement = {"cpu-hot-statement", 2, kColumns, extract_hot_statement};

}  // namespace tcc::features
