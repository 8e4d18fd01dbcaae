// Graph::fast_math: kernels without what the rules about NaN cost, right on numbers.
#include <algorithm>
#include <array>
#include <set>

#include "task/fast_math.h"
#include "task/one_group.h"
#include "tcc/graph/passes.h"
#include "tcc/ir/walk.h"

using namespace tcc;
using namespace tcc::task_test;
using graph::BinaryFn;
using graph::UnaryFn;

namespace {

struct Case {
  const char* name;
  Op op;
  graph::Attributes attrs;
  int64_t operands = 1;
  bool differs = true;  // the kernel with fast_math is another one
};

std::vector<Case> cases() {
  std::vector<Case> all;
  // One at a time: the compiler takes very long for a list of variants.
  const auto add = [&](const char* name, Op op, graph::Attributes attrs, int64_t operands = 1, bool differs = true) {
    all.push_back({name, op, std::move(attrs), operands, differs});
  };
  const auto unary = [&](const char* name, UnaryFn fn, bool differs) {
    add(name, Op::kUnary, graph::UnaryAttrs{fn, 0.2, 0.5}, 1, differs);
  };
  const auto binary = [&](const char* name, BinaryFn fn, bool differs) {
    add(name, Op::kBinary, graph::BinaryAttrs{fn}, 2, differs);
  };
  add("ReduceMax", Op::kReduceMax, graph::ReduceAttrs{{1}, true, true});
  add("ReduceMin", Op::kReduceMin, graph::ReduceAttrs{{0, 2}, false, true});
  add("Relu", Op::kRelu, graph::NoAttrs{});
  add("Clip", Op::kClip, graph::ClipAttrs{-0.5, 1.25});
  add("Clip to one side", Op::kClip, graph::ClipAttrs{-0.5, INFINITY});
  binary("Max", BinaryFn::kMax, true);
  binary("Min", BinaryFn::kMin, true);
  binary("Less", BinaryFn::kLess, false);
  unary("HardSigmoid", UnaryFn::kHardSigmoid, true);
  unary("HardSwish", UnaryFn::kHardSwish, true);
  unary("IsNaN", UnaryFn::kIsNan, false);
  add("ArgMax", Op::kArg, graph::ArgAttrs{1, true, false});
  add("ArgMin of the last", Op::kArg, graph::ArgAttrs{2, false, true});
  add("TopK", Op::kTopK, graph::TopKAttrs{2, 3, true});
  add("LeakyRelu", Op::kLeakyRelu, graph::LeakyAttrs{0.1}, 1, false);
  add("Softmax", Op::kSoftmax, graph::AxisAttrs{2}, 1, false);
  return all;
}

constexpr int64_t kRows = 3, kColumns = 4, kDepth = 5;

// Numbers of both signs with ties and infinities.
std::vector<double> numbers(int64_t count, int64_t step, bool infinities) {
  std::vector<double> x;
  for (int64_t i = 0; i < count; ++i) x.push_back(static_cast<double>(i * step % 17 - 8) / 4);
  if (infinities) x[3] = -INFINITY, x[count / 2] = INFINITY;
  return x;
}

ValueId make(Model& m, const Case& c, DType dtype, bool infinities) {
  const int64_t count = kRows * kColumns * kDepth;
  std::vector<ValueId> inputs;
  for (int64_t i = 0; i < c.operands; ++i)
    inputs.push_back(m.input(dtype, {kRows, kColumns, kDepth}, numbers(count, 7 + 4 * i, infinities)));
  return m.node(c.op, c.attrs, inputs);
}

// Nodes of expressions, as a kernel without common ones computes them, and blocks.
struct Work {
  int64_t expressions = 0, blocks = 0;
};
Work work_of(const ir::Kernel& kernel) {
  Work work;
  work.blocks = std::ssize(ir::collect_blocks(kernel.root));
  ir::visit(kernel.root, [&](ir::Stmt s) {
    ir::visit_roots(s, [&](ir::Expr root) { ir::visit(root, [&](ir::Expr) { return ++work.expressions > 0; }); });
    return true;
  });
  return work;
}

task::Task task_of(const Case& c, bool fast, DType dtype = DType::kF32) {
  Model m;
  m.g.add_output(make(m, c, dtype, false), "y");
  REQUIRE(graph::optimize(m.g, nullptr, {.fast_math = fast}));
  CHECK(m.g.fast_math == fast);
  auto task = task::make_task(m.g, graph::fuse(m.g).at(0));
  REQUIRE(task.has_value());
  return *task;
}

}  // namespace

TEST_CASE("with fast_math kernels compute fewer operations and have keys of their own") {
  std::set<std::string> keys;
  for (const Case& c : cases()) {
    for (DType dtype : {DType::kF32, DType::kF16}) {
      INFO(c.name << " " << graph::dtype_name(dtype));
      const task::Task exact = task_of(c, false, dtype), fast = task_of(c, true, dtype);
      INFO(ir::print(exact.kernel) << ir::print(fast.kernel));
      CHECK((exact.key != fast.key) == c.differs);
      keys.insert(exact.key);
      const Work more = work_of(exact.kernel), less = work_of(fast.kernel);
      CHECK((less.expressions < more.expressions) == c.differs);
      CHECK((less.blocks < more.blocks) == (c.op == Op::kReduceMax || c.op == Op::kReduceMin));
    }
  }
  for (const Case& c : cases())
    if (c.differs) CHECK(keys.count(task_of(c, true).key) == 0);
}

TEST_CASE("with fast_math kernels are right on numbers and infinities") {
  for (const Case& c : cases()) {
    for (bool infinities : {false, true}) {
      if (infinities && (c.op == Op::kSoftmax || c.op == Op::kLeakyRelu)) continue;
      if (infinities && c.op == Op::kUnary) continue;
      INFO(c.name << (infinities ? " with infinities" : ""));
      Model m;
      const ValueId y = make(m, c, DType::kF32, infinities);
      m.g.fast_math = true;
      if (auto* reduce = std::get_if<graph::ReduceAttrs>(&m.g.node(m.g.value(y).producer).attrs))
        reduce->keeps_nan = false;
      m.check(y, 1e-6);
    }
  }
}

TEST_CASE("with fast_math selects become extrema where they are some, and only there") {
  ir::KernelBuilder kernel;
  ir::Builder& b = kernel.b();
  const std::vector<int64_t> shape{4};
  const ir::Buffer* in = kernel.add_buffer("x", ir::Type::kF32, shape, ir::BufferRole::kInput);
  const ir::Buffer* out = kernel.add_buffer("y", ir::Type::kF32, shape, ir::BufferRole::kOutput);
  const ir::Expr at = b.integer(1);
  const ir::Expr x = b.load(*in, std::array{at}), z = b.load(*in, std::array{b.integer(2)});
  auto real = [&](double v) { return b.real(v, ir::Type::kF32); };
  auto rewritten = [&](ir::Expr e) {
    const ir::Stmt s = task::take_floats_as_numbers(b, b.store(out->id, std::array{at}, e));
    return ir::as<ir::Store>(s)->value;
  };
  CHECK(ir::equal(rewritten(b.select(b.lt(x, z), z, x)), b.max(x, z)));
  CHECK(ir::equal(rewritten(b.select(b.lt(x, z), x, z)), b.min(x, z)));
  CHECK(ir::equal(rewritten(b.select(b.lt(x, real(-1)), real(-1), b.min(x, real(2)))),
                  b.max(b.min(x, real(2)), real(-1))));
  // The lower limit is above the other one: below it the result is the lower one, above it the other.
  const ir::Expr crossed = b.select(b.lt(x, real(2)), real(2), b.min(x, real(-1)));
  CHECK(rewritten(crossed) == crossed);
  const ir::Expr other = b.select(b.lt(x, real(0)), b.mul(x, z), x);
  CHECK(rewritten(other) == other);
  // Tests for NaN decide nothing; the same test as a value stays.
  CHECK(ir::equal(rewritten(b.select(b.ne(x, x), z, x)), x));
  CHECK(ir::equal(rewritten(b.select(b.logical_or(b.lt(x, z), b.ne(z, z)), z, x)), b.max(x, z)));
  const ir::Expr value = b.cast(b.ne(x, x), ir::Type::kF32);
  CHECK(rewritten(value) == value);
  const ir::Expr differs = b.select(b.ne(x, z), x, real(0));
  CHECK(rewritten(differs) == differs);
}
