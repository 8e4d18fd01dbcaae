// The parts that need no second process.
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels.h"
#include "measure/gate.h"
#include "measure/number.h"
#include "measure/reference_kernels.h"
#include "measure/wire.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/measure/fake.h"
#include "tcc/measure/task.h"

using namespace tcc;
using namespace tcc::measure;
using namespace tcc::measure::test;

TEST_CASE("interval of the median", "[unit]") {
  std::vector<double> nine = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Interval interval = median_interval(nine);
  CHECK(interval.median == 5);
  CHECK(interval.low == 2);  // P(X <= 1) = 10/512, twice that is below 5 %; P(X <= 2) is not
  CHECK(interval.high == 8);
  CHECK(median_interval(nine, 0.99).low == 1);
  std::vector<double> two = {1, 3};
  CHECK(median_interval(two).median == 2);
  CHECK(median_interval(two).low == 1);
  std::vector<double> many;
  for (int i = 0; i < 1001; ++i) many.push_back(i);
  CHECK(median_interval(many).low == Approx(500 - 31).margin(1));  // 1.96 sqrt(n) / 2
}

TEST_CASE("numbers of every float type go and come", "[unit]") {
  for (ir::Type type : {ir::Type::kF16, ir::Type::kBF16}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      auto h = static_cast<uint16_t>(bits), back = uint16_t{0};
      double value = load_number(type, &h, 0);
      if (value != value) continue;
      store_number(type, &back, 0, value);
      if (back != h) FAIL(fmt::format("{} {:#x} comes back as {:#x}", ir::type_name(type), h, back));
    }
  }
  CHECK(round_to_type(1 + 0x1p-8, ir::Type::kBF16) == 1);  // ties go to even
  CHECK(round_to_type(1 + 0x1.8p-8, ir::Type::kBF16) == 1 + 0x1p-7);
  CHECK(round_to_type(1 + 0x1p-11, ir::Type::kF16) == 1);
  CHECK(round_to_type(65519, ir::Type::kF16) == 65504);
  CHECK(std::isinf(round_to_type(65520, ir::Type::kF16)));
  CHECK(round_to_type(0x1p-25, ir::Type::kF16) == 0);
  CHECK(round_to_type(300, ir::Type::kI8) == 127);
}

TEST_CASE("the gate", "[unit]") {
  std::vector<double> reference = {1, -2, 0};
  OutputRule rule{ir::Type::kF32};
  rule.relative = 2 * 0x1p-24;
  rule.scaled = 4 * 0x1p-24;
  rule.scale_all = 10;
  SECTION("within what is allowed") {
    std::vector<float> x = {1 + 0x1p-20f, -2, 0x1p-22f};
    GateResult gate = compare_output(rule, x.data(), reference);
    CHECK(gate.bad == 0);
    CHECK(gate.worst == 0);
    CHECK(gate.max_error == Approx(0x1p-20 / (2 * 0x1p-24 + 40 * 0x1p-24)));
  }
  SECTION("beyond") {
    std::vector<float> x = {1, -2.001f, 0};
    GateResult gate = compare_output(rule, x.data(), reference);
    CHECK(gate.bad == 1);
    CHECK(gate.worst == 1);
    CHECK(gate.max_error > 1);
    CHECK_THAT(gate.text, Catch::StartsWith("is -2.00099993, not -2 (error"));
  }
  SECTION("NaN and infinity") {
    std::vector<float> x = {1, -2, NAN};
    CHECK(compare_output(rule, x.data(), reference).bad == 1);
    x[2] = INFINITY;
    CHECK(compare_output(rule, x.data(), reference).bad == 1);
    reference[2] = 1e300;  // beyond f32: infinity is the right answer
    CHECK(compare_output(rule, x.data(), reference).bad == 0);
    reference[2] = NAN;
    CHECK(compare_output(rule, x.data(), reference).bad == 1);
  }
  SECTION("equality") {
    rule.equal = true;
    std::vector<float> x = {1 + 0x1p-23f, -2, -0.0f};
    CHECK(compare_output(rule, x.data(), reference).bad == 1);
    x[0] = 1;
    CHECK(compare_output(rule, x.data(), reference).bad == 0);
  }
  CHECK(place_text(7, std::array<int64_t, 2>{3, 4}) == "[1, 3]");
  CHECK(place_text(0, std::span<const int64_t>()) == "[]");
}

TEST_CASE("the reference is the same kernel in f64", "[unit]") {
  GemmOptions options;
  options.in = ir::Type::kBF16;
  options.out = ir::Type::kF16;
  options.relu = true;
  ir::Kernel naive = make_gemm(options);
  NaiveFacts facts = analyse_naive(naive);
  CHECK(facts.flops == 24.0 * 20 * 28 * 2 + 24 * 20);
  CHECK(facts.reduce_terms == 29);
  CHECK(facts.narrowest == ir::Type::kF32);
  CHECK(facts.integer_constants);
  ir::Kernel f64 = to_double(naive);
  CHECK(ir::verify(f64).empty());
  std::string text = ir::print(f64);
  CHECK_THAT(text, !Catch::Contains("f32") && !Catch::Contains("bf16") && !Catch::Contains("f16"));
  auto magnitude = to_magnitude(f64);
  REQUIRE(magnitude.has_value());
  CHECK(ir::verify(*magnitude).empty());
  options.gelu = true;
  CHECK_FALSE(to_magnitude(to_double(make_gemm(options))).has_value());
  CHECK_FALSE(analyse_naive(make_gemm(options)).integer_constants);
}

TEST_CASE("artifacts and tasks pass through the wire unchanged", "[unit]") {
  codegen::Artifact artifact;
  artifact.code = std::string("\0\1elf", 5);
  artifact.launches.push_back({"tcc_kernel_0", 17});
  artifact.buffers.push_back({ir::BufferRole::kWeight, ir::Type::kBF16, {3, 4}, "layout[...]", 24, 64});
  Writer writer;
  put_artifact(writer, artifact);
  Reader reader(writer.bytes());
  codegen::Artifact back = get_artifact(reader);
  CHECK(reader.ok());
  CHECK(back.code == artifact.code);
  CHECK(back.launches[0].symbol == "tcc_kernel_0");
  CHECK(back.launches[0].extent == 17);
  CHECK(back.buffers[0].shape == artifact.buffers[0].shape);
  CHECK(back.buffers[0].layout == artifact.buffers[0].layout);
  for (size_t cut = 0; cut < writer.bytes().size(); ++cut) {
    Reader truncated(std::string_view(writer.bytes()).substr(0, cut));
    get_artifact(truncated);
    CHECK_FALSE(truncated.ok());
  }
}

TEST_CASE("the fake measurer depends on the program alone", "[unit]") {
  std::vector<Candidate> candidates(100);
  for (size_t i = 0; i < candidates.size(); ++i) candidates[i] = {i, 1000 + i};
  FakeMeasurer all(7, 0.2), one_by_one(7, 0.2), other(8, 0.2);
  auto together = all.measure(candidates).value();
  auto elsewhere = other.measure(candidates).value();
  int64_t wrong = 0, different = 0;
  for (size_t i = candidates.size(); i-- > 0;) {
    auto alone = one_by_one.measure(std::span(candidates).subspan(i, 1)).value()[0];
    CHECK(alone.median == together[i].median);
    CHECK(alone.samples == together[i].samples);
    CHECK(alone.status == together[i].status);
    CHECK(together[i].id == i);
    wrong += together[i].status == record::Status::kWrong;
    different += together[i].median != elsewhere[i].median;
  }
  CHECK(wrong > 5);
  CHECK(wrong < 40);
  CHECK(different > 50);
  CHECK(all.measured() == 100);
}
