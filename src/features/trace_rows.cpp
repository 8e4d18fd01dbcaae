// A schedule as a matrix, one row a step, after TLP (section 4): the kind of the step, then its parameters. Queries and
// samples have no rows of their own; their results are parameters of the steps that use them. So the matrix of a
// program needs no lowering.
//
//                                    ->  [one-hot task | operations, bytes, kind, ..., extents of the anchor]
//   v3, v4 = sample_perfect_tile(v1) max_innermost=16 <8, 4>
//   v5, v6 = split(v1, v3, v4)       ->  [one-hot split | 32 8 4, then which loop]
//   parallel(v5)                     ->  [one-hot parallel | 8, then which loop]
//
// kTraceCpu and kTraceGpu: a first row that tells the task, because traces of tasks of other shapes may be equal. A
// column for each primitive of the table of schedule/ops.h, then 16 parameters as sign(x) * log2(1 + |x|): numbers,
// extents of loops where the plain kernel and the trace tell them, attributes; at last the position of each loop and
// block. A program with more steps than rows loses steps without a sampled number first, the last ones
// before others, because they are equal for all programs of a sketch.
//
// kTraceTlp*: TLP's sizes and its 11 kinds, raw integers, tail steps and tail parameters cut off. Kinds of TLP that our
// traces never use take the steps that TLP does not have. kTraceTcl*: the same with the machine as a row behind (TCL,
// section on hardware features; the paper names neither place nor scale).
#include <algorithm>
#include <array>

#include "features/workspace.h"
#include "tcc/ir/instr.h"
#include "tcc/support/hash.h"

namespace tcc::features {

using schedule::Flag;
using schedule::Input;
using schedule::Instruction;
using schedule::Op;

namespace {

constexpr int64_t kCpuRows = 40, kGpuRows = 56;
constexpr size_t kParameters = kTaskFacts, kTlpKinds = 11;
constexpr size_t kTlpCpuColumns = 22, kTlpGpuColumns = 20;

struct NamedOp {
  std::string_view name;
  Flag flag;
};
constexpr NamedOp kOps[] = {
#define TCC_X(kind, name, least, most, flag, ...) {#name, Flag::flag},
    TCC_SCHEDULE_OPS(TCC_X)
#undef TCC_X
};
constexpr size_t kKinds = 1 + static_cast<size_t>(std::count_if(std::begin(kOps), std::end(kOps),
                                                                [](auto o) { return o.flag == Flag::kNone; }));
// Column of a primitive; -1: it has no row.
constexpr auto kSlots = [] {
  std::array<int, std::size(kOps)> slots = {};
  int next = 1;  // behind the task
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = kOps[i].flag == Flag::kNone ? next++ : -1;
  return slots;
}();
constexpr std::string_view kParameterNames[] = {"p0", "p1", "p2",  "p3",  "p4",  "p5",  "p6",  "p7",
                                                "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15"};
constexpr auto kColumns = [] {
  std::array<std::string_view, kKinds + kParameters> columns = {"task"};
  size_t next = 1;
  for (NamedOp op : kOps)
    if (op.flag == Flag::kNone) columns[next++] = op.name;
  for (std::string_view name : kParameterNames) columns[next++] = name;
  return columns;
}();

// TLP's kinds of steps. Layout: what changes shapes and orders of buffers, which Ansor's traces cannot.
enum class TlpKind : uint8_t {
  kInline,
  kReorder,
  kAnnotate,
  kRfactor,
  kCacheWrite,
  kCacheRead,
  kSplit,
  kComputeAt,
  kFuse,
  kPragma,
  kLayout
};
// Columns by TlpKind: TLP's order for CPUs (CI RE AN RF CHW SP CR CA FU FSP PR) and GPUs (AN CHR CHW CI CA FFSP SP FU
// RE PR FSP).
constexpr std::array<size_t, kTlpKinds> kTlpCpuSlots = {0, 1, 2, 3, 4, 9, 5, 7, 8, 10, 6};
constexpr std::array<size_t, kTlpKinds> kTlpGpuSlots = {3, 8, 0, 10, 2, 1, 6, 4, 7, 9, 5};
constexpr std::string_view kTlpCpuNames[] = {
    "inline", "reorder", "annotate", "rfactor", "cache_write", "split", "compute_root", "compute_at",
    "fuse",   "follow",  "pragma",   "p0",      "p1",          "p2",    "p3",           "p4",
    "p5",     "p6",      "p7",       "p8",      "p9",          "p10"};
constexpr std::string_view kTlpGpuNames[] = {"annotate",     "cache_read", "cache_write", "inline",  "compute_at",
                                             "follow_fused", "split",      "fuse",        "reorder", "pragma",
                                             "follow",       "p0",         "p1",          "p2",      "p3",
                                             "p4",           "p5",         "p6",          "p7",      "p8"};
static_assert(std::size(kTlpCpuNames) == kTlpCpuColumns && std::size(kTlpGpuNames) == kTlpGpuColumns);

TlpKind tlp_kind(const Instruction& in) {
  switch (in.op) {
    case Op::kComputeInline:
    case Op::kReverseComputeInline:
      return TlpKind::kInline;
    case Op::kReorder:
      return TlpKind::kReorder;
    case Op::kSplit:
    case Op::kAddUnitLoop:
      return TlpKind::kSplit;
    case Op::kFuse:
    case Op::kMerge:
      return TlpKind::kFuse;
    case Op::kComputeAt:
    case Op::kReverseComputeAt:
      return TlpKind::kComputeAt;
    case Op::kCacheRead:
    case Op::kCacheReads:
    case Op::kReadAt:
      return TlpKind::kCacheRead;
    case Op::kCacheWrite:
    case Op::kWriteAt:
      return TlpKind::kCacheWrite;
    case Op::kRfactor:
    case Op::kDecomposeReduction:
    case Op::kStreamReduction:
      return TlpKind::kRfactor;
    case Op::kTransformLayout:
    case Op::kTransformBlockLayout:
    case Op::kPadEinsum:
    case Op::kReindex:
    case Op::kDecomposePadding:
    case Op::kBlockize:
      return TlpKind::kLayout;
    case Op::kAnnotate:
      return schedule::integer(in, "key") == static_cast<int64_t>(ir::AnnotationKey::kUnrollMax) ? TlpKind::kPragma
                                                                                                 : TlpKind::kAnnotate;
    default:
      return TlpKind::kAnnotate;
  }
}

// Follows the variables of a trace as far as they can be known without its kernel.
class Resolver {
 public:
  Resolver(const Program& program, Workspace::Impl& w)
      : program_(program), w_(w), blocks_(w.facts(program.task).blocks) {
    w_.values.assign(static_cast<size_t>(program.trace.variables), {});
    w_.changed.assign(blocks_.size(), false);
    w_.steps.clear();
    for (const Instruction& in : program.trace.instructions) {
      define(in);
      if (kSlots[static_cast<size_t>(in.op)] < 0) continue;
      change(in);
      const bool decided = std::any_of(in.inputs.begin(), in.inputs.end(), [&](const Input& i) {
        if (i.kind != Input::Kind::kVariable) return false;
        const TraceValue& v = value(i);
        return v.sampled;
      });
      w_.steps.push_back({&in, decided});
    }
  }

 private:
  TraceValue& value(const Input& in) { return w_.values[static_cast<size_t>(in.value)]; }
  TraceValue& output(const Instruction& in, int i) { return w_.values[static_cast<size_t>(in.first_output + i)]; }

  void define(const Instruction& in) {
    switch (in.op) {
      case Op::kSamplePerfectTile:
      case Op::kSampleTile:
        return tile(in);
      case Op::kSampleCategorical: {
        const auto choice = static_cast<size_t>(program_.decisions[static_cast<size_t>(in.decision)]);
        const std::span<const int64_t> candidates = schedule::attribute(in, "candidates");
        output(in, 0) = {.sampled = true, .known = true, .number = choice < candidates.size() ? candidates[choice] : 0};
        return;
      }
      case Op::kSampleComputeLocation:
        output(in, 0) = {.kind = TraceValue::Kind::kLoop,
                         .sampled = true,
                         .stage = value(in.inputs[0]).stage,
                         .position = program_.decisions[static_cast<size_t>(in.decision)]};
        return;
      case Op::kGetBlock:
        output(in, 0) = {.kind = TraceValue::Kind::kBlock, .stage = ++stages_};
        for (size_t i = 0; i < blocks_.size(); ++i)
          if (blocks_[i].name == in.text) output(in, 0).block = static_cast<int32_t>(i);
        return;
      case Op::kGetLoops:
        return loops(in);
      case Op::kSplit:
        return split(in);
      case Op::kFuse:
        return fuse(in);
      case Op::kAddUnitLoop:
        if (in.outputs > 0) output(in, 0) = {.kind = TraceValue::Kind::kLoop, .known = true, .number = 1};
        return;
      default:  // queries and steps that give blocks
        for (int i = 0; i < in.outputs; ++i) output(in, i) = {.kind = TraceValue::Kind::kBlock, .stage = ++stages_};
    }
  }

  // Loops of the plain kernel have its extents, as long as no step has changed the loops around their block.
  void loops(const Instruction& in) {
    const TraceValue block = value(in.inputs[0]);
    const bool plain = block.block >= 0 && !w_.changed[static_cast<size_t>(block.block)] &&
                       blocks_[static_cast<size_t>(block.block)].extents.size() == static_cast<size_t>(in.outputs);
    for (int i = 0; i < in.outputs; ++i) {
      TraceValue& out = output(in, i);
      out = {.kind = TraceValue::Kind::kLoop, .stage = block.stage, .position = i, .block = block.block};
      if (!plain) continue;
      out.known = true;
      out.number = blocks_[static_cast<size_t>(block.block)].extents[static_cast<size_t>(i)];
    }
  }

  // The loops around the blocks of these values are others from here on.
  void change(const Instruction& in) {
    for (const Input& i : in.inputs)
      if (i.kind == Input::Kind::kVariable && value(i).block >= 0)
        w_.changed[static_cast<size_t>(value(i).block)] = true;
  }

  void tile(const Instruction& in) {
    int64_t product = 1;
    for (int i = 0; i < in.outputs; ++i) {
      const int64_t factor = program_.decisions[static_cast<size_t>(in.decision + i)];
      output(in, i) = {.sampled = true, .known = true, .number = factor};
      product *= factor;
    }
    if (in.inputs[0].kind != Input::Kind::kVariable) return;
    TraceValue& loop = value(in.inputs[0]);
    loop.known = true;
    loop.number = in.op == Op::kSampleTile ? schedule::integer(in, "extent") : product;
  }

  void split(const Instruction& in) {
    const TraceValue parent = value(in.inputs[0]);
    int64_t product = 1;
    bool known = true;
    int inferred = -1;
    for (int i = 0; i < in.outputs; ++i) {
      const Input& factor = in.inputs[static_cast<size_t>(i) + 1];
      TraceValue& out = output(in, i);
      out = {.kind = TraceValue::Kind::kLoop, .stage = parent.stage, .position = i, .block = parent.block};
      if (factor.kind == Input::Kind::kInferred) {
        inferred = i;
        continue;
      }
      const TraceValue* number = factor.kind == Input::Kind::kVariable ? &value(factor) : nullptr;
      out.known = number == nullptr || number->known;
      out.number = number == nullptr ? factor.value : number->number;
      known &= out.known;
      product *= std::max<int64_t>(out.number, 1);
    }
    if (inferred >= 0 && known && parent.known) {
      TraceValue& out = output(in, inferred);
      out.known = true;
      out.number = (parent.number + product - 1) / product;
    }
  }

  void fuse(const Instruction& in) {
    TraceValue out = {.kind = TraceValue::Kind::kLoop, .known = true, .number = 1};
    out.stage = value(in.inputs[0]).stage, out.position = value(in.inputs[0]).position;
    out.block = value(in.inputs[0]).block;
    for (const Input& i : in.inputs) {
      const TraceValue& loop = value(i);
      out.known &= loop.known;
      out.number *= std::max<int64_t>(loop.number, 1);
    }
    if (!out.known) out.number = 0;
    if (in.outputs > 0) output(in, 0) = out;
  }

  const Program& program_;
  Workspace::Impl& w_;
  const std::vector<TaskFacts::Block>& blocks_;
  int64_t stages_ = 0;
};

// What the step's inputs and attributes are. Blocks and positions of loops go to `tokens`, all else to `numbers`, or
// both to `numbers` in TLP's order (`in_order`), where loops are named by position alone.
void collect(const TraceStep& step, Workspace::Impl& w, bool in_order) {
  const Instruction& in = *step.instruction;
  w.numbers.clear(), w.tokens.clear();
  std::vector<int64_t>& tokens = in_order ? w.numbers : w.tokens;
  bool first_loop = true;
  for (size_t i = 0; i < in.inputs.size(); ++i) {
    const Input& input = in.inputs[i];
    if (input.kind == Input::Kind::kLiteral) {
      w.numbers.push_back(input.value);
      continue;
    }
    if (input.kind == Input::Kind::kInferred) {
      const TraceValue& out = w.values[static_cast<size_t>(in.first_output) + i - 1];
      w.numbers.push_back(out.known ? out.number : 0);
      continue;
    }
    const TraceValue& v = w.values[static_cast<size_t>(input.value)];
    switch (v.kind) {
      case TraceValue::Kind::kBlock:
        tokens.push_back(v.stage);
        break;
      case TraceValue::Kind::kLoop:
        if (!in_order) w.numbers.push_back(v.known ? v.number : 0);
        if (first_loop) tokens.push_back(v.stage);
        tokens.push_back(v.position + 1);
        first_loop = false;
        break;
      case TraceValue::Kind::kNumber:
        w.numbers.push_back(v.number);
        break;
    }
  }
  for (int64_t a : in.attrs) w.numbers.push_back(a);
  if (!in.text.empty()) {
    const int32_t row = ir::find_instruction(in.text);
    w.numbers.push_back(row >= 0 ? row + 1 : static_cast<int64_t>(hash_bytes(in.text) % 1024));
  }
}

// Drops steps until `rows` are left.
void crop(std::vector<TraceStep>& steps, size_t rows) {
  for (size_t i = steps.size(); i-- > 0 && steps.size() > rows;)
    if (!steps[i].decided) steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
  if (steps.size() > rows) steps.resize(rows);
}

void extract_steps(const Program& program, Workspace& workspace, size_t rows, std::vector<float>& out) {
  Workspace::Impl& w = workspace.impl();
  Resolver(program, w);
  crop(w.steps, rows - 1);
  const size_t start = out.size();
  out.resize(start + rows * kColumns.size(), 0.f);
  out[start] = 1;
  for (size_t i = 0; i < kTaskFacts; ++i) out[start + kKinds + i] = slog(w.facts(program.task).facts[i]);
  for (size_t r = 0; r < w.steps.size(); ++r) {
    float* row = out.data() + start + (r + 1) * kColumns.size();
    row[kSlots[static_cast<size_t>(w.steps[r].instruction->op)]] = 1;
    collect(w.steps[r], w, false);
    size_t next = kKinds;
    for (const std::vector<int64_t>* list : {&w.numbers, &w.tokens})
      for (size_t i = 0; i < list->size() && next < kColumns.size(); ++i)
        row[next++] = slog(static_cast<double>((*list)[i]));
  }
}

void extract_tlp(const Program& program, Workspace& workspace, size_t rows, size_t columns,
                 const std::array<size_t, kTlpKinds>& slots, std::vector<float>& out) {
  Workspace::Impl& w = workspace.impl();
  Resolver(program, w);
  const size_t start = out.size();
  out.resize(start + rows * columns, 0.f);
  for (size_t r = 0; r < w.steps.size() && r < rows; ++r) {
    float* row = out.data() + start + r * columns;
    row[slots[static_cast<size_t>(tlp_kind(*w.steps[r].instruction))]] = 1;
    collect(w.steps[r], w, true);
    for (size_t i = 0; i < w.numbers.size() && kTlpKinds + i < columns; ++i)
      row[kTlpKinds + i] = static_cast<float>(w.numbers[i]);
  }
}

void extract_cpu(const Program& program, Workspace& workspace, std::vector<float>& out) {
  extract_steps(program, workspace, kCpuRows, out);
}
void extract_gpu(const Program& program, Workspace& workspace, std::vector<float>& out) {
  extract_steps(program, workspace, kGpuRows, out);
}
void extract_tlp_cpu(const Program& program, Workspace& workspace, std::vector<float>& out) {
  extract_tlp(program, workspace, 25, kTlpCpuColumns, kTlpCpuSlots, out);
}
void extract_tlp_gpu(const Program& program, Workspace& workspace, std::vector<float>& out) {
  extract_tlp(program, workspace, 40, kTlpGpuColumns, kTlpGpuSlots, out);
}
// 11 facts of a CPU in 22 columns, 12 of a GPU in 20.
void extract_tcl_cpu(const Program& program, Workspace& workspace, std::vector<float>& out) {
  extract_tlp_cpu(program, workspace, out);
  const auto machine = hardware_row(program.target, program.threads);
  out.insert(out.end(), machine.begin(), machine.begin() + kCpuFacts);
  out.resize(out.size() + kTlpCpuColumns - kCpuFacts, 0.f);
}
void extract_tcl_gpu(const Program& program, Workspace& workspace, std::vector<float>& out) {
  extract_tlp_gpu(program, workspace, out);
  const auto machine = hardware_row(program.target, program.threads);
  out.insert(out.end(), machine.begin() + kCpuFacts, machine.end());
  out.resize(out.size() + kTlpGpuColumns - kGpuFacts, 0.f);
}

}  // namespace

constinit const Table kTraceCpu = {
    "trace-cpu", "steps of the schedule with their numbers, 40 rows", 1, kColumns, kCpuRows, true, extract_cpu};
constinit const Table kTraceGpu = {
    "trace-gpu", "steps of the schedule with their numbers, 56 rows", 1, kColumns, kGpuRows, true, extract_gpu};
constinit const Table kTraceTlpCpu = {
    "trace-tlp-cpu", "steps as TLP has them for CPUs, 25 x 22", 1, kTlpCpuNames, 25, true, extract_tlp_cpu};
constinit const Table kTraceTlpGpu = {
    "trace-tlp-gpu", "steps as TLP has them for GPUs, 40 x 20", 1, kTlpGpuNames, 40, true, extract_tlp_gpu};
constinit const Table kTraceTclCpu = {"trace-tcl-cpu", "the same and the machine, 26 x 22", 1, kTlpCpuNames, 26, true,
                                      extract_tcl_cpu};
constinit const Table kTraceTclGpu = {"trace-tcl-gpu", "the same and the machine, 41 x 20", 1, kTlpGpuNames, 41, true,
                                      extract_tcl_gpu};

}  // namespace tcc::features
