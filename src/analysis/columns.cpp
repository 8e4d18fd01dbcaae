#include "tcc/analysis/columns.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/columns/levels.h"
#include "tcc/rt/rt.h"
#include "tcc/support/check.h"

namespace tcc::analysis {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double times(double a, double b) {
  return a == 0 || b == 0 ? 0 : a * b;
}

// Bounds of the product or the quotient of what is between the ends.
template <class F>
std::pair<double, double> over_ends(double a0, double a1, double b0, double b1, F f) {
  const double p[] = {f(a0, b0), f(a0, b1), f(a1, b0), f(a1, b1)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}

double floor_quotient(double a, double b) {
  return std::floor(a / b);
}

#if defined(__x86_64__)
bool host_has_all(std::initializer_list<const char*> names) {
  static const uint64_t have = tcc_rt_cpu_features();
  return std::all_of(names.begin(), names.end(), [](const char* name) {
    const uint64_t bit = tcc_rt_cpu_feature(name);
    return bit != 0 && (have & bit) != 0;
  });
}
ColumnLevel best_level() {
  const bool avx2 = host_has_all({"avx", "avx2", "bmi", "bmi2", "fma", "lzcnt", "movbe"});
  if (avx2 && host_has_all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})) return ColumnLevel::kAvx512;
  return avx2 ? ColumnLevel::kAvx2 : ColumnLevel::kPlain;
}
RunColumns loops_of(ColumnLevel level) {
  return level == ColumnLevel::kAvx512 ? avx512::kRun : level == ColumnLevel::kAvx2 ? avx2::kRun : plain::kRun;
}
#else
ColumnLevel best_level() {
  return ColumnLevel::kPlain;
}
RunColumns loops_of(ColumnLevel) {
  return plain::kRun;
}
#endif

}  // namespace

ColumnLevel column_level() {
  static const ColumnLevel level = best_level();
  return level;
}

std::optional<double> ColumnBuilder::known(Column a) const {
  const Node& n = nodes_[static_cast<size_t>(a)];
  if (n.source == Source::kConstant) return n.value;
  return std::nullopt;
}

Column ColumnBuilder::input(double least, double most) {
  nodes_.push_back({Source::kInput, ColumnOp::kAdd, inputs_++, kNoColumn, kNoColumn, 0, least, most, -1});
  return static_cast<Column>(nodes_.size()) - 1;
}

Column ColumnBuilder::constant(double value) {
  TCC_CHECK(std::isfinite(value), "a constant that is {}", value);
  value += 0.0;  // one zero
  auto [at, fresh] = constants_.try_emplace(value, static_cast<Column>(nodes_.size()));
  if (fresh)
    nodes_.push_back({Source::kConstant, ColumnOp::kAdd, kNoColumn, kNoColumn, kNoColumn, value, value, value, -1});
  return at->second;
}

Column ColumnBuilder::make(ColumnOp op, Column a, Column b, Column c, double least, double most, int32_t table) {
  auto [at, fresh] = known_.try_emplace({op, a, b, c, table}, static_cast<Column>(nodes_.size()));
  if (fresh) nodes_.push_back({Source::kStep, op, a, b, c, 0, least, most, table});
  return at->second;
}

Column ColumnBuilder::add(Column a, Column b) {
  if (known(a)) std::swap(a, b);
  if (known(a)) return constant(*known(a) + *known(b));
  if (is(b, 0)) return a;
  if (!known(b) && b < a) std::swap(a, b);
  return make(ColumnOp::kAdd, a, b, kNoColumn, least(a) + least(b), most(a) + most(b));
}

Column ColumnBuilder::sub(Column a, Column b) {
  if (known(b)) return add(a, constant(-*known(b)));
  if (a == b) return constant(0);
  return make(ColumnOp::kSub, a, b, kNoColumn, least(a) - most(b), most(a) - least(b));
}

Column ColumnBuilder::mul(Column a, Column b) {
  if (known(a)) std::swap(a, b);
  if (known(a)) return constant(*known(a) * *known(b));
  if (is(b, 0)) return b;
  if (is(b, 1)) return a;
  if (!known(b) && b < a) std::swap(a, b);
  const auto [low, high] = over_ends(least(a), most(a), least(b), most(b), times);
  return make(ColumnOp::kMul, a, b, kNoColumn, low, high);
}

Column ColumnBuilder::div(Column a, Column b) {
  if (is(b, 1) || is(a, 0)) return a;
  if (known(a) && known(b)) return constant(*known(a) / *known(b));
  if (least(b) <= 0) return make(ColumnOp::kDiv, a, b, kNoColumn, -kInfinity, kInfinity);
  const auto [low, high] =
      over_ends(least(a), most(a), least(b), most(b), [](double x, double y) { return std::isinf(y) ? 0 : x / y; });
  return make(ColumnOp::kDiv, a, b, kNoColumn, low, high);
}

Column ColumnBuilder::floor_div(Column a, Column b) {
  TCC_CHECK(least(b) > 0, "a divisor between {} and {}", least(b), most(b));
  if (known(a) && known(b)) return constant(floor_quotient(*known(a), *known(b)));
  if (is(b, 1) || is(a, 0)) return a;
  if (least(a) >= 0 && most(a) < least(b)) return constant(0);
  const auto [low, high] = over_ends(least(a), most(a), least(b), most(b), [](double x, double y) {
    return std::isinf(y) ? (x < 0 ? -1.0 : 0.0) : floor_quotient(x, y);
  });
  return make(ColumnOp::kFloorDiv, a, b, kNoColumn, low, high);
}

Column ColumnBuilder::floor_mod(Column a, Column b) {
  TCC_CHECK(least(b) > 0, "a divisor between {} and {}", least(b), most(b));
  if (known(a) && known(b)) return constant(*known(a) - *known(b) * floor_quotient(*known(a), *known(b)));
  if (is(b, 1)) return constant(0);
  if (least(a) >= 0 && most(a) < least(b)) return a;
  const double most_left = most(b) - 1;
  return make(ColumnOp::kFloorMod, a, b, kNoColumn, 0, least(a) >= 0 ? std::min(most(a), most_left) : most_left);
}

Column ColumnBuilder::ceil_div(Column a, Column b) {
  return floor_div(sub(add(a, b), constant(1)), b);
}

Column ColumnBuilder::min(Column a, Column b) {
  if (most(a) <= least(b)) return a;
  if (most(b) <= least(a)) return b;
  if (a == b) return a;
  if (known(a) || (!known(b) && b < a)) std::swap(a, b);
  return make(ColumnOp::kMin, a, b, kNoColumn, std::min(least(a), least(b)), std::min(most(a), most(b)));
}

Column ColumnBuilder::max(Column a, Column b) {
  if (least(a) >= most(b)) return a;
  if (least(b) >= most(a)) return b;
  if (a == b) return a;
  if (known(a) || (!known(b) && b < a)) std::swap(a, b);
  return make(ColumnOp::kMax, a, b, kNoColumn, std::max(least(a), least(b)), std::max(most(a), most(b)));
}

Column ColumnBuilder::less(Column a, Column b) {
  if (most(a) < least(b)) return constant(1);
  if (least(a) >= most(b) || a == b) return constant(0);
  return make(ColumnOp::kLess, a, b, kNoColumn, 0, 1);
}

Column ColumnBuilder::less_equal(Column a, Column b) {
  if (most(a) <= least(b) || a == b) return constant(1);
  if (least(a) > most(b)) return constant(0);
  return make(ColumnOp::kLessEqual, a, b, kNoColumn, 0, 1);
}

Column ColumnBuilder::equal(Column a, Column b) {
  if (a == b) return constant(1);
  if (most(a) < least(b) || most(b) < least(a)) return constant(0);
  if (known(a) || (!known(b) && b < a)) std::swap(a, b);
  return make(ColumnOp::kEqual, a, b, kNoColumn, 0, 1);
}

Column ColumnBuilder::select(Column condition, Column a, Column b) {
  if (known(condition)) return *known(condition) != 0 ? a : b;
  if (a == b) return a;
  return make(ColumnOp::kSelect, condition, a, b, std::min(least(a), least(b)), std::max(most(a), most(b)));
}

Column ColumnBuilder::bit_ceil(Column a) {
  auto of = [](double x) { return x <= 1 ? 1 : std::exp2(std::ceil(std::log2(x))); };
  if (known(a)) return constant(of(*known(a)));
  return make(ColumnOp::kBitCeil, a, a, kNoColumn, of(least(a)), of(most(a)));
}

Column ColumnBuilder::lookup(std::span<const int64_t> table, Column index) {
  TCC_CHECK(!table.empty());
  const auto [low, high] = std::minmax_element(table.begin(), table.end());
  if (*low == *high) return constant(static_cast<double>(*low));
  std::vector<double> values(table.begin(), table.end());
  auto at = std::find(tables_.begin(), tables_.end(), values);
  const auto number = static_cast<int32_t>(at - tables_.begin());
  if (at == tables_.end()) tables_.push_back(std::move(values));
  return make(ColumnOp::kLookup, index, index, kNoColumn, static_cast<double>(*low), static_cast<double>(*high),
              number);
}

Column ColumnBuilder::mix(Column hash, Column a) {
  return make(ColumnOp::kMix, hash, a, kNoColumn, -kInfinity, kInfinity);
}

ColumnProgram ColumnBuilder::finish(std::span<const Column> outputs) const {
  constexpr size_t kForEver = std::numeric_limits<size_t>::max();
  ColumnProgram p;
  p.inputs_ = inputs_;
  p.tables_ = std::make_shared<const std::vector<std::vector<double>>>(tables_);
  // The last use of each value; 0: none.
  std::vector<size_t> last(nodes_.size(), 0);
  for (Column c : outputs) last[static_cast<size_t>(c)] = kForEver;
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (nodes_[i].source != Source::kStep || last[i] == 0) continue;
    for (Column c : {nodes_[i].a, nodes_[i].b, nodes_[i].c})
      if (c != kNoColumn) last[static_cast<size_t>(c)] = std::max(last[static_cast<size_t>(c)], i);
  }
  std::vector<int32_t> place(nodes_.size(), -1), free;
  auto release = [&](Column c, size_t now) {
    const auto at = static_cast<size_t>(c);
    if (c == kNoColumn || nodes_[at].source != Source::kStep || last[at] != now || place[at] < 0) return;
    free.push_back(place[at]);
    last[at] = now - 1;  // once
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& n = nodes_[i];
    if (n.source != Source::kStep || last[i] == 0) continue;
    for (Column c : {n.a, n.b, n.c}) release(c, i);
    if (free.empty()) free.push_back(p.registers_++);
    place[i] = free.back();
    free.pop_back();
    ColumnStep s = {n.op, 0, place[i], 0, 0, 0, 0, 0, 0, nullptr, 0};
    const struct {
      Column from;
      int32_t& at;
      double& value;
      uint8_t bit;
    } operands[] = {{n.a, s.a, s.x, 1}, {n.b, s.b, s.y, 2}, {n.c, s.c, s.z, 4}};
    for (const auto& o : operands) {
      if (o.from == kNoColumn) continue;
      const Node& from = nodes_[static_cast<size_t>(o.from)];
      if (from.source == Source::kConstant) {
        s.constants = static_cast<uint8_t>(s.constants | o.bit), o.value = from.value;
      } else {
        // Inputs come behind the registers, whose number is not known yet.
        o.at = from.source == Source::kInput ? -1 - from.a : place[static_cast<size_t>(o.from)];
      }
    }
    if (n.table >= 0) {
      const std::vector<double>& table = (*p.tables_)[static_cast<size_t>(n.table)];
      s.table = table.data(), s.entries = std::ssize(table);
    }
    p.steps_.push_back(s);
  }
  auto behind = [&](int32_t at) { return at < 0 ? p.registers_ - 1 - at : at; };
  for (ColumnStep& s : p.steps_) s.a = behind(s.a), s.b = behind(s.b), s.c = behind(s.c);
  for (Column c : outputs) {
    const Node& n = nodes_[static_cast<size_t>(c)];
    p.known_.push_back(n.value);
    p.outputs_.push_back(n.source == Source::kConstant ? -1
                         : n.source == Source::kInput  ? p.registers_ + n.a
                                                       : place[static_cast<size_t>(c)]);
  }
  return p;
}

void ColumnProgram::run(std::span<const double* const> inputs, std::span<double* const> outputs, int64_t rows,
                        std::vector<double>& scratch, ColumnLevel level) const {
  TCC_CHECK(std::ssize(inputs) == this->inputs() && std::ssize(outputs) == this->outputs());
  constexpr size_t kLine = 8;
  const RunColumns loops = loops_of(level);
  scratch.resize(std::max(scratch.size(), static_cast<size_t>(registers_ * kBlock) + kLine));
  auto* first = reinterpret_cast<double*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) & ~uintptr_t{63});
  std::vector<double*> places(static_cast<size_t>(registers_ + inputs_));
  for (int32_t r = 0; r < registers_; ++r) places[static_cast<size_t>(r)] = first + r * kBlock;
  for (int64_t at = 0; at < rows; at += kBlock) {
    const int64_t n = std::min(kBlock, rows - at), whole = (n + 7) / 8 * 8;
    // Steps never write to an input.
    for (int32_t i = 0; i < inputs_; ++i)
      places[static_cast<size_t>(registers_ + i)] = const_cast<double*>(inputs[static_cast<size_t>(i)] + at);
    loops(steps_.data(), std::ssize(steps_), places.data(), whole);
    for (size_t o = 0; o < outputs_.size(); ++o) {
      if (outputs_[o] < 0)
        std::fill_n(outputs[o] + at, n, known_[o]);
      else
        std::copy_n(places[static_cast<size_t>(outputs_[o])], n, outputs[o] + at);
    }
  }
}

}  // namespace tcc::analysis
