// The kernels of gpu_check in the interpreter (threads for real, races) and, as printed, compiled by the host's C++
// compiler with one thread per CUDA thread: both equal the reference on small odd sizes.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "cuda/support.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/verify.h"
#include "tcc/ir/walk.h"
#include "tcc/support/files.h"

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

constexpr char kHostPrelude[] = R"text(
#include <barrier>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>
using std::fmaxf;
using std::fminf;
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
struct Index { unsigned x, y, z; };
static thread_local Index threadIdx, blockIdx;
static std::barrier<>* block_barrier;
static float __uint_as_float(unsigned u) { float f; std::memcpy(&f, &u, 4); return f; }
static unsigned __float_as_uint(float f) { unsigned u; std::memcpy(&u, &f, 4); return u; }
static unsigned long __cvta_generic_to_shared(const void* p) { return (unsigned long)p; }
)text";

// Runs the printed text on the host: the launch's blocks one after the other, its threads as threads.
void emulate(const ir::Kernel& kernel, Tensors& params) {
  auto source = emit_cuda_source(kernel, gpu("a100"));
  REQUIRE(source);
  REQUIRE(source->launches.size() == 1);
  const Launch& l = source->launches[0];
  std::string text = source->text;
  const std::string barrier = "asm volatile(\"bar.sync 0, 256;\" :  :  : \"memory\");";
  for (size_t at = text.find(barrier); at != std::string::npos; at = text.find(barrier, at))
    text.replace(at, barrier.size(), "block_barrier->arrive_and_wait();");
  text = kHostPrelude + text;
  text += fmt::format(R"text(
extern "C" void run_all(float** p) {{
  for (unsigned y = 0; y < {0}; ++y)
    for (unsigned x = 0; x < {1}; ++x) {{
      std::barrier<> meet({2});
      block_barrier = &meet;
      std::vector<std::thread> threads;
      for (unsigned t = 0; t < {2}; ++t)
        threads.emplace_back([=] {{ threadIdx = {{t, 0, 0}}; blockIdx = {{x, y, 0}}; {3}(p[0], p[1], p[2]); }});
      for (std::thread& t : threads) t.join();
    }}
}}
)text",
                      l.grid[1], l.grid[0], l.block[0], l.symbol);
  auto folder = TemporaryDirectory::create("tcc-cuda-emulation");
  REQUIRE(folder);
  const std::string base = (*folder)->path() + "/kernel";
  REQUIRE(write_file(base + ".cpp", text));
  const std::string command =
      fmt::format("'{}' -std=c++20 -w -O1 -shared -fPIC -pthread -o {}.so {}.cpp", TCC_HOST_COMPILER, base, base);
  REQUIRE(std::system(command.c_str()) == 0);
  void* library = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  auto run_all = reinterpret_cast<void (*)(float**)>(dlsym(library, "run_all"));
  REQUIRE(run_all != nullptr);
  float* pointers[3];
  std::vector<std::vector<float>> copies;  // malloc aligns to 16 bytes, as the kernel asks
  for (const interp::TensorData& t : params) {
    copies.emplace_back(t.bytes.size() / sizeof(float));
    std::memcpy(copies.back().data(), t.bytes.data(), t.bytes.size());
  }
  for (size_t i = 0; i < 3; ++i) pointers[i] = copies[i].data();
  run_all(pointers);
  std::memcpy(params.back().bytes.data(), copies.back().data(), params.back().bytes.size());
  dlclose(library);
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
    return ir::rewrite_children(b, s, strip, [](ir::Expr e) { return e; });
  };
  kernel.root = strip(kernel.root);
  Tensors p = make_params(kernel);
  const interp::Report report = interpret(kernel, p, 1);
  CHECK((report.has(interp::Finding::Kind::kRace) || report.has(interp::Finding::Kind::kUninitialised)));
}

TEST_CASE("the printed source, run by threads of the host, equals the reference", "[engines]") {
  for (int64_t n : {4099, 4100}) {
    const ir::Kernel kernel = gpu_check::make_add_relu(n);
    Tensors p = make_params(kernel);
    emulate(kernel, p);
    CHECK(p[2].to_doubles() == add_relu_reference(p));
  }
  struct Case {
    GemmCase size;
    gpu_check::GemmTile tile;
  };
  for (const auto& [c, tile] : {Case{{129, 131, 19}, gpu_check::kLargeTile},
                                {{132, 68, 24}, gpu_check::kLargeTile},
                                {{67, 65, 33}, gpu_check::kSmallTile},
                                {{64, 68, 48}, gpu_check::kSmallTile}}) {
    const ir::Kernel kernel = gpu_check::make_gemm(c.m, c.n, c.k, tile);
    Tensors p = make_params(kernel);
    emulate(kernel, p);
    CHECK(p[2].to_doubles() == gemm_reference(p, c.m, c.n, c.k));
  }
}
