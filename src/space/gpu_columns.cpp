// Reductions over other dimensions than the innermost one: neighboring threads have neighboring columns.
//
//   for j { for i { y[j] += x[i, j] } }
//
//   grid (j0, p) {                                                          p: parts of the rows, where columns are few
//     thread.y w { thread.x t { acc[V] = 0; r { u unrolled { v vectorized { acc[v] += x[.., (j0*T + t)*V + v] } } };
//                               part[.., w] = acc } }
//     j { w { y += part[j, w] } } }
//
// Rows of several threads are on their way at a time, in vectors of V columns. Parts of the rows go to a workspace,
// and a second launch adds them up.
#include <algorithm>
#include <array>

#include "space/gpu.h"
#include "space/gpu_row_blocks.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

constexpr int64_t kMinRows = 8;  // fewer do not fill the threads of a block
constexpr int64_t kMinColumns = 8;
constexpr int kAttempts = 16;

struct Columns {
  std::string name;
  size_t column = 0;  // iterator
  int64_t columns = 1, rows = 1, results = 1;
  int64_t widest = 1;  // elements of a vector
};

std::optional<Columns> find_columns(const Kernel& k, const std::string& name) {
  const Block* block = find_block(k.root, schedule::find_block_by_name(k, name));
  std::optional<NaiveNest> nest = block != nullptr ? naive_nest(k, *block) : std::nullopt;
  if (!nest || !nest->is_reduction() || block->init == nullptr || nest->loads.empty()) return std::nullopt;
  std::optional<Columns> found;
  for (size_t i = 0; i < nest->extents.size(); ++i) {
    if (nest->reduce[i] && nest->window(i)) return std::nullopt;
    if (!nest->reduce[i] && nest->extents[i] > 1 && nest->has_reuse(i)) return std::nullopt;
    if (nest->reduce[i] || nest->extents[i] < 2 || nest->result.stride[i] != 1) continue;
    bool all = true;
    int64_t narrowest = kMaxAccessBytes;
    for (const analysis::Operand& o : nest->operands) {
      all &= o.stride[i] == 1 && o.load->predicate == nullptr;
      narrowest = std::min<int64_t>(narrowest, type_bytes(o.load->type));
    }
    if (all) found = Columns{name, i, nest->extents[i], 1, 1, kMaxAccessBytes / std::max<int64_t>(narrowest, 1)};
  }
  for (size_t i = 0; found && i < nest->extents.size(); ++i)
    (nest->reduce[i] ? found->rows : found->results) *= nest->extents[i];
  if (found && (found->rows < kMinRows || found->columns < kMinColumns)) return std::nullopt;
  // Rows begin at multiples of their vectors, and tiles are not wider than the results.
  while (found && (found->columns % found->widest != 0 || found->widest * kMinColumns > found->columns))
    found->widest /= 2;
  return found;
}

// Elements of a vector: all that an access holds, because narrower ones need several times the loads for the same
// bytes; or half of them where tiles of whole ones would leave multiprocessors without a block.
ExprRv sample_wide(Schedule& s, const Columns& c, const target::Target& target) {
  const bool enough = 4 * c.results / (kMinColumns * c.widest) >= 3 * target.cuda.sm_count;
  return enough || c.widest < 4 ? schedule::lit(c.widest) : sample_uniform(s, {c.widest / 2, c.widest});
}

class GpuColumns {
 public:
  static Ways apply(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
    std::optional<Columns> found;
    for (const std::string& name : unscheduled_blocks(state.kernel()))
      if (!found) found = find_columns(state.kernel(), name);
    if (!found) return {state};
    Ways ways;
    for (const bool in_parts : {true, false})
      for (int attempt = 0, made = 0; attempt < kAttempts && made == 0; ++attempt)
        made = ways.attempt(state,
                            [&](Schedule& s) {
                              return in_parts ? parts(s, *found, target, options.gpu)
                                              : tile(s, found->name, true, *found, found->rows, target, options.gpu);
                            })
                   ? 1
                   : 0;
    return std::move(ways.or_also(state));
  }

 private:
  // The block in a launch of its own: the loops of its results and then those of its terms. `ends`: what reads the
  // result goes along.
  static bool tile(Schedule& s, const std::string& name, bool ends, const Columns& c, int64_t rows,
                   const target::Target& target, const GpuSpaceOptions& options) {
    BlockRv block = s.get_block(name);
    BlockLoops loops = loops_below(s, block, 0);
    if (!s.ok() || loops.terms.empty() || loops.spatial.size() <= c.column) return false;
    std::vector<int64_t> deep;
    for (int64_t n : options.column_rows)
      if (n <= rows) deep.push_back(n);
    std::vector<int64_t> wide;
    for (int64_t n : options.column_lanes)
      if (n * c.widest <= c.columns) wide.push_back(n);
    if (deep.empty() || wide.empty()) return false;
    // The threads along y get sums of their own in a nest of their own, which then goes to where they are combined.
    std::vector<LoopRv> order = loops.terms;
    order.insert(order.end(), loops.spatial.begin(), loops.spatial.end());
    s.reorder(order);
    std::vector<LoopRv> i =
        s.split(fuse_all(s, loops.terms),
                std::array{ExprRv{}, sample_uniform(s, options.stream_unroll), sample_uniform(s, deep)});
    if (!s.ok()) return false;
    BlockRv partial = s.rfactor(block, i[2]);
    BlockRv out = s.cache_write(partial, Scope::kLocal);
    std::vector<LoopRv> combining = s.get_loops(block);
    if (!s.ok() || combining.size() != loops.spatial.size() + 1) return false;
    const ExprRv lanes = sample_uniform(s, wide), vector = sample_wide(s, c, target);
    std::vector<LoopRv> j = s.split(combining[c.column], std::array{ExprRv{}, lanes, vector});
    if (!s.ok()) return false;
    std::vector<LoopRv> around(combining.begin(), combining.end() - 1);
    around[c.column] = j[0];
    order = around;
    order.insert(order.end(), {j[1], j[2], combining.back()});
    s.reorder(order);
    LoopRv grid = fuse_all(s, around);
    s.bind(grid, Axis::kGridX);
    s.annotate(grid, AnnotationKey::kMinThreads, lit(options.stream_threads.front()));
    s.bind(j[1], Axis::kThreadX);
    s.compute_at(out, grid);
    std::vector<LoopRv> parts = s.get_loops(out);  // grid, the results of the block, threads along y
    if (!s.ok() || parts.size() != loops.spatial.size() + 2) return false;
    std::vector<LoopRv> mine = s.split(parts[1 + c.column], std::array{lanes, vector});
    if (!s.ok()) return false;
    order.assign(1, parts.back());
    for (size_t d = 0; d < loops.spatial.size(); ++d)
      if (d != c.column) order.push_back(parts[1 + d]);
    order.insert(order.end(), mine.begin(), mine.end());
    s.reorder(order);
    s.bind(parts.back(), Axis::kThreadY);
    s.bind(mine[0], Axis::kThreadX);
    s.vectorize(mine[1]);
    s.compute_at(partial, mine[0]);
    if (!s.ok() || !add_up(s, partial, c, loops.spatial.size())) return false;
    if (ends) take_reader(s, block, j[1]);
    return s.ok();
  }

  // The only reader of a sum takes it from the registers of the thread that has it, where it reads nothing else of it.
  static void take_reader(Schedule& s, BlockRv sum, LoopRv thread) {
    const std::vector<Id> readers = schedule::consumers_of(s.kernel(), s.id(sum));
    if (readers.size() != 1) return;
    Schedule trial = s;
    trial.reverse_compute_at(trial.get_block(name_hint(s.kernel(), readers[0])), thread);
    trial.set_scope(sum, Scope::kLocal);
    if (trial.ok()) s = std::move(trial);
  }

  // The sums of a thread: rows in turn, those of an unrolled loop together.
  static bool add_up(Schedule& s, BlockRv partial, const Columns& c, size_t results) {
    std::vector<LoopRv> all = s.get_loops(partial);  // ..., its results, the thread along y, rows, unrolled rows
    if (!s.ok() || all.size() < results + 3) return false;
    const std::span<const LoopRv> below = std::span(all).last(results + 3);
    std::vector<LoopRv> order;
    for (size_t d = 0; d <= results; ++d)
      if (d != c.column) order.push_back(below[d]);
    order.insert(order.end(), {below[results + 1], below[results + 2], below[c.column]});
    s.reorder(order);
    s.unroll(below[results + 2]);
    s.vectorize(below[c.column]);
    return s.ok();
  }

  static bool parts(Schedule& s, const Columns& c, const target::Target& target, const GpuSpaceOptions& options) {
    BlockRv block = s.get_block(c.name);
    BlockLoops loops = loops_below(s, block, 0);
    std::vector<int64_t> counts;
    for (int64_t n : options.column_parts)
      if (c.rows / n >= 4 * kMinRows) counts.push_back(n);
    if (!s.ok() || loops.terms.empty() || counts.empty()) return false;
    std::vector<LoopRv> order = loops.terms;
    order.insert(order.end(), loops.spatial.begin(), loops.spatial.end());
    s.reorder(order);
    std::vector<LoopRv> k = s.split(fuse_all(s, loops.terms), std::array{sample_uniform(s, counts), ExprRv{}});
    if (!s.ok()) return false;
    BlockRv partial = s.rfactor(block, k[0]);
    if (!s.ok()) return false;
    // Parts one behind the other, so that columns stay neighbors.
    const std::string name = name_hint(s.kernel(), s.id(partial));
    const Buffer* sums = s.kernel().buffer(schedule::written_buffer(s.kernel(), s.id(partial)));
    std::vector<int32_t> permutation(sums->shape.size());
    for (size_t d = 1; d < permutation.size(); ++d) permutation[d] = static_cast<int32_t>(d) - 1;
    permutation[0] = static_cast<int32_t>(permutation.size()) - 1;
    s.transform_layout(block, 0, permutation, {});
    Columns part = c;
    part.rows = c.rows / counts.back();
    if (!s.ok() || !tile(s, name, false, part, part.rows, target, options)) return false;
    Columns rest = c;
    rest.rows = counts.front();
    rest.widest = 1;
    return tile(s, c.name, true, rest, rest.rows, target, options);
  }
};

}  // namespace

Ways gpu_columns(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  return GpuColumns::apply(state, target, options);
}

}  // namespace tcc::space
