// Ranges of small integers that are made of counts, and which operators take tensors with counts.
#include <algorithm>
#include <cmath>
#include <set>

#include "counts.h"
#include "handlers.h"

namespace tcc::onnx {

namespace {

constexpr int64_t kMaxNumbers = 64;               // of a tensor whose elements have ranges
constexpr int64_t kMaxNumber = int64_t{1} << 53;  // what a double still counts

// --- ranges -------------------------------------------------------------------------------------------------------

using Numbers = std::vector<CountedNumber>;

std::optional<Numbers> numbers_of(const graph::Graph& graph, const CountBook& book, ValueId id) {
  if (auto known = book.numbers.find(id); known != book.numbers.end()) return known->second;
  const graph::Value& v = graph.value(id);
  if (!v.is_constant() || v.elements() > kMaxNumbers) return std::nullopt;
  Numbers numbers;
  for (double x : graph::constant_doubles(*v.constant, v.dtype, v.elements())) {
    if (!(std::abs(x) <= static_cast<double>(kMaxNumber)) || x != std::trunc(x)) {
      // Beyond every extent: as good as the greatest number.
      if (!(std::abs(x) > static_cast<double>(kMaxNumber))) return std::nullopt;
      x = x > 0 ? static_cast<double>(kMaxNumber) : -static_cast<double>(kMaxNumber);
    }
    numbers.push_back({static_cast<int64_t>(x), static_cast<int64_t>(x)});
  }
  return numbers;
}

int64_t clamped(double x) {
  const auto most = static_cast<double>(kMaxNumber);
  return static_cast<int64_t>(std::clamp(x, -most, most));
}

// The range of f(a, b) for a function that is monotonic in each operand.
template <class F>
CountedNumber corners(const CountedNumber& a, const CountedNumber& b, F f) {
  CountedNumber result{kMaxNumber, -kMaxNumber};
  for (int64_t x : {a.low, a.high})
    for (int64_t y : {b.low, b.high}) {
      const int64_t z = clamped(f(static_cast<double>(x), static_cast<double>(y)));
      result.low = std::min(result.low, z);
      result.high = std::max(result.high, z);
    }
  return result;
}

// One number for each element, or one for all.
bool aligned(const Numbers& numbers, size_t elements) {
  return numbers.size() == 1 || numbers.size() == elements;
}

// Of bools: 0, 1, or either.
CountedNumber decided(bool always, bool never) {
  return {always ? 1 : 0, never ? 0 : 1};
}

CountedNumber compare(BinaryFn fn, const CountedNumber& a, const CountedNumber& b) {
  switch (fn) {
    case BinaryFn::kEqual:
      return decided(a.low == a.high && b.low == b.high && a.low == b.low, a.high < b.low || b.high < a.low);
    case BinaryFn::kLess:
      return decided(a.high < b.low, a.low >= b.high);
    case BinaryFn::kLessOrEqual:
      return decided(a.high <= b.low, a.low > b.high);
    case BinaryFn::kGreater:
      return compare(BinaryFn::kLess, b, a);
    default:
      return compare(BinaryFn::kLessOrEqual, b, a);
  }
}

std::optional<CountedNumber> combine(const graph::Node& node, const CountedNumber& a, const CountedNumber& b) {
  switch (node.op) {
    case Op::kAdd:
      return corners(a, b, [](double x, double y) { return x + y; });
    case Op::kSub:
      return corners(a, b, [](double x, double y) { return x - y; });
    case Op::kMul:
      return corners(a, b, [](double x, double y) { return x * y; });
    case Op::kDiv:
      if (b.low <= 0) return std::nullopt;
      return corners(a, b, [](double x, double y) { return std::trunc(x / y); });
    case Op::kBinary:
      if (node.as<graph::BinaryAttrs>().fn == BinaryFn::kMin)
        return corners(a, b, [](double x, double y) { return std::min(x, y); });
      if (node.as<graph::BinaryAttrs>().fn == BinaryFn::kMax)
        return corners(a, b, [](double x, double y) { return std::max(x, y); });
      if (node.as<graph::BinaryAttrs>().fn >= BinaryFn::kEqual) return compare(node.as<graph::BinaryAttrs>().fn, a, b);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<CountedNumber> reduce_all(const graph::Node& node, const Numbers& numbers) {
  if (numbers.empty()) return std::nullopt;
  CountedNumber result = numbers[0];
  result.scalar = graph::kNone;
  for (size_t i = 1; i < numbers.size(); ++i) {
    const CountedNumber& n = numbers[i];
    switch (node.op) {
      case Op::kReduceMin:
        result = corners(result, n, [](double x, double y) { return std::min(x, y); });
        break;
      case Op::kReduceMax:
        result = corners(result, n, [](double x, double y) { return std::max(x, y); });
        break;
      case Op::kReduceSum:
        result = corners(result, n, [](double x, double y) { return x + y; });
        break;
      case Op::kReduceProd:
        result = corners(result, n, [](double x, double y) { return x * y; });
        break;
      default:
        return std::nullopt;
    }
  }
  return result;
}

}  // namespace

std::optional<Numbers> follow_numbers(const graph::Graph& graph, const CountBook& book, const graph::Node& node) {
  const graph::Value& out = graph.value(node.output);
  const bool any =
      std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return book.numbers.contains(id); });
  if (!any || out.elements() > kMaxNumbers || out.elements() == 0) return std::nullopt;
  std::vector<Numbers> in;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    auto numbers = numbers_of(graph, book, node.inputs[i]);
    if (!numbers && node.op == Op::kWhere && i == 0) numbers.emplace();  // the condition may be any
    if (!numbers) return std::nullopt;
    in.push_back(std::move(*numbers));
  }
  const auto elements = static_cast<size_t>(out.elements());
  Numbers result;
  switch (node.op) {
    case Op::kReshape:
    case Op::kIdentity:
      return in[0];
    case Op::kCast:
      for (CountedNumber& n : in[0]) {
        if (out.dtype == DType::kBool || n.high > (int64_t{1} << 24) || n.low < 0) return std::nullopt;
        if (graph::is_float(out.dtype)) n.scalar = graph::kNone;
      }
      return in[0];
    case Op::kConcat:
      if (out.shape.size() != 1) return std::nullopt;
      for (const Numbers& part : in) result.insert(result.end(), part.begin(), part.end());
      return result;
    case Op::kSlice: {
      const auto& a = node.as<graph::SliceAttrs>();
      if (out.shape.size() != 1) return std::nullopt;
      for (int64_t i = 0; i < a.extents[0]; ++i)
        result.push_back(in[0][static_cast<size_t>(a.starts[0] + i * a.steps[0])]);
      return result;
    }
    case Op::kGather:
      if (graph.value(node.inputs[0]).shape.size() != 1 || !graph.value(node.inputs[1]).is_constant())
        return std::nullopt;
      for (const CountedNumber& index : in[1]) {
        const int64_t extent = std::ssize(in[0]), at = index.low < 0 ? index.low + extent : index.low;
        result.push_back(in[0][static_cast<size_t>(std::clamp<int64_t>(at, 0, extent - 1))]);
      }
      return result;
    case Op::kExpand:
      if (in[0].size() != 1) return std::nullopt;
      result.assign(elements, in[0][0]);
      return result;
    case Op::kReduceMin:
    case Op::kReduceMax:
    case Op::kReduceSum:
    case Op::kReduceProd: {
      if (elements != 1) return std::nullopt;
      const auto all = reduce_all(node, in[0]);
      if (!all) return std::nullopt;
      return Numbers{*all};
    }
    case Op::kWhere:
      if (!aligned(in[1], elements) || !aligned(in[2], elements)) return std::nullopt;
      for (size_t i = 0; i < elements; ++i) {
        const CountedNumber &a = in[1][in[1].size() == 1 ? 0 : i], &b = in[2][in[2].size() == 1 ? 0 : i];
        CountedNumber decides{0, 1};
        if (!in[0].empty() && aligned(in[0], elements)) decides = in[0][in[0].size() == 1 ? 0 : i];
        if (decides.low == decides.high)
          result.push_back(decides.low != 0 ? a : b);
        else
          result.push_back({std::min(a.low, b.low), std::max(a.high, b.high)});
      }
      return result;
    default:
      break;
  }
  if (node.op == Op::kClip && graph::is_float(out.dtype)) return std::nullopt;
  if (in.size() != 2 || (graph::is_float(out.dtype) && node.op == Op::kDiv)) return std::nullopt;
  if (!aligned(in[0], elements) || !aligned(in[1], elements)) return std::nullopt;
  for (size_t i = 0; i < elements; ++i) {
    const auto n = combine(node, in[0][in[0].size() == 1 ? 0 : i], in[1][in[1].size() == 1 ? 0 : i]);
    if (!n) return std::nullopt;
    result.push_back(*n);
  }
  return result;
}

bool takes_counts(const std::string& domain, const std::string& op) {
  static const std::set<std::string> kOperators = {"Add",
                                                   "And",
                                                   "ArgMax",
                                                   "ArgMin",
                                                   "BatchNormalization",
                                                   "BitShift",
                                                   "BitwiseAnd",
                                                   "BitwiseOr",
                                                   "BitwiseXor",
                                                   "Cast",
                                                   "CastLike",
                                                   "Clip",
                                                   "Compress",
                                                   "Concat",
                                                   "ConcatFromSequence",
                                                   "Conv",
                                                   "CumSum",
                                                   "Div",
                                                   "Equal",
                                                   "Expand",
                                                   "Flatten",
                                                   "Gather",
                                                   "GatherElements",
                                                   "GatherND",
                                                   "Gemm",
                                                   "Greater",
                                                   "GreaterOrEqual",
                                                   "Identity",
                                                   "If",
                                                   "LayerNormalization",
                                                   "LeakyRelu",
                                                   "Less",
                                                   "LessOrEqual",
                                                   "Loop",
                                                   "MatMul",
                                                   "Max",
                                                   "Mean",
                                                   "Min",
                                                   "Mod",
                                                   "Mul",
                                                   "NonMaxSuppression",
                                                   "NonZero",
                                                   "Or",
                                                   "PRelu",
                                                   "Pow",
                                                   "ReduceL1",
                                                   "ReduceL2",
                                                   "ReduceLogSum",
                                                   "ReduceLogSumExp",
                                                   "ReduceMax",
                                                   "ReduceMean",
                                                   "ReduceMin",
                                                   "ReduceProd",
                                                   "ReduceSum",
                                                   "ReduceSumSquare",
                                                   "Relu",
                                                   "Reshape",
                                                   "RoiAlign",
                                                   "ScatterElements",
                                                   "ScatterND",
                                                   "Scatter",
                                                   "SequenceAt",
                                                   "SequenceConstruct",
                                                   "SequenceInsert",
                                                   "Shape",
                                                   "Sigmoid",
                                                   "Size",
                                                   "Slice",
                                                   "Softmax",
                                                   "Split",
                                                   "Squeeze",
                                                   "Sub",
                                                   "Sum",
                                                   "Tanh",
                                                   "TopK",
                                                   "Transpose",
                                                   "Unique",
                                                   "Unsqueeze",
                                                   "Where",
                                                   "Xor"};
  static const std::set<std::string> kFunctions = [] {
    std::set<std::string> names;
    for (const graph::UnaryRow& row : graph::unary_rows())
      if (row.since > 0) names.emplace(row.name);
    return names;
  }();
  return domain.empty() && (kOperators.contains(op) || kFunctions.contains(op));
}

}  // namespace tcc::onnx
