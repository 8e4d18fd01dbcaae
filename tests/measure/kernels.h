// Small kernels for the tests of measuring: a GEMM and what can be wrong with one.
#pragma once

#include <array>
#include <vector>

#include "tcc/ir/build.h"

namespace tcc::measure::test {

enum class Defect {
  kNone,
  kShortSum,     // leaves out the last term
  kOneTooMany,   // goes one row over the end of the output
  kWildStore,    // far outside of everything
  kHang,         // a sum of 2^50 terms
  kWritesInput,  // stores to A
  kNaN,          // 0/0 in every element
  kUnwritten,    // leaves the last row of the output alone
  kTwice,        // right, but everything is computed twice
  kLucky,        // right only where the first element of A is positive
};

struct GemmOptions {
  int64_t m = 24, n = 20, k = 28;
  ir::Type in = ir::Type::kF32, out = ir::Type::kF32;
  bool relu = false;
  bool gelu = false;     // an intrinsic: no longer a plain sum of products
  bool divisor = false;  // sums are divided by a weight of one element
  Defect defect = Defect::kNone;
};

class GemmMaker {
 public:
  explicit GemmMaker(const GemmOptions& o) : o_(o), b_(maker_.b()) {
    // Printed code never stores to an input; the test renames the role in the artifact.
    ir::BufferRole a_role = o.defect == Defect::kWritesInput ? ir::BufferRole::kOutput : ir::BufferRole::kInput;
    a_ = maker_.add_buffer("A", o.in, std::array{o.m, o.k}, a_role);
    w_ = maker_.add_buffer("W", o.in, std::array{o.k, o.n}, ir::BufferRole::kWeight);
    c_ = maker_.add_buffer("C", o.out, std::array{o.m, o.n}, ir::BufferRole::kOutput);
    if (o.divisor) s_ = maker_.add_buffer("S", o.in, std::array<int64_t, 1>{1}, ir::BufferRole::kWeight);
    sum_ = maker_.add_buffer("sum", ir::Type::kF32, std::array{o.m, o.n}, ir::BufferRole::kTemp, ir::Scope::kWorkspace);
  }

  ir::Kernel make() {
    std::vector<ir::Stmt> stmts = {sum_nest()};
    if (o_.defect == Defect::kTwice) stmts.push_back(sum_nest());
    stmts.push_back(store_nest());
    return maker_.finish(b_.seq(stmts));
  }

 private:
  struct Axes {
    std::vector<ir::Id> loops;
    std::vector<ir::Iter> iters;
    std::vector<ir::Expr> vars;
  };
  Axes axes(std::vector<int64_t> extents, size_t first_reduce) {
    Axes x;
    for (size_t d = 0; d < extents.size(); ++d) {
      x.loops.push_back(maker_.new_id("l"));
      ir::Id iter = maker_.new_id("i");
      x.vars.push_back(b_.var(iter));
      x.iters.push_back({iter, d < first_reduce ? ir::IterKind::kSpatial : ir::IterKind::kReduce,
                         b_.integer(extents[d]), b_.var(x.loops[d])});
    }
    return x;
  }
  ir::Stmt close(const Axes& x, ir::Stmt block) {
    for (size_t d = x.loops.size(); d-- > 0;) block = b_.loop(x.loops[d], x.iters[d].extent, block);
    return block;
  }
  ir::Expr load(const ir::Buffer* buffer, std::vector<ir::Expr> at) { return b_.load(*buffer, at); }
  ir::Stmt store(const ir::Buffer* buffer, std::vector<ir::Expr> at, ir::Expr value) {
    return b_.store(buffer->id, at, value);
  }

  ir::Stmt sum_nest() {
    int64_t terms = o_.defect == Defect::kShortSum ? o_.k - 1 : o_.defect == Defect::kHang ? int64_t{1} << 50 : o_.k;
    Axes x = axes({o_.m, o_.n, terms}, 2);
    ir::Expr i = x.vars[0], j = x.vars[1];
    ir::Expr k = o_.defect == Defect::kHang ? b_.floor_mod(x.vars[2], b_.integer(o_.k)) : x.vars[2];
    ir::Expr product = b_.mul(b_.cast(load(a_, {i, k}), ir::Type::kF32), b_.cast(load(w_, {k, j}), ir::Type::kF32));
    ir::Stmt init = store(sum_, {i, j}, b_.real(0));
    ir::Stmt body = store(sum_, {i, j}, b_.add(load(sum_, {i, j}), product));
    return close(x, b_.block(maker_.new_id("gemm"), x.iters, body, init, nullptr, ir::ReducerKind::kSum));
  }

  ir::Stmt store_nest() {
    int64_t rows = o_.m + (o_.defect == Defect::kOneTooMany) - (o_.defect == Defect::kUnwritten);
    Axes x = axes({rows, o_.n}, 2);
    ir::Expr i = x.vars[0], j = x.vars[1];
    ir::Expr value = load(sum_, {o_.defect == Defect::kOneTooMany ? b_.floor_mod(i, b_.integer(o_.m)) : i, j});
    if (o_.divisor) value = b_.div(value, b_.cast(load(s_, {b_.integer(0)}), ir::Type::kF32));
    if (o_.relu) value = b_.max(value, b_.real(0));
    if (o_.gelu) {
      ir::Expr argument = b_.mul(value, b_.real(0.7071067811865476));
      ir::Expr erf = b_.call(ir::Intrinsic::kErf, std::array{argument});
      value = b_.mul(b_.mul(value, b_.real(0.5)), b_.add(erf, b_.real(1)));
    }
    if (o_.defect == Defect::kNaN) {
      ir::Expr zero = b_.sub(value, value);
      value = b_.add(value, b_.div(zero, zero));
    }
    if (o_.defect == Defect::kLucky) {
      ir::Expr first = b_.cast(load(a_, {b_.integer(0), b_.integer(0)}), ir::Type::kF32);
      value = b_.select(b_.lt(b_.real(0), first), value, b_.add(value, b_.real(1)));
    }
    value = b_.cast(value, o_.out);
    ir::Expr row = o_.defect == Defect::kWildStore ? b_.offset(i, int64_t{1} << 32) : i;
    ir::Stmt body = o_.defect == Defect::kWritesInput
                        ? b_.seq(std::array{store(c_, {row, j}, value), store(a_, {i, j}, b_.cast(value, o_.in))})
                        : store(c_, {row, j}, value);
    return close(x, b_.block(maker_.new_id("out"), x.iters, body));
  }

  GemmOptions o_;
  ir::KernelBuilder maker_;
  ir::Builder& b_;
  const ir::Buffer *a_, *w_, *c_, *s_ = nullptr, *sum_;
};

inline ir::Kernel make_gemm(const GemmOptions& options = {}) {
  return GemmMaker(options).make();
}
inline ir::Kernel make_gemm(Defect defect) {
  GemmOptions options;
  options.defect = defect;
  return make_gemm(options);
}

}  // namespace tcc::measure::test
