// Loops of PackedMatMul. A tile is a few rows of x and a panel of columns, whose numbers become floats once for all of
// its rows. Each block's sum is scaled as a whole, and its offset goes with the sum of the row's elements:
//
//   totals[m, block] = sum of x[m, k in block]
//   for panel, tile:  acc = 0
//     for block:  part = 0
//       for i in block / 2:  low, high = float(number & 15), float(number >> 4)  of byte i of all columns
//         part[m] += x[m, 2i] * low + x[m, 2i + 1] * high
//       acc[m] += part[m] * scale[block] - totals[m, block] * offset[block]
//     out = acc
#include <algorithm>
#include <array>

#include "nest.h"

namespace tcc::task {

using namespace ir;

namespace {

constexpr int64_t kLanes = graph::kPackedColumns;
constexpr int64_t kMostRows = 6;  // of a tile, whose sums stay in registers

}  // namespace

void GroupNest::plan_packed_matmul(const graph::Node& node) {
  add_stage("packed_matmul", node, false, [this, &node](const std::string& name, const Tensor& out) {
    return options_.in_order ? emit_packed_tiles(node, name, out) : emit_packed_sums(node, name, out);
  });
}

// Each element by its definition.
Stmt GroupNest::emit_packed_sums(const graph::Node& node, const std::string& name, const Tensor& out) {
  const auto& a = node.as<graph::PackedMatMulAttrs>();
  const Tensor x = operand(node.inputs[0]), numbers = operand(node.inputs[1]);
  const Tensor scales = operand(node.inputs[2]), offsets = operand(node.inputs[3]);
  return reduce_nest(
      name, axes_of(out.shape), {{"k", x.shape.back()}}, ReducerKind::kSum, out, nullptr,
      [&](const Exprs& at, const Exprs& over) {
        Exprs from = at;
        from.back() = over[0];
        const Expr panel = b().floor_div(at.back(), b().integer(kLanes));
        const Expr lane = b().floor_mod(at.back(), b().integer(kLanes)), two = b().integer(2);
        const Expr byte = b().cast(
            b().load(*numbers.buffer, std::array<Expr, 3>{panel, b().floor_div(over[0], two), lane}), Type::kI32);
        const Expr is_low = b().eq(b().floor_mod(over[0], two), b().integer(0));
        const Expr number = b().select(is_low, low_bits(byte), high_bits(byte));
        const Exprs block{panel, b().floor_div(over[0], b().integer(a.block)), lane};
        const Expr weight = b().sub(b().mul(b().cast(number, compute_), read(scales, block)), read(offsets, block));
        return b().mul(read(x, from), weight);
      });
}

Expr GroupNest::low_bits(Expr byte) {
  return b().call(Intrinsic::kBitAnd, std::array<Expr, 2>{byte, b().integer(15, byte->type)});
}
Expr GroupNest::high_bits(Expr byte) {
  return b().call(Intrinsic::kShiftRight, std::array<Expr, 2>{byte, b().integer(4, byte->type)});
}

Stmt GroupNest::emit_packed_tiles(const graph::Node& node, const std::string& name, const Tensor& out) {
  const auto& a = node.as<graph::PackedMatMulAttrs>();
  const Tensor x = operand(node.inputs[0]), numbers = operand(node.inputs[1]);
  const Tensor scales = operand(node.inputs[2]), offsets = operand(node.inputs[3]);
  const int64_t terms = x.shape.back(), blocks = terms / a.block, panels = numbers.shape[0];
  const int64_t all_rows = graph::element_count(x.shape) / terms, tiles = (all_rows + kMostRows - 1) / kMostRows;
  const int64_t rows = (all_rows + tiles - 1) / tiles;
  // Row m of x and of the result.
  auto place = [&](const graph::Shape& shape, Expr m, Expr last) {
    Exprs at{last};
    for (size_t i = shape.size() - 1; i-- > 0;) {
      at.insert(at.begin(), i == 0 ? m : b().floor_mod(m, b().integer(shape[i])));
      m = b().floor_div(m, b().integer(shape[i]));
    }
    return at;
  };
  const Tensor totals = make_temp("totals", {all_rows, blocks});
  const Stmt sums = reduce_nest("totals", {{"m", all_rows}, {"block", blocks}}, {{"k", a.block}}, ReducerKind::kSum,
                                totals, nullptr, [&](const Exprs& at, const Exprs& over) {
                                  return read(x, place(x.shape, at[0], b().add(b().scale(at[1], a.block), over[0])));
                                });
  auto make = [&](const char* hint, int64_t count) { return make_temp(hint, {panels, tiles, count}); };
  const Tensor acc = make("acc", rows * kLanes), part = make("part", rows * kLanes);
  const Tensor low = make("low", kLanes), high = make("high", kLanes);
  const Stmt nest = ordered_nest(name, {{"panel", panels}, {"tile", tiles}}, [&](const Exprs& row) {
    const Expr panel = row[0], zero = real(0);
    // The last tile ends with the last row.
    const Expr own = b().scale(row[1], rows);
    const Expr first = all_rows % rows == 0 ? own : b().min(own, b().integer(all_rows - rows));
    auto each_row = [&](auto&& body) {
      std::vector<Stmt> all;
      for (int64_t r = 0; r < rows; ++r) {
        const Id lane = kernel_.new_id("lane");
        const Expr l = b().var(lane);
        all.push_back(
            b().loop(lane, b().integer(kLanes), body(r, b().offset(l, r * kLanes), l), LoopKind::kVectorized));
      }
      return b().seq(all);
    };
    auto x_at = [&](int64_t r, Expr k) { return read(x, place(x.shape, b().offset(first, r), k)); };
    auto each_block = [&](Expr block) {
      const Id byte_loop = kernel_.new_id("i"), lane_loop = kernel_.new_id("lane");
      const Expr i = b().add(b().scale(block, a.block / 2), b().var(byte_loop)), lane = b().var(lane_loop);
      const Expr byte = b().cast(b().load(*numbers.buffer, std::array<Expr, 3>{panel, i, lane}), Type::kI32);
      const std::array<Stmt, 2> floats{row_store(low, row, lane, b().cast(low_bits(byte), compute_)),
                                       row_store(high, row, lane, b().cast(high_bits(byte), compute_))};
      const Stmt widen = b().loop(lane_loop, b().integer(kLanes), b().seq(floats), LoopKind::kVectorized);
      const Stmt add = each_row([&](int64_t r, Expr at, Expr l) {
        const Expr even = b().mul(x_at(r, b().scale(i, 2)), row_load(low, row, l));
        const Expr odd = b().mul(x_at(r, b().offset(b().scale(i, 2), 1)), row_load(high, row, l));
        return row_store(part, row, at, b().add(b().add(row_load(part, row, at), even), odd));
      });
      const Stmt terms_of = b().loop(byte_loop, b().integer(a.block / 2), b().seq(std::array<Stmt, 2>{widen, add}));
      const Stmt scale = each_row([&](int64_t r, Expr at, Expr l) {
        const Exprs of_block{panel, block, l};
        const Expr total = b().load(*totals.buffer, std::array<Expr, 2>{b().offset(first, r), block});
        const Expr scaled = b().mul(row_load(part, row, at), read(scales, of_block));
        const Expr moved = b().mul(total, read(offsets, of_block));
        return row_store(acc, row, at, b().add(row_load(acc, row, at), b().sub(scaled, moved)));
      });
      const Stmt clear = each_row([&](int64_t, Expr at, Expr) { return row_store(part, row, at, zero); });
      return b().seq(std::array<Stmt, 3>{clear, terms_of, scale});
    };
    const Id block_loop = kernel_.new_id("block");
    const Stmt put = each_row([&](int64_t r, Expr at, Expr l) {
      const Expr m = b().offset(first, r), column = b().add(b().scale(panel, kLanes), l);
      Expr is_own = a.columns % kLanes == 0 ? nullptr : b().lt(column, b().integer(a.columns));
      if (all_rows % rows != 0) is_own = b().logical_and(is_own, b().le(own, m));
      return b().store(out.buffer->id, place(out.shape, m, column), b().cast(row_load(acc, row, at), out.buffer->type),
                       is_own);
    });
    const std::array<Stmt, 3> all{each_row([&](int64_t, Expr at, Expr) { return row_store(acc, row, at, zero); }),
                                  b().loop(block_loop, b().integer(blocks), each_block(b().var(block_loop))), put};
    return b().seq(all);
  });
  return b().seq(std::array<Stmt, 2>{sums, nest});
}

}  // namespace tcc::task
