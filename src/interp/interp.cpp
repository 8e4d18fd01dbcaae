#include "tcc/interp/interp.h"

#include <algorithm>

#include "interp/launch.h"
#include "interp/rows.h"
#include "tcc/ir/evaluate.h"
#include "tcc/ir/walk.h"
#include "tcc/support/check.h"

namespace tcc::interp {

struct Program::Impl {
  KernelInfo info;
  std::vector<Region> regions;
  std::unordered_map<int32_t, std::shared_ptr<const RowProgram>> rows;
};

namespace {

using Kind = Finding::Kind;

// One call of Program::run.
class Run {
 public:
  Run(const Program::Impl& program, std::span<TensorData* const> params, const Options& options)
      : program_(program), params_(params), options_(options), findings_(options.max_findings, report_.findings) {}

  Report go() {
    if (!check_scalars() || !make_shapes() || !bind_params()) return std::move(report_);
    int64_t left = options_.max_steps;
    for (const Region& region : program_.regions) {
      Machine m;
      m.info = &program_.info;
      m.region = &region;
      m.options = &options_;
      m.findings = &findings_;
      m.shapes = shapes_;
      m.races = options_.check_races;
      m.steps_left = left;
      m.rows = &program_.rows;
      m.global_barriers = &global_barriers_;
      run_region(m, region);
      left = m.steps_left;
      report_.steps += m.steps;
      report_.operations += m.operations;
      if (m.stopped) break;
    }
    write_back();
    return std::move(report_);
  }

 private:
  void bad(std::string text) { report_.findings.push_back({Kind::kBadArguments, std::move(text), 1}); }
  std::string name(ir::Id id) const { return ir::name_hint(program_.info.kernel, id); }

  bool check_scalars() {
    for (const ir::Scalar& s : program_.info.kernel.scalars) {
      const auto value = std::find_if(options_.scalars.begin(), options_.scalars.end(),
                                      [&](const auto& pair) { return pair.first == s.id; });
      if (value == options_.scalars.end()) {
        bad(fmt::format("scalar {} has no value; give one in Options::scalars", name(s.id)));
      } else if (value->second < s.low || value->second > s.high || value->second % s.divisor != 0) {
        bad(fmt::format("scalar {} is {}, not a multiple of {} in [{}, {}]", name(s.id), value->second, s.divisor,
                        s.low, s.high));
      }
    }
    return report_.findings.empty();
  }

  bool make_shapes() {
    for (const ir::Buffer* b : program_.info.slots) {
      BufferShape s;
      s.elements = 1;
      for (ir::Expr e : b->shape) {
        const auto extent = ir::evaluate(e, options_.scalars);
        if (!extent || *extent < 0) {
          bad(fmt::format("the shape of {} is not a number of elements", name(b->id)));
          return false;
        }
        s.shape.push_back(*extent);
        s.elements *= *extent;
      }
      s.data = s.shape;
      if (b->layout != nullptr) s.data.assign(b->layout->shape.begin(), b->layout->shape.end());
      s.layout = address_layout(*b);
      if (s.layout != nullptr) s.elements = s.layout->size;
      shapes_.push_back(std::move(s));
    }
    return true;
  }

  bool bind_params() {
    size_t next = 0;
    for (size_t slot = 0; slot < program_.info.slots.size(); ++slot) {
      const ir::Buffer& b = *program_.info.slots[slot];
      auto memory = std::make_unique<Memory>();
      if (b.role == ir::BufferRole::kTemp) {
        memory->make(static_cast<int32_t>(slot), b.type, shapes_[slot].elements);
      } else {
        if (next >= params_.size()) {
          bad(fmt::format("no tensor was given for {}", name(b.id)));
          return false;
        }
        TensorData& tensor = *params_[next++];
        if (tensor.type != b.type || tensor.shape != shapes_[slot].data ||
            static_cast<int64_t>(tensor.bytes.size()) != tensor.size() * ir::type_bytes(b.type)) {
          bad(fmt::format("the tensor for {} is {}[{}] and should be {}[{}]", name(b.id), ir::type_name(tensor.type),
                          fmt::join(tensor.shape, ", "), ir::type_name(b.type), fmt::join(shapes_[slot].data, ", ")));
          return false;
        }
        copy_in(*memory, static_cast<int32_t>(slot), b, tensor);
      }
      const bool defined = b.role == ir::BufferRole::kInput || b.role == ir::BufferRole::kWeight;
      if (options_.poison && !(defined && !program_.info.written[slot])) memory->track_contents(defined);
      memories_.push_back(std::move(memory));
    }
    if (next != params_.size()) {
      bad(fmt::format("{} tensors were given for {} parameters", params_.size(), next));
      return false;
    }
    return true;
  }

  // Every logical element of a parameter and its address.
  template <class F>
  void for_each_element(size_t slot, F f) {
    const BufferShape& s = shapes_[slot];
    std::vector<int64_t> index(s.data.size(), 0);
    int64_t total = 1;
    for (int64_t d : s.data) total *= d;
    for (int64_t i = 0; i < total; ++i) {
      f(i, s.address(index));
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < s.data[d]) break;
        index[d] = 0;
      }
    }
  }
  void copy_in(Memory& memory, int32_t slot, const ir::Buffer& b, TensorData& tensor) {
    if (shapes_[static_cast<size_t>(slot)].layout == nullptr) {
      memory.slot = slot;
      memory.type = b.type;
      memory.size = tensor.size();
      memory.data = tensor.bytes.data();
      return;
    }
    memory.make(slot, b.type, shapes_[static_cast<size_t>(slot)].elements);
    const auto width = static_cast<size_t>(ir::type_bytes(b.type));
    for_each_element(static_cast<size_t>(slot), [&](int64_t i, int64_t at) {
      std::memcpy(memory.data + static_cast<size_t>(at) * width, tensor.bytes.data() + static_cast<size_t>(i) * width,
                  width);
    });
  }
  void write_back() {
    size_t next = 0;
    for (size_t slot = 0; slot < memories_.size(); ++slot) {
      const ir::Buffer& b = *program_.info.slots[slot];
      if (b.role == ir::BufferRole::kTemp) continue;
      TensorData& tensor = *params_[next++];
      if (shapes_[slot].layout == nullptr || !program_.info.written[slot]) continue;
      const auto width = static_cast<size_t>(ir::type_bytes(b.type));
      for_each_element(slot, [&](int64_t i, int64_t at) {
        std::memcpy(tensor.bytes.data() + static_cast<size_t>(i) * width,
                    memories_[slot]->data + static_cast<size_t>(at) * width, width);
      });
    }
  }

  void run_region(Machine& m, const Region& region) {
    std::vector<Memory*> memories;
    for (size_t slot = 0; slot < memories_.size(); ++slot) {
      Memory& memory = *memories_[slot];
      memory.strands = nullptr;
      memory.history = nullptr;
      if (options_.check_races && program_.info.written[slot]) {
        const auto size = static_cast<size_t>(memory.size);
        if (region.simt) {
          memory.history_storage.assign(size, {});
          memory.history = memory.history_storage.data();
        } else {
          memory.strand_storage.assign(size, {});
          memory.strands = memory.strand_storage.data();
        }
      }
      memories.push_back(&memory);
    }
    if (region.simt) {
      Launch launch(m, std::move(memories));
      m.launch = &launch;
      launch.run();
      return;
    }
    Thread t;
    t.reg_storage = region.initial;
    t.regs = t.reg_storage.data();
    for (const auto& [reg, id] : region.scalars) {
      for (const auto& [scalar, value] : options_.scalars)
        if (scalar == id) t.regs[reg].i = value;
    }
    t.mems = memories.data();
    t.pc = region.code.ins.data();
    const Ins* const entry = t.pc;
    const bool checked = options_.poison || options_.check_races;
    const Stop stop = checked ? execute<true>(m, t, m.steps_left) : execute<false>(m, t, m.steps_left);
    if (stop != Stop::kDone) {
      m.stopped = true;
      m.report(Kind::kStepLimit, t, stop == Stop::kBlocked ? entry : t.pc, -1, -1,
               fmt::format("stopped after {} loop iterations", m.steps));
    }
  }

  const Program::Impl& program_;
  std::span<TensorData* const> params_;
  const Options& options_;
  Report report_;
  Findings findings_;
  std::vector<BufferShape> shapes_;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::map<std::pair<Memory*, int64_t>, MbarrierState> global_barriers_;
};

}  // namespace

Program Program::compile(const ir::Kernel& kernel) {
  TCC_CHECK(kernel.root != nullptr, "the kernel has no statements");
  auto impl = std::make_shared<Impl>();
  impl->info = inspect_kernel(kernel);
  for (ir::Stmt root : split_regions(kernel)) impl->regions.push_back(compile_region(impl->info, root));
  ir::visit(kernel.root, [&](ir::Stmt s) {
    if (const auto* call = ir::as<ir::InstrCall>(s)) {
      auto& row = impl->rows[call->instr];
      if (row == nullptr) row = compile_row(call->instr);
    }
    return true;
  });
  return Program(std::move(impl));
}

Report Program::run(std::span<TensorData* const> params, const Options& options) const {
  return Run(*impl_, params, options).go();
}

Report run(const ir::Kernel& kernel, std::span<TensorData* const> params, const Options& options) {
  return Program::compile(kernel).run(params, options);
}

}  // namespace tcc::interp
