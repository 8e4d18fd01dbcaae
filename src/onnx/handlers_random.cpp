// Random operators. Their numbers are drawn when the model is compiled, from the seed of the node: a library gives the
// same ones in every run. Philox4x32-10: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "handlers.h"

namespace tcc::onnx {

namespace {

class Philox {
 public:
  explicit Philox(uint64_t seed) : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {}

  // In [0, 1), a multiple of 2^-24.
  double uniform() { return static_cast<double>(next() >> 8) * 0x1p-24; }
  // Of mean 0 and deviation 1 (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  uint32_t next() {
    if (used_ == 4) {
      draw();
      used_ = 0;
    }
    return drawn_[used_++];
  }
  void draw() {
    std::array<uint32_t, 4> c{static_cast<uint32_t>(block_), static_cast<uint32_t>(block_ >> 32), 0, 0};
    std::array<uint32_t, 2> k = key_;
    for (int round = 0; round < 10; ++round) {
      const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
      c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b),
           static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(a)};
      k[0] += 0x9E3779B9;
      k[1] += 0xBB67AE85;
    }
    drawn_ = c;
    ++block_;
  }

  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> drawn_ = {};
  uint64_t block_ = 0;
  size_t used_ = 4;
};

// A node without a seed has a number of its own instead.
Result<Philox> generator_of(NodeContext& c) {
  if (!c.has_attribute("seed")) return Philox((uint64_t{1} << 32) + static_cast<uint64_t>(c.number()));
  TCC_TRY(const double seed, c.get_float("seed", 0));
  return Philox(std::bit_cast<uint32_t>(static_cast<float>(seed)));
}

Result<DType> type_of(NodeContext& c, DType otherwise) {
  if (!c.has_attribute("dtype")) return otherwise;
  TCC_TRY(const int64_t number, c.get_int("dtype", 1));
  if (number < 0 || number > 1000) return input_error("dtype = {} is not an element type", number);
  return dtype_of(static_cast<int32_t>(number));
}

template <class Draw>
Made drawn(NodeContext& c, DType dtype, const Shape& shape, Draw draw) {
  TCC_TRY_VOID(graph::check_shape(shape, "the result"));
  const int64_t count = graph::element_count(shape);
  if (count > kMaxTable)
    return refuse(Refusal::kTooLarge, "draws {} numbers; at most {} are supported", count, kMaxTable);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) v = draw();
  return c.constant(dtype, shape, graph::make_constant_from_doubles(dtype, values));
}

}  // namespace

// RandomNormal, RandomUniform and their forms for the shape of an input.
Result<void> import_random(NodeContext& c) {
  const bool like = c.op().ends_with("Like"), normal = c.op().starts_with("RandomNormal");
  Shape shape;
  DType dtype = DType::kF32;
  if (like) {
    shape = c.input_value(0).shape;
    dtype = c.input_value(0).dtype;
  } else {
    TCC_TRY(const auto given, c.get_ints("shape"));
    if (!given) return input_error("attribute 'shape' is missing");
    shape = *given;
  }
  TCC_TRY(dtype, type_of(c, dtype));
  if (!graph::is_float(dtype)) return refuse(Refusal::kElementType, "does not draw {}", graph::dtype_name(dtype));
  TCC_TRY(Philox philox, generator_of(c));
  TCC_TRY(const double first, c.get_float(normal ? "mean" : "low", 0));
  TCC_TRY(const double second, c.get_float(normal ? "scale" : "high", 1));
  return c.finish(drawn(c, dtype, shape, [&] {
    return normal ? first + second * philox.normal() : first + (second - first) * philox.uniform();
  }));
}

// 1 where a number drawn from [0, 1) is below the element.
Result<void> import_bernoulli(NodeContext& c) {
  const DType own = c.input_value(0).dtype;
  if (!graph::is_float(own)) return refuse(Refusal::kElementType, "does not take {}", graph::dtype_name(own));
  TCC_TRY(const DType dtype, type_of(c, own));
  TCC_TRY(Philox philox, generator_of(c));
  Made noise = drawn(c, own, c.input_value(0).shape, [&] { return philox.uniform(); });
  return c.finish(c.cast(c.binary(BinaryFn::kLess, noise, c.input(0)), dtype));
}

// Classes of the probabilities exp(x) / sum of exp: as many sums of them so far are below a number drawn from [0, 1).
Result<void> import_multinomial(NodeContext& c) {
  const Shape shape = c.input_value(0).shape;
  if (shape.size() != 2) return input_error("needs a matrix, got {}", graph::shape_text(shape));
  TCC_TRY(const DType dtype, type_of(c, DType::kI32));
  TCC_TRY(const int64_t samples, c.get_int("sample_size", 1));
  if (samples < 1 || samples > kMaxTable) return input_error("sample_size {} must be at least 1", samples);
  TCC_TRY(Philox philox, generator_of(c));
  const DType own = c.input_value(0).dtype;
  Made noise = drawn(c, own, {shape[0], samples, 1}, [&] { return philox.uniform(); });
  Made share = c.emit(Op::kSoftmax, graph::AxisAttrs{1}, {c.input(0)});
  Made so_far = c.emit(Op::kScan, graph::ScanAttrs{1}, {share});
  Made below = c.binary(BinaryFn::kLessOrEqual, c.emit_reshape(so_far, {shape[0], 1, shape[1]}), noise);
  Made count = c.reduce(Op::kReduceSum, c.cast(below, DType::kI64), {2}, false);
  Made inside = c.binary(BinaryFn::kMin, count, c.scalar(DType::kI64, static_cast<double>(shape[1] - 1)));
  return c.finish(c.cast(inside, dtype));
}

}  // namespace tcc::onnx
