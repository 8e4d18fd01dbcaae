// Each instruction of the table in a kernel of its own: operands are filled from parameters, the instruction is
// executed by a warp (or what it needs), operands that it writes go to outputs. The result must equal that of the
// interpreter for the same kernel, bit for bit: the data are small integers, whose sums are exact.
#include <algorithm>
#include <cstring>
#include <optional>

#include "codegen/cuda/prelude.h"
#include "gpu/hopper_trials.h"
#include "gpu/run.h"
#include "lower/gpu/matrix_loads.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/build.h"
#include "tcc/ir/instr.h"
#include "tcc/ir/text.h"
#include "tcc/runtime/cuda_device.h"
#include "tcc/support/check.h"
#include "tcc/support/parallel.h"

namespace tcc::gpu_check {

using namespace ir;

namespace {

constexpr int64_t kWarp = 32;

bool has_feature(const target::CudaFeatures& features, std::string_view name) {
  if (name.empty()) return true;
#define TCC_FEATURE(field) \
  if (name == #field) return features.field;
  TCC_CUDA_FEATURES(TCC_FEATURE)
#undef TCC_FEATURE
  return false;
}

class Trial {
 public:
  explicit Trial(int64_t threads) : threads_(threads), t_(kb_.new_id("t")) {}

  // One call of a row that computes, with its completion behind it. Nothing: it needs more than a block has.
  std::optional<Kernel> compute(int32_t number, const std::vector<int64_t>& args) {
    const Instruction& row = instruction(number);
    std::vector<Operand> operands;
    std::vector<Stmt> before, after;
    for (const OperandSpec& o : row.operands)
      if (!place(o, operands, before, after)) return std::nullopt;
    std::vector<Stmt> body = before;
    body.push_back(barrier());
    body.push_back(call(number, operands, args));
    switch (row.completion) {
      case Completion::kImmediate:
        break;
      case Completion::kCopyGroup:
        body.push_back(call(find_instruction("cp.async.commit"), {}, {}));
        body.push_back(call(find_instruction("cp.async.wait"), {}, {0}));
        break;
      case Completion::kWgmmaGroup:
      case Completion::kMbarrierBytes:
        return std::nullopt;
    }
    body.push_back(barrier());
    body.insert(body.end(), after.begin(), after.end());
    return finish(body);
  }

  // Every thread gives a value and receives another's, which the row makes visible.
  Kernel exchange(int32_t number, Behaviour behaviour) {
    const Buffer* in = param("in", Type::kF32, {threads_}, BufferRole::kInput);
    const Buffer* out = param("out", Type::kF32, {threads_}, BufferRole::kOutput);
    const Buffer* shared = temp("shared", Type::kF32, {threads_}, Scope::kShared);
    std::vector<Stmt> body;
    std::vector<Operand> bar;
    if (behaviour == Behaviour::kMbarrierWait) {
      const Buffer* flag = temp("flag", Type::kBarrier, {1}, Scope::kShared);
      bar = {{flag->id, keep({num(0)})}};
      const Stmt init = call(find_instruction("mbarrier.init"), bar, {threads_});
      body.push_back(b().if_then(b().eq(t(), num(0)), init));
      body.push_back(barrier());
    }
    body.push_back(store(shared, {t()}, load(in, {t()})));
    if (behaviour == Behaviour::kMbarrierWait) {
      body.push_back(call(find_instruction("mbarrier.arrive"), bar, {}));
      body.push_back(call(number, bar, {0}));
    } else if (behaviour == Behaviour::kBarSync) {
      body.push_back(call(number, {}, {1, threads_}));
    } else {
      body.push_back(call(number, {}, {0xffffffff}));
    }
    body.push_back(store(out, {t()}, load(shared, {b().sub(num(threads_ - 1), t())})));
    return finish(body);
  }

  Kernel shuffle(int32_t number, int64_t mode, int64_t lane) {
    const Type type = instruction(number).operands[0].type;
    const Buffer* in = param("in", type, {threads_}, BufferRole::kInput);
    const Buffer* out = param("out", type, {threads_}, BufferRole::kOutput);
    const Buffer* from = temp("from", type, {1}, Scope::kLocal);
    const Buffer* to = temp("to", type, {1}, Scope::kLocal);
    const std::vector<Operand> operands = {{to->id, keep({num(0)})}, {from->id, keep({num(0)})}};
    return finish({store(from, {num(0)}, load(in, {t()})), call(number, operands, {mode, lane, kWarp}),
                   store(out, {t()}, load(to, {num(0)}))});
  }

  // All threads add to one element, which the first has set.
  Kernel atomic(int32_t number) {
    const Type type = instruction(number).operands[0].type;
    const Buffer* in = param("in", type, {threads_}, BufferRole::kInput);
    const Buffer* out = param("out", type, {1}, BufferRole::kOutput);
    const Buffer* from = temp("from", type, {1}, Scope::kLocal);
    const std::vector<Operand> operands = {{out->id, keep({num(0)})}, {from->id, keep({num(0)})}};
    return finish({store(from, {num(0)}, load(in, {t()})),
                   b().if_then(b().eq(t(), num(0)), store(out, {num(0)}, b().constant(3, type))), barrier(),
                   call(number, operands, {})});
  }

  // The fence changes nothing that one thread sees.
  Kernel fence(int32_t number) {
    const Buffer* in = param("in", Type::kF32, {threads_}, BufferRole::kInput);
    const Buffer* out = param("out", Type::kF32, {threads_}, BufferRole::kOutput);
    return finish({store(out, {t()}, load(in, {t()})), call(number, {}, {})});
  }

 private:
  Builder& b() { return kb_.b(); }
  Expr num(int64_t v) { return b().integer(v); }
  Expr t() { return b().var(t_); }
  const Buffer* param(const std::string& name, Type type, std::vector<int64_t> shape, BufferRole role) {
    return kb_.add_buffer(name.c_str(), type, shape, role);
  }
  const Buffer* temp(const std::string& name, Type type, std::vector<int64_t> shape, Scope scope) {
    const Buffer* buffer = kb_.add_buffer(name.c_str(), type, shape, BufferRole::kTemp, scope);
    temps_.push_back(buffer->id);
    return buffer;
  }
  std::span<const Expr> keep(std::vector<Expr> exprs) { return b().arena().copy(exprs); }
  Expr load(const Buffer* from, std::vector<Expr> at) { return b().load(*from, at); }
  Stmt store(const Buffer* to, std::vector<Expr> at, Expr value) { return b().store(to->id, at, value); }
  Stmt call(int32_t number, std::vector<Operand> operands, std::vector<int64_t> args) {
    std::vector<Expr> values;
    for (int64_t v : args) values.push_back(num(v));
    return b().instr(number, operands, values);
  }
  Stmt barrier() { return call(find_instruction("bar.sync"), {}, {0, threads_}); }

  // The operand's buffer, and the statements that fill it and write it out.
  bool place(const OperandSpec& o, std::vector<Operand>& operands, std::vector<Stmt>& before,
             std::vector<Stmt>& after) {
    if (o.type == Type::kBarrier || o.type == Type::kTensorMap) return false;
    const std::string name(o.name);
    int64_t elements = cuda_registers(o);
    if (o.scope == Scope::kShared || o.scope == Scope::kGlobal) {
      // A part for each thread: what it copies, or the row of a matrix whose address it passes.
      if (o.layout.empty() && o.rank != 1) return false;
      elements = o.tile[o.rank - 1];
      if (elements <= 0) return false;
    } else if (o.scope != Scope::kLocal) {
      return false;
    }
    const bool read = o.access != Access::kWrite, written = o.access != Access::kRead;
    if (o.scope == Scope::kGlobal) {
      if (written) return false;
      const Buffer* in = param(name, o.type, {threads_, elements}, BufferRole::kInput);
      operands.push_back({in->id, keep({t(), num(0)})});
      return true;
    }
    const bool local = o.scope == Scope::kLocal;
    const Buffer* here = local ? temp(name + "_", o.type, {elements}, Scope::kLocal)
                               : temp(name + "_", o.type, {threads_, elements}, Scope::kShared);
    auto at = [&](int64_t i) { return local ? std::vector<Expr>{num(i)} : std::vector<Expr>{t(), num(i)}; };
    if (read) {
      const Buffer* in = param(name, o.type, {threads_, elements}, BufferRole::kInput);
      for (int64_t i = 0; i < elements; ++i) before.push_back(store(here, at(i), load(in, {t(), num(i)})));
    }
    if (written) {
      const Buffer* out = param(name + "_out", o.type, {threads_, elements}, BufferRole::kOutput);
      for (int64_t i = 0; i < elements; ++i) after.push_back(store(out, {t(), num(i)}, load(here, at(i))));
    }
    operands.push_back({here->id, local ? keep({num(0)}) : keep({t(), num(0)})});
    return true;
  }
  static int64_t cuda_registers(const OperandSpec& o) {
    return o.scope == Scope::kLocal ? codegen::cuda::registers_per_lane(o) : 0;
  }

  Kernel finish(const std::vector<Stmt>& body) {
    Stmt root = b().loop(t_, num(threads_), b().seq(body), LoopKind::kBound, Axis::kThreadX);
    Kernel k = kb_.finish(b().alloc(temps_, root));
    std::vector<const Buffer*> buffers;
    for (const Buffer* buffer : k.buffers) {
      Buffer copy = *buffer;
      copy.alignment = std::max<int32_t>(copy.alignment, 128);
      buffers.push_back(b().buffer(copy));
    }
    k.buffers = b().arena().copy(buffers);
    k.stage = Stage::kLowered;
    return k;
  }

  KernelBuilder kb_;
  const int64_t threads_;
  const Id t_;
  std::vector<Id> temps_;
};

bool is_flag(const Instruction& row) {
  return !row.operands.empty() && row.operands[0].type == Type::kBarrier && row.operands[0].scope == Scope::kGlobal;
}

// One block waits for what the other one publishes.
Kernel flag_trial() {
  auto kernel = parse(R"(kernel lowered {
  input X: f32[64]
  output Y: f32[64]
  temp W: f32[32] workspace
  temp up: barrier[1] workspace align 8
  for b in 1 bound(grid.x) {
    for t in 1 bound(thread.x) {
      instr flag.init(up[0]; 1)
    }
  }
  for b in 2 bound(grid.x) {
    for t in 32 bound(thread.x) {
      if b == 0 {
        if t == 0 {
          instr flag.wait(up[0]; 0)
        }
        instr bar.sync(; 0, 32)
        Y[t] = X[t] + W[t]
      } else {
        W[t] = X[32 + t]
        Y[32 + t] = X[32 + t]
        instr bar.sync(; 0, 32)
        if t == 0 {
          instr fence.device()
          instr flag.arrive(up[0])
        }
      }
    }
  }
}
)");
  TCC_CHECK(kernel.has_value(), "{}", kernel ? "" : kernel.error().message);
  return std::move(*kernel);
}

bool has_opaque(const Instruction& row) {
  return std::any_of(row.operands.begin(), row.operands.end(), [](const OperandSpec& o) { return o.opaque; });
}

// A product of fragments that nobody can look into: both operands from shared memory, the sums on top of a constant and
// back. Tiles are parts of matrices that are wider than they are.
Kernel opaque_trial(const Instruction& row) {
  const OperandSpec &d = row.operands[0], &a = row.operands[1], &b = row.operands[2];
  const auto name = [](const OperandSpec& o, bool load) { return instruction(lower::find_tile_move(o, load)).name; };
  const auto registers = [](const OperandSpec& o) { return codegen::cuda::registers_per_lane(o); };
  auto kernel = parse(fmt::format(R"(kernel lowered {{
  input A: {0}[16, 16]
  input B: {0}[16, 16]
  output D: {1}[16, 16]
  temp As: {0}[16, 48] shared align 128
  temp Bs: {0}[16, 32] shared align 128
  temp Ds: {1}[16, 24] shared align 128
  temp a: {0}[{2}] local
  temp b: {0}[{3}] local
  temp d: {1}[{4}] local
  for t in 32 bound(thread.x) {{
    alloc As, Bs, Ds, a, b, d {{
      for i in 8 {{
        As[i*2 + t // 16, 16 + t % 16] = A[i*2 + t // 16, t % 16]
        Bs[i*2 + t // 16, 16 + t % 16] = B[i*2 + t // 16, t % 16]
      }}
      for e in {4} unrolled {{
        d[e] = 3.0
      }}
      instr bar.sync(; 0, 32)
      instr {5}(a[0], As[0, 16])
      instr {6}(b[0], Bs[0, 16])
      instr {7}(d[0], a[0], b[0])
      instr {8}(Ds[0, 8], d[0])
      instr bar.sync(; 0, 32)
      for i in 8 {{
        D[i*2 + t // 16, t % 16] = Ds[i*2 + t // 16, 8 + t % 16]
      }}
    }}
  }}
}}
)",
                                  type_name(a.type), type_name(d.type), registers(a), registers(b), registers(d),
                                  name(a, true), name(b, true), row.name, name(d, false)));
  TCC_CHECK(kernel.has_value(), "{}", kernel ? "" : kernel.error().message);
  return std::move(*kernel);
}

// The kernels that try a row; none: it is tried with another one, or not here.
std::vector<Kernel> trials_of(int32_t number) {
  const Instruction& row = instruction(number);
  std::vector<Kernel> kernels = hopper_trials(row);
  if (!kernels.empty()) return kernels;
  if (has_opaque(row)) {
    if (row.operands.size() == 3) kernels.push_back(opaque_trial(row));
    return kernels;
  }
  const int64_t threads = row.participants == Participants::kWarpgroup ? 4 * kWarp : kWarp;
  auto computes = [&](const std::vector<int64_t>& args) {
    if (auto kernel = Trial(threads).compute(number, args)) kernels.push_back(std::move(*kernel));
  };
  switch (row.behaviour) {
    case Behaviour::kCompute:
      if (row.num_args == 0) computes({});
      if (row.num_args == 1 && row.completion == Completion::kCopyGroup) {
        const int64_t element = type_bytes(row.operands[0].type);
        computes({row.bytes});
        computes({row.bytes / 2 / element * element});  // the rest is filled with zeros
      }
      break;
    case Behaviour::kShuffle:
      for (const auto& [mode, lane] : {std::pair{0, 5}, {1, 2}, {2, 4}, {3, 16}})
        kernels.push_back(Trial(kWarp).shuffle(number, mode, lane));
      break;
    case Behaviour::kBarSync:
    case Behaviour::kWarpSync:
      kernels.push_back(Trial(kWarp).exchange(number, row.behaviour));
      break;
    case Behaviour::kMbarrierWait:
      if (is_flag(row))
        kernels.push_back(flag_trial());
      else
        kernels.push_back(Trial(kWarp).exchange(number, row.behaviour));
      break;
    case Behaviour::kAtomicAdd:
      kernels.push_back(Trial(kWarp).atomic(number));
      break;
    case Behaviour::kThreadFence:
      kernels.push_back(Trial(kWarp).fence(number));
      break;
    case Behaviour::kCopyCommit:
    case Behaviour::kCopyWait:
    case Behaviour::kCopyWaitRead:
    case Behaviour::kMbarrierInit:
    case Behaviour::kMbarrierArrive:
    case Behaviour::kMbarrierExpectTx:
    case Behaviour::kFenceProxyAsync:
    case Behaviour::kFenceMbarrierInit:
    case Behaviour::kWgmmaFence:
    case Behaviour::kWgmmaCommit:
    case Behaviour::kWgmmaWait:
    case Behaviour::kClusterSync:
    case Behaviour::kSetMaxRegisters:
    case Behaviour::kTileConfig:
      break;
  }
  return kernels;
}

// Rows that take part in the trial of another one.
bool is_part_of_another(const Instruction& row) {
  if (is_part_of_hopper_trial(row)) return true;
  if (is_flag(row)) return row.behaviour != Behaviour::kMbarrierWait;
  if (has_opaque(row)) return row.operands.size() == 2;
  if (row.behaviour == Behaviour::kMbarrierInit || row.behaviour == Behaviour::kMbarrierArrive)
    return row.feature == "mbarrier";
  return row.behaviour == Behaviour::kCopyCommit || row.behaviour == Behaviour::kCopyWait;
}

std::vector<interp::TensorData> make_params(const Kernel& kernel, uint64_t seed) {
  std::vector<interp::TensorData> params;
  for (const Buffer* buffer : kernel.buffers) {
    if (buffer->role == BufferRole::kTemp) continue;
    std::vector<int64_t> shape;
    for (Expr e : buffer->shape) shape.push_back(int_value(e));
    params.push_back(buffer->role == BufferRole::kOutput
                         ? interp::TensorData::zeros(buffer->type, shape)
                         : interp::TensorData::make_random_integers(buffer->type, shape, seed++));
  }
  return params;
}

struct PreparedTrial {
  Kernel kernel;
  Result<codegen::Artifact> code;
};

// "" when the backend and the interpreter agree.
Result<std::string> try_kernel(Run& run, PreparedTrial& trial) {
  const Kernel& kernel = trial.kernel;
  std::vector<interp::TensorData> expected = make_params(kernel, 1);
  std::vector<interp::TensorData> actual = expected;
  std::vector<interp::TensorData*> pointers;
  for (interp::TensorData& t : expected) pointers.push_back(&t);
  interp::Options races;
  races.check_races = true;
  const interp::Report report = interp::run(kernel, pointers, races);
  if (!report.ok()) return environment_error("the interpreter reports:\n{}", report.text());
  TCC_TRY(codegen::Artifact artifact, std::move(trial.code));
  TCC_TRY(auto program, run.backend.load(std::move(artifact)));
  TCC_TRY_VOID(program->run(actual));
  ++run.tests;
  for (size_t p = 0; p < actual.size(); ++p)
    for (int64_t i = 0; i < actual[p].size(); ++i)
      if (!(actual[p].at(i) == expected[p].at(i)))
        return fmt::format("parameter {} [{}] is {}, the table says {}", p, i, actual[p].at(i), expected[p].at(i));
  return std::string();
}

// A machine that stands for a device does not have every instruction.
bool is_unknown(Run& run, const Error& error) {
  constexpr int kInvalidPtx = 218;
  runtime::CudaDevice* device = run.backend.device();
  if (device == nullptr) return error.cls == ErrorClass::kInput;
  return device->facts().takes_ptx_only && !device->lost() && device->last_error() == kInvalidPtx;
}

bool is_tried(Run& run, const Instruction& row) {
  return !row.ptx.empty() && has_feature(run.backend.target().cuda.features, row.feature);
}

// The trials of every row of the table, compiled on all cores.
std::vector<std::vector<PreparedTrial>> prepare_trials(Run& run) {
  const std::span<const Instruction> table = instruction_table();
  std::vector<std::vector<PreparedTrial>> trials(table.size());
  std::vector<PreparedTrial*> all;
  for (size_t i = 0; i < table.size(); ++i) {
    if (!is_tried(run, table[i])) continue;
    for (Kernel& kernel : trials_of(static_cast<int32_t>(i)))
      trials[i].push_back({std::move(kernel), environment_error("not compiled")});
    for (PreparedTrial& trial : trials[i]) all.push_back(&trial);
  }
  ThreadPool pool(static_cast<int>(target::host_target().cpu.threads));
  parallel_for(&pool, std::ssize(all), [&](int64_t n) {
    PreparedTrial& trial = *all[static_cast<size_t>(n)];
    trial.code = run.backend.loadable(trial.kernel, run.code());
  });
  return trials;
}

}  // namespace

Result<void> conformance(Run& run) {
  const std::span<const Instruction> table = instruction_table();
  int right = 0, wrong = 0;
  std::vector<std::string> untried, unknown;  // unknown: to the machine for PTX of a dry run
  std::vector<std::vector<PreparedTrial>> trials = prepare_trials(run);
  for (size_t i = 0; i < table.size(); ++i) {
    const Instruction& row = table[i];
    if (!is_tried(run, row)) continue;
    if (trials[i].empty() && !is_part_of_another(row)) untried.emplace_back(row.name);
    bool good = !trials[i].empty();
    for (PreparedTrial& trial : trials[i]) {
      auto text = try_kernel(run, trial);
      if (text && text->empty()) continue;
      good = false;
      if (!text && is_unknown(run, text.error())) {
        unknown.push_back(fmt::format("{} ({})", row.name, text.error().message));
        break;
      }
      ++wrong;
      run.fail(fmt::format("conformance {}: {}", row.name, text ? *text : text_of(text.error())));
      if (run.backend.device() != nullptr && run.backend.device()->lost())
        return {};  // after a fault nothing else runs in this process
      break;
    }
    right += good;
  }
  if (!unknown.empty()) run.absent(fmt::format("the machine for PTX does not have {}", fmt::join(unknown, ", ")));
  if (!untried.empty()) run.absent(fmt::format("no trial of a single block covers {}", fmt::join(untried, ", ")));
  TCC_TRY_VOID(run.row({"conformance.right", static_cast<double>(right), "instructions", "", 0}));
  TCC_TRY_VOID(
      run.row({"conformance.untried", static_cast<double>(untried.size() + unknown.size()), "instructions", "", 0}));
  return run.row({"conformance.wrong", static_cast<double>(wrong), "instructions", "", 0});
}

}  // namespace tcc::gpu_check
