#include "tcc/measure/task.h"
#include "tcc/interp/tensor.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "measure/host/executor.h"
#include "measure/reference_kernels.h"
#include "measure/sampled_kernel.h"
#include "measure/task_segment.h"
#include "tcc/ir/walk.h"
#include "tcc/measure/host.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/support/parallel.h"
#include "tcc/support/rng.h"

namespace tcc::measure {
namespace {

using Values = std::vector<std::vector<double>>;  // one array per parameter, empty for outputs
using ValueSets = std::vector<Values>;            // one for each data set

constexpr double kReferenceTimeout = 600;
constexpr double kSampleAboveFlops = 2e9;  // of machine code
constexpr int64_t kRandomSamples = 4096;   // beside corners and edges
constexpr int kAmplitudes[] = {4, 1};      // of the integer data, largest that stays exact
constexpr int64_t kIntegers = 0, kReals = 1;
constexpr std::array kSets = {kIntegers, kReals};  // data sets of the first seed
constexpr size_t kSecondSets = 1;                  // of the second one, see MeasureTask::second
constexpr int64_t kPiece = int64_t{1} << 18;       // elements of an array that one thread makes or converts at a time

// Pieces of arrays, which threads share out.
struct Piece {
  size_t set, param;
  int64_t first, count;
};
void add_pieces(std::vector<Piece>& pieces, size_t set, size_t param, int64_t elements) {
  for (int64_t at = 0; at < elements; at += kPiece) pieces.push_back({set, param, at, std::min(kPiece, elements - at)});
}
void for_pieces(const std::vector<Piece>& pieces, int threads, const std::function<void(const Piece&)>& f) {
  const auto n = static_cast<int64_t>(pieces.size());
  ThreadPool pool(static_cast<int>(std::clamp<int64_t>(n, 1, threads)));
  pool.parallel_for(n, [&](int64_t i, int) { f(pieces[static_cast<size_t>(i)]); });
}

std::vector<TaskParam> describe_params(const ir::Kernel& kernel) {
  std::vector<TaskParam> params;
  for (const ir::Buffer* buffer : kernel.buffers) {
    if (buffer->role == ir::BufferRole::kTemp) continue;
    TaskParam param;
    param.role = buffer->role;
    param.type = buffer->type;
    for (ir::Expr extent : buffer->shape) {
      TCC_CHECK(ir::is_int(extent), "a task's shapes are constants");
      param.shape.push_back(ir::int_value(extent));
    }
    params.push_back(std::move(param));
  }
  return params;
}

}  // namespace

std::map<ir::Id, int64_t> index_limits(const ir::Kernel& kernel) {
  std::map<ir::Id, int64_t> limits;
  ir::visit_roots(kernel.root, [&](ir::Expr root) {
    ir::visit(root, [&](ir::Expr e) {
      const auto* load = ir::as<ir::Load>(e);
      if (!load) return true;
      const ir::Buffer* indexed = kernel.buffer(load->buffer);
      for (size_t d = 0; d < load->indices.size(); ++d) {
        ir::visit(load->indices[d], [&](ir::Expr inner) {
          const auto* index = ir::as<ir::Load>(inner);
          if (!index || !ir::is_int(indexed->shape[d])) return true;
          auto [at, fresh] = limits.emplace(index->buffer, ir::int_value(indexed->shape[d]));
          if (!fresh) at->second = std::min(at->second, ir::int_value(indexed->shape[d]));
          return true;
        });
      }
      return true;
    });
  });
  return limits;
}

namespace {

struct DataPlan {
  int amplitude = 0;        // of the integers of set 0; 0: reals there too
  bool positive = false;    // roots and logarithms of negative numbers would only compare NaN with NaN
  double weight_scale = 1;  // of real weights: keeps sums near 1, where intrinsics are not saturated
};

class DataMaker {
 public:
  DataMaker(const ir::Kernel& naive, uint64_t seed) : params_(describe_params(naive)), seed_(seed) {
    std::map<ir::Id, int64_t> limits = index_limits(naive);
    for (const ir::Buffer* buffer : naive.buffers) {
      if (buffer->role == ir::BufferRole::kTemp) continue;
      auto found = limits.find(buffer->id);
      limits_.push_back(found == limits.end() ? -1 : found->second);
    }
  }
  const std::vector<TaskParam>& params() const { return params_; }

  // Values that the parameters' types hold exactly, whatever the number of threads.
  ValueSets make(std::span<const int64_t> sets, const DataPlan& plan, int threads) const {
    ValueSets made(sets.size(), Values(params_.size()));
    std::vector<Piece> pieces;
    for (size_t s = 0; s < sets.size(); ++s)
      for (size_t i = 0; i < params_.size(); ++i) {
        if (params_[i].is_output()) continue;
        made[s][i].resize(static_cast<size_t>(params_[i].elements()));
        add_pieces(pieces, s, i, params_[i].elements());
      }
    for_pieces(pieces, threads, [&](const Piece& p) {
      Rng rng = Rng(seed_).fork(static_cast<uint64_t>(sets[p.set])).fork(p.param);
      if (p.first > 0) rng = rng.fork(static_cast<uint64_t>(p.first));
      const bool integers = sets[p.set] == kIntegers && plan.amplitude > 0;
      for (double& v :
           std::span(made[p.set][p.param]).subspan(static_cast<size_t>(p.first), static_cast<size_t>(p.count)))
        v = draw(rng, params_[p.param], limits_[p.param], integers, plan);
    });
    return made;
  }

 private:
  static double draw(Rng& rng, const TaskParam& param, int64_t limit, bool integers, const DataPlan& plan) {
    if (limit >= 0) return static_cast<double>(rng.below(std::max<int64_t>(limit, 1)));
    if (param.type == ir::Type::kBool) return static_cast<double>(rng.below(2));
    const bool is_unsigned = ir::is_unsigned(param.type);
    if (integers || !ir::is_float(param.type)) {
      int64_t a = plan.amplitude > 0 ? plan.amplitude : 4;
      if (plan.positive) return static_cast<double>(1 + rng.below(a));
      return static_cast<double>(is_unsigned ? rng.below(a + 1) : rng.below(2 * a + 1) - a);
    }
    double real = plan.positive ? 0.5 + rng.uniform() : 2 * rng.uniform() - 1;
    if (param.role == ir::BufferRole::kWeight) {
      // One element is a factor or a divisor, as of attention's scores: a small one would saturate what follows.
      const bool factor = param.elements() == 1 && plan.weight_scale != 1;
      real = factor ? 1 + 0.5 * real : plan.weight_scale * real;
    }
    return interp::round_to_type(real, param.type);
  }

  std::vector<TaskParam> params_;
  std::vector<int64_t> limits_;
  uint64_t seed_;
};

// References and scales of one task, per set and parameter. No magnitudes: the kernel is not plain.
struct Reference {
  ValueSets outputs, magnitudes;
};

// Of each parameter, the elements that have a reference; empty: all.
using Positions = std::vector<std::vector<int64_t>>;

Result<MeasureTask::Segment> build_segment(TaskDescription description, const ValueSets& inputs,
                                           const Reference& reference, const Positions& positions, int threads) {
  auto array_bytes = [](const TaskParam& p, ir::Type type) { return page_up(p.elements() * ir::type_bytes(type)); };
  Writer sizing;
  put_task(sizing, description);
  int64_t end = page_up(static_cast<int64_t>(sizeof(int64_t) + sizing.bytes().size()));
  auto place = [&](int64_t bytes) {
    int64_t at = end;
    end += bytes;
    return at;
  };
  for (size_t i = 0; i < description.params.size(); ++i) {
    TaskParam& param = description.params[i];
    for (int64_t s = 0; s < description.num_sets; ++s) {
      TaskParam::Set& set = param.sets[static_cast<size_t>(s)];
      if (!param.is_output()) set.data = place(array_bytes(param, param.type));
      const int64_t doubles = page_up(param.references() * ir::type_bytes(ir::Type::kF64));
      if (param.is_output() && !reference.outputs.empty()) set.reference = place(doubles);
      if (param.is_output() && !reference.magnitudes.empty()) set.scale = place(doubles);
    }
    if (!positions.empty() && !positions[i].empty())
      param.samples = place(page_up(static_cast<int64_t>(positions[i].size() * sizeof(int64_t))));
  }
  MeasureTask::Segment segment;
  TCC_TRY(segment.memory, SharedMemory::create("tcc-task", end));
  Writer writer;
  put_task(writer, description);
  auto length = static_cast<int64_t>(writer.bytes().size());
  std::memcpy(segment.memory.data(), &length, sizeof length);
  std::memcpy(segment.memory.data() + sizeof length, writer.bytes().data(), writer.bytes().size());
  auto copy = [&](int64_t at, const std::vector<double>& values) {
    if (at >= 0 && !values.empty())
      std::memcpy(segment.memory.data() + at, values.data(), values.size() * sizeof(double));
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i < description.params.size(); ++i) {
    const TaskParam& param = description.params[i];
    if (param.samples >= 0)
      std::memcpy(segment.memory.data() + param.samples, positions[i].data(), positions[i].size() * sizeof(int64_t));
    for (size_t s = 0; s < static_cast<size_t>(description.num_sets); ++s) {
      if (param.is_output()) {
        if (!reference.outputs.empty()) copy(param.sets[s].reference, reference.outputs[s][i]);
        if (!reference.magnitudes.empty()) copy(param.sets[s].scale, reference.magnitudes[s][i]);
        continue;
      }
      add_pieces(pieces, s, i, std::ssize(inputs[s][i]));
    }
  }
  for_pieces(pieces, threads, [&](const Piece& p) {
    const TaskParam& param = description.params[p.param];
    const std::span<const double> all = inputs[p.set][p.param];
    interp::store_numbers(param.type,
                          segment.memory.data() + param.sets[p.set].data + p.first * ir::type_bytes(param.type),
                          all.subspan(static_cast<size_t>(p.first), static_cast<size_t>(p.count)));
  });
  segment.description = std::move(description);
  return segment;
}

// The reference and its parameters: those of the task, outputs cut down to their samples, then the samples'
// coordinates.
struct ReferenceCode {
  ReferenceProgram program;
  std::vector<TaskParam> params;
  Values coordinates;  // of the parameters behind the task's own
  double flops = 0;
};

// `positions` are emptied for outputs that cannot be cut down.
Result<ReferenceCode> make_reference(const ir::Kernel& f64_kernel, const target::Target& target,
                                     ReferenceOptions options, Positions& positions) {
  std::vector<int64_t> samples;
  for (const auto& p : positions) samples.push_back(static_cast<int64_t>(p.size()));
  std::optional<SampledKernel> sampled;
  if (std::any_of(samples.begin(), samples.end(), [](int64_t n) { return n > 0; }))
    sampled = sample_outputs(f64_kernel, samples);
  options.reorder = !sampled;
  const ir::Kernel& kernel = sampled ? sampled->kernel : f64_kernel;
  TCC_TRY(ReferenceProgram program, ReferenceProgram::compile(kernel, target, options));
  ReferenceCode code{std::move(program), describe_params(kernel), {}, analyse_naive(kernel).flops};
  code.coordinates.resize(code.params.size() - positions.size());
  Positions kept(positions.size());
  for (const SampledKernel::Output& output : sampled ? sampled->outputs : std::vector<SampledKernel::Output>{}) {
    auto param = static_cast<size_t>(output.param);
    kept[param] = positions[param];
    const std::vector<int64_t> shape = describe_params(f64_kernel)[param].shape;
    std::vector<int64_t> rest = positions[param];
    for (size_t d = shape.size(); d-- > 0;) {
      std::vector<double>& to = code.coordinates[static_cast<size_t>(output.coords[d]) - positions.size()];
      for (int64_t& number : rest) {
        to.push_back(static_cast<double>(number % shape[d]));
        number /= shape[d];
      }
    }
  }
  positions = std::move(kept);
  return code;
}

// Runs references: machine code in children, else here.
class ReferenceRunner {
 public:
  explicit ReferenceRunner(HostExecutor& host) : host_(host) {}

  // `magnitude`, if any, runs on the absolute values of the inputs, and has the same parameters. `inputs` are large:
  // what the code needs besides is added to them for the time of the run.
  Result<Reference> run(const ReferenceCode& code, const ReferenceCode* magnitude, ValueSets& inputs) {
    for (Values& values : inputs) values.insert(values.end(), code.coordinates.begin(), code.coordinates.end());
    Result<Reference> reference = code.program.artifact() != nullptr ? run_in_child(code, magnitude, inputs)
                                                                     : run_both_here(code, magnitude, inputs);
    for (Values& values : inputs) values.resize(values.size() - code.coordinates.size());
    return reference;
  }
  double seconds() const { return seconds_; }
  int threads() const { return static_cast<int>(host_.cpus().size()); }

 private:
  Result<Reference> run_both_here(const ReferenceCode& code, const ReferenceCode* magnitude, const ValueSets& inputs) {
    Reference reference;
    TCC_TRY(reference.outputs, run_here(code, inputs, false));
    if (magnitude != nullptr) {
      TCC_TRY(reference.magnitudes, run_here(*magnitude, inputs, true));
    }
    return reference;
  }
  Result<ValueSets> run_here(const ReferenceCode& code, const ValueSets& inputs, bool absolute) {
    ValueSets outputs(inputs.size());
    for (size_t s = 0; s < inputs.size(); ++s) {
      std::vector<interp::TensorData> tensors;
      for (size_t i = 0; i < code.params.size(); ++i) {
        const TaskParam& param = code.params[i];
        if (param.is_output()) {
          tensors.push_back(interp::TensorData::zeros(param.type, param.shape));
        } else if (!absolute) {
          tensors.push_back(interp::TensorData::from_doubles(param.type, param.shape, inputs[s][i]));
        } else {
          std::vector<double> values = inputs[s][i];
          for (double& v : values) v = std::fabs(v);
          tensors.push_back(interp::TensorData::from_doubles(param.type, param.shape, values));
        }
      }
      const Stopwatch watch;
      TCC_TRY_VOID(code.program.run(tensors));
      seconds_ = watch.seconds();
      outputs[s].resize(code.params.size());
      for (size_t i = 0; i < code.params.size(); ++i)
        if (code.params[i].is_output()) outputs[s][i] = tensors[i].to_doubles();
    }
    return outputs;
  }

  Result<Reference> run_in_child(const ReferenceCode& code, const ReferenceCode* magnitude, const ValueSets& inputs) {
    TaskDescription description;
    description.params = code.params;
    description.num_sets = std::ssize(inputs);
    TCC_TRY(MeasureTask::Segment segment, build_segment(description, inputs, Reference{}, {}, threads()));
    JobSpec spec;
    spec.kind = JobKind::kReference;
    spec.artifacts = {code.program.artifact()};
    if (magnitude != nullptr) spec.artifacts.push_back(magnitude->program.artifact());
    spec.task = &segment.memory;
    spec.timeout_seconds = kReferenceTimeout;
    for (const TaskParam& param : code.params)
      if (param.is_output())
        spec.output_bytes +=
            std::ssize(spec.artifacts) * std::ssize(inputs) * param.elements() * ir::type_bytes(param.type);
    TCC_TRY(FinishedJob job, host_.run(spec));
    const WorkerResult& result = job.result();
    using End = FinishedJob::End;
    if (job.end != End::kAnswered || result.phase != Phase::kDone || result.status != ChildStatus::kOk)
      return environment_error("the reference of a task did not run: {}", job.end == End::kTimedOut ? "it took too long"
                                                                          : job.end == End::kDied   ? job.failure
                                                                          : result.status == ChildStatus::kOk
                                                                              ? "its process ended early"
                                                                              : result.text.data());
    seconds_ = result.last_run_seconds;
    Reference reference;
    const std::byte* from = job.memory.data() + job.header().outputs_offset;
    reference.outputs = read_outputs(from, code.params, inputs.size());
    if (magnitude != nullptr) reference.magnitudes = read_outputs(from, code.params, inputs.size());
    return reference;
  }

  // `from` moves behind what is read.
  static ValueSets read_outputs(const std::byte*& from, const std::vector<TaskParam>& params, size_t sets) {
    ValueSets outputs(sets);
    for (Values& set : outputs) {
      set.resize(params.size());
      for (size_t i = 0; i < params.size(); ++i) {
        const TaskParam& param = params[i];
        if (!param.is_output()) continue;
        const int64_t n = param.elements();
        set[i].resize(static_cast<size_t>(n));
        interp::load_numbers(param.type, from, set[i]);
        from += n * ir::type_bytes(param.type);
      }
    }
    return outputs;
  }

  HostExecutor& host_;
  double seconds_ = 0;
};

double largest(const Values& values) {
  double most = 0;
  for (const auto& array : values)
    for (double v : array)
      if (std::isfinite(v)) most = std::max(most, std::fabs(v));
  return most;
}
bool all_finite(const ValueSets& sets) {
  for (const Values& values : sets)
    for (const auto& array : values)
      if (!std::all_of(array.begin(), array.end(), [](double v) { return std::isfinite(v); })) return false;
  return true;
}
struct Prepared {
  ValueSets inputs;
  Reference reference;
  bool exact = false;
};

// Chooses the data so that the reference is finite and, where the arithmetic allows, exact; runs the references.
// `sets`: the numbers of the data sets that are made.
Result<Prepared> prepare(const DataMaker& maker, ReferenceRunner& runner, const NaiveFacts& facts,
                         const ReferenceCode& reference, const ReferenceCode* magnitude,
                         std::span<const int64_t> sets) {
  double exact_below = std::ldexp(1.0, float_format(facts.narrowest).significand);
  bool want_exact = facts.has_float && magnitude && facts.integer_constants && sets[0] == kIntegers;
  DataPlan plan;
  plan.weight_scale = magnitude ? 1 : 1 / std::sqrt(static_cast<double>(facts.reduce_terms));
  size_t amplitude = 0;
  while (true) {
    plan.amplitude = magnitude ? kAmplitudes[amplitude] : 0;
    Prepared p;
    p.inputs = maker.make(sets, plan, runner.threads());
    TCC_TRY(p.reference, runner.run(reference, magnitude, p.inputs));
    if (!all_finite(p.reference.outputs) && !plan.positive) {
      plan.positive = true;
      plan.weight_scale = 1;
      continue;
    }
    p.exact = want_exact && largest(p.reference.magnitudes[0]) < exact_below;
    if (p.exact || !want_exact || ++amplitude == std::size(kAmplitudes)) return p;
  }
}

}  // namespace

// What the references of a task are computed by.
struct MeasureTask::References {
  NaiveFacts facts;
  std::optional<ReferenceCode> outputs, magnitudes;
  Positions positions;  // of the samples, which depend on the seed
};

MeasureTask::MeasureTask() = default;
MeasureTask::~MeasureTask() = default;

Result<std::shared_ptr<const MeasureTask>> MeasureTask::create(IsolatedHostMeasurer& measurer, const ir::Kernel& naive,
                                                               const target::Target& target, const Options& options) {
  TCC_CHECK(naive.stage == ir::Stage::kBuilt && naive.scalars.empty(), "a task is a kernel as built, of fixed sizes");
  auto made = std::make_shared<References>();
  made->facts = analyse_naive(naive);
  const NaiveFacts& facts = made->facts;
  const std::vector<TaskParam> params = describe_params(naive);
  made->positions.resize(params.size());
  const double affordable = affordable_flops(kSampleAboveFlops, options.engine);
  if (facts.flops > options.sample_above_flops.value_or(affordable)) {
    for (size_t i = 0; i < params.size(); ++i) {
      const TaskParam& param = params[i];
      if (!param.is_output() || param.shape.empty()) continue;
      made->positions[i] = sample_positions(param.shape, kRandomSamples, options.seed + i);
      if (static_cast<int64_t>(made->positions[i].size()) == param.elements()) made->positions[i].clear();
    }
  }
  // The reference runs on the CPU, wherever the programs run.
  const target::Target reference_target = target::host_target();
  ReferenceOptions how;
  how.engine = options.engine;
  how.threads = static_cast<int>(measurer.executor().cpus().size());
  const ir::Kernel reference = to_double(naive);
  TCC_TRY(made->outputs, make_reference(reference, reference_target, how, made->positions));
  if (std::optional<ir::Kernel> magnitude = facts.has_float ? to_magnitude(reference) : std::nullopt) {
    Positions same = made->positions;
    TCC_TRY(made->magnitudes, make_reference(*magnitude, reference_target, how, same));
    TCC_CHECK(same == made->positions, "bounds are computed where the reference is");
  }
  return create(measurer, naive, target, options, std::move(made));
}

Result<std::shared_ptr<const MeasureTask>> MeasureTask::create(IsolatedHostMeasurer& measurer, const ir::Kernel& naive,
                                                               const target::Target& target, const Options& options,
                                                               std::shared_ptr<const References> made) {
  const NaiveFacts& facts = made->facts;
  const Positions& positions = made->positions;
  const ReferenceCode* magnitude = made->magnitudes ? &*made->magnitudes : nullptr;
  DataMaker maker(naive, options.seed);
  ReferenceRunner runner(measurer.executor());
  std::vector<int64_t> sets(kSets.begin(), kSets.end());
  if (options.sets != Sets::kBoth) sets = {options.sets == Sets::kIntegers ? kIntegers : kReals};
  TCC_TRY(Prepared prepared, prepare(maker, runner, facts, *made->outputs, magnitude, sets));

  TaskDescription description;
  description.params = maker.params();
  for (size_t i = 0; i < positions.size(); ++i)
    description.params[i].num_samples = static_cast<int64_t>(positions[i].size());
  description.num_sets = std::ssize(sets);
  description.exact = prepared.exact;
  description.has_float = facts.has_float;
  // Operands of products may be rounded to tf32, whose significand is as long as that of f16.
  int significand = float_format(facts.narrowest).significand;
  if (facts.tf32) significand = std::min(significand, float_format(ir::Type::kF16).significand);
  double unit = std::ldexp(1.0, -significand);
  description.scaled = (magnitude ? 4 : 16) * unit * std::sqrt(static_cast<double>(facts.reduce_terms));
  // Half a unit of each operand at most, of terms whose sum is seldom larger than the output.
  if (facts.rounded_operand != ir::Type::kF64)
    description.scaled += 2 * std::ldexp(1.0, -float_format(facts.rounded_operand).significand);
  if (!magnitude) {
    for (size_t i = 0; i < description.params.size(); ++i)
      for (size_t s = 0; s < sets.size(); ++s)
        description.params[i].sets[s].scale_all = largest(Values{prepared.reference.outputs[s][i]});
  }
  std::shared_ptr<MeasureTask> task(new MeasureTask());
  task->segment_ = std::make_unique<Segment>();
  TCC_TRY(*task->segment_,
          build_segment(std::move(description), prepared.inputs, prepared.reference, positions, runner.threads()));
  static std::atomic<uint64_t> next_id{1};
  task->id_ = next_id++;
  task->target_ = target;
  task->naive_ = naive;
  task->options_ = options;
  task->facts_.flops = facts.flops;
  task->facts_.reduce_terms = facts.reduce_terms;
  task->facts_.exact = prepared.exact || !facts.has_float;
  task->facts_.plain = magnitude != nullptr;
  for (size_t i = 0; i < positions.size(); ++i) task->facts_.sampled = task->facts_.sampled || !positions[i].empty();
  task->facts_.naive_seconds = runner.seconds() * facts.flops / std::max(made->outputs->flops, 1.0);
  if (!task->facts_.sampled) task->references_ = std::move(made);
  return std::shared_ptr<const MeasureTask>(std::move(task));
}

Result<std::shared_ptr<const MeasureTask>> MeasureTask::second(IsolatedHostMeasurer& measurer) const {
  std::lock_guard lock(mutex_);
  if (!second_) {
    Options other = options_;
    other.seed = combine_hash(options_.seed, 0x7365636f6e64);
    other.sets = facts_.exact ? Sets::kIntegers : Sets::kReals;
    TCC_TRY(second_, references_ ? create(measurer, naive_, target_, other, references_)
                                 : create(measurer, naive_, target_, other));
  }
  return second_;
}

double task_memory(const ir::Kernel& naive) {
  double bytes = 0;
  for (const ir::Buffer* buffer : naive.buffers) {
    double elements = 1;
    for (const ir::Expr extent : buffer->shape) elements *= static_cast<double>(ir::int_value(extent));
    // While they are made, values are doubles. An output has its reference and its bound beside it.
    const double doubles = buffer->role == ir::BufferRole::kOutput ? 2 : 1;
    bytes += elements * (static_cast<double>(ir::type_bytes(buffer->type)) + 8 * doubles);
  }
  return bytes * static_cast<double>(kSets.size() + kSecondSets);
}

}  // namespace tcc::measure
