// 164 features of each statement that writes a buffer, after Ansor (appendix B) as TVM's MetaSchedule and TenSet
// extract them, and 10 of the task (TenSet). A later store to a buffer replaces the row of an earlier one.
//
//   for i in 64 @parallel { for j in 32 { C[i, j] = 0; for k in 16 { C[i, j] = C[i, j] + A[i, k]*B[k, j] } } }
//   gives one row: that of the update, with 2 * 32768 real operations.
//
// Two forms: kStatements sorts the buffers of a statement by (lines, bytes) downward and samples the curve of
// arithmetic intensity on linear values; kStatementsTenSet sorts upward by (reuse distance, unique bytes, unique lines,
// access type), samples logarithms, and has rows for stores of constants that nothing overwrites. Equal buffers keep
// the order of the kernel's list, where the originals compare names.
//
// The row of an instruction of the table counts the operations of its semantics, and one "other" call. Its operands are
// accesses of whole tiles.
#include <algorithm>

#include "features/workspace.h"

namespace tcc::features {

using namespace ir;

namespace {

constexpr size_t kBuffers = 5, kCurve = 10, kFeatures = 164;

// Columns of one kind of loops, and of one buffer.
#define TCC_LOOPS(kind)                                                                                              \
  kind ".loops", kind ".product", kind ".inner_extent", kind ".none", kind ".inner_spatial", kind ".middle_spatial", \
      kind ".outer_spatial", kind ".inner_reduce", kind ".middle_reduce", kind ".outer_reduce", kind ".mixed"
#define TCC_BUFFER(b)                                                                                                \
  b ".read", b ".write", b ".update", b ".bytes", b ".unique_bytes", b ".lines", b ".unique_lines", b ".reuse_loop", \
      b ".reuse_serial", b ".reuse_none", b ".reuse_iterations", b ".reuse_bytes", b ".reuse_count",                 \
      b ".bytes_per_reuse", b ".unique_bytes_per_reuse", b ".lines_per_reuse", b ".unique_lines_per_reuse",          \
      b ".stride"

constexpr std::string_view kColumns[] = {
    // Group 1: operations, loops by kind, threads of a GPU.
    "real.mad", "real.add", "real.mul", "real.div", "real.compare", "real.math", "real.other", "int.mad", "int.add",
    "int.mul", "int.div", "int.compare", "int.math", "int.other", "logic", "select", TCC_LOOPS("vectorized"),
    TCC_LOOPS("unrolled"), TCC_LOOPS("parallel"), "is_gpu", "grid.x", "grid.y", "grid.z", "thread.x", "thread.y",
    "thread.z", "vthread",
    // Group 2: buffers.
    TCC_BUFFER("b0"), TCC_BUFFER("b1"), TCC_BUFFER("b2"), TCC_BUFFER("b3"), TCC_BUFFER("b4"),
    // Group 3: real operations per byte touched, from the innermost loop outward.
    "intensity.0", "intensity.1", "intensity.2", "intensity.3", "intensity.4", "intensity.5", "intensity.6",
    "intensity.7", "intensity.8", "intensity.9",
    // Group 4: the allocation of the buffer.
    "alloc.bytes", "alloc.product", "alloc.outer", "alloc.inner",
    // Group 5: the nest.
    "outer_product", "outer_loops", "auto_unroll",
    // The task.
    "task.max", "task.min", "task.add", "task.conv", "task.winograd", "task.depthwise", "task.dense", "task.softmax",
    "task.other", "task.unused"};
static_assert(std::size(kColumns) == kFeatures + kTaskWords);

// Appends values one after the other, so that the code reads in the order of the columns.
struct Out {
  std::vector<float>& values;
  void raw(double v) { values.push_back(static_cast<float>(v)); }
  void log(double v) { values.push_back(slog(v)); }
};

void put_loops(Out& out, std::span<const NestLoop> loops, LoopKind kind) {
  double n = 0, product = 1, inner = 0;
  for (const NestLoop& l : loops)
    if (l.kind == kind) ++n, product *= static_cast<double>(l.extent), inner = static_cast<double>(l.extent);
  out.log(n), out.log(n > 0 ? product : 0), out.log(inner);
  // The originals declare eight positions and tell "none" from "mixed" only.
  for (int position = 0; position < 8; ++position) out.raw(position == (n > 0 ? 7 : 0) ? 1 : 0);
}

void put_operations(Out& out, const NestReader& nest, const NestStatement& s, bool gpu) {
  for (double n : s.ops.real) out.log(n * s.executions);
  for (double n : s.ops.integer) out.log(n * s.executions);
  out.log(s.ops.logic * s.executions), out.log(s.ops.select * s.executions);
  const std::span<const NestLoop> loops = nest.loops(s);
  for (LoopKind kind : {LoopKind::kVectorized, LoopKind::kUnrolled, LoopKind::kParallel}) put_loops(out, loops, kind);
  // A kernel names its threads by thread.x, y, z or by warpgroup, warp and lane; the latter are one line of threads.
  double axes[7] = {1, 1, 1, 1, 1, 1, 1};
  for (const NestLoop& l : loops) {
    if (l.kind != LoopKind::kBound) continue;
    const size_t at = is_grid(l.axis)             ? static_cast<size_t>(l.axis) - static_cast<size_t>(Axis::kGridX)
                      : l.axis == Axis::kVthread  ? 6
                      : l.axis == Axis::kThreadY  ? 4
                      : l.axis == Axis::kThreadZ  ? 5
                      : l.axis == Axis::kClusterX ? 0
                      : l.axis == Axis::kClusterY ? 1
                                                  : 3;
    axes[at] *= static_cast<double>(l.extent);
  }
  out.raw(gpu ? 1 : 0);
  for (double extent : axes) out.log(extent);
}

size_t access_type(const NestAccess& a) {
  return a.read && a.write ? 2 : a.write ? 1 : 0;
}

void put_access(Out& out, const NestAccess& a) {
  for (size_t t = 0; t < 3; ++t) out.raw(t == access_type(a) ? 1 : 0);
  out.log(a.bytes), out.log(a.unique_bytes), out.log(a.lines), out.log(a.unique_lines);
  for (ReuseType t : {ReuseType::kLoop, ReuseType::kSerial, ReuseType::kNone}) out.raw(a.reuse == t ? 1 : 0);
  out.log(a.reuse_iterations), out.log(a.reuse_bytes), out.log(a.reuse_count);
  const double reuse = a.reuse_count > 0 ? a.reuse_count : 0.5;
  for (double v : {a.bytes, a.unique_bytes, a.lines, a.unique_lines}) out.log(v / reuse);
  out.log(a.stride);
}

void put_accesses(Out& out, const NestReader& nest, const NestStatement& s, bool tenset, std::vector<int32_t>& order) {
  const std::span<const NestAccess> accesses = nest.accesses(s);
  order.clear();
  for (int32_t i = 0; i < s.accesses; ++i) order.push_back(i);
  auto before = [&](int32_t i, int32_t k) {
    const NestAccess &x = accesses[static_cast<size_t>(i)], &y = accesses[static_cast<size_t>(k)];
    if (tenset)
      return std::tuple(x.reuse_bytes, x.unique_bytes, x.unique_lines, access_type(x), x.buffer) <
             std::tuple(y.reuse_bytes, y.unique_bytes, y.unique_lines, access_type(y), y.buffer);
    return std::tuple(-x.lines, -x.bytes, x.buffer) < std::tuple(-y.lines, -y.bytes, y.buffer);
  };
  std::sort(order.begin(), order.end(), before);
  for (size_t i = 0; i < kBuffers && i < order.size(); ++i) put_access(out, accesses[static_cast<size_t>(order[i])]);
  out.values.resize(out.values.size() + (kBuffers - std::min(kBuffers, order.size())) * 18, 0.f);
}

// Real operations per byte at (i + 1) / 10 of all operations, between the loop levels by linear interpolation: of the
// values, or of the quotients of their logarithms (TenSet).
void put_curve(Out& out, const NestReader& nest, const NestStatement& s, bool tenset) {
  const std::span<const NestLoop> loops = nest.loops(s);
  const double once = s.ops.reals();
  if (once <= 0 || loops.empty()) {
    for (size_t i = 0; i < kCurve; ++i) out.raw(0);
    return;
  }
  // Logarithms of at least one byte: a single byte would be divided by zero.
  auto scale = [&](double x) { return tenset ? std::log2(std::max(x, 2.0)) : x; };
  auto point = [&](size_t level, double operations) {
    return std::pair(scale(operations), scale(operations) / scale(std::max(nest.touched_bytes(s, level), 1.0)));
  };
  const double total = scale(once * s.executions);
  size_t level = loops.size();
  double operations = once;
  std::pair<double, double> last = {0, 0}, here = {0, 0};
  bool first = true;
  auto step = [&] {
    --level;
    operations *= static_cast<double>(loops[level].extent);
    last = here;
    here = point(level, operations);
  };
  step();
  for (size_t i = 0; i < kCurve; ++i) {
    const double wanted = static_cast<double>(i + 1) / kCurve * total;
    while (level > 0 && here.first < wanted * (1 - 1e-9)) step(), first = false;
    const double share =
        first || here.first <= last.first ? 1 : std::clamp((wanted - last.first) / (here.first - last.first), 0.0, 1.0);
    const double value = last.second + share * (here.second - last.second);
    tenset ? out.raw(value) : out.log(value);
  }
}

void put_row(Workspace::Impl& w, const NestStatement& s, bool tenset, std::vector<float>& values) {
  const NestReader& nest = w.reader;
  Out out{values};
  put_operations(out, nest, s, w.gpu);
  put_accesses(out, nest, s, tenset, w.order);
  put_curve(out, nest, s, tenset);
  const double elements = nest.elements(s.stored), outside = nest.allocations(s.stored);
  out.log(elements * static_cast<double>(type_bytes(nest.buffer(s.stored).type)));
  out.log(elements * outside), out.log(outside), out.log(s.executions / outside);
  int64_t unroll = 0;
  for (const NestLoop& l : nest.loops(s)) unroll = std::max(unroll, l.unroll_max);
  out.log(s.executions), out.log(static_cast<double>(s.loops)), out.log(static_cast<double>(unroll));
  values.insert(values.end(), w.task_facts.words.begin(), w.task_facts.words.end());
}

void extract_rows(const Program& program, Workspace& workspace, std::vector<float>& out, bool tenset) {
  Workspace::Impl& w = workspace.impl();
  const NestReader& nest = w.nest(program);
  w.facts(program.task);
  const std::span<const NestStatement> statements = nest.statements();
  // A kernel without threads of a GPU is a CPU's.
  w.gpu = std::any_of(statements.begin(), statements.end(), [&](const NestStatement& s) {
    const std::span<const NestLoop> loops = nest.loops(s);
    return std::any_of(loops.begin(), loops.end(), [](const NestLoop& l) { return l.kind == LoopKind::kBound; });
  });
  w.rows.clear();
  for (size_t i = 0; i < statements.size(); ++i) {
    if (!tenset && statements[i].constant) continue;
    auto earlier = std::find_if(w.rows.begin(), w.rows.end(), [&](int32_t k) {
      return statements[static_cast<size_t>(k)].stored == statements[i].stored;
    });
    if (earlier == w.rows.end())
      w.rows.push_back(static_cast<int32_t>(i));
    else
      *earlier = static_cast<int32_t>(i);
  }
  out.reserve(out.size() + w.rows.size() * std::size(kColumns));
  for (int32_t i : w.rows) put_row(w, statements[static_cast<size_t>(i)], tenset, out);
}

void extract_tvm(const Program& program, Workspace& workspace, std::vector<float>& out) {
  extract_rows(program, workspace, out, false);
}
void extract_tenset(const Program& program, Workspace& workspace, std::vector<float>& out) {
  extract_rows(program, workspace, out, true);
}

}  // namespace

constinit const Table kStatements = {
    "statements", "164 features of each buffer that is written, 10 of the task", 1, kColumns, 0, false, extract_tvm};
constinit const Table kStatementsTenSet = {
    "statements-tenset", "the same in TenSet's order and scales", 1, kColumns, 0, false, extract_tenset};

}  // namespace tcc::features
