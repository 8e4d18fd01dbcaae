#include "gpu/kernels.h"

#include <vector>

#include "tcc/ir/build.h"
#include "tcc/ir/instr.h"
#include "tcc/support/check.h"

namespace tcc::gpu_check {

using namespace ir;

namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kVector = 4;

// KernelBuilder with what device kernels need: 16-byte aligned parameters and loops by kind.
class Maker {
 public:
  Builder& b() { return kb_.b(); }
  const Buffer* param(const char* name, std::vector<int64_t> shape, BufferRole role) {
    return kb_.add_buffer(name, Type::kF32, shape, role);
  }
  const Buffer* temp(const char* name, std::vector<int64_t> shape, Scope scope) {
    return kb_.add_buffer(name, Type::kF32, shape, BufferRole::kTemp, scope);
  }
  Expr num(int64_t v) { return b().integer(v); }
  Id id(const char* name) { return kb_.new_id(name); }
  Expr var(Id id) { return b().var(id); }
  Stmt bound(Id v, int64_t extent, Axis axis, Stmt body) {
    return b().loop(v, num(extent), body, LoopKind::kBound, axis);
  }
  // for <name> in extent, of the given kind, around body(variable).
  template <class F>
  Stmt each(const char* name, int64_t extent, LoopKind kind, const F& body) {
    const Id v = id(name);
    const Annotation widest[] = {{AnnotationKey::kAccessBytes, num(kVector * type_bytes(Type::kF32))}};
    const bool lanes = kind == LoopKind::kVectorized;
    return b().loop(v, num(extent), body(var(v)), kind, Axis::kNone,
                    lanes ? std::span<const Annotation>(widest) : std::span<const Annotation>());
  }
  template <class F>
  Stmt unrolled(const char* name, int64_t extent, const F& body) {
    return each(name, extent, LoopKind::kUnrolled, body);
  }
  // A vectorized loop promises aligned accesses of its whole width; where rows do not allow that, four single ones.
  template <class F>
  Stmt lanes(const F& body, bool aligned = true) {
    return each("v", kVector, aligned ? LoopKind::kVectorized : LoopKind::kUnrolled, body);
  }
  Expr load(const Buffer* from, std::vector<Expr> indices, Expr predicate = nullptr) {
    return b().load(*from, indices, predicate, predicate != nullptr ? b().real(0) : nullptr);
  }
  Stmt store(const Buffer* to, std::vector<Expr> indices, Expr value, Expr predicate = nullptr) {
    return b().store(to->id, indices, value, predicate);
  }
  Stmt seq(std::vector<Stmt> stmts) { return b().seq(stmts); }
  Stmt barrier() {
    const int32_t row = find_instruction("bar.sync");
    TCC_CHECK(row >= 0, "the instruction table has no bar.sync");
    const Expr args[] = {num(0), num(kThreads)};
    return b().instr(row, {}, args);
  }
  Kernel finish(Stmt root) {
    Kernel k = kb_.finish(root);
    std::vector<const Buffer*> buffers;
    for (const Buffer* buffer : k.buffers) {
      Buffer copy = *buffer;
      copy.alignment = std::max<int32_t>(copy.alignment, 16);
      buffers.push_back(b().buffer(copy));
    }
    k.buffers = b().arena().copy(buffers);
    k.stage = Stage::kLowered;
    return k;
  }

 private:
  KernelBuilder kb_;
};

int64_t blocks_of(int64_t n, int64_t size) {
  return (n + size - 1) / size;
}

}  // namespace

Kernel make_add_relu(int64_t n) {
  constexpr int64_t kGroups = 4;
  Maker m;
  Builder& b = m.b();
  const Buffer* a = m.param("A", {n}, BufferRole::kInput);
  const Buffer* c = m.param("B", {n}, BufferRole::kInput);
  const Buffer* y = m.param("Y", {n}, BufferRole::kOutput);
  const Buffer* ra = m.temp("ra", {kGroups, kVector}, Scope::kLocal);
  const Buffer* rc = m.temp("rb", {kGroups, kVector}, Scope::kLocal);
  const Id block = m.id("block"), thread = m.id("thread");
  auto at = [&](Expr group, Expr v) {
    Expr slot = b.add(b.scale(b.add(b.scale(m.var(block), kGroups), group), kThreads), m.var(thread));
    return b.add(b.scale(slot, kVector), v);
  };
  auto read = [&](const Buffer* from, const Buffer* to) {
    return m.unrolled("g", kGroups, [&](Expr g) {
      return m.lanes([&](Expr v) {
        Expr i = at(g, v);
        return m.store(to, {g, v}, m.load(from, {i}, b.lt(i, m.num(n))));
      });
    });
  };
  Stmt write = m.unrolled("g", kGroups, [&](Expr g) {
    return m.lanes([&](Expr v) {
      Expr i = at(g, v);
      Expr sum = b.add(m.load(ra, {g, v}), m.load(rc, {g, v}));
      return m.store(y, {i}, b.max(sum, b.real(0)), b.lt(i, m.num(n)));
    });
  });
  const Id locals[] = {ra->id, rc->id};
  Stmt body = b.alloc(locals, m.seq({read(a, ra), read(c, rc), write}));
  body = m.bound(thread, kThreads, Axis::kThreadX, body);
  return m.finish(m.bound(block, blocks_of(n, kThreads * kVector * kGroups), Axis::kGridX, body));
}

namespace {

// One GEMM under construction: the pieces of its body share buffers and thread coordinates.
struct Gemm {
  Maker m;
  Builder& b = m.b();
  int64_t rows, columns, depth;  // problem: m, n, k
  GemmTile tile;
  int64_t row_pieces, column_pieces;  // pieces of 4 a thread holds
  int64_t warp_rows, warp_columns;    // of the output covered by a warp
  int64_t warps_across;               // warps side by side along the columns
  const Buffer *a, *bb, *c, *sa, *sb, *ra, *rb, *fa, *fb, *acc;
  Id block_row, block_column, thread;

  Gemm(int64_t m_, int64_t n_, int64_t k_, const GemmTile& t) : rows(m_), columns(n_), depth(k_), tile(t) {
    row_pieces = tile.rows / 64;
    column_pieces = tile.columns / 64;
    warp_rows = 16 * row_pieces;
    warp_columns = 32 * column_pieces;
    warps_across = tile.columns / warp_columns;
    TCC_CHECK(tile.rows / warp_rows * warps_across == kThreads / 32);
    TCC_CHECK(tile.rows * tile.depth == kThreads * kVector && tile.columns * tile.depth == kThreads * kVector);
    a = m.param("A", {rows, depth}, BufferRole::kInput);
    bb = m.param("B", {depth, columns}, BufferRole::kInput);
    c = m.param("C", {rows, columns}, BufferRole::kOutput);
    // A is kept transposed; four columns of padding spread its stores over the banks.
    sa = m.temp("As", {2, tile.depth, tile.rows + 4}, Scope::kShared);
    sb = m.temp("Bs", {2, tile.depth, tile.columns}, Scope::kShared);
    ra = m.temp("ra", {kVector}, Scope::kLocal);
    rb = m.temp("rb", {kVector}, Scope::kLocal);
    fa = m.temp("fa", {4 * row_pieces}, Scope::kLocal);
    fb = m.temp("fb", {4 * column_pieces}, Scope::kLocal);
    acc = m.temp("acc", {4 * row_pieces, 4 * column_pieces}, Scope::kLocal);
    block_row = m.id("block_row");
    block_column = m.id("block_column");
    thread = m.id("thread");
  }

  Expr div(Expr x, int64_t d) { return b.floor_div(x, m.num(d)); }
  Expr mod(Expr x, int64_t d) { return b.floor_mod(x, m.num(d)); }
  Expr t() { return m.var(thread); }
  Expr warp() { return div(t(), 32); }
  Expr lane() { return mod(t(), 32); }
  // First row of the thread's piece `piece` inside the block tile; pieces of a warp are 16 rows (32 columns) apart.
  Expr tile_row(Expr piece) {
    Expr in_warp = b.add(b.scale(piece, 16), b.scale(div(lane(), 8), 4));
    return b.add(b.scale(div(warp(), warps_across), warp_rows), in_warp);
  }
  Expr tile_column(Expr piece) {
    Expr in_warp = b.add(b.scale(piece, 32), b.scale(mod(lane(), 8), 4));
    return b.add(b.scale(mod(warp(), warps_across), warp_columns), in_warp);
  }

  // Global -> registers: four neighbors in a row of A and of B, zero outside the matrices.
  Stmt fetch(Expr step) {
    const int64_t per_row = tile.depth / kVector, per_line = tile.columns / kVector;
    Stmt from_a = m.lanes(
        [&](Expr v) {
          Expr row = b.add(b.scale(m.var(block_row), tile.rows), div(t(), per_row));
          Expr column = b.add(b.scale(step, tile.depth), b.add(b.scale(mod(t(), per_row), kVector), v));
          Expr inside = b.logical_and(b.lt(row, m.num(rows)), b.lt(column, m.num(depth)));
          return m.store(ra, {v}, m.load(a, {row, column}, inside));
        },
        depth % kVector == 0);
    Stmt from_b = m.lanes(
        [&](Expr v) {
          Expr row = b.add(b.scale(step, tile.depth), div(t(), per_line));
          Expr column =
              b.add(b.scale(m.var(block_column), tile.columns), b.add(b.scale(mod(t(), per_line), kVector), v));
          Expr inside = b.logical_and(b.lt(row, m.num(depth)), b.lt(column, m.num(columns)));
          return m.store(rb, {v}, m.load(bb, {row, column}, inside));
        },
        columns % kVector == 0);
    return m.seq({from_a, from_b});
  }
  // Registers -> the shared buffers number `half`.
  Stmt place(Expr half) {
    const int64_t per_row = tile.depth / kVector, per_line = tile.columns / kVector;
    Stmt to_a = m.lanes([&](Expr v) {
      Expr k = b.add(b.scale(mod(t(), per_row), kVector), v);
      return m.store(sa, {half, k, div(t(), per_row)}, m.load(ra, {v}));
    });
    Stmt to_b = m.lanes([&](Expr v) {
      Expr column = b.add(b.scale(mod(t(), per_line), kVector), v);
      return m.store(sb, {half, div(t(), per_line), column}, m.load(rb, {v}));
    });
    return m.seq({to_a, to_b});
  }
  Stmt multiply(Expr half) {
    return m.unrolled("k", tile.depth, [&](Expr k) {
      Stmt read_a = m.unrolled("p", row_pieces, [&](Expr p) {
        return m.lanes([&](Expr v) {
          return m.store(fa, {b.add(b.scale(p, 4), v)}, m.load(sa, {half, k, b.add(tile_row(p), v)}));
        });
      });
      Stmt read_b = m.unrolled("q", column_pieces, [&](Expr q) {
        return m.lanes([&](Expr v) {
          return m.store(fb, {b.add(b.scale(q, 4), v)}, m.load(sb, {half, k, b.add(tile_column(q), v)}));
        });
      });
      Stmt outer = m.unrolled("i", 4 * row_pieces, [&](Expr i) {
        return m.unrolled("j", 4 * column_pieces, [&](Expr j) {
          return m.store(acc, {i, j}, b.add(m.load(acc, {i, j}), b.mul(m.load(fa, {i}), m.load(fb, {j}))));
        });
      });
      return m.seq({read_a, read_b, outer});
    });
  }
  Stmt clear() {
    return m.unrolled("i", 4 * row_pieces, [&](Expr i) {
      return m.unrolled("j", 4 * column_pieces, [&](Expr j) { return m.store(acc, {i, j}, b.real(0)); });
    });
  }
  Stmt write_back() {
    return m.unrolled("p", row_pieces, [&](Expr p) {
      return m.unrolled("i", 4, [&](Expr i) {
        return m.unrolled("q", column_pieces, [&](Expr q) {
          return m.lanes(
              [&](Expr v) {
                Expr row = b.add(b.scale(m.var(block_row), tile.rows), b.add(tile_row(p), i));
                Expr column = b.add(b.scale(m.var(block_column), tile.columns), b.add(tile_column(q), v));
                Expr inside = b.logical_and(b.lt(row, m.num(rows)), b.lt(column, m.num(columns)));
                Expr value = m.load(acc, {b.add(b.scale(p, 4), i), b.add(b.scale(q, 4), v)});
                return m.store(c, {row, column}, value, inside);
              },
              columns % kVector == 0);
        });
      });
    });
  }

  Kernel build() {
    const int64_t steps = blocks_of(depth, tile.depth);
    std::vector<Stmt> body = {clear(), fetch(m.num(0)), place(m.num(0)), m.barrier()};
    if (steps > 1)
      body.push_back(m.each("step", steps - 1, LoopKind::kSerial, [&](Expr step) {
        Expr next = b.offset(step, 1);
        return m.seq({fetch(next), multiply(mod(step, 2)), place(mod(next, 2)), m.barrier()});
      }));
    body.push_back(multiply(m.num((steps - 1) % 2)));
    body.push_back(write_back());
    const Id locals[] = {ra->id, rb->id, fa->id, fb->id, acc->id};
    const Id shared[] = {sa->id, sb->id};
    // Two blocks of 256 threads a multiprocessor: at most 128 registers a thread. The many predicates of unaligned rows
    // do not fit beside the accumulators, there one block has to do.
    const bool aligned = depth % kVector == 0 && columns % kVector == 0;
    const Annotation bounds[] = {{AnnotationKey::kLaunchBounds, m.num(aligned ? 2 : 1)}};
    Stmt threads =
        b.loop(thread, m.num(kThreads), b.alloc(locals, m.seq(body)), LoopKind::kBound, Axis::kThreadX, bounds);
    Stmt block = b.alloc(shared, threads);
    Stmt across = m.bound(block_column, blocks_of(columns, tile.columns), Axis::kGridX, block);
    return m.finish(m.bound(block_row, blocks_of(rows, tile.rows), Axis::kGridY, across));
  }
};

}  // namespace

Kernel make_gemm(int64_t m, int64_t n, int64_t k, const GemmTile& tile) {
  return Gemm(m, n, k, tile).build();
}

}  // namespace tcc::gpu_check
