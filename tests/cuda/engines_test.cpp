// The kernels of gpu_check in the interpreter, threads for real and races: they equal the reference on small odd sizes.
#include "cuda/support.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"

using namespace tcc;
using namespace tcc::codegen;
using namespace tcc::codegen::testing;

namespace {

using Tensors = std::vector<interp::TensorData>;

Tensors make_params(const ir::Kernel& kernel) {
  Tensors params;
  for (const ir::Buffer* b : kernel.buffers) {
    if (b->role == ir::BufferRole::kTemp) continue;
    std::vector<int64_t> shape;
    for (ir::Expr e : b->shape) shape.push_back(ir::int_value(e));
    params.push_back(interp::TensorData::make_random_integers(b->type, shape, 11 + params.size()));
  }
  for (std::byte& byte : params.back().bytes) byte = std::byte{0xff};
  return params;
}

interp::Report interpret(const ir::Kernel& kernel, Tensors& params, uint64_t seed) {
  std::vector<interp::TensorData*> pointers;
  for (interp::TensorData& t : params) pointers.push_back(&t);
  return interp::run(kernel, pointers, {.seed = seed, .check_races = true});
}

std::vector<double> gemm_reference(const Tensors& p, int64_t m, int64_t n, int64_t k) {
  std::vector<double> c(static_cast<size_t>(m * n), 0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t q = 0; q < k; ++q) c[static_cast<size_t>(i * n + j)] += p[0].at(i * k + q) * p[1].at(q * n + j);
  return c;
}
std::vector<double> add_relu_reference(const Tensors& p) {
  std::vector<double> y;
  for (int64_t i = 0; i < p[0].size(); ++i) y.push_back(std::max(p[0].at(i) + p[1].at(i), 0.0));
  return y;
}

struct GemmCase {
  int64_t m, n, k;
};

}  // namespace

TEST_CASE("interpreted kernels equal the reference on odd sizes", "[engines]") {
  for (int64_t n : {1, 3, 4096, 4099, 9000}) {
    const ir::Kernel kernel = gpu_check::make_add_relu(n);
    CHECK(ir::verify(kernel).empty());
    Tensors p = make_params(kernel);
    const interp::Report report = interpret(kernel, p, 1);
    INFO(n << ": " << report.text());
    REQUIRE(report.ok());
    CHECK(p[2].to_doubles() == add_relu_reference(p));
  }
  for (const gpu_check::GemmTile& tile : {gpu_check::kLargeTile, gpu_check::kSmallTile})
    for (const GemmCase& c : {GemmCase{1, 1, 1}, {5, 7, 3}, {70, 66, 19}, {129, 131, 8}, {64, 132, 40}, {3, 4, 37}}) {
      const ir::Kernel kernel = gpu_check::make_gemm(c.m, c.n, c.k, tile);
      CHECK(ir::verify(kernel).empty());
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        Tensors p = make_params(kernel);
        const interp::Report report = interpret(kernel, p, seed);
        INFO(c.m << "x" << c.n << "x" << c.k << ": " << report.text());
        REQUIRE(report.ok());
        CHECK(p[2].to_doubles() == gemm_reference(p, c.m, c.n, c.k));
      }
    }
}

TEST_CASE("a GEMM without its barriers is reported", "[engines]") {
  ir::Kernel kernel = gpu_check::make_gemm(64, 64, 64, gpu_check::kSmallTile);
  ir::Builder b(*kernel.arena);
  const int32_t barrier = ir::find_instruction("bar.sync");
  const std::function<ir::Stmt(ir::Stmt)> strip = [&](ir::Stmt s) -> ir::Stmt {
    if (const ir::InstrCall* call = ir::as<ir::InstrCall>(s); call != nullptr && call->instr == barrier) return nullptr;
    return ir::rewrite_children(b, s, strip);
  };
  kernel.root = strip(kernel.root);
  Tensors p = make_params(kernel);
  const interp::Report report = interpret(kernel, p, 1);
  CHECK((report.has(interp::Finding::Kind::kRace) || report.has(interp::Finding::Kind::kUninitialised)));
}
