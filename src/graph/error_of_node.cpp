#include "graph/error_of_node.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "graph/integer_reach.h"
#include "graph/rounded_number.h"
#include "tcc/support/check.h"

namespace tcc::graph {
namespace {

using formulas::Rounded;
using Doubles = std::vector<double>;
using Operands = std::vector<const HostTensor*>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kFewDigits = 0x1p-32;  // an f64 with more may be rounded, for the reference has no others

double finite_magnitude(double v) {
  return std::isfinite(v) ? std::fabs(v) : 0;
}

class ErrorOfNode {
 public:
  ErrorOfNode(const Graph& graph, const Node& node, Operands inputs, const HostTensor& out, const RoundingModel& model,
              ThreadPool& pool, WorkMeter& meter, bool scaled_later)
      : graph_(graph), node_(node), inputs_(std::move(inputs)), out_(out), model_(model), pool_(pool), meter_(meter) {
    const DType dtype = graph.value(node.output).dtype;
    // The reference rounds f64, too, and the random errors of one run may be small where both are large.
    u_ = dtype == DType::kF64 ? 4 * unit_roundoff(DType::kF64) : unit_roundoff(DType::kF32);
    u_out_ = std::max(unit_roundoff(dtype), model.storage_unit);
    // A scale behind a contraction is folded into its weights, which are rounded to their type again.
    product_ = std::max(model.product_unit, scaled_later ? unit_roundoff(dtype) : 0.0);
    floor_ = smallest_normal(dtype);
  }

  LocalError find() {
    const size_t n = out_.data.size();
    error_.allowed.assign(n, 0);
    error_.typical.assign(n, 0);
    if (!is_float(graph_.value(node_.output).dtype)) return std::move(error_);
    const OpClass kind = op_class(node_.op);
    if (kind == OpClass::kView || kind == OpClass::kMove || node_.op == Op::kWhere) return std::move(error_);
    switch (node_.op) {
      case Op::kConv:
      case Op::kGemm:
      case Op::kMatMul:
      case Op::kReduceSum:
      case Op::kReduceMean:
      case Op::kAveragePool:
      case Op::kResample:
      case Op::kScan:
      case Op::kScatter:
      case Op::kFold:
      case Op::kPackedMatMul:
        sum();
        break;
      case Op::kReduceProd:
        error_.terms = reduced();
        relative(4 * u_ * std::sqrt(static_cast<double>(error_.terms)));
        break;
      case Op::kLrn:
        error_.terms = node_.as<LrnAttrs>().size;
        relative(u_ * (8 + 4 * std::sqrt(static_cast<double>(error_.terms)) + 2 * model_.function_ulps));
        break;
      case Op::kSoftmax:
      case Op::kLogSoftmax:
        softmax();
        break;
      case Op::kLayerNorm:
        layer_norm();
        break;
      case Op::kBatchNorm:
        batch_norm();
        break;
      case Op::kDeterminant:
        determinant();
        break;
      default:
        elementwise();
        break;
    }
    const double u = rounds_nothing() ? model_.storage_unit : u_out_;
    const bool basic = is_basic();
    for (size_t i = 0; i < n; ++i) {
      const double rounding = u * finite_magnitude(out_.data[i]);
      error_.allowed[i] += 2 * rounding + floor_;
      const bool exact = has_digits(out_.data[i], u > 0 ? std::max(u, kFewDigits) : 0);
      if (!exact) error_.typical[i] += rounding;
      if (exact && basic) error_.typical[i] = 0;  // sums and products of numbers such as 1 and 0 are rounded nowhere
    }
    return std::move(error_);
  }

 private:
  const HostTensor& in(size_t i) const { return *inputs_[i]; }
  int64_t reduced() const {
    return static_cast<int64_t>(in(0).data.size()) / std::max<int64_t>(std::ssize(out_.data), 1);
  }
  // Operators whose result is the exact one wherever that is a number of the type.
  bool is_basic() const {
    switch (node_.op) {
      case Op::kAdd:
      case Op::kSub:
      case Op::kMul:
      case Op::kDiv:
      case Op::kCast:
      case Op::kClip:
      case Op::kLeakyRelu:
        return true;
      default:
        return false;
    }
  }
  // Is the value a number of a type with this unit roundoff? (Whatever the type's range.)
  static bool has_digits(double value, double u) {
    if (u <= 0 || !std::isfinite(value)) return true;
    int exponent = 0;
    const double scaled = std::frexp(value, &exponent) / u;
    return scaled == std::floor(scaled);
  }
  // The result is an operand, or has fewer digits than one.
  bool rounds_nothing() const {
    switch (node_.op) {
      case Op::kRelu:
      case Op::kMaxPool:
      case Op::kReduceMax:
      case Op::kReduceMin:
        return true;
      case Op::kCast:
        return unit_roundoff(graph_.value(node_.inputs[0]).dtype) >= unit_roundoff(graph_.value(node_.output).dtype) &&
               is_float(graph_.value(node_.inputs[0]).dtype);
      case Op::kBinary:
        return node_.as<BinaryAttrs>().fn == BinaryFn::kMax || node_.as<BinaryAttrs>().fn == BinaryFn::kMin;
      case Op::kUnary:
        switch (node_.as<UnaryAttrs>().fn) {
          case UnaryFn::kAbs:
          case UnaryFn::kNeg:
          case UnaryFn::kSign:
          case UnaryFn::kFloor:
          case UnaryFn::kCeil:
          case UnaryFn::kRound:
            return true;
          default:
            return false;
        }
      default:
        return false;
    }
  }
  void add(size_t i, double error) {
    error_.allowed[i] += error;
    error_.typical[i] += error / 2;
  }
  void relative(double share) {
    for (size_t i = 0; i < out_.data.size(); ++i) add(i, share * finite_magnitude(out_.data[i]));
  }

  // The same operator on magnitudes: a bound of every partial sum.
  HostTensor magnitudes() const {
    std::vector<HostTensor> absolute;
    for (const HostTensor* input : inputs_) {
      absolute.push_back(*input);
      for (double& v : absolute.back().data) v = std::fabs(v);
    }
    // Zero points are subtracted.
    if (node_.op == Op::kPackedMatMul)
      for (double& v : absolute[3].data) v = -v;
    Operands operands;
    for (const HostTensor& input : absolute) operands.push_back(&input);
    Node positive = node_;
    if (auto* gemm = std::get_if<GemmAttrs>(&positive.attrs)) {
      gemm->alpha = std::fabs(gemm->alpha);
      gemm->beta = std::fabs(gemm->beta);
    }
    return run_node(graph_, positive, operands, pool_, &meter_);
  }

  int64_t sum_terms() const {
    switch (node_.op) {
      case Op::kConv: {
        const auto& a = node_.as<ConvAttrs>();
        int64_t terms = a.block_in * in(0).shape[1] / a.group;
        for (int64_t extent : a.kernel) terms *= extent;
        return terms + (inputs_.size() == 3 ? 1 : 0);
      }
      case Op::kGemm:
        return in(0).shape[node_.as<GemmAttrs>().trans_a ? 0 : 1] + (inputs_.size() == 3 ? 1 : 0);
      case Op::kMatMul: {
        const auto& a = node_.as<MatMulAttrs>();
        return a.perm_a.empty() ? in(0).shape.back() : in(0).shape[static_cast<size_t>(a.perm_a.back())];
      }
      case Op::kAveragePool:
        return element_count(node_.as<PoolAttrs>().kernel);
      case Op::kResample: {
        int64_t taps = 1;
        for (size_t i = 2; i < inputs_.size(); i += 2) taps *= in(i).shape[1];
        return taps;
      }
      case Op::kScan:
        return out_.shape[static_cast<size_t>(node_.as<ScanAttrs>().axis)];
      case Op::kScatter:
        return 1 + std::ssize(in(1).data);
      case Op::kPackedMatMul:
        return in(0).shape.back();
      case Op::kFold: {
        int64_t blocks = 1;
        for (size_t i = 0; i < node_.as<FoldAttrs>().image.size(); ++i) blocks *= in(0).shape[2 + i];
        return blocks;
      }
      default:
        return reduced();
    }
  }

  // How rounding errors of a sum of K terms grow, for each result. Independent ones grow with sqrt(K). A number that is
  // added again and again is rounded the same way each time, as long as the sum has the same exponent: m equal terms
  // give m times the error of one, and those of different numbers are independent. Zeros are added without error.
  // Nothing grows faster than K, the bound of any order of the terms.
  Doubles growth() {
    const double terms = static_cast<double>(std::max<int64_t>(error_.terms, 1)), root = std::sqrt(terms);
    Doubles grown(out_.data.size(), root);
    const auto* reduce = std::get_if<ReduceAttrs>(&node_.attrs);
    if (reduce == nullptr || 4 * root >= terms) return grown;
    const Shape& shape = in(0).shape;
    const std::vector<int64_t> strides = dense_strides(shape);
    // Positions of the kept axes and of the reduced ones, in row-major order.
    std::vector<int64_t> starts{0}, steps{0};
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const bool reduced =
          std::find(reduce->axes.begin(), reduce->axes.end(), static_cast<int64_t>(axis)) != reduce->axes.end();
      std::vector<int64_t>& list = reduced ? steps : starts;
      std::vector<int64_t> longer;
      for (int64_t base : list)
        for (int64_t i = 0; i < shape[axis]; ++i) longer.push_back(base + i * strides[axis]);
      list = std::move(longer);
    }
    TCC_CHECK(starts.size() == grown.size(), "reduction of {} results from {} rows", grown.size(), starts.size());
    pool_.parallel_for(std::ssize(starts), [&](int64_t row, int) {
      Doubles values;
      for (int64_t step : steps)
        if (const double v = in(0).data[static_cast<size_t>(starts[static_cast<size_t>(row)] + step)]; v != 0)
          values.push_back(v);
      std::sort(values.begin(), values.end());
      double squares = 0;
      for (size_t i = 0, end = 0; i < values.size(); i = end) {
        for (end = i + 1; end < values.size() && values[end] == values[i]; ++end) {
        }
        squares += static_cast<double>(end - i) * static_cast<double>(end - i);
      }
      double& g = grown[static_cast<size_t>(row)];
      g = std::max(g, std::min(std::sqrt(squares), terms / 4));
    });
    return grown;
  }

  void sum() {
    error_.terms = sum_terms();
    const double root = std::sqrt(static_cast<double>(std::max<int64_t>(error_.terms, 1)));
    const Doubles growths = growth();
    const bool product = op_class(node_.op) == OpClass::kContraction;
    double grown = 1;
    if (node_.op == Op::kConv && node_.as<ConvAttrs>().kernel == std::vector<int64_t>{3, 3}) grown = model_.winograd;
    const double operand = product ? product_ : 0;
    const HostTensor scale = magnitudes();
    for (size_t i = 0; i < out_.data.size(); ++i) {
      const double s = finite_magnitude(scale.data[i]), y = finite_magnitude(out_.data[i]);
      error_.allowed[i] += grown * (4 * u_ * growths[i] + 2 * operand) * s;
      // Partial sums of random signs grow with the root, those of one sign with the number of terms.
      // Roundings of operands are independent, whatever their signs: about sqrt(2/3) operand s / sqrt(K), twice that
      // here.
      error_.typical[i] += grown * (u_ * (s + growths[i] * y) + 1.6 * operand * s / root);
    }
  }

  // exp(x - max) / sum: the difference is rounded, and its error is a share of the result, or of what log takes.
  void softmax() {
    const bool logarithm = node_.op == Op::kLogSoftmax;
    const auto axis = static_cast<size_t>(node_.as<AxisAttrs>().axis);
    const int64_t extent = out_.shape[axis];
    const int64_t inner = element_count(Shape(out_.shape.begin() + static_cast<int64_t>(axis) + 1, out_.shape.end()));
    const int64_t rows = extent == 0 ? 0 : std::ssize(out_.data) / extent;
    error_.terms = extent;
    const double fixed = 4 * model_.function_ulps + 4 + 4 * std::sqrt(static_cast<double>(extent));
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t base = row / inner * extent * inner + row % inner;
      double greatest = -kInfinity, mean_difference = 0;
      for (int64_t i = 0; i < extent; ++i)
        greatest = std::max(greatest, in(0).data[static_cast<size_t>(base + i * inner)]);
      for (int64_t i = 0; i < extent; ++i) {
        const auto at = static_cast<size_t>(base + i * inner);
        const double share = finite_magnitude(logarithm ? std::exp(out_.data[at]) : out_.data[at]);
        mean_difference += share * finite_magnitude(in(0).data[at] - greatest);
      }
      for (int64_t i = 0; i < extent; ++i) {
        const auto at = static_cast<size_t>(base + i * inner);
        const double difference = finite_magnitude(in(0).data[at] - greatest), shares = fixed + mean_difference;
        const double result = finite_magnitude(out_.data[at]);
        add(at, u_ * (logarithm ? shares + (1 + model_.function_ulps) * (difference + result)
                                : result * (shares + difference)));
      }
    }
  }

  // Elimination computes the determinant of a matrix whose elements are off by N times the rounding of the largest one,
  // times the growth of what is left (Higham, "Accuracy and Stability of Numerical Algorithms", theorem 9.3), which is
  // small for all matrices but made-up ones. The determinant is off by the sum of the cofactors times as much.
  void determinant() {
    const int64_t n = in(0).shape[1];
    error_.terms = n;
    for (size_t r = 0; r < out_.data.size(); ++r) {
      const double* matrix = in(0).data.data() + r * static_cast<size_t>(n * n);
      double largest = 0;
      for (int64_t i = 0; i < n * n; ++i) largest = std::max(largest, std::fabs(matrix[i]));
      const double error = 4 * u_ * static_cast<double>(n) * largest * sum_of_cofactors(matrix, n);
      if (std::isfinite(error)) add(r, error);
    }
  }

  void layer_norm() {
    const auto& a = node_.as<LayerNormAttrs>();
    const Shape row_shape(out_.shape.begin() + a.axis, out_.shape.end());
    const int64_t row = element_count(row_shape), rows = row == 0 ? 0 : std::ssize(out_.data) / row;
    const auto scale = broadcast_strides(in(1).shape, row_shape);
    const auto bias = inputs_.size() == 3 ? broadcast_strides(in(2).shape, row_shape) : scale;
    const double root = std::sqrt(static_cast<double>(row));
    error_.terms = row;
    for (int64_t r = 0; r < rows; ++r) {
      const double* x = in(0).data.data() + r * row;
      double mean = 0, absolute = 0, variance = 0, greatest = 0;
      for (int64_t i = 0; i < row; ++i) {
        mean += x[i] / static_cast<double>(row);
        absolute += std::fabs(x[i]) / static_cast<double>(row);
        greatest = std::max(greatest, std::fabs(x[i]));
      }
      for (int64_t i = 0; i < row; ++i) variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(row);
      const double norm = 1 / std::sqrt(variance + a.epsilon);
      // A mean that is off moves all, and so does a variance; the latter suffers where the mean is large against it.
      const double share = u_ * (4 + 4 * root * (1 + absolute * norm));
      IndexWalk walk(row_shape);
      for (int64_t i = 0; i < row; ++i, walk.next()) {
        const auto at = static_cast<size_t>(r * row + i);
        const double s = std::fabs(in(1).data[static_cast<size_t>(walk.offset(scale))]) * norm;
        const double b = inputs_.size() == 3 ? std::fabs(in(2).data[static_cast<size_t>(walk.offset(bias))]) : 0;
        add(at, u_ * (s * (4 * root * absolute + std::fabs(x[i]) + std::fabs(mean)) + b) +
                    share * s * std::fabs(x[i] - mean));
      }
    }
  }

  // Both forms: as it is written, and as x * s + (bias - mean * s).
  void batch_norm() {
    const double epsilon = node_.as<BatchNormAttrs>().epsilon;
    const int64_t channels = out_.shape[1];
    const int64_t inner = element_count(Shape(out_.shape.begin() + 2, out_.shape.end()));
    for (size_t i = 0; i < out_.data.size(); ++i) {
      const auto c = static_cast<size_t>(static_cast<int64_t>(i) / inner % channels);
      const double s = std::fabs(in(1).data[c]) / std::sqrt(in(4).data[c] + epsilon);
      const double parts = s * (std::fabs(in(0).data[i]) + std::fabs(in(3).data[c])) + std::fabs(in(2).data[c]);
      add(i, 4 * u_ * finite_magnitude(parts));
    }
  }

  Rounded number(double v, double u) const { return {v, 0, u, 2 * model_.function_ulps * u}; }

  Rounded formula(double x, double y) const {
    const Rounded a = number(x, u_), b = number(y, u_);
    switch (node_.op) {
      case Op::kCast:  // nothing but the rounding to the output's type
        return 0.0;
      case Op::kUnary: {
        const double u = unary_row(node_.as<UnaryAttrs>().fn).in_double ? unit_roundoff(DType::kF64) : u_;
        return formulas::element(node_, number(x, u), b);
      }
      default:
        return formulas::element(node_, a, b);
    }
  }

  void elementwise() {
    const bool two = inputs_.size() == 2 && op_class(node_.op) == OpClass::kElementwise;
    if (op_class(node_.op) != OpClass::kElementwise) return;  // maxima over windows and axes
    if (two) {
      HostTensor errors{out_.shape, Doubles(out_.data.size())};
      combine(in(0), in(1), errors, [&](double x, double y) { return formula(x, y).error; });
      for (size_t i = 0; i < errors.data.size(); ++i) add(i, errors.data[i]);
      return;
    }
    for (size_t i = 0; i < out_.data.size(); ++i) add(i, formula(in(0).data[i], 0).error);
  }

  const Graph& graph_;
  const Node& node_;
  const Operands inputs_;
  const HostTensor& out_;
  const RoundingModel& model_;
  ThreadPool& pool_;
  WorkMeter& meter_;
  double u_ = 0, u_out_ = 0, product_ = 0, floor_ = 0;
  LocalError error_;
};

}  // namespace

LocalError error_of_node(const Graph& graph, const Node& node, std::vector<const HostTensor*> inputs,
                         const HostTensor& out, const RoundingModel& model, ThreadPool& pool, WorkMeter& meter,
                         bool scaled_later) {
  return ErrorOfNode(graph, node, std::move(inputs), out, model, pool, meter, scaled_later).find();
}

}  // namespace tcc::graph
