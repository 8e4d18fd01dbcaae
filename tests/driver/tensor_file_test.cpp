#include "tcc/driver/tensor_file.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "tcc/driver/library.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::driver;
using graph::DType;

namespace {

std::string npy(const std::string& header, size_t bytes) {
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size());
  text += '\0';
  text += header;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(i);
  return text;
}

}  // namespace

TEST_CASE("arrays of every type and rank come back from .npy as they went") {
  for (const graph::Shape& shape : {graph::Shape{}, {7}, {2, 3}, {4, 1, 5}, {0, 3}}) {
    for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kI8, DType::kU8, DType::kI32, DType::kI64,
                        DType::kU32, DType::kU64, DType::kBool, DType::kBF16, DType::kI16, DType::kU16}) {
      std::vector<std::byte> bytes(static_cast<size_t>(graph::element_count(shape) * graph::dtype_size(dtype)));
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37);
      auto back = parse_npy(npy_bytes({"x", dtype, shape, bytes}), "x.npy", dtype == DType::kBF16);
      REQUIRE(back.has_value());
      CHECK(back->dtype == dtype);
      CHECK(back->shape == shape);
      CHECK(std::equal(bytes.begin(), bytes.end(), back->constant.bytes.begin(), back->constant.bytes.end()));
    }
  }
}

TEST_CASE("the header is NumPy's") {
  const std::vector<std::byte> bytes(24);
  const std::string text = npy_bytes({"x", DType::kF32, {2, 3}, bytes});
  CHECK(text.substr(10, 59) == "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  CHECK((text.size() - 24) % 64 == 0);
  CHECK(npy_bytes({"x", DType::kF32, {6}, bytes}).find("'shape': (6,), }") != std::string::npos);
}

TEST_CASE("Fortran order is rearranged") {
  auto tensor = parse_npy(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", 6), "x");
  REQUIRE(tensor.has_value());
  CHECK(graph::constant_doubles(tensor->constant, DType::kU8, 6) == std::vector<double>{0, 2, 4, 1, 3, 5});
}

TEST_CASE("a file that is not an array is refused, never read past its end", "[errors]") {
  const std::string good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24);
  REQUIRE(parse_npy(good, "x").has_value());
  for (size_t n = 0; n < good.size(); ++n) CHECK_FALSE(parse_npy(good.substr(0, n), "x").has_value());
  for (const char* header : {"", "{", "{'descr': '<f4'}", "{'descr': '>f4', 'fortran_order': False, 'shape': (6,), }",
                             "{'descr': '|O', 'fortran_order': False, 'shape': (6,), }",
                             "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (-6,), }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }",
                             "{'descr': '<f4', 'fortran_order': 3, 'shape': (6,), }"}) {
    CAPTURE(header);
    auto tensor = parse_npy(npy(header, 24), "x");
    REQUIRE_FALSE(tensor.has_value());
    CHECK(tensor.error().message.find("'x'") != std::string::npos);
  }
}

TEST_CASE("damaged array files end in an error, whatever the bytes", "[fuzz]") {
  const std::string good = npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 24);
  Rng rng(5);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good;
    for (int64_t n = rng.below(4) + 1; n > 0; --n)
      bad[static_cast<size_t>(rng.below(static_cast<int64_t>(bad.size())))] = static_cast<char>(rng.next());
    if (auto tensor = parse_npy(bad, "x"))
      CHECK(static_cast<int64_t>(tensor->constant.bytes.size()) ==
            graph::element_count(tensor->shape) * graph::dtype_size(tensor->dtype));
  }
}

TEST_CASE("times differ when they do, and do not when they do not") {
  Rng rng(3);
  auto draw = [&](double middle) {
    std::vector<double> v;
    for (int i = 0; i < 300; ++i) v.push_back(middle * (1 + 0.05 * rng.uniform()) * (rng.below(20) == 0 ? 3 : 1));
    return v;
  };
  const std::vector<double> a = draw(1), same = draw(1), slower = draw(1.1);
  CHECK_FALSE(compare_times(a, same).differs);
  CHECK_FALSE(compare_times(a, a).differs);
  const Comparison c = compare_times(a, slower);
  CHECK(c.differs);
  CHECK(c.low < 1.1);
  CHECK(c.high > 1.09);
  CHECK(c.p < 1e-6);
  CHECK(compare_times(slower, a).ratio == Approx(1 / c.ratio));
  CHECK_FALSE(compare_times({1}, {2}).differs);
}
