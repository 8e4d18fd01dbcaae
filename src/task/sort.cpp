// Loops of TopK where loops run in order. Rows are independent; one row is sorted by merges, each pass of which makes
// runs of twice the length. Equal elements keep their order, since a merge prefers the earlier run.
//
// Where few of many elements are wanted, a row is read in pieces. Elements that come before the last of those kept so
// far wait in a buffer, and the buffer is sorted when it might overflow:
//
//   for piece:
//     for i in piece:  if open || before(x[i], threshold):  keys[filled] = x[i];  order[filled] = i;  filled += 1
//     if filled + piece > room || last:  sort(keys, order);  filled = min(filled, k);  threshold = keys[k - 1]
//
// A row of floats side by side in memory has a first threshold: vectors count how many of its first elements come
// before a number, and halve the range of numbers until few more than k do. Then most rows are sorted once.
#include <algorithm>

#include "nest.h"
#include "scalar_functions.h"

namespace tcc::task {

using namespace ir;

namespace {

constexpr int64_t kMostSelected = 1024;  // of which the buffers fit the stack
constexpr int64_t kLeastRoom = 32;
constexpr int64_t kPiecesOfRoom = 4;
constexpr int64_t kCountedLanes = 64;   // of the vectors that count
constexpr int64_t kMostCounted = 4096;  // elements that are counted for few wanted ones
constexpr int64_t kMostHalvings = 24;   // of the range that the first threshold is in
constexpr double kLargestBound = 1e30;  // the middle of two bounds is a number

int64_t passes_of(int64_t elements) {
  int64_t passes = 0;
  while ((int64_t{1} << passes) < elements) ++passes;
  return passes;
}

}  // namespace

// Statements about one row, whose number is `row`.
struct GroupNest::RowSort {
  const graph::TopKAttrs& attrs;
  int64_t room = 0;  // elements of the buffers, each of which has two halves: a pass goes from one to the other
  Tensor keys, order;
  // How many elements a merge has taken from its second run, and whether it takes the next from there: from the front
  // and from the back.
  Tensor front, front_taken, back, back_taken;
  Exprs row;
};

Expr GroupNest::comes_before(const graph::TopKAttrs& a, Expr p, Expr q) {
  if (!is_float(p->type) || graph_.fast_math) return a.largest ? b().lt(q, p) : b().lt(p, q);
  // NaN is the greatest.
  Expr greater = a.largest ? p : q, less = a.largest ? q : p;
  return b().logical_and(b().logical_not(b().le(greater, less)), b().eq(less, less));
}

Expr GroupNest::row_load(const Tensor& t, Exprs row, Expr i) {
  row.push_back(i);
  return b().load(*t.buffer, row);
}

Stmt GroupNest::row_store(const Tensor& t, Exprs row, Expr i, Expr x) {
  row.push_back(i);
  return b().store(t.buffer->id, row, x);
}

// A key that comes behind all others. Behind the last element it comes behind its equals, too.
Expr GroupNest::sort_pad(const graph::TopKAttrs& a, Type key) {
  if (!is_float(key)) return b().integer(a.largest ? integer_range(key).low : integer_range(key).high, key);
  return b().real(a.largest ? -HUGE_VAL : graph_.fast_math ? HUGE_VAL : NAN, key);
}

// Merges pairs of runs of `width` elements from both ends at once. Neither end reaches the end of a run within `width`
// steps, and the two do not wait for each other. In the first pass an element's place is its own number where
// `numbered`. Pairs from `filled` on are left out.
Stmt GroupNest::merge_pass(const RowSort& s, int64_t pass, Expr filled, bool numbered) {
  const int64_t width = int64_t{1} << pass, half = pass % 2 * s.room, other = s.room - half;
  auto from = [&](const Tensor& t, Expr i) { return row_load(t, s.row, b().offset(i, half)); };
  auto put = [&](const Tensor& t, Expr i, Expr x) { return row_store(t, s.row, b().offset(i, other), x); };
  const Expr zero = b().integer(0), one = b().integer(1);
  const Id run_loop = kernel_.new_id("run"), loop = kernel_.new_id("t");
  const Expr first = b().scale(b().var(run_loop), 2 * width), t = b().var(loop);
  std::vector<Stmt> steps;
  // Of the first elements left, or of the last ones: the number of those that came from the second run.
  auto take = [&](const Tensor& count, const Tensor& taken, Expr place_a, Expr place_b, Expr to, bool forward) {
    const Expr later_first = comes_before(s.attrs, from(s.keys, place_b), from(s.keys, place_a));
    steps.push_back(row_store(taken, s.row, zero, b().select(later_first, forward ? one : zero, forward ? zero : one)));
    const Expr from_b = row_load(taken, s.row, zero);
    const Expr place = b().select(b().eq(from_b, one), place_b, place_a);
    steps.push_back(put(s.keys, to, from(s.keys, place)));
    steps.push_back(put(s.order, to, numbered ? b().cast(place, Type::kI32) : from(s.order, place)));
    steps.push_back(row_store(count, s.row, zero, b().add(row_load(count, s.row, zero), from_b)));
  };
  const Expr ahead = row_load(s.front, s.row, zero), behind = row_load(s.back, s.row, zero);
  take(s.front, s.front_taken, b().add(first, b().sub(t, ahead)), b().add(b().offset(first, width), ahead),
       b().add(first, t), true);
  take(s.back, s.back_taken, b().sub(b().offset(first, width - 1), b().sub(t, behind)),
       b().sub(b().offset(first, 2 * width - 1), behind), b().sub(b().offset(first, 2 * width - 1), t), false);
  Stmt run = b().seq(std::array<Stmt, 3>{row_store(s.front, s.row, zero, zero), row_store(s.back, s.row, zero, zero),
                                         b().loop(loop, b().integer(width), b().seq(steps))});
  const int64_t most = is_int(filled) ? int_value(filled) : s.room;
  if (!is_int(filled)) run = b().if_then(b().lt(first, filled), run);
  return b().loop(run_loop, b().integer((most + 2 * width - 1) / (2 * width)), run);
}

// Puts `pad` behind the first `filled` keys, and behind the first `least`, of both halves; also numbers behind their
// numbers.
Stmt GroupNest::fill_row(const RowSort& s, Expr filled, int64_t least, Expr pad, bool numbers) {
  if (least == s.room) return nullptr;
  const Id loop = kernel_.new_id("j");
  const Expr j = b().offset(b().var(loop), least);
  std::vector<Stmt> stores;
  for (int64_t half : {int64_t{0}, s.room}) {
    stores.push_back(row_store(s.keys, s.row, b().offset(j, half), pad));
    if (numbers) stores.push_back(row_store(s.order, s.row, b().offset(j, half), b().integer(0, Type::kI32)));
  }
  Stmt fill = b().seq(stores);
  if (filled != nullptr) fill = b().if_then(b().le(filled, j), fill);
  return b().loop(loop, b().integer(s.room - least), fill);
}

// Temporaries of shape `rows` and a last axis.
void GroupNest::make_sort_buffers(RowSort& s, const graph::Shape& rows, Type key) {
  auto make = [&](const char* name, Type type, int64_t extent) {
    graph::Shape shape = rows;
    shape.push_back(extent);
    return computing(type, [&] { return make_temp(name, shape); });
  };
  s.keys = make("keys", key, 2 * s.room);
  s.order = make("order", Type::kI32, 2 * s.room);
  s.front = make("front", Type::kI64, 1);
  s.front_taken = make("front_taken", Type::kI64, 1);
  s.back = make("back", Type::kI64, 1);
  s.back_taken = make("back_taken", Type::kI64, 1);
}

// All elements of each row are sorted.
Stmt GroupNest::emit_sorted(const graph::Node& node, const std::string& name, const Tensor& out) {
  const auto& a = node.as<graph::TopKAttrs>();
  const auto axis = static_cast<size_t>(a.axis);
  const graph::Shape shape = operand(node.inputs[0]).shape;
  graph::Shape rows = out.shape;
  rows.erase(rows.begin() + a.axis);
  const int64_t extent = shape[axis], passes = passes_of(extent);
  const Type key = widened(value(node.inputs[0]).dtype);
  RowSort s{.attrs = a, .room = int64_t{1} << passes};
  make_sort_buffers(s, rows, key);
  std::vector<NestAxis> row_axes = axes_of(out.shape);
  row_axes.erase(row_axes.begin() + a.axis);
  std::vector<NestAxis> key_axes = row_axes;
  key_axes.push_back({"k", extent});
  const Stmt keys = map_nest("keys", key_axes, s.keys, [&](const Exprs& at) {
    return sort_key(node, Exprs(at.begin(), at.end() - 1), at.back());
  });
  const Stmt sort = ordered_nest(name, row_axes, [&](const Exprs& row) {
    s.row = row;
    std::vector<Stmt> all{fill_row(s, nullptr, extent, sort_pad(a, key), true)};
    for (int64_t pass = 0; pass < passes; ++pass) all.push_back(merge_pass(s, pass, b().integer(extent), pass == 0));
    return b().seq(all);
  });
  const Stmt copy = map_nest("order", axes_of(out.shape), out, [&](const Exprs& at) {
    Exprs row = at;
    row.erase(row.begin() + a.axis);
    return row_load(s.order, row, b().offset(at[axis], passes % 2 * s.room));
  });
  return b().seq(std::array<Stmt, 3>{keys, sort, copy});
}

// Sets `threshold` to a number that at least k elements of the row come before, and `open` to 0, where it finds one.
Stmt GroupNest::guess_threshold(const graph::Node& node, const Tensor& threshold, const Tensor& open,
                                const graph::Shape& rows, const Exprs& row) {
  const auto& a = node.as<graph::TopKAttrs>();
  const int64_t extent = operand(node.inputs[0]).shape[static_cast<size_t>(a.axis)];
  const int64_t lanes = kCountedLanes, groups = std::min(extent, std::max(kMostCounted, 4 * a.k)) / lanes;
  const Type key = threshold.buffer->type;
  auto make = [&](const char* hint, Type type, int64_t count) {
    graph::Shape shape = rows;
    shape.push_back(count);
    return computing(type, [&] { return make_temp(hint, shape); });
  };
  const Tensor lows = make("lows", key, lanes), highs = make("highs", key, lanes);
  const Tensor counts = make("counts", Type::kI32, lanes), low = make("low", key, 1), high = make("high", key, 1);
  const Tensor count = make("count", Type::kI32, 1), searching = make("searching", Type::kI32, 1);
  const Expr zero = b().integer(0);
  const Expr none = b().integer(0, Type::kI32), one = b().integer(1, Type::kI32);
  const auto get = [&](const Tensor& t) { return row_load(t, row, zero); };
  const auto set = [&](const Tensor& t, Expr x) { return row_store(t, row, zero, x); };
  const auto each_lane = [&](LoopKind kind, auto&& body) {
    const Id lane = kernel_.new_id("lane");
    return b().loop(lane, b().integer(lanes), body(b().var(lane)), kind);
  };
  const auto each_element = [&](auto&& body) {
    const Id group = kernel_.new_id("group");
    return b().loop(group, b().integer(groups), each_lane(LoopKind::kVectorized, [&](Expr lane) {
                      return body(lane, sort_key(node, row, b().add(b().scale(b().var(group), lanes), lane)));
                    }));
  };
  const auto both = [&](Stmt x, Stmt y) { return b().seq(std::array<Stmt, 2>{x, y}); };
  const auto bounded = [&](Expr x) {
    return b().min(b().max(x, b().real(-kLargestBound, key)), b().real(kLargestBound, key));
  };
  std::vector<Stmt> steps{each_lane(LoopKind::kVectorized,
                                    [&](Expr lane) {
                                      return both(row_store(lows, row, lane, b().real(HUGE_VAL, key)),
                                                  row_store(highs, row, lane, b().real(-HUGE_VAL, key)));
                                    }),
                          each_element([&](Expr lane, Expr x) {
                            return both(row_store(lows, row, lane, b().min(row_load(lows, row, lane), x)),
                                        row_store(highs, row, lane, b().max(row_load(highs, row, lane), x)));
                          }),
                          set(low, b().real(HUGE_VAL, key)),
                          set(high, b().real(-HUGE_VAL, key)),
                          each_lane(LoopKind::kSerial,
                                    [&](Expr lane) {
                                      return both(set(low, b().min(get(low), row_load(lows, row, lane))),
                                                  set(high, b().max(get(high), row_load(highs, row, lane))));
                                    }),
                          set(low, bounded(get(low))),
                          set(high, bounded(get(high))),
                          set(searching, one)};
  const Expr middle = b().mul(b().add(get(low), get(high)), b().real(0.5, key)), k = b().integer(a.k, Type::kI32);
  // A middle that enough elements come before is the threshold and one bound of the rest of the range.
  const Tensor &inner = a.largest ? low : high, &outer = a.largest ? high : low;
  const Stmt enough = b().seq(std::array<Stmt, 4>{
      set(threshold, middle), set(open, zero),
      set(searching, b().select(b().le(get(count), b().integer(a.k + a.k / 8, Type::kI32)), none, one)),
      set(inner, middle)});
  const std::array<Stmt, 5> halving{
      each_lane(LoopKind::kVectorized, [&](Expr lane) { return row_store(counts, row, lane, none); }),
      each_element([&](Expr lane, Expr x) {
        return row_store(counts, row, lane,
                         b().add(row_load(counts, row, lane), b().select(comes_before(a, x, middle), one, none)));
      }),
      set(count, none),
      each_lane(LoopKind::kSerial,
                [&](Expr lane) { return set(count, b().add(get(count), row_load(counts, row, lane))); }),
      b().if_then(b().le(k, get(count)), enough, set(outer, middle))};
  steps.push_back(b().loop(kernel_.new_id("halving"), b().integer(kMostHalvings),
                           b().if_then(b().eq(get(searching), one), b().seq(halving))));
  return b().seq(steps);
}

// The first k of each row, by buffers with room for at least twice as many.
Stmt GroupNest::emit_selected(const graph::Node& node, const std::string& name, const Tensor& out) {
  const auto& a = node.as<graph::TopKAttrs>();
  const int64_t extent = operand(node.inputs[0]).shape[static_cast<size_t>(a.axis)];
  graph::Shape rows = out.shape;
  rows.erase(rows.begin() + a.axis);
  const int64_t passes = passes_of(std::max(2 * a.k, kLeastRoom));
  RowSort s{.attrs = a, .room = int64_t{1} << passes};
  const int64_t piece = s.room / kPiecesOfRoom, pieces = (extent + piece - 1) / piece;
  const Type key = widened(value(node.inputs[0]).dtype);
  make_sort_buffers(s, rows, key);
  graph::Shape one_each = rows;
  one_each.push_back(1);
  auto number = [&](const char* hint, Type type) { return computing(type, [&] { return make_temp(hint, one_each); }); };
  const Tensor filled = number("filled", Type::kI64), open = number("open", Type::kI64);
  const Tensor threshold = number("threshold", key);
  std::vector<NestAxis> row_axes = axes_of(out.shape);
  row_axes.erase(row_axes.begin() + a.axis);
  const Expr zero = b().integer(0), one = b().integer(1), k = b().integer(a.k);
  return ordered_nest(name, row_axes, [&](const Exprs& row) {
    s.row = row;
    const Expr so_far = row_load(filled, row, zero);
    const Id piece_loop = kernel_.new_id("piece"), end_loop = kernel_.new_id("j");
    const Expr c = b().var(piece_loop);
    // Takes what comes before the threshold, or all elements.
    auto read_piece = [&](bool all) {
      const Id loop = kernel_.new_id("i");
      const Expr i = b().add(b().scale(c, piece), b().var(loop)), x = sort_key(node, row, i);
      Stmt step = b().seq(std::array<Stmt, 3>{row_store(s.keys, row, so_far, x),
                                              row_store(s.order, row, so_far, b().cast(i, Type::kI32)),
                                              row_store(filled, row, zero, b().offset(so_far, 1))});
      if (!all) step = b().if_then(comes_before(a, x, row_load(threshold, row, zero)), step);
      if (extent % piece != 0) step = b().if_then(b().lt(i, b().integer(extent)), step);
      return b().loop(loop, b().integer(piece), step);
    };
    std::vector<Stmt> sort{fill_row(s, so_far, 0, sort_pad(a, key), false)};
    for (int64_t pass = 0; pass < passes; ++pass) sort.push_back(merge_pass(s, pass, so_far, false));
    if (passes % 2 == 1) {
      const Id back = kernel_.new_id("j");
      const Expr j = b().var(back);
      const std::array<Stmt, 2> moves{row_store(s.keys, row, j, row_load(s.keys, row, b().offset(j, s.room))),
                                      row_store(s.order, row, j, row_load(s.order, row, b().offset(j, s.room)))};
      sort.push_back(b().loop(back, k, b().if_then(b().lt(j, so_far), b().seq(moves))));
    }
    sort.push_back(b().if_then(
        b().le(k, so_far),
        b().seq(std::array<Stmt, 3>{row_store(filled, row, zero, k), row_store(open, row, zero, zero),
                                    row_store(threshold, row, zero, row_load(s.keys, row, b().integer(a.k - 1)))})));
    const Expr due = b().logical_or(b().lt(b().integer(s.room - piece), so_far), b().eq(c, b().integer(pieces - 1)));
    const Stmt read = b().loop(piece_loop, b().integer(pieces),
                               b().seq(std::array<Stmt, 2>{b().if_then(b().eq(row_load(open, row, zero), one),
                                                                       read_piece(true), read_piece(false)),
                                                           b().if_then(due, b().seq(sort))}));
    const Expr j = b().var(end_loop);
    Exprs to = row;
    to.insert(to.begin() + a.axis, j);
    const Stmt put =
        b().loop(end_loop, k, b().store(out.buffer->id, to, b().cast(row_load(s.order, row, j), out.buffer->type)));
    // What waits across pieces has to be there around their loop.
    const Stmt clear = fill_row(s, nullptr, 0, b().constant(0, key), true);
    std::vector<Stmt> all{clear, row_store(filled, row, zero, zero), row_store(open, row, zero, one),
                          row_store(threshold, row, zero, b().constant(0, key))};
    const bool side_by_side = a.axis + 1 == static_cast<int64_t>(out.shape.size());
    if (is_float(key) && side_by_side) all.push_back(guess_threshold(node, threshold, open, rows, row));
    all.push_back(read);
    all.push_back(put);
    return b().seq(all);
  });
}

Expr GroupNest::sort_key(const graph::Node& node, Exprs row, Expr i, Expr predicate) {
  row.insert(row.begin() + node.as<graph::TopKAttrs>().axis, i);
  const Tensor from = operand(node.inputs[0]);
  const Type type = widened(value(node.inputs[0]).dtype);
  const Expr x = computing(type, [&] { return read(from, row, predicate); });
  return graph::is_wide_unsigned(value(node.inputs[0]).dtype) ? flip_order(b(), x) : x;
}

// Loops over `axes` around a block whose statements run in order. A carried iterator says so.
Stmt GroupNest::ordered_nest(const std::string& name, const std::vector<NestAxis>& axes,
                             const std::function<Stmt(const Exprs&)>& body) {
  std::vector<Iter> iters;
  std::vector<std::pair<Id, int64_t>> loops;
  Exprs at;
  for (const NestAxis& axis : axes) {
    loops.emplace_back(kernel_.new_id(axis.name), axis.extent);
    const Id iter = kernel_.new_id((std::string("v") + axis.name).c_str());
    iters.push_back({iter, IterKind::kSpatial, b().integer(axis.extent), b().var(loops.back().first)});
    at.push_back(b().var(iter));
  }
  loops.emplace_back(kernel_.new_id("once"), 1);
  iters.push_back({kernel_.new_id("vonce"), IterKind::kCarried, b().integer(1), b().var(loops.back().first)});
  Stmt nest = b().block(kernel_.new_id(name.c_str()), iters, body(at));
  for (size_t i = loops.size(); i-- > 0;) nest = b().loop(loops[i].first, b().integer(loops[i].second), nest);
  return nest;
}

// Ranks grow with the square of a row's length. Short rows are faster by them, and longer ones where elements of a row
// are side by side: ranks are vectors then.
bool GroupNest::sorts_in_order(const graph::TopKAttrs& a, const graph::Shape& shape) const {
  constexpr int64_t kMostRanked = 128, kMostRankedApart = 16;
  const int64_t extent = shape[static_cast<size_t>(a.axis)];
  if (!options_.in_order || extent >= int64_t{1} << 31 || a.k == 0) return false;
  const bool apart = a.axis + 1 != std::ssize(shape);
  return extent > (apart ? kMostRankedApart : kMostRanked) || sorts_in_lanes(a, shape);
}

Stmt GroupNest::emit_in_order(const graph::Node& node, const std::string& name, const Tensor& out) {
  const auto& a = node.as<graph::TopKAttrs>();
  const graph::Shape& shape = operand(node.inputs[0]).shape;
  const int64_t extent = shape[static_cast<size_t>(a.axis)];
  if (sorts_in_lanes(a, shape)) return emit_in_lanes(node, name, out);
  return a.k <= kMostSelected && 4 * a.k <= extent ? emit_selected(node, name, out) : emit_sorted(node, name, out);
}

}  // namespace tcc::task
