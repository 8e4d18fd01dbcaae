// Operators of com.microsoft that graph optimizers write: several operators of ai.onnx in one.
#include <algorithm>
#include <cmath>

#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

// The activation of a fused operator. `numbers`: its alpha and beta, in order.
Made activated(NodeContext& c, const Made& x, const std::string& name, const std::vector<double>& numbers) {
  auto number = [&](size_t i, double otherwise) { return i < numbers.size() ? numbers[i] : otherwise; };
  if (name.empty()) return x;
  if (name == "Relu") return c.emit(Op::kRelu, graph::NoAttrs{}, {x});
  if (name == "Sigmoid") return c.emit(Op::kSigmoid, graph::NoAttrs{}, {x});
  if (name == "Tanh") return c.emit(Op::kTanh, graph::NoAttrs{}, {x});
  if (name == "LeakyRelu") return c.emit(Op::kLeakyRelu, graph::LeakyAttrs{number(0, 0.01)}, {x});
  if (name == "Clip") {
    graph::ClipAttrs limits{number(0, -HUGE_VAL), number(1, HUGE_VAL)};
    return c.emit(Op::kClip, limits, {x});
  }
  if (name == "HardSigmoid") return c.unary(UnaryFn::kHardSigmoid, x, number(0, 0.2), number(1, 0.5));
  if (name == "Elu") return c.unary(UnaryFn::kElu, x, number(0, 1));
  if (name == "Softplus") return c.unary(UnaryFn::kSoftplus, x);
  if (name == "Softsign") return c.unary(UnaryFn::kSoftsign, x);
  if (name == "HardSwish") return c.unary(UnaryFn::kHardSwish, x);
  return refuse(Refusal::kAttribute, "activation '{}' is not supported", sanitize(name));
}

}  // namespace

// alpha * op(A) * op(B); transBatchA moves the first axis in front of the last.
Result<void> import_fused_matmul(NodeContext& c) {
  TCC_TRY(double alpha, c.get_float("alpha", 1));
  auto operand = [&](size_t i, const char* transposed, const char* batch) -> Made {
    TCC_TRY(bool swap, c.get_flag(transposed, false));
    TCC_TRY(bool first, c.get_flag(batch, false));
    const int64_t rank = c.rank(i);
    std::vector<int64_t> perm = axes_from(0, rank);
    if (first && rank > 2) {
      // Axes 0, 1, ..., n - 1 become 1, ..., n - 2, 0, n - 1.
      perm.erase(perm.begin());
      perm.insert(perm.end() - 1, 0);
    }
    if (swap && rank > 1) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    if (perm == axes_from(0, rank)) return c.input(i);
    return c.emit(Op::kTranspose, graph::TransposeAttrs{perm}, {c.input(i)});
  };
  Made a = operand(0, "transA", "transBatchA"), b = operand(1, "transB", "transBatchB");
  TCC_TRY(ValueId y, c.emit(Op::kMatMul, graph::MatMulAttrs{}, {a, b}));
  if (alpha == 1) return c.finish(y);
  return c.finish(c.arithmetic(Op::kMul, y, c.scalar(c.value(y).dtype, alpha)));
}

Result<void> import_fused_gemm(NodeContext& c) {
  graph::GemmAttrs attrs;
  TCC_TRY(attrs.alpha, c.get_float("alpha", 1));
  TCC_TRY(attrs.beta, c.get_float("beta", 1));
  TCC_TRY(attrs.trans_a, c.get_flag("transA", false));
  TCC_TRY(attrs.trans_b, c.get_flag("transB", false));
  TCC_TRY(std::string name, c.get_string("activation", ""));
  std::vector<double> numbers;
  for (const char* attribute : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (!c.has_attribute(attribute)) continue;
    TCC_TRY(double value, c.get_float(attribute, 0));
    numbers.push_back(value);
  }
  return c.finish(activated(c, c.emit(Op::kGemm, attrs, c.inputs()), name, numbers));
}

// A convolution, plus input 3, then the activation.
Result<void> import_fused_conv(NodeContext& c) {
  TCC_TRY(std::string name, c.get_string("activation", ""));
  TCC_TRY(auto numbers, c.get_floats("activation_params"));
  std::optional<ValueId> bias;
  if (c.has_input(2)) bias = c.input(2);
  Made y = emit_convolution(c, c.input(0), c.input(1), bias);
  if (c.has_input(3)) y = c.arithmetic(Op::kAdd, y, c.input(3));
  return c.finish(activated(c, y, name, numbers.value_or(std::vector<double>{})));
}

// Gelu, BiasGelu, FastGelu: of x, or of x plus a bias.
Result<void> import_fused_gelu(NodeContext& c) {
  Made x = c.input(0);
  if (c.has_input(1)) x = c.arithmetic(Op::kAdd, x, c.input(1));
  return c.finish(c.unary(c.op() == "FastGelu" ? UnaryFn::kGeluTanh : UnaryFn::kGelu, x));
}

Result<void> import_quick_gelu(NodeContext& c) {
  TCC_TRY(double alpha, c.get_float("alpha", 1.702));
  return c.finish(c.unary(UnaryFn::kSwish, c.input(0), alpha));
}

namespace {

// Number i of a row of `bits` wide numbers, the first in the low bits.
int packed_number(const uint8_t* row, int64_t i, int64_t bits) {
  const int64_t each = 8 / bits;
  return (row[i / each] >> (bits * (i % each))) & ((1 << bits) - 1);
}

constexpr int64_t kMostPackedBlock =
    256;  // terms that share a scale, whose floats a kernel keeps in the first-level cache

struct PackedWeights {
  int64_t rows, columns, bits, block;  // rows: N, the outputs; columns: K, the terms of a sum
  int64_t blocks() const { return (columns + block - 1) / block; }
};

Result<PackedWeights> read_packed(NodeContext& c) {
  PackedWeights w{};
  TCC_TRY(w.columns, c.get_int("K", 0));
  TCC_TRY(w.rows, c.get_int("N", 0));
  TCC_TRY(w.bits, c.get_int("bits", 4));
  TCC_TRY(w.block, c.get_int("block_size", 0));
  c.ignore_attribute("accuracy_level");
  c.ignore_attribute("weight_prepacked");
  if (w.bits != 2 && w.bits != 4 && w.bits != 8)
    return refuse(Refusal::kAttribute, "numbers of {} bits are not supported; 2, 4 and 8 are", w.bits);
  if (w.rows < 1 || w.columns < 1 || w.block < 16 || w.block > (1 << 20) || w.rows > graph::kMaxElements / w.columns)
    return input_error("N = {}, K = {} and block_size = {} describe no weights", w.rows, w.columns, w.block);
  if (w.rows * w.columns > (int64_t{1} << 31))
    return refuse(Refusal::kTooLarge, "{}x{} weights would be more than 8 GiB as f32", w.columns, w.rows);
  return w;
}

// What the weights are made of: (number - zero) * scale for number k of row n.
struct UnpackedWeights {
  std::vector<uint8_t> numbers;       // rows x columns
  std::vector<double> scales, zeros;  // rows x blocks
};

Result<UnpackedWeights> read_weights(NodeContext& c, const PackedWeights& w) {
  const graph::Value &packed = c.input_value(1), &scales = c.input_value(2);
  if (!packed.is_constant() || !scales.is_constant())
    return refuse(Refusal::kRunTimeShape, "packed weights and their scales must be constants");
  const int64_t bytes = w.block * w.bits / 8, blocks = w.blocks();
  if (packed.dtype != DType::kU8 || packed.elements() != w.rows * blocks * bytes)
    return input_error("the weights are {} {}, expected {} bytes", graph::dtype_name(packed.dtype),
                       graph::shape_text(packed.shape), w.rows * blocks * bytes);
  if (scales.elements() != w.rows * blocks)
    return input_error("there are {} scales, expected {}", scales.elements(), w.rows * blocks);
  std::vector<std::byte> data_storage, zero_storage;
  const auto* data = reinterpret_cast<const uint8_t*>(
      graph::dense_bytes(*packed.constant, packed.dtype, packed.elements(), data_storage).data());
  const std::vector<double> scale = graph::constant_doubles(*scales.constant, scales.dtype, scales.elements());
  const uint8_t* zeros = nullptr;
  std::vector<double> real_zeros;
  const int64_t zero_row = (blocks * w.bits + 7) / 8;
  if (c.has_input(3)) {
    const graph::Value& z = c.input_value(3);
    if (!z.is_constant()) return refuse(Refusal::kRunTimeShape, "zero points of packed weights must be constants");
    if (z.dtype == DType::kU8 && z.elements() == w.rows * zero_row) {
      zeros =
          reinterpret_cast<const uint8_t*>(graph::dense_bytes(*z.constant, z.dtype, z.elements(), zero_storage).data());
    } else if (graph::is_float(z.dtype) && z.elements() == w.rows * blocks) {
      real_zeros = graph::constant_doubles(*z.constant, z.dtype, z.elements());
    } else {
      return input_error("the zero points are {} {}, expected {} bytes or {} floats", graph::dtype_name(z.dtype),
                         graph::shape_text(z.shape), w.rows * zero_row, w.rows * blocks);
    }
  }
  UnpackedWeights u;
  u.numbers.resize(static_cast<size_t>(w.rows * w.columns));
  for (int64_t n = 0; n < w.rows; ++n) {
    for (int64_t b = 0; b < blocks; ++b) {
      const auto at = static_cast<size_t>(n * blocks + b);
      double zero = static_cast<double>(1 << (w.bits - 1));
      if (zeros != nullptr) zero = packed_number(zeros + n * zero_row, b, w.bits);
      if (!real_zeros.empty()) zero = real_zeros[at];
      u.scales.push_back(scale[at]);
      u.zeros.push_back(zero);
      for (int64_t k = b * w.block; k < std::min(w.columns, (b + 1) * w.block); ++k)
        u.numbers[static_cast<size_t>(n * w.columns + k)] =
            static_cast<uint8_t>(packed_number(data + static_cast<int64_t>(at) * bytes, k % w.block, w.bits));
    }
  }
  return u;
}

// The weights as f32, columns x rows.
Made weights_of_floats(NodeContext& c, const PackedWeights& w, const UnpackedWeights& u) {
  std::vector<std::byte> out(static_cast<size_t>(w.rows * w.columns) * sizeof(float));
  auto* floats = reinterpret_cast<float*>(out.data());
  for (int64_t n = 0; n < w.rows; ++n) {
    for (int64_t k = 0; k < w.columns; ++k) {
      const auto at = static_cast<size_t>(n * w.blocks() + k / w.block);
      const double number = u.numbers[static_cast<size_t>(n * w.columns + k)];
      floats[k * w.rows + n] = static_cast<float>((number - u.zeros[at]) * u.scales[at]);
    }
  }
  return c.constant(DType::kF32, {w.columns, w.rows}, graph::make_constant(std::move(out)));
}

// x times weights that stay numbers of 4 bits.
Made packed_product(NodeContext& c, const Made& x, const PackedWeights& w, const UnpackedWeights& u) {
  const int64_t lanes = graph::kPackedColumns, panels = (w.rows + lanes - 1) / lanes, blocks = w.blocks();
  std::vector<std::byte> bytes(static_cast<size_t>(panels * w.columns / 2 * lanes));
  std::vector<double> scales(static_cast<size_t>(panels * blocks * lanes)), zeros = scales;
  for (int64_t n = 0; n < w.rows; ++n) {
    const int64_t panel = n / lanes, lane = n % lanes;
    for (int64_t k = 0; k < w.columns; k += 2) {
      const uint8_t* pair = u.numbers.data() + n * w.columns + k;
      bytes[static_cast<size_t>((panel * w.columns / 2 + k / 2) * lanes + lane)] =
          static_cast<std::byte>(pair[0] | pair[1] << 4);
    }
    for (int64_t b = 0; b < blocks; ++b) {
      const auto to = static_cast<size_t>((panel * blocks + b) * lanes + lane);
      scales[to] = u.scales[static_cast<size_t>(n * blocks + b)];
      zeros[to] = u.zeros[static_cast<size_t>(n * blocks + b)];
    }
  }
  auto floats = [&](const std::vector<double>& v) {
    return c.constant(DType::kF32, {panels, blocks, lanes}, graph::make_constant_from_doubles(DType::kF32, v));
  };
  const Made numbers = c.constant(DType::kU8, {panels, w.columns / 2, lanes}, graph::make_constant(std::move(bytes)));
  return c.emit(Op::kPackedMatMul, graph::PackedMatMulAttrs{w.rows, w.block},
                {x, numbers, floats(scales), floats(zeros)});
}

}  // namespace

Result<void> import_matmul_nbits(NodeContext& c) {
  TCC_TRY(PackedWeights w, read_packed(c));
  if (c.has_input(4)) return refuse(Refusal::kAttribute, "input 4 (g_idx, an order of groups) is not supported");
  TCC_TRY(const UnpackedWeights u, read_weights(c, w));
  const DType dtype = c.input_value(0).dtype;
  const bool packs = w.bits == 4 && w.block % 2 == 0 && w.block <= kMostPackedBlock && w.columns % w.block == 0 &&
                     dtype != DType::kF64;
  Made y = packs ? c.cast(packed_product(c, c.cast(c.input(0), DType::kF32), w, u), dtype)
                 : c.emit(Op::kMatMul, graph::MatMulAttrs{}, {c.input(0), c.cast(weights_of_floats(c, w, u), dtype)});
  return c.finish(c.has_input(5) ? c.arithmetic(Op::kAdd, y, c.input(5)) : y);
}

}  // namespace tcc::onnx
