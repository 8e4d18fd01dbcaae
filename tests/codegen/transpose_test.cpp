// Vectors whose lanes are apart in memory: squares are transposed in registers, and ordered accesses keep their order.
#include <sstream>

#include "nest.h"

using namespace tcc;
using namespace tcc::codegen;
using ir::LoopKind;

namespace {

constexpr int64_t kRows = 48, kColumns = 40;

std::vector<float> numbers(int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>((i * 7 + 3) % 101);
  return out;
}

// Loads and stores of single lanes in the text of LLVM IR.
int64_t single_accesses(const std::string& text) {
  std::istringstream lines(text);
  int64_t n = 0;
  for (std::string line; std::getline(lines, line);)
    n += line.find("declare") == std::string::npos && (line.find("@llvm.masked.gather") != std::string::npos ||
                                                       line.find("@llvm.masked.scatter") != std::string::npos);
  return n;
}

// Rows are lanes, `written_out` columns at a time are unrolled; `body` makes the statement for a row and a column.
template <class Body>
ir::Kernel kernel_of(Nest& t, int64_t lanes, int64_t written_out, const Body& body) {
  return t.lowered(t.loop(kRows / lanes, LoopKind::kSerial, [&](ir::Expr r) {
    return t.loop(kColumns / written_out, LoopKind::kSerial, [&](ir::Expr c) {
      return t.loop(written_out, LoopKind::kUnrolled, [&](ir::Expr u) {
        return t.loop(lanes, LoopKind::kVectorized,
                      [&](ir::Expr l) { return body(t.at(r, lanes, l), t.at(c, written_out, u)); });
      });
    });
  }));
}

}  // namespace

TEST_CASE("a matrix is transposed while it is read or written", "[codegen]") {
  const std::vector<float> x = numbers(kRows * kColumns);
  for (const target::Target& target : runnable_targets())
    for (bool reads : {true, false})
      for (int64_t lanes : {4, 16, 24, 48})
        for (int64_t written_out : {2, 4, 5, 8, 10, 20}) {
          INFO(target.name << ", " << lanes << " lanes, " << written_out << " columns, " << (reads ? "read" : "write"));
          Nest t;
          const ir::Buffer *in = t.input(
                               "x", ir::Type::kF32,
                               reads ? std::vector<int64_t>{kRows, kColumns} : std::vector<int64_t>{kColumns, kRows}),
                           *out = t.output(
                               "y", ir::Type::kF32,
                               reads ? std::vector<int64_t>{kColumns, kRows} : std::vector<int64_t>{kRows, kColumns});
          const ir::Kernel k = kernel_of(t, lanes, written_out, [&](ir::Expr row, ir::Expr column) {
            const std::vector<ir::Expr> far = {row, column}, near = {column, row};
            return t.store(out, reads ? near : far, t.load(in, reads ? far : near));
          });
          Aligned<float> from(x.begin(), x.end()), to(x.size(), -1);
          HostOptions options;
          options.want_ir = true;
          const Compiled code = compile(after_pass(k, target, "transpose_accesses"), target, options);
          // Squares of four columns at least: no lane is accessed by itself.
          const bool squares = written_out % 4 == 0;
          CHECK((single_accesses(code.artifact.source) == 0) == squares);
          code.run({from.data(), to.data()});
          const int64_t height = reads ? kRows : kColumns, width = reads ? kColumns : kRows;
          for (int64_t i = 0; i < height; ++i)
            for (int64_t j = 0; j < width; ++j)
              REQUIRE(to[static_cast<size_t>(j * height + i)] == x[static_cast<size_t>(i * width + j)]);
        }
}

TEST_CASE("lanes whose elements follow each other are interleaved and stored together", "[codegen]") {
  // y[i, j] = x[j, i], where rows of y have only the columns that are written out.
  for (const target::Target& target : runnable_targets())
    for (int64_t lanes : {4, 14, 16, 24})
      for (int64_t columns : {2, 4, 8}) {
        INFO(target.name << ", " << lanes << " lanes, " << columns << " columns");
        const int64_t height = kRows / lanes * lanes;
        const std::vector<float> x = numbers(height * columns);
        Nest t;
        const ir::Buffer *in = t.input("x", ir::Type::kF32, {columns, height}),
                         *out = t.output("y", ir::Type::kF32, {height, columns});
        const ir::Kernel k = t.lowered(t.loop(height / lanes, LoopKind::kSerial, [&](ir::Expr r) {
          return t.loop(columns, LoopKind::kUnrolled, [&](ir::Expr c) {
            return t.loop(lanes, LoopKind::kVectorized, [&](ir::Expr l) {
              const ir::Expr row = t.at(r, lanes, l);
              return t.store(out, {row, c}, t.load(in, {c, row}));
            });
          });
        }));
        Aligned<float> from(x.begin(), x.end()), to(x.size(), -1);
        HostOptions options;
        options.want_ir = true;
        const Compiled code = compile(after_pass(k, target, "transpose_accesses"), target, options);
        if (lanes != 14 || target.cpu.vector_bits == 512) CHECK(single_accesses(code.artifact.source) == 0);
        // Registers of which some lanes are off are stored piece by piece.
        if (lanes != 14)
          CHECK_THAT(code.artifact.source, !Catch::Contains(fmt::format("store <{} x float>", columns)) ||
                                               Catch::Contains(fmt::format("store <{} x float>", lanes * columns)));
        code.run({from.data(), to.data()});
        for (int64_t i = 0; i < height; ++i)
          for (int64_t j = 0; j < columns; ++j)
            REQUIRE(to[static_cast<size_t>(i * columns + j)] == x[static_cast<size_t>(j * height + i)]);
      }
}

TEST_CASE("columns that depend on the one before keep their order", "[codegen]") {
  // y[i, j + 1] = y[i, j] + x[i, j]
  const std::vector<float> x = numbers(kRows * kColumns);
  for (const target::Target& target : runnable_targets()) {
    INFO(target.name);
    Nest t;
    const ir::Buffer *in = t.input("x", ir::Type::kF32, {kRows, kColumns}),
                     *out = t.output("y", ir::Type::kF32, {kRows, kColumns + 1});
    const ir::Kernel k = kernel_of(t, 16, 8, [&](ir::Expr row, ir::Expr column) {
      ir::Expr sum = t.b().add(t.load(out, {row, column}), t.load(in, {row, column}));
      return t.store(out, {row, t.b().offset(column, 1)}, sum);
    });
    Aligned<float> from(x.begin(), x.end()), to(static_cast<size_t>(kRows * (kColumns + 1)), 0);
    compile(after_pass(k, target, "transpose_accesses"), target).run({from.data(), to.data()});
    for (int64_t i = 0; i < kRows; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < kColumns; ++j) {
        sum += x[static_cast<size_t>(i * kColumns + j)];
        REQUIRE(to[static_cast<size_t>(i * (kColumns + 1) + j + 1)] == sum);
      }
    }
  }
}

TEST_CASE("an index that was split, fused and simplified is a plain address again", "[codegen]") {
  // One loop over a tensor of three axes, whose outermost index simplifies to another quotient than the others have.
  Nest t;
  const ir::Buffer *in = t.input("x", ir::Type::kF32, {64, 56, 56}), *out = t.output("y", ir::Type::kF32, {64, 56, 56});
  const ir::Kernel k = t.lowered(t.loop(3136, LoopKind::kSerial, [&](ir::Expr o) {
    return t.loop(4, LoopKind::kSerial, [&](ir::Expr m) {
      return t.loop(16, LoopKind::kVectorized, [&](ir::Expr l) {
        ir::Expr flat = t.at(o, 64, t.at(m, 16, l));
        ir::Builder& b = t.b();
        const std::vector<ir::Expr> at = {b.floor_div(o, t.i(49)), b.floor_mod(b.floor_div(flat, t.i(56)), t.i(56)),
                                          b.floor_mod(flat, t.i(56))};
        return t.store(out, at, t.load(in, at));
      });
    });
  }));
  const std::vector<float> x = numbers(64 * 56 * 56);
  for (const target::Target& target : runnable_targets()) {
    HostOptions options;
    options.want_assembly = true;
    const Compiled code = compile(k, target, options);
    INFO(target.name << code.artifact.source);
    CHECK(code.artifact.source.find("gather") == std::string::npos);
    CHECK(code.artifact.source.find("scatter") == std::string::npos);
    CHECK(code.artifact.source.find("mul") == std::string::npos);  // nor what divides by a constant
    Aligned<float> from(x.begin(), x.end()), to(x.size(), -1);
    code.run({from.data(), to.data()});
    CHECK(std::equal(to.begin(), to.end(), x.begin()));
  }
}
