// Rows of a reduction by vectors, without shared memory for what a thread alone uses.
//
// Rows that fit the registers of their threads are loaded once, for all passes (softmax: the maximum, the sum, the
// results):
//
//   grid g { thread.y w {                                    a warp, or part of one, for each row; or the whole block
//     thread.x t { r unrolled { v vectorized { X[..] = x[row, (r*T + t)*V + v] } } }          local
//     thread.x t { r { v { part[t] += X[..] } } }                                             local
//     u @tree_reduce { sum += part[u] }                                                       local, by shuffles
//     thread.x t { r unrolled { v vectorized { y[row, ..] = f(X[..], sum) } } } } }
//
// Lowering spreads X and part over the threads that use their elements, and gives every thread the sum (bind_threads).
//
// Rows that are longer, with two statistics of which the second depends on the first (softmax: the maximum and the sum
// relative to it; normalization: the mean and the squares about it), are read once for both, in chunks that fit the
// registers of their threads (primitive stream_reduction), and once more for the results:
//
//   grid row { round { thread.x t { T[..] = chunk of t;  first[round, t], pivot, second[round, t] = statistics of T } }
//              combinations of first and second, by shuffles
//              thread.x t { y[row, ..] = f(x[row, ..], statistics) } }
//
// Other long rows, and those of a single pass, stream: a thread loads V elements at a time into a vector of its own,
// with U such vectors on their way, in each pass. Few long rows are cut into parts, which a first launch sums up and a
// second one combines, so that a sum of all elements keeps the whole device busy (Harris, "Optimizing Parallel
// Reduction in CUDA", 2007).
#include <algorithm>
#include <array>
#include <bit>

#include "space/gpu.h"
#include "space/gpu_row_blocks.h"
#include "tcc/ir/gpu_sizes.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/walk.h"

namespace tcc::space {
namespace {

constexpr int64_t kKept = 64;          // elements of a row that a thread holds, at most
constexpr int64_t kChunk = 32;         // and of a chunk, whose terms are computed
constexpr int64_t kWaves = 4;          // blocks a multiprocessor below which long rows are cut
constexpr int64_t kLongRow = 16384;    // terms
constexpr int64_t kEnoughWork = 4096;  // threads of all rows
constexpr int kAttempts = 16;

// An operand that moves by one element with the last loop of the row.
struct RowOperand {
  Id buffer = kNoId;
  int passes = 0;        // blocks that read it
  bool reduced = false;  // by one of them
  int64_t bytes = 1;
};

struct Shape {
  Rows rows;
  std::vector<RowOperand> operands;
  int64_t length = 0;  // of a row
  int64_t widest = 1;  // elements of a vector, a power of two
};

bool moves_along(const NaiveNest& nest, const analysis::Operand& o, const std::vector<bool>& is_row) {
  std::optional<size_t> last;
  bool by_rows = false, has_rows = false;
  for (size_t i = 0; i < nest.extents.size(); ++i) {
    if (!is_row[i] && nest.extents[i] > 1) last = i;
    has_rows |= is_row[i] && nest.extents[i] > 1;
    by_rows |= is_row[i] && nest.extents[i] > 1 && o.moves[i];
  }
  return last && o.stride[*last] == 1 && (by_rows || !has_rows) && o.load->predicate == nullptr;
}

std::optional<Shape> find_shape(const Kernel& k) {
  std::optional<Rows> rows = find_rows(k);
  if (!rows) return std::nullopt;
  Shape shape;
  shape.rows = *rows;
  std::vector<std::string> names = rows->reductions;
  names.push_back(rows->last);
  int64_t narrowest = kMaxAccessBytes;
  for (const std::string& name : names) {
    std::optional<NaiveNest> nest = naive_nest(k, *find_block(k.root, schedule::find_block_by_name(k, name)));
    if (!nest) return std::nullopt;
    int64_t length = 1;
    const std::vector<bool> is_row = [&] {
      if (name == rows->last) return rows->is_row;
      std::vector<bool> out(nest->reduce.size());
      for (size_t i = 0; i < out.size(); ++i) out[i] = !nest->reduce[i];
      return out;
    }();
    for (size_t i = 0; i < is_row.size(); ++i) length *= is_row[i] ? 1 : nest->extents[i];
    if (length > 1) {
      if (shape.length > 0 && shape.length != length) return std::nullopt;
      shape.length = length;
    }
    for (const analysis::Operand& o : nest->operands) {
      if (k.buffer(o.load->buffer)->role == BufferRole::kTemp || !moves_along(*nest, o, is_row)) continue;
      auto known = std::find_if(shape.operands.begin(), shape.operands.end(),
                                [&](const RowOperand& r) { return r.buffer == o.load->buffer; });
      if (known == shape.operands.end())
        known = shape.operands.insert(known, {o.load->buffer, 0, false, type_bytes(o.load->type)});
      ++known->passes;
      known->reduced |= nest->is_reduction();
      narrowest = std::min(narrowest, known->bytes);
    }
  }
  if (shape.operands.empty() || shape.length < 2) return std::nullopt;
  // Rows begin at multiples of their vectors; a single row does so anyway. Each row of odd length begins at another
  // place within a vector, which is known only when the kernel runs: wide accesses would need registers whose numbers
  // depend on the row, and partial vectors at both ends. Such rows move element by element.
  const int64_t whole =
      rows->rows > 1 ? int64_t{1} << std::countr_zero(static_cast<uint64_t>(shape.length)) : kMaxAccessBytes;
  shape.widest = std::min(kMaxAccessBytes / narrowest, whole);
  return shape;
}

// What all steps of a row share.
struct Choices {
  ExprRv threads, vector, unroll;
};

class GpuRows {
 public:
  static Ways apply(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
    Ways ways;
    const std::optional<Shape> shape = find_shape(state.kernel());
    if (!shape) return {state};
    const GpuSpaceOptions& gpu = options.gpu;
    // Some draws leave threads without elements, which the primitives refuse.
    auto add = [&](const Schedule& from, auto&& make) {
      for (int attempt = 0, found = 0; attempt < kAttempts && found == 0; ++attempt)
        found = ways.attempt(from, make) ? 1 : 0;
    };
    const bool several = shape->rows.rows > 1 && !shape->rows.reductions.empty();
    if (several && keeps_rows(state.kernel(), *shape)) {
      if (shape->length <= kWarpLanes * kKept)
        add(state, [&](Schedule& s) { return keep(s, *shape, true, target, gpu); });
      if (shape->length >= 2 * kWarpLanes * shape->widest && shape->length <= target.cuda.max_threads_per_block * kKept)
        add(state, [&](Schedule& s) { return keep(s, *shape, false, target, gpu); });
    }
    if (several && keeps_rows(state.kernel(), *shape) && shape->length >= kLongRow / 2) {
      if (shape->rows.reductions.size() == 2)
        add(state, [&](Schedule& s) { return in_chunks(s, *shape, target, gpu); });
      add(state, [&](Schedule& s) { return stream(s, *shape, target, gpu); });
    }
    // Many short rows of a single sum: a copy of it ends the row.
    if (shape->rows.rows > 1 && shape->rows.reductions.empty() && shape->length <= kWarpLanes * kKept) {
      Schedule copied = state;
      copied.cache_write(copied.get_block(shape->rows.last), Scope::kLocal);
      const std::optional<Shape> rows = copied.ok() ? find_shape(copied.kernel()) : std::nullopt;
      if (rows && keeps_rows(copied.kernel(), *rows))
        add(copied, [&](Schedule& s) { return keep(s, *rows, true, target, gpu); });
    }
    const double busy = static_cast<double>(target.cuda.sm_count * kWaves);
    const bool one = !single_sum(*shape).empty();
    if (one && shape->rows.rows < busy && shape->length >= kLongRow)
      add(state, [&](Schedule& s) { return in_parts(s, *shape, target, gpu); });
    else if (one)
      add(state, [&](Schedule& s) { return alone(s, single_sum(*shape), true, *shape, target, gpu); });
    return std::move(ways.or_also(state));
  }

 private:
  // Shuffles combine single precision and integers of 32 bits, and an operand that several passes read pays for its
  // registers.
  static bool keeps_rows(const Kernel& k, const Shape& shape) {
    for (const std::string& name : shape.rows.reductions) {
      const Id block = schedule::find_block_by_name(k, name);
      const Buffer* sum = k.buffer(schedule::written_buffer(k, block));
      if (sum == nullptr || sum->role != BufferRole::kTemp || find_shuffle(sum->type) < 0) return false;
    }
    return !shape.rows.last_reduces;
  }

  // Small blocks leave most threads of a multiprocessor unused, which holds few blocks.
  static int64_t least_threads(const Shape& shape, const target::Target& target, const GpuSpaceOptions& options) {
    const int64_t usual = options.stream_threads.front();
    const bool large = shape.rows.rows >= static_cast<double>(target.cuda.sm_count);
    return large && shape.length >= usual * shape.widest ? usual : kWarpLanes;
  }

  static std::vector<int64_t> thread_counts(const Shape& shape, bool in_warp, const target::Target& target,
                                            const GpuSpaceOptions& options) {
    std::vector<int64_t> out;
    // Every thread has a vector, or an element of rows that are too short.
    const int64_t vector = 4 * shape.widest <= shape.length ? shape.widest : 1;
    for (int64_t n = in_warp ? 4 : 2 * kWarpLanes; n <= (in_warp ? kWarpLanes : target.cuda.max_threads_per_block);
         n *= 2)
      if (n * vector <= shape.length && shape.length <= n * kKept &&
          (in_warp || n >= least_threads(shape, target, options)))
        out.push_back(n);
    return out;
  }

  // Rows in registers. `in_warp`: several rows of a block, each of a warp's lanes; else one.
  static bool keep(Schedule& s, const Shape& shape, bool in_warp, const target::Target& target,
                   const GpuSpaceOptions& options) {
    const Rows& rows = shape.rows;
    const std::vector<int64_t> counts = thread_counts(shape, in_warp, target, options);
    if (counts.empty()) return false;
    std::vector<BlockRv> copies;
    for (const RowOperand& o : shape.operands) {
      if (o.passes < 2 && !o.reduced) continue;
      const std::optional<BlockRv> copy = cache(s, rows, o.buffer);
      if (!copy) return false;
      copies.push_back(*copy);
    }
    BlockRv last = s.get_block(rows.last);
    std::vector<LoopRv> loops = s.get_loops(last), row, along;
    if (!s.ok() || loops.size() != rows.is_row.size()) return false;
    for (size_t i = 0; i < loops.size(); ++i) (rows.is_row[i] ? row : along).push_back(loops[i]);
    const Choices drawn = {sample_uniform(s, counts), sample_widths(s, shape.widest), {}};
    std::vector<LoopRv> order = row;
    order.insert(order.end(), along.begin(), along.end());
    s.reorder(order);
    LoopRv at = fuse_all(s, row);
    if (in_warp) {
      std::vector<int64_t> together;
      for (int64_t n : options.rows_of_block)
        if (static_cast<int64_t>(rows.rows) % n == 0) together.push_back(n);
      if (together.empty()) return false;
      std::vector<LoopRv> parts = s.split(at, std::array{ExprRv{}, sample_uniform(s, together)});
      if (!s.ok()) return false;
      s.bind(parts[0], Axis::kGridX);
      // Whole warps for the shuffles; more where there is work for them.
      const bool many = rows.rows * static_cast<double>(counts.front()) >= static_cast<double>(kEnoughWork);
      s.annotate(parts[0], AnnotationKey::kMinThreads, lit(many ? options.stream_threads.front() : kWarpLanes));
      s.bind(parts[1], Axis::kThreadY);
      at = parts[1];
    } else {
      s.bind(at, Axis::kGridX);
    }
    if (!along.empty() && !share_row(s, fuse_all(s, along), drawn)) return false;
    for (size_t i = rows.reductions.size(); i-- > 0 && s.ok();) {
      BlockRv block = s.get_block(rows.reductions[i]);
      s.compute_at(block, at);
      if (!s.ok()) return false;
      std::optional<BlockRv> partial = reduce(s, block, in_warp ? 2 : 1, drawn);
      if (!partial) return false;
      s.set_scope(*partial, Scope::kLocal);
      s.set_scope(block, Scope::kLocal);
    }
    for (BlockRv copy : copies) {
      s.compute_at(copy, at);
      const std::optional<LoopRv> along_row = fuse_moving(s, copy, in_warp ? 2 : 1);
      if (!along_row || !share_row(s, *along_row, drawn)) return false;
    }
    return s.ok();
  }

  // Rows that registers do not hold, one of a block: each pass over the row loads it again, in vectors, several of
  // which are on their way. Passes after the first one find it in the second-level cache.
  static bool stream(Schedule& s, const Shape& shape, const target::Target& target, const GpuSpaceOptions& options) {
    const Rows& rows = shape.rows;
    std::vector<int64_t> counts;
    for (int64_t n : options.stream_threads)
      if (n <= target.cuda.max_threads_per_block && n * shape.widest <= shape.length) counts.push_back(n);
    if (counts.empty()) return false;
    const Choices drawn = {sample_uniform(s, counts), schedule::lit(shape.widest),
                           sample_uniform(s, options.stream_unroll)};
    const std::optional<LoopRv> grid = start_rows(s, rows, drawn);
    if (!grid) return false;
    s.bind(*grid, Axis::kGridX);
    for (size_t i = rows.reductions.size(); i-- > 0 && s.ok();) {
      BlockRv block = s.get_block(rows.reductions[i]);
      s.compute_at(block, *grid);
      std::vector<LoopRv> inner;
      std::optional<BlockRv> partial = s.ok() ? reduce(s, block, 1, drawn, &inner) : std::nullopt;
      if (!partial || !load_vectors(s, *partial, inner[2], shape)) return false;
      s.set_scope(*partial, Scope::kLocal);
      s.set_scope(block, Scope::kLocal);
    }
    return s.ok();
  }

  // Rows that registers do not hold, one of a block: a pass for both statistics, chunk by chunk, and one for the
  // results.
  static bool in_chunks(Schedule& s, const Shape& shape, const target::Target& target, const GpuSpaceOptions& options) {
    const Rows& rows = shape.rows;
    std::vector<int64_t> counts, vectors;
    for (int64_t n : options.stream_threads)
      if (n <= target.cuda.max_threads_per_block && n * shape.widest <= shape.length) counts.push_back(n);
    for (int64_t n = 1; n * shape.widest <= kChunk; n *= 2)
      if (n * shape.widest >= kChunk / 8) vectors.push_back(n);
    if (counts.empty()) return false;
    const Choices drawn = {sample_uniform(s, counts), schedule::lit(shape.widest),
                           sample_uniform(s, options.stream_unroll)};
    const ExprRv of_chunk = sample_uniform(s, vectors);
    BlockRv first = s.get_block(rows.reductions[0]), second = s.get_block(rows.reductions[1]);
    s.stream_reduction(second, of_chunk, drawn.threads, drawn.vector);
    if (!s.ok()) return false;
    const std::string step = rows.reductions[1];
    BlockRv terms = s.get_block(step + "_terms"), of_first = s.get_block(step + "_chunk_first"),
            pivot = s.get_block(step + "_pivot"), of_second = s.get_block(step + "_chunk_second");
    const std::optional<LoopRv> grid = start_rows(s, rows, drawn);
    if (!grid) return false;
    for (BlockRv block : {second, first}) {
      s.compute_at(block, *grid);
      const ChunkLoops loops = chunk_loops(s, block);
      if (!loops.round || !loops.part) return false;
      s.reorder(std::array{*loops.round, *loops.part});
      BlockRv partial = s.rfactor(block, *loops.part);
      if (!s.ok()) return false;
      s.reorder(std::array{*loops.part, *loops.round});
      s.bind(*loops.part, Axis::kThreadX);
      s.annotate(s.get_loops(block).back(), AnnotationKey::kTreeReduce, lit(1));
      s.set_scope(partial, Scope::kLocal);
      s.set_scope(block, Scope::kLocal);
    }
    // Steps come together at the first one, whose result later ones and the combinations read.
    for (BlockRv block : {of_second, pivot, of_first}) s.compute_at(block, *grid);
    const std::optional<LoopRv> round = chunk_loops(s, of_first).round;
    if (!round || !share_chunk(s, of_first, round, false)) return false;
    for (BlockRv block : {pivot, of_second}) {
      s.reverse_compute_at(block, *round);
      if (!share_chunk(s, block, {}, false)) return false;
    }
    s.compute_at(terms, *round);
    if (!share_chunk(s, terms, {}, true)) return false;
    s.bind(*grid, Axis::kGridX);
    return s.ok();
  }

  // The loops of a step of chunks; those that it lacks are not set.
  struct ChunkLoops {
    std::optional<LoopRv> round, part, vector, lane;
  };
  static ChunkLoops chunk_loops(Schedule& s, BlockRv step) {
    ChunkLoops out;
    const std::vector<LoopRv> loops = s.get_loops(step);
    const Block* block = s.ok() ? find_block(s.kernel().root, s.id(step)) : nullptr;
    const std::pair<std::string_view, std::optional<LoopRv>*> kinds[] = {
        {"vround", &out.round}, {"vpart", &out.part}, {"vvector", &out.vector}, {"vlane", &out.lane}};
    for (size_t i = 0; block != nullptr && i < block->iters.size(); ++i)
      for (const auto& [text, loop] : kinds)
        for (LoopRv l : loops)
          if (name_hint(s.kernel(), block->iters[i].id).starts_with(text) && mentions(block->iters[i].binding, s.id(l)))
            *loop = l;
    return out;
  }

  // A step of a round of chunks: each thread has its chunk, and keeps what it makes of it. The terms come in vectors.
  static bool share_chunk(Schedule& s, BlockRv step, std::optional<LoopRv> round, bool loads) {
    const ChunkLoops loops = chunk_loops(s, step);
    if (!s.ok() || !loops.part) return false;
    std::vector<LoopRv> order;
    for (const std::optional<LoopRv>& l : {round, loops.part, loops.vector, loops.lane})
      if (l) order.push_back(*l);
    s.reorder(order);
    s.bind(*loops.part, Axis::kThreadX);
    if (loops.vector) s.unroll(*loops.vector);
    if (loops.lane && loads) s.vectorize(*loops.lane);
    if (loops.lane && !loads) s.unroll(*loops.lane);
    s.set_scope(step, Scope::kLocal);
    return s.ok();
  }

  // The loops of the last block: threads that take vectors along a row. Returns the loop over rows, for the grid.
  static std::optional<LoopRv> start_rows(Schedule& s, const Rows& rows, const Choices& drawn) {
    std::vector<LoopRv> loops = s.get_loops(s.get_block(rows.last)), row, along;
    if (!s.ok() || loops.size() != rows.is_row.size()) return std::nullopt;
    for (size_t i = 0; i < loops.size(); ++i) (rows.is_row[i] ? row : along).push_back(loops[i]);
    std::vector<LoopRv> order = row;
    order.insert(order.end(), along.begin(), along.end());
    s.reorder(order);
    LoopRv grid = fuse_all(s, row);
    if (!along.empty() && !stream_row(s, fuse_all(s, along), drawn)) return std::nullopt;
    return s.ok() ? std::optional(grid) : std::nullopt;
  }

  // A loop along a row: several vectors of each thread in turn, loaded together.
  static bool stream_row(Schedule& s, LoopRv along, const Choices& drawn) {
    std::vector<LoopRv> parts = s.split(along, std::array{ExprRv{}, drawn.unroll, drawn.threads, drawn.vector});
    if (!s.ok()) return false;
    s.reorder(std::array{parts[2], parts[0], parts[1], parts[3]});
    s.bind(parts[2], Axis::kThreadX);
    s.unroll(parts[1]);
    s.vectorize(parts[3]);
    return s.ok();
  }

  // The copy of an operand for all blocks that read it.
  static std::optional<BlockRv> cache(Schedule& s, const Rows& rows, Id buffer) {
    std::vector<std::string> names = rows.reductions;
    names.push_back(rows.last);
    for (const std::string& name : names) {
      BlockRv reader = s.get_block(name);
      if (!s.ok()) return std::nullopt;
      const std::vector<Id> reads = schedule::read_buffers(s.kernel(), s.id(reader));
      const auto at = std::find(reads.begin(), reads.end(), buffer);
      if (at == reads.end()) continue;
      BlockRv copy = s.cache_reads(reader, static_cast<int>(at - reads.begin()), Scope::kLocal);
      return s.ok() ? std::optional(copy) : std::nullopt;
    }
    return std::nullopt;
  }

  // The loops of a copy below `depth` loops as one, without those of one iteration, which stay around it.
  static std::optional<LoopRv> fuse_moving(Schedule& s, BlockRv copy, size_t depth) {
    std::vector<LoopRv> loops = s.get_loops(copy), order, moving;
    if (!s.ok() || loops.size() <= depth) return std::nullopt;
    for (size_t i = depth; i < loops.size(); ++i)
      (is_int(find_loop(s.kernel().root, s.id(loops[i]))->extent, 1) ? order : moving).push_back(loops[i]);
    if (moving.empty()) moving.push_back(order.back()), order.pop_back();
    order.insert(order.end(), moving.begin(), moving.end());
    s.reorder(order);
    return s.ok() ? std::optional(fuse_all(s, moving)) : std::nullopt;
  }

  // A loop along a row: vectors of each thread in turn.
  static bool share_row(Schedule& s, LoopRv along, const Choices& drawn) {
    std::vector<LoopRv> parts = s.split(along, std::array{ExprRv{}, drawn.threads, drawn.vector});
    if (!s.ok()) return false;
    s.reorder(std::array{parts[1], parts[0], parts[2]});
    s.bind(parts[1], Axis::kThreadX);
    s.unroll(parts[0]);
    s.vectorize(parts[2]);
    return s.ok();
  }

  // Partial results of the threads, and the loop that combines them. The block has `depth` loops around it. With
  // `drawn.unroll` a thread's loop is in two parts, of which the inner one is unrolled.
  static std::optional<BlockRv> reduce(Schedule& s, BlockRv block, size_t depth, const Choices& drawn,
                                       std::vector<LoopRv>* inner = nullptr) {
    const BlockLoops below = loops_below(s, block, depth);
    if (!s.ok() || below.terms.empty()) return std::nullopt;
    std::vector<LoopRv> order = below.spatial;
    order.insert(order.end(), below.terms.begin(), below.terms.end());
    s.reorder(order);
    const bool streams = inner != nullptr;
    std::vector<ExprRv> factors = {ExprRv{}, drawn.threads, drawn.vector};
    if (streams) factors.insert(factors.begin() + 1, drawn.unroll);
    std::vector<LoopRv> parts = s.split(fuse_all(s, below.terms), factors);
    if (!s.ok()) return std::nullopt;
    BlockRv partial = s.rfactor(block, parts[factors.size() - 2]);
    if (!s.ok()) return std::nullopt;
    std::vector<LoopRv> all = s.get_loops(partial);
    if (!s.ok() || all.size() < factors.size()) return std::nullopt;
    std::vector<LoopRv> mine(all.end() - static_cast<std::ptrdiff_t>(factors.size()), all.end());
    // serial, (unrolled,) thread, vector: the thread comes first.
    std::rotate(mine.begin(), mine.end() - 2, mine.end() - 1);
    s.reorder(mine);
    s.bind(mine[0], Axis::kThreadX);
    for (size_t i = streams ? 2 : 1; i < mine.size(); ++i) s.unroll(mine[i]);
    std::vector<LoopRv> combining = s.get_loops(block);
    if (!s.ok()) return std::nullopt;
    s.annotate(combining.back(), AnnotationKey::kTreeReduce, lit(1));
    if (streams) *inner = mine;
    return s.ok() ? std::optional(partial) : std::nullopt;
  }

  // The name of the only reduction, which ends the rows or is followed by what one result at a time needs; else "".
  static std::string single_sum(const Shape& shape) {
    const Rows& rows = shape.rows;
    if (rows.last_reduces) return rows.reductions.empty() ? rows.last : "";
    const bool whole = std::all_of(rows.is_row.begin(), rows.is_row.end(), [](bool row) { return row; });
    return whole && rows.reductions.size() == 1 ? rows.reductions[0] : "";
  }

  // A reduction by itself, one row a block, in a launch of its own. Each thread has vectors of the row in registers.
  // `ends`: what reads the result goes along.
  static bool alone(Schedule& s, const std::string& name, bool ends, const Shape& shape, const target::Target& target,
                    const GpuSpaceOptions& options) {
    BlockRv block = s.get_block(name);
    BlockLoops loops = loops_below(s, block, 0);
    if (!s.ok() || loops.terms.empty()) return false;
    std::vector<int64_t> counts;
    const int64_t vectors = std::max<int64_t>(shape.length / shape.widest, 1);
    const int64_t least = least_threads(shape, target, options);
    for (int64_t n = kWarpLanes; n <= target.cuda.max_threads_per_block; n *= 2)
      if (n >= least && n <= std::max(vectors, kWarpLanes) && n <= shape.length) counts.push_back(n);
    if (counts.empty()) return false;
    const Buffer* sum = s.kernel().buffer(schedule::written_buffer(s.kernel(), s.id(block)));
    if (sum == nullptr || find_shuffle(sum->type) < 0) return false;
    // The result leaves once, when it is complete.
    const std::vector<Id> readers = schedule::consumers_of(s.kernel(), s.id(block));
    const bool takes_reader = ends && !readers.empty();
    if (takes_reader && readers.size() != 1) return false;
    BlockRv out = takes_reader ? s.get_block(name_hint(s.kernel(), readers[0])) : s.cache_write(block, Scope::kLocal);
    if (!s.ok()) return false;
    // A single row has a launch of one block.
    if (loops.spatial.empty()) loops.spatial.push_back(s.add_unit_loop(loops.terms.front()));
    std::vector<LoopRv> order = loops.spatial;
    order.insert(order.end(), loops.terms.begin(), loops.terms.end());
    s.reorder(order);
    LoopRv grid = fuse_all(s, loops.spatial);
    s.bind(grid, Axis::kGridX);
    const Choices drawn = {sample_uniform(s, counts), sample_widths(s, shape.widest),
                           sample_uniform(s, options.stream_unroll)};
    std::vector<LoopRv> inner;
    std::optional<BlockRv> partial = reduce(s, block, 1, drawn, &inner);
    if (!partial || !load_vectors(s, *partial, inner[2], shape)) return false;
    s.set_scope(*partial, Scope::kLocal);
    if (takes_reader) s.set_scope(block, Scope::kLocal);
    s.reverse_compute_at(out, grid);
    return s.ok();
  }

  // The operands of a block that streams come in vectors. A vector that crosses from one row of a tensor to the next
  // is not a box of it: such an operand stays as it is.
  static bool load_vectors(Schedule& s, BlockRv block, LoopRv at, const Shape& shape) {
    for (const RowOperand& o : shape.operands) {
      const std::vector<Id> reads = schedule::read_buffers(s.kernel(), s.id(block));
      const auto found = std::find(reads.begin(), reads.end(), o.buffer);
      if (found == reads.end()) continue;
      Schedule trial = s;
      BlockRv copy = trial.cache_read(block, static_cast<int>(found - reads.begin()), Scope::kLocal);
      trial.compute_at(copy, at);
      std::vector<LoopRv> loops = trial.get_loops(copy), around = trial.get_loops(block);
      if (!trial.ok()) continue;
      size_t depth = 0;
      while (depth < loops.size() && depth < around.size() && trial.id(loops[depth]) == trial.id(around[depth]))
        ++depth;
      const std::optional<LoopRv> vector = fuse_moving(trial, copy, depth);
      if (!vector) continue;
      const Expr extent = find_loop(trial.kernel().root, trial.id(*vector))->extent;
      if (!is_int(extent) || int_value(extent) > shape.widest) continue;
      trial.vectorize(*vector);
      if (trial.ok()) s = std::move(trial);
    }
    return s.ok();
  }

  // Parts of rows in a launch of their own, and a launch that combines them.
  static bool in_parts(Schedule& s, const Shape& shape, const target::Target& target, const GpuSpaceOptions& options) {
    const std::string sum = single_sum(shape);
    BlockRv block = s.get_block(sum);
    BlockLoops loops = loops_below(s, block, 0);
    if (!s.ok() || loops.terms.empty()) return false;
    // The terms outside: the parts get a nest of their own.
    std::vector<LoopRv> order = loops.terms;
    order.insert(order.end(), loops.spatial.begin(), loops.spatial.end());
    s.reorder(order);
    // Parts are multiples of vectors; enough of them keep all multiprocessors busy.
    std::vector<int64_t> sizes;
    const double wanted = static_cast<double>(target.cuda.sm_count) / shape.rows.rows;
    for (int64_t n = kWarpLanes * shape.widest; n <= shape.length / kWarpLanes; n *= 2)
      if (sizes.empty() || static_cast<double>(shape.length / n) >= wanted) sizes.push_back(n);
    if (sizes.size() > kSizes) sizes.erase(sizes.begin(), sizes.end() - kSizes);
    if (sizes.empty()) return false;
    std::vector<LoopRv> parts = s.split(fuse_all(s, loops.terms), std::array{ExprRv{}, sample_uniform(s, sizes)});
    if (!s.ok()) return false;
    BlockRv partial = s.rfactor(block, parts[0]);
    if (!s.ok()) return false;
    const std::string name = name_hint(s.kernel(), s.id(partial));
    Shape part = shape;
    part.length = sizes.front();
    if (!alone(s, name, false, part, target, options)) return false;
    Shape rest;
    rest.length = shape.length / sizes.back();
    rest.widest = 1;
    return alone(s, sum, true, rest, target, options);
  }
  static constexpr std::ptrdiff_t kSizes = 5;
};

}  // namespace

Ways gpu_rows(const Schedule& state, const target::Target& target, const SpaceOptions& options) {
  return GpuRows::apply(state, target, options);
}

}  // namespace tcc::space
