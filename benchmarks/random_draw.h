// What one random operator is drawn with. Private to random_operators*.cpp.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "random_operators.h"
#include "tcc/onnx/writer.h"
#include "tcc/support/rng.h"

namespace tcc::benchmarks {

using graph::DType;
using graph::Shape;
using Ints = std::vector<int64_t>;
using Attributes = std::vector<onnx::NamedAttribute>;

inline constexpr double kElements = 4e6;  // of a tensor, at most
inline constexpr double kFlops = 4e9;     // of a run, at most

// Draws one operator and writes its model.
class Draw {
 public:
  Draw(Rng rng, int64_t opset) : rng_(rng), writer_("random", opset, opset > 20 ? 10 : 8) {}

  // --- numbers ---
  int64_t between(int64_t low, int64_t high) { return low + rng_.below(high - low + 1); }
  bool chance(double p) { return rng_.uniform() < p; }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<size_t>(between(0, std::ssize(values) - 1))];
  }
  // Log-uniform; half of those that can be are multiples of 8.
  int64_t extent(double low, double high) {
    const double drawn = std::exp(std::log(low) + rng_.uniform() * (std::log(std::max(low, high)) - std::log(low)));
    const auto n = std::max<int64_t>(static_cast<int64_t>(low), std::llround(drawn));
    return n >= 16 && chance(0.5) ? n / 8 * 8 : n;
  }
  // Log-uniform in its number of elements, which the axes share unevenly.
  Shape shape(int64_t rank, double elements = kElements) {
    const double total = rng_.uniform() * std::log(elements);
    std::vector<double> shares(static_cast<size_t>(rank));
    for (double& share : shares) share = 0.1 + rng_.uniform();
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    Shape drawn;
    for (double share : shares) {
      const double high = std::exp(total * share / sum);
      drawn.push_back(
          std::max<int64_t>(1, high >= 16 && chance(0.5) ? std::llround(high) / 8 * 8 : std::llround(high)));
    }
    return drawn;
  }
  Ints permutation(int64_t rank) {
    Ints order(static_cast<size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = rank - 1; i > 0; --i)
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(between(0, i))]);
    return order;
  }
  // At least one of the axes, in order.
  Ints some_axes(int64_t rank) {
    Ints order = permutation(rank);
    order.resize(static_cast<size_t>(between(1, rank)));
    std::sort(order.begin(), order.end());
    return order;
  }

  // --- the model ---
  std::string input(const Shape& shape, DType type = DType::kF32) {
    const std::string name = fmt::format("x{}", inputs_++);
    writer_.typed_input(name, type, shape);
    texts_.push_back(fmt::format("{} {}", fmt::join(shape, "x"), graph::dtype_name(type)));
    return name;
  }
  std::string weights(const Shape& shape, double deviation = 1, double mean = 0) {
    std::vector<float> values(static_cast<size_t>(graph::element_count(shape)));
    for (float& v : values) v = static_cast<float>(mean + deviation * (2 * rng_.uniform() - 1));
    texts_.push_back(fmt::format("{} constant", fmt::join(shape, "x")));
    return writer_.initializer(fmt::format("w{}", constants_++), {shape, std::move(values)});
  }
  // Of int64: axes, extents, indices.
  std::string numbers(const Ints& values, bool told = true) {
    if (told) texts_.push_back(fmt::format("[{}]", fmt::join(values, ",")));
    return writer_.initializer(fmt::format("n{}", constants_++), {{std::ssize(values)}, values});
  }
  std::string indices(const Shape& shape, int64_t end) {
    Ints values(static_cast<size_t>(graph::element_count(shape)));
    for (int64_t& v : values) v = between(0, end - 1);
    texts_.push_back(fmt::format("{} indices", fmt::join(shape, "x")));
    return writer_.initializer(fmt::format("i{}", constants_++), {shape, std::move(values)});
  }
  // Constants of a short type, any of its numbers of at most `most`.
  std::string bytes(const Shape& shape, DType type, int64_t most = 127) {
    std::vector<double> values(static_cast<size_t>(graph::element_count(shape)));
    for (double& v : values) v = static_cast<double>(between(type == DType::kU8 ? 0 : -most, most));
    return typed_constant(shape, type, values);
  }
  std::string typed_constant(const Shape& shape, DType type, const std::vector<double>& values) {
    texts_.push_back(fmt::format("{} {} constant", fmt::join(shape, "x"), graph::dtype_name(type)));
    return writer_.typed_initializer(fmt::format("b{}", constants_++), type, shape, values);
  }
  std::string typed_scalar(double value, DType type) {
    texts_.push_back(fmt::format("{} {}", value, graph::dtype_name(type)));
    return writer_.typed_initializer(fmt::format("s{}", constants_++), type, {}, {value});
  }
  std::string scalar(float value) {
    texts_.push_back(fmt::format("{}", value));
    return writer_.initializer(fmt::format("s{}", constants_++), {{}, std::vector<float>{value}});
  }
  void attribute(const std::string& name, const onnx::AttributeValue& value) {
    attributes_.push_back({name, value});
    if (const auto* n = std::get_if<int64_t>(&value)) texts_.push_back(fmt::format("{}={}", name, *n));
    if (const auto* f = std::get_if<float>(&value)) texts_.push_back(fmt::format("{}={}", name, *f));
    if (const auto* t = std::get_if<std::string>(&value)) texts_.push_back(fmt::format("{}={}", name, *t));
    if (const auto* l = std::get_if<Ints>(&value)) texts_.push_back(fmt::format("{}=[{}]", name, fmt::join(*l, ",")));
  }
  RandomOperator finish(const std::string& family, const std::string& op, const std::vector<std::string>& inputs,
                        DType result = DType::kF32, int64_t outputs = 1) {
    return finish_typed(family, op, inputs, std::vector<DType>(static_cast<size_t>(outputs), result));
  }
  RandomOperator finish_typed(const std::string& family, const std::string& op, const std::vector<std::string>& inputs,
                              const std::vector<DType>& results, const std::string& domain = "") {
    std::vector<std::string> names;
    for (size_t i = 0; i < results.size(); ++i) names.push_back(fmt::format("y{}", i));
    writer_.node(op, inputs, names, attributes_, domain);
    for (size_t i = 0; i < results.size(); ++i) writer_.output(names[i], results[i]);
    const bool bytes = results[0] == DType::kU8 || results[0] == DType::kI8;
    return {family, op, fmt::format("{} {}", op, fmt::join(texts_, ", ")), writer_.finish(),
            bytes && family.starts_with("quantized")};
  }

 private:
  Rng rng_;
  onnx::ModelWriter writer_;
  Attributes attributes_;
  std::vector<std::string> texts_;
  int64_t inputs_ = 0, constants_ = 0;
};

struct OperatorFamily {
  std::string name;
  double weight;  // how often it is drawn
  std::vector<std::string> operators;
  std::function<RandomOperator(Draw&, const std::string& family, const std::string& op)> draw;
};

inline constexpr const char* kMicrosoft = "com.microsoft";

// Extents of a product with at most kFlops and kElements.
struct ProductExtents {
  int64_t m, n, k;
};
inline ProductExtents product_extents(Draw& d, double most = 1024) {
  ProductExtents e{d.extent(1, most), d.extent(1, most), d.extent(1, most)};
  while (2.0 * static_cast<double>(e.m * e.n * e.k) > kFlops) e.m = std::max<int64_t>(1, e.m / 2);
  return e;
}

// Operators on bytes that are quantized floats.
std::vector<OperatorFamily> quantized_families();
// Arithmetic of integers, spectra, operators that place and find elements, and fused ones of com.microsoft.
std::vector<OperatorFamily> further_families();

}  // namespace tcc::benchmarks
