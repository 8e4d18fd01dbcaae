// Loops of Determinant: elimination with the largest pivot of each column (Golub and Van Loan, "Matrix Computations",
// algorithm 3.4.1). Matrices are independent; the steps of one come one after the other. Rows of a matrix are whole
// vectors, with zeros behind. A step takes rows from the vector of its column on: what is in front is not looked at
// again.
//
//   a = x[r];  product = 1
//   for k in N:
//     best = 0;  pivot = k
//     for i in N:  if k <= i && best < |a[i, k]|:  best = |a[i, k]|;  pivot = i
//     swap a[k, :], a[pivot, :];  product *= pivot == k ? a[k, k] : -a[k, k]
//     for i in N:  if k < i:  factor = a[i, k] / a[k, k];  a[i, :] -= factor * a[k, :]
//   out[r] = product
#include "nest.h"

namespace tcc::task {

using namespace ir;

namespace {

constexpr int64_t kOwnBytes = 64 << 10;  // of a thread's copy of a matrix, in f64

}  // namespace

void GroupNest::plan_determinant(const graph::Node& node) {
  add_stage("determinant", node, false, [this, &node](const std::string& name, const Tensor& out) {
    const Tensor x = operand(node.inputs[0]);
    const int64_t matrices = x.shape[0], n = x.shape[1], vectors = (n + kVectorLanes - 1) / kVectorLanes;
    // In vectors where loops run in order; elsewhere a thread has a matrix.
    const LoopKind across = options_.in_order ? LoopKind::kVectorized : LoopKind::kSerial;
    const graph::Shape padded{matrices, n, vectors * kVectorLanes};
    const Tensor a = make_temp("rows", padded);
    const Tensor swapped = make_temp("swapped", {matrices, kVectorLanes});
    auto one = [&](const char* hint, Type type) {
      return computing(type, [&] { return make_temp(hint, {matrices, 1}); });
    };
    const Tensor best = one("best", compute_), factor = one("factor", compute_), product = one("product", compute_);
    const Tensor pivot = one("pivot", Type::kI64);
    // Matrices that are too large for it, and those of threads that have registers only, are copied in front.
    const bool has_own_copy = options_.in_order && 8 * graph::element_count(padded) <= kOwnBytes * matrices;
    auto padded_element = [&](const Exprs& at) { return read_padded(x, at, padded, {0, 0, 0}); };
    const Stmt ahead = has_own_copy ? nullptr : map_nest("rows", axes_of(padded), a, padded_element);
    const Stmt nest = ordered_nest(name, {{"i0", matrices}}, [&](const Exprs& row) {
      const Expr zero = b().integer(0);
      auto get = [&](const Tensor& t) { return row_load(t, row, zero); };
      auto set = [&](const Tensor& t, Expr e) { return row_store(t, row, zero, e); };
      auto element = [&](Expr i, Expr j) { return b().load(*a.buffer, std::array<Expr, 3>{row[0], i, j}); };
      auto put = [&](Expr i, Expr j, Expr e) { return b().store(a.buffer->id, std::array<Expr, 3>{row[0], i, j}, e); };
      auto each_row = [&](auto&& body) {
        const Id loop = kernel_.new_id("i");
        return b().loop(loop, b().integer(n), body(b().var(loop)));
      };
      // body(lane, column) for a row; with `from` without the vectors in front of that column.
      auto each_column = [&](Expr from, auto&& body) {
        const Id vector = kernel_.new_id("vector"), lane = kernel_.new_id("lane");
        const Expr column = b().add(b().scale(b().var(vector), kVectorLanes), b().var(lane));
        Stmt lanes = b().loop(lane, b().integer(kVectorLanes), body(b().var(lane), column), across);
        if (from != nullptr)
          lanes = b().if_then(b().lt(from, b().scale(b().offset(b().var(vector), 1), kVectorLanes)), lanes);
        return b().loop(vector, b().integer(vectors), lanes);
      };
      const Stmt own_copy = !has_own_copy ? nullptr : each_row([&](Expr i) {
        return each_column(nullptr, [&](Expr, Expr j) { return put(i, j, padded_element({row[0], i, j})); });
      });
      const Id step = kernel_.new_id("k");
      const Expr k = b().var(step), head = element(k, k);
      const Stmt search = each_row([&](Expr i) {
        const Expr size = call(Intrinsic::kAbs, element(i, k));
        const std::array<Stmt, 2> found{set(pivot, i), set(best, size)};
        return b().if_then(b().logical_and(b().le(k, i), b().lt(get(best), size)), b().seq(found));
      });
      const Stmt swap = each_column(k, [&](Expr lane, Expr j) {
        const std::array<Stmt, 3> moves{row_store(swapped, row, lane, element(k, j)), put(k, j, element(get(pivot), j)),
                                        put(get(pivot), j, row_load(swapped, row, lane))};
        return b().seq(moves);
      });
      const Expr sign = b().select(b().eq(get(pivot), k), real(1), real(-1));
      // Of a column of zeros the determinant is 0 whatever follows.
      const Expr divisor = b().select(b().eq(head, real(0)), real(1), head);
      const Stmt eliminate = each_row([&](Expr i) {
        const std::array<Stmt, 2> steps{set(factor, b().div(element(i, k), divisor)), each_column(k, [&](Expr, Expr j) {
                                          return put(i, j, b().sub(element(i, j), b().mul(get(factor), element(k, j))));
                                        })};
        return b().if_then(b().lt(k, i), b().seq(steps));
      });
      const std::array<Stmt, 6> elimination{set(pivot, k),
                                            set(best, real(0)),
                                            search,
                                            b().if_then(b().ne(get(pivot), k), swap),
                                            set(product, b().mul(get(product), b().mul(sign, head))),
                                            eliminate};
      const std::array<Stmt, 4> all{own_copy, set(product, real(1)),
                                    b().loop(step, b().integer(n), b().seq(elimination)),
                                    b().store(out.buffer->id, row, b().cast(get(product), out.buffer->type))};
      return b().seq(all);
    });
    return b().seq(std::array<Stmt, 2>{ahead, nest});
  });
}

}  // namespace tcc::task
