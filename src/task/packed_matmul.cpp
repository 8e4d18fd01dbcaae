// Loops of PackedMatMul. A tile is as many rows of x as registers hold sums of, and a panel of columns. The numbers of
// a block become floats once for some tiles: in registers where there is one tile, else in the first-level cache. Each
// block's sum is scaled as a whole:
//
//   for panel, group of tiles:  acc = 0
//     for block:
//       for i in block / 2:  floats[2i], floats[2i + 1] = number & 15, number >> 4  of byte i of all columns, minus
//       zero for tile:  part = 0
//         for k in block:  part[m] += x[m, k] * floats[k]
//         acc[m] += part[m] * scale[block]
//     out = acc
#include <algorithm>
#include <array>
#include <numeric>

#include "nest.h"

namespace tcc::task {

using namespace ir;

namespace {

constexpr int64_t kColumns = graph::kPackedColumns;
constexpr int64_t kMostTiles = 8;  // that share the floats of a block
// Of a first-level cache; lines of a set that rows of x may take.
constexpr int64_t kLineBytes = 64, kSets = 64, kLinesOfSet = 4;
constexpr int64_t kBeside = 16;  // terms of a row that are copied at once, at most

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
  const Tensor scales = operand(node.inputs[2]), zeros = operand(node.inputs[3]);
  return reduce_nest(
      name, axes_of(out.shape), {{"k", x.shape.back()}}, ReducerKind::kSum, out, nullptr,
      [&](const Exprs& at, const Exprs& over) {
        Exprs from = at;
        from.back() = over[0];
        const Expr panel = b().floor_div(at.back(), b().integer(kColumns));
        const Expr lane = b().floor_mod(at.back(), b().integer(kColumns)), two = b().integer(2);
        const Expr byte = b().cast(
            b().load(*numbers.buffer, std::array<Expr, 3>{panel, b().floor_div(over[0], two), lane}), Type::kI32);
        const Expr is_low = b().eq(b().floor_mod(over[0], two), b().integer(0));
        const Expr number = b().select(is_low, low_bits(byte), high_bits(byte));
        const Exprs block{panel, b().floor_div(over[0], b().integer(a.block)), lane};
        const Expr weight = b().mul(b().sub(b().cast(number, compute_), read(zeros, block)), read(scales, block));
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
  const Tensor scales = operand(node.inputs[2]), zeros = operand(node.inputs[3]);
  const int64_t terms = x.shape.back(), blocks = terms / a.block, panels = numbers.shape[0];
  const int64_t all_rows = graph::element_count(x.shape) / terms;
  // Few columns are in the first half of their only panel.
  const int64_t width = a.columns <= kColumns / 2 ? kColumns / 2 : kColumns;
  // A quarter of the registers is for operands.
  const int64_t most_rows = std::max<int64_t>(options_.register_floats * 3 / 4 / width, 1);
  const int64_t tiles = (all_rows + most_rows - 1) / most_rows, rows = (all_rows + tiles - 1) / tiles;
  const int64_t groups = (tiles + kMostTiles - 1) / kMostTiles, tiles_of_group = (tiles + groups - 1) / groups;
  // Row m of x and of the result.
  auto place = [&](const graph::Shape& shape, Expr m, Expr last) {
    Exprs at{last};
    for (size_t i = shape.size() - 1; i-- > 0;) {
      at.insert(at.begin(), i == 0 ? m : b().floor_mod(m, b().integer(shape[i])));
      m = b().floor_div(m, b().integer(shape[i]));
    }
    return at;
  };
  // The first row of a tile: the last tile ends with the last row.
  auto first_row = [&](Expr tile) {
    const Expr own = b().scale(tile, rows);
    return all_rows % rows == 0 ? own : b().min(own, b().integer(all_rows - rows));
  };
  // Several tiles share the floats of a block. They read copies of their rows that are side by side,
  // some terms of each, where the rows of x are a power of two apart or nearly so: few sets of the first-level cache
  // would hold them.
  const bool shares = tiles > 1;
  const int64_t row_lines = std::max<int64_t>(terms * ir::type_bytes(x.buffer->type) / kLineBytes, 1);
  const int64_t chunk = std::gcd(kBeside, a.block);  // terms that are copied at once
  const bool copies = shares && rows > kLinesOfSet * (kSets / std::gcd(kSets, row_lines));
  const Tensor beside = copies ? make_temp("beside", {tiles, terms / chunk, rows, chunk}) : x;
  const Stmt copy = !copies ? nullptr : ordered_nest("beside", {{"tile", tiles}}, [&](const Exprs& row) {
    const Id term_loop = kernel_.new_id("k"), row_loop = kernel_.new_id("r"), lane_loop = kernel_.new_id("lane");
    const Expr k = b().var(term_loop), r = b().var(row_loop), lane = b().var(lane_loop);
    const Expr from = b().add(b().scale(k, chunk), lane), m = b().add(first_row(row[0]), r);
    const Stmt one = b().loop(
        lane_loop, b().integer(chunk),
        b().store(beside.buffer->id, std::array<Expr, 4>{row[0], k, r, lane}, read(x, place(x.shape, m, from))),
        LoopKind::kVectorized);
    return b().loop(term_loop, b().integer(terms / chunk), b().loop(row_loop, b().integer(rows), one));
  });
  auto make = [&](const char* hint, int64_t count) { return make_temp(hint, {panels, groups, count}); };
  const Tensor acc = make("acc", tiles_of_group * rows * width), part = make("part", rows * width);
  const Tensor floats = make("floats", (shares ? a.block : 2) * width);
  const Stmt nest = ordered_nest(name, {{"panel", panels}, {"group", groups}}, [&](const Exprs& row) {
    const Expr panel = row[0], zero = real(0);
    auto loop = [&](const char* hint, int64_t extent, auto&& body, LoopKind kind = LoopKind::kSerial) {
      const Id id = kernel_.new_id(hint);
      return b().loop(id, b().integer(extent), body(b().var(id)), kind);
    };
    auto each_lane = [&](auto&& body) { return loop("lane", width, body, LoopKind::kVectorized); };
    // body(r, place of the lane in a tile, lane) for the rows of a tile, written out.
    auto each_row = [&](auto&& body) {
      std::vector<Stmt> all;
      for (int64_t r = 0; r < rows; ++r)
        all.push_back(each_lane([&](Expr lane) { return body(r, b().offset(lane, r * width), lane); }));
      return b().seq(all);
    };
    // body(tile of the group, tile of all, its first row)
    auto each_tile = [&](auto&& body) {
      return loop("tile", tiles_of_group, [&](Expr t) {
        const Expr tile = b().add(b().scale(row[1], tiles_of_group), t);
        const Stmt s = body(t, tile, first_row(tile));
        return tiles % tiles_of_group == 0 ? s : b().if_then(b().lt(tile, b().integer(tiles)), s);
      });
    };
    auto in_acc = [&](Expr tile, Expr at) { return b().add(b().scale(tile, rows * width), at); };
    auto x_at = [&](Expr tile, int64_t r, Expr k) {
      if (!copies) return read(x, place(x.shape, b().offset(shares ? first_row(tile) : b().integer(0), r), k));
      const Expr each = b().integer(chunk);
      return b().load(*beside.buffer,
                      std::array<Expr, 4>{tile, b().floor_div(k, each), b().integer(r), b().floor_mod(k, each)});
    };
    // Byte i of all columns as floats `to` and `to` + 1, without the block's zero points.
    auto widen = [&](Expr block, Expr i, Expr to) {
      return each_lane([&](Expr lane) {
        const Expr byte = b().cast(b().load(*numbers.buffer, std::array<Expr, 3>{panel, i, lane}), Type::kI32);
        const Expr at = b().add(b().scale(to, width), lane), zero_point = read(zeros, {panel, block, lane});
        auto number = [&](Expr bits) { return b().sub(b().cast(bits, compute_), zero_point); };
        const std::array<Stmt, 2> both{row_store(floats, row, at, number(low_bits(byte))),
                                       row_store(floats, row, b().offset(at, width), number(high_bits(byte)))};
        return b().seq(both);
      });
    };
    // part += x[k] * float `from`, ... for `count` terms.
    auto add_terms = [&](Expr tile, Expr k, Expr from, int64_t count) {
      return each_row([&](int64_t r, Expr at, Expr lane) {
        Expr sum = row_load(part, row, at);
        for (int64_t i = 0; i < count; ++i) {
          const Expr number = row_load(floats, row, b().add(b().scale(b().offset(from, i), width), lane));
          sum = b().add(sum, b().mul(x_at(tile, r, b().offset(k, i)), number));
        }
        return row_store(part, row, at, sum);
      });
    };
    auto each_block = [&](Expr block) {
      const Expr first_byte = b().scale(block, a.block / 2), first_term = b().scale(block, a.block),
                 none = b().integer(0);
      const Stmt widen_all = !shares ? nullptr : loop("i", a.block / 2, [&](Expr i) {
        return widen(block, b().add(first_byte, i), b().scale(i, 2));
      });
      const Stmt tile_sums = each_tile([&](Expr t, Expr tile, Expr) {
        const Stmt clear = each_row([&](int64_t, Expr at, Expr) { return row_store(part, row, at, zero); });
        const Stmt terms_of =
            shares
                ? loop("chunk", a.block / chunk,
                       [&](Expr c) {
                         return loop("k", chunk, [&](Expr i) {
                           const Expr k = b().add(b().scale(c, chunk), i);
                           return add_terms(tile, b().add(first_term, k), k, 1);
                         });
                       })
                : loop("i", a.block / 2, [&](Expr i) {
                    return b().seq(std::array<Stmt, 2>{widen(block, b().add(first_byte, i), none),
                                                       add_terms(tile, b().add(first_term, b().scale(i, 2)), none, 2)});
                  });
        const Stmt scale = each_row([&](int64_t, Expr at, Expr lane) {
          const Expr scaled = b().mul(row_load(part, row, at), read(scales, {panel, block, lane}));
          return row_store(acc, row, in_acc(t, at), b().add(row_load(acc, row, in_acc(t, at)), scaled));
        });
        return b().seq(std::array<Stmt, 3>{clear, terms_of, scale});
      });
      return b().seq(std::array<Stmt, 2>{widen_all, tile_sums});
    };
    const Stmt clear_all = each_tile([&](Expr t, Expr, Expr) {
      return each_row([&](int64_t, Expr at, Expr) { return row_store(acc, row, in_acc(t, at), zero); });
    });
    const Stmt put = each_tile([&](Expr t, Expr tile, Expr first) {
      return each_row([&](int64_t r, Expr at, Expr lane) {
        const Expr m = b().offset(first, r), column = b().add(b().scale(panel, kColumns), lane);
        Expr is_own = a.columns % width == 0 ? nullptr : b().lt(column, b().integer(a.columns));
        if (all_rows % rows != 0) is_own = b().logical_and(is_own, b().le(b().scale(tile, rows), m));
        return b().store(out.buffer->id, place(out.shape, m, column),
                         b().cast(row_load(acc, row, in_acc(t, at)), out.buffer->type), is_own);
      });
    });
    return b().seq(std::array<Stmt, 3>{clear_all, loop("block", blocks, each_block), put});
  });
  return b().seq(std::array<Stmt, 2>{copy, nest});
}

}  // namespace tcc::task
