// Element types of few bits: conversions against a list of all numbers of the type.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "onnx/models.h"
#include "tcc/graph/refusal.h"
#include "tcc/support/files.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::onnx;
using graph::DType;
using graph::Shape;
using Doubles = std::vector<double>;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::string cast_model(int64_t to, std::vector<NamedAttribute> attributes, bool back, int64_t count) {
  ModelWriter w("small", 24);
  w.input("x", {count});
  attributes.push_back({"to", to});
  w.node("Cast", {"x"}, {"code"}, attributes);
  if (back) w.node("Cast", {"code"}, {"y"}, {{"to", int64_t{1}}});
  w.output(back ? "y" : "code");
  return w.finish();
}
Doubles codes(int64_t to, const Doubles& x, std::vector<NamedAttribute> attributes = {}) {
  return run_model(cast_model(to, std::move(attributes), false, std::ssize(x)), {}, {x})[0].data;
}
Doubles there_and_back(int64_t to, const Doubles& x) {
  return run_model(cast_model(to, {}, true, std::ssize(x)), {}, {x})[0].data;
}

// A float type's positive numbers by their codes, from its definition.
struct Format {
  int64_t number;
  int exponent, mantissa, bias, top;
  Doubles positive() const {
    Doubles all;
    for (int code = 0; code <= top; ++code) {
      const int field = code >> mantissa, fraction = code & ((1 << mantissa) - 1);
      const double part = std::ldexp(fraction, -mantissa);
      all.push_back(field == 0 ? std::ldexp(part, 1 - bias) : std::ldexp(1 + part, field - bias));
    }
    return all;
  }
};
constexpr Format kFormats[] = {
    {17, 4, 3, 7, 0x7e}, {18, 4, 3, 8, 0x7f}, {19, 5, 2, 15, 0x7b}, {20, 5, 2, 16, 0x7f}, {23, 2, 1, 1, 7}};

// The model with one more input, a serialized ValueInfoProto. Messages that are repeated in a file are merged.
std::string with_input(std::string model, const std::string& info) {
  const auto length = [](size_t n) { return std::string(1, static_cast<char>(n)); };
  const std::string graph = "\x5a" + length(info.size()) + info;
  return model + "\x3a" + length(graph.size()) + graph;
}

}  // namespace

TEST_CASE("every number of a float of few bits is its own code, and rounding goes to even codes") {
  for (const Format& f : kFormats) {
    INFO("type " << f.number);
    const Doubles numbers = f.positive();
    const double sign = f.number == 23 ? 8 : 128;
    CHECK(there_and_back(f.number, numbers) == numbers);
    const Doubles found = codes(f.number, numbers);
    for (size_t i = 0; i < numbers.size(); ++i) CHECK(found[i] == static_cast<double>(i));
    Doubles between, expected;
    for (size_t i = 0; i + 1 < numbers.size(); ++i) {
      const double middle = (numbers[i] + numbers[i + 1]) / 2;
      const auto code = static_cast<double>(i);
      for (double x : {middle, std::nextafter(static_cast<float>(middle), 0.0F) * 1.0,
                       std::nextafter(static_cast<float>(middle), 1e9F) * 1.0, -middle}) {
        between.push_back(x);
        const double up = std::fabs(x) == middle ? (i % 2 == 0 ? 0 : 1) : x > middle ? 1 : 0;
        const bool zero = code + up == 0 && (f.number == 18 || f.number == 20);
        expected.push_back(code + up + (x < 0 && !zero ? sign : 0));
      }
    }
    CHECK(codes(f.number, between) == expected);
  }
}

TEST_CASE("numbers beyond a float of few bits: the greatest number, or the infinity or NaN of the type") {
  const Doubles x{kNan, kInf, -kInf, -0.0, 1e9, -1e9, 464, 465, 1e-30, -1e-30};
  CHECK(codes(17, x) == Doubles{0x7f, 0x7e, 0xfe, 0x80, 0x7e, 0xfe, 0x7e, 0x7e, 0, 0x80});
  CHECK(codes(17, x, {{"saturate", int64_t{0}}}) == Doubles{0x7f, 0x7f, 0xff, 0x80, 0x7f, 0xff, 0x7e, 0x7f, 0, 0x80});
  CHECK(codes(18, x, {{"saturate", int64_t{0}}}) == Doubles{0x80, 0x80, 0x80, 0, 0x80, 0x80, 0x80, 0x80, 0, 0});
  CHECK(codes(19, x) == Doubles{0x7e, 0x7b, 0xfb, 0x80, 0x7b, 0xfb, 0x5f, 0x5f, 0, 0x80});
  CHECK(codes(19, x, {{"saturate", int64_t{0}}}) == Doubles{0x7e, 0x7c, 0xfc, 0x80, 0x7c, 0xfc, 0x5f, 0x5f, 0, 0x80});
  CHECK(codes(20, x) == Doubles{0x80, 0x7f, 0xff, 0, 0x7f, 0xff, 0x63, 0x63, 0, 0});
  CHECK(codes(23, x) == Doubles{8, 7, 15, 8, 7, 15, 7, 7, 0, 8});
}

TEST_CASE("E8M0 holds powers of two and rounds as round_mode says") {
  const Doubles x{1, 1.25, 1.5, 1.75, 2, -3, 0x1p-126, kNan, kInf, 0x1.8p127};
  CHECK(codes(24, x) == Doubles{127, 128, 128, 128, 128, 129, 1, 255, 255, 254});
  CHECK(codes(24, x, {{"round_mode", std::string("down")}}) == Doubles{127, 127, 127, 127, 128, 128, 1, 255, 255, 254});
  CHECK(codes(24, x, {{"round_mode", std::string("nearest")}}) ==
        Doubles{127, 127, 128, 128, 128, 129, 1, 255, 255, 254});
  CHECK(codes(24, {0x1.8p127}, {{"saturate", int64_t{0}}}) == Doubles{255});
  CHECK(there_and_back(24, {0.25, 1, 8}) == Doubles{0.25, 1, 8});
}

TEST_CASE("integers of few bits keep their low bits; quantization saturates") {
  CHECK(codes(22, {7.9, 8, -8, -9, 0}) == Doubles{7, -8, -8, 7, 0});
  CHECK(codes(21, {15, 16, -1}) == Doubles{15, 0, 15});
  CHECK(codes(26, {1, 2, -2, -3}) == Doubles{1, -2, -2, 1});
  CHECK(codes(25, {3, 4}) == Doubles{3, 0});
  ModelWriter w("quantize", 23);
  w.input("x", {4});
  w.typed_initializer("scale", DType::kF32, {}, {0.5});
  w.node("QuantizeLinear", {"x", "scale"}, {"q"}, {{"output_dtype", int64_t{22}}});
  w.node("DequantizeLinear", {"q", "scale"}, {"y"});
  w.output("q");
  w.output("y");
  const auto y = run_model(w.finish(), {}, {{-100, -1.2, 3, 100}});
  CHECK(y[0].data == Doubles{-8, -2, 6, 7});
  CHECK(y[1].data == Doubles{-4, -1, 3, 3.5});
}

TEST_CASE("tensors of few bits are unpacked to a byte for each element") {
  auto folder = TemporaryDirectory::create("tcc-onnx-test-");
  REQUIRE(folder.has_value());
  auto read = [&](const std::string& bytes) {
    const std::string path = (*folder)->path() + "/t.pb";
    REQUIRE(write_file(path, bytes).has_value());
    return read_tensor_file(path);
  };
  auto numbers = [](const TensorFile& t) {
    return graph::constant_doubles(t.constant, t.dtype, graph::element_count(t.shape));
  };
  auto packed = read(std::string("\x08\x03\x10\x16\x4a\x02\x8f\x07", 8));  // three of int4: -1, -8, 7
  REQUIRE(packed.has_value());
  CHECK(packed->dtype == DType::kI8);
  CHECK(numbers(*packed) == Doubles{-1, -8, 7});
  auto two_bits = read(std::string("\x08\x04\x10\x19\x4a\x01\xe4", 7));  // four of uint2 in one byte
  REQUIRE(two_bits.has_value());
  CHECK(numbers(*two_bits) == Doubles{0, 1, 2, 3});
  CHECK(!read(std::string("\x08\x03\x10\x16\x4a\x01\x8f", 7)).has_value());  // a byte too few
}

TEST_CASE("only conversions and moves take elements of few bits") {
  auto model = [](const std::string& op, std::vector<NamedAttribute> attributes = {}) {
    ModelWriter w("moves", 23);
    w.input("x", {2, 2});
    w.node("Cast", {"x"}, {"f8"}, {{"to", int64_t{17}}});
    w.node(op, {"f8"}, {"moved"}, attributes);
    w.node("Cast", {"moved"}, {"y"}, {{"to", int64_t{1}}});
    w.output("y");
    return w.finish();
  };
  CHECK(run_model(model("Transpose"), {}, {{1, 2, 3, 4}})[0].data == Doubles{1, 3, 2, 4});
  CHECK(run_model(model("Identity"), {}, {{0.5, 2, 3, 4}})[0].data == Doubles{0.5, 2, 3, 4});
  auto refused = import_text(model("Relu"));
  REQUIRE(!refused);
  CHECK(graph::refusal_of(refused.error()) == graph::Refusal::kElementType);
  CHECK(refused.error().message.find("float8e4m3fn") != std::string::npos);
}

TEST_CASE("BitCast keeps the bits of integers, and of data that are known") {
  auto model = [](DType from, int64_t to, const Doubles* known) {
    ModelWriter w("bits", 26);
    if (known != nullptr)
      w.typed_initializer("x", from, {std::ssize(*known)}, *known);
    else
      w.typed_input("x", from, {2});
    w.node("BitCast", {"x"}, {"y"}, {{"to", to}});
    w.output("y");
    return w.finish();
  };
  CHECK(run_model(model(DType::kI8, 2, nullptr), {}, {{-1, 5}})[0].data == Doubles{255, 5});
  CHECK(run_model(model(DType::kU32, 6, nullptr), {}, {{0xffffffffU, 7}})[0].data == Doubles{-1, 7});
  const Doubles one{1, -2};
  CHECK(run_model(model(DType::kF32, 6, &one))[0].data == Doubles{0x3f800000, -0x40000000});
  auto run_time = import_text(model(DType::kF32, 6, nullptr));
  REQUIRE(!run_time);
  CHECK(graph::refusal_of(run_time.error()) == graph::Refusal::kRunTimeShape);
  CHECK(graph::refusal_of(import_text(model(DType::kF32, 7, nullptr)).error()) == graph::Refusal::kElementType);
}

TEST_CASE("NonMaxSuppression of known boxes keeps the best of those that overlap") {
  auto kept = [](double most, double overlap, const Doubles& threshold) {
    ModelWriter w("nms", 13);
    // Two boxes that overlap by 0.82, one far away, one with its corners exchanged.
    w.typed_initializer("boxes", DType::kF32, {1, 4, 4}, {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 10, 1, 11, 1, 11.1, 0, 10.1});
    w.typed_initializer("scores", DType::kF32, {1, 2, 4}, {0.9, 0.75, 0.6, 0.95, 0.1, 0.2, 0.3, 0.3});
    w.typed_initializer("most", DType::kI64, {1}, {most});
    w.typed_initializer("overlap", DType::kF32, {1}, {overlap});
    std::vector<std::string> inputs{"boxes", "scores", "most", "overlap"};
    if (!threshold.empty()) inputs.push_back(w.typed_initializer("least", DType::kF32, {1}, threshold));
    w.node("NonMaxSuppression", inputs, {"y"});
    w.output("y");
    return run_model(w.finish())[0].data;
  };
  CHECK(kept(3, 0.5, {}) == Doubles{0, 0, 3, 0, 0, 0, 0, 1, 2, 0, 1, 1});
  CHECK(kept(1, 0.5, {0.4}) == Doubles{0, 0, 3});
  CHECK(kept(2, 0.9, {0.7}) == Doubles{0, 0, 3, 0, 0, 0});
  ModelWriter w("nms", 13);
  w.input("boxes", {1, 4, 4});
  w.input("scores", {1, 2, 4});
  w.node("NonMaxSuppression", {"boxes", "scores"}, {"y"});
  w.output("y", DType::kI64);
  auto none = import_text(w.finish());
  REQUIRE(none);  // without a number of boxes none is asked for
  CHECK(none->value(none->outputs[0]).shape == graph::Shape{0, 3});
}

TEST_CASE("a sequence at the begin of a model has as many elements as shapes are given for them") {
  // x: sequence of f32 tensors; the writer has inputs of tensors only.
  const std::string type = std::string("\x12\x08\x22\x06\x0a\x04\x0a\x02\x08\x01", 10),
                    name = std::string("\x0a\x01x", 3);
  const std::string input = name + type;
  ModelWriter w("sequence", 13);
  w.node("ConcatFromSequence", {"x"}, {"y"}, {{"axis", int64_t{0}}});
  w.output("y");
  const std::string bytes = with_input(w.finish(), input);
  CHECK(run_model(bytes, {.input_shapes = {{"x.0", {2}}, {"x.1", {1}}}}, {{1, 2}, {3}})[0].data == Doubles{1, 2, 3});
  auto unknown = import_text(bytes);
  REQUIRE(!unknown);
  CHECK(unknown.error().hint.find("--shape x.0=") != std::string::npos);
}

TEST_CASE("a sequence at the end of a model is as many outputs as it has elements") {
  ModelWriter w("sequence", 13);
  w.input("x", {4});
  w.node("SplitToSequence", {"x"}, {"parts"}, {{"keepdims", int64_t{1}}});
  w.output("parts");
  const std::string bytes = w.finish();
  auto g = import_text(bytes);
  REQUIRE(g);
  CHECK(g->output_names == std::vector<std::string>{"parts.0", "parts.1", "parts.2", "parts.3"});
  CHECK(run_model(bytes)[3].data == Doubles{3});
}
