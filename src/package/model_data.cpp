#include "model_data.h"

#include <cstddef>
#include <map>

#include "library_file.h"
#include "tcc/codegen/llvm.h"
#include "tcc/ir/permute.h"
#include "tcc/support/check.h"

namespace tcc::package {
namespace {

constexpr int64_t kAlignment = TCC_RT_WORKSPACE_ALIGNMENT;
static_assert(graph::kWorkspaceAlignment % TCC_RT_WORKSPACE_ALIGNMENT == 0);

int64_t round_up(int64_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

// Kernels may not assume more than rt promises. Of callers' memory it promises what the tensor's info asks for: on a
// CPU the element size.
void check_alignment(const codegen::BufferInfo& buffer, const graph::ValueStorage& storage, bool gpu) {
  bool callers = storage.kind == graph::StorageKind::kInput || storage.kind == graph::StorageKind::kOutput;
  int64_t promised = callers && !gpu ? ir::type_bytes(buffer.type) : kAlignment;
  TCC_CHECK(buffer.alignment <= promised, "a kernel assumes {} bytes of alignment where {} are promised",
            buffer.alignment, promised);
}

}  // namespace

int64_t scratch_bytes(const codegen::Artifact& kernel) {
  int64_t bytes = 0;
  for (const codegen::BufferInfo& buffer : kernel.buffers)
    if (buffer.role == ir::BufferRole::kTemp) bytes += round_up(buffer.bytes);
  return bytes;
}

namespace {

class Placer {
 public:
  explicit Placer(const PackagePlan& plan) : plan_(plan) {}

  Result<ModelLayout> run() {
    layout_.workspace_bytes = round_up(plan_.memory->workspace_bytes);
    layout_.input_alignment.resize(plan_.graph->inputs.size());
    layout_.output_alignment.resize(plan_.graph->outputs.size());
    if (plan_.architectures.empty()) {
      TCC_TRY_VOID(place_codes(plan_.codes, false));
      layout_.used_features.push_back(used_by(plan_.codes, plan_.target));
    }
    for (const ArchitectureCode& cpu : plan_.older) {
      TCC_TRY_VOID(place_codes(cpu.codes, false));
      layout_.used_features.push_back(used_by(cpu.codes, cpu.target));
    }
    for (const ArchitectureCode& architecture : plan_.architectures) {
      TCC_TRY_VOID(place_codes(architecture.codes, true));
    }
    layout_.steps_bytes = layout_.workspace_bytes;
    if (plan_.dynamic != nullptr) layout_.workspace_bytes += copies_of_tensors();
    return std::move(layout_);
  }

 private:
  static target::CpuFeatures used_by(const std::vector<TaskCode>& codes, const target::Target& target) {
    target::CpuFeatures all;
    for (const TaskCode& code : codes) {
      const target::CpuFeatures used = codegen::used_features(code.artifact.code, target);
#define TCC_X(field, name) all.field = all.field || used.field;
      TCC_CPU_FEATURES(TCC_X)
#undef TCC_X
    }
    return all;
  }

  // Of a run whose tensors all differ from those of its bucket.
  int64_t copies_of_tensors() const {
    const DynamicPlan& dynamic = *plan_.dynamic;
    const PublicTensors inputs = public_inputs(plan_), outputs = public_outputs(plan_);
    int64_t most = 0;
    for (const DynamicPlan::Bucket& bucket : dynamic.buckets) {
      int64_t bytes = 0;
      auto add = [&](const std::vector<graph::SymbolicShape>& shapes, const PublicTensors& tensors) {
        for (size_t i = 0; i < shapes.size(); ++i)
          bytes += round_up(graph::element_count(graph::shape_at(shapes[i], bucket.bounds)) *
                            graph::dtype_size(plan_.graph->value(tensors.values[i]).dtype));
      };
      add(dynamic.inputs, inputs);
      add(dynamic.outputs, outputs);
      most = std::max(most, bytes);
    }
    return most;
  }

  // Numbers at run time of the graph's inputs and outputs.
  uint32_t input_number(int64_t index) const {
    return static_cast<uint32_t>(
        plan_.dynamic == nullptr ? index : plan_.dynamic->input_numbers.at(static_cast<size_t>(index)));
  }
  uint32_t output_number(int64_t index) const {
    return static_cast<uint32_t>(
        plan_.dynamic == nullptr ? index : plan_.dynamic->output_numbers.at(static_cast<size_t>(index)));
  }

  Result<void> place_codes(const std::vector<TaskCode>& codes, bool gpu) {
    std::vector<std::vector<tcc_rt_arg>> all;
    const std::vector<int64_t>& places = plan_.memory->scratch;
    for (const task::GroupBinding& binding : plan_.tasks->bindings) {
      const int64_t first_scratch = places.empty() ? round_up(plan_.memory->workspace_bytes) : places.at(all.size());
      const codegen::Artifact& artifact = codes[static_cast<size_t>(binding.task)].artifact;
      TCC_CHECK((artifact.format == codegen::CodeFormat::kHostObject) != gpu, "host and device code are mixed up");
      std::vector<tcc_rt_arg> args;
      int64_t at = 0;
      size_t param = 0;
      for (const codegen::BufferInfo& buffer : artifact.buffers) {
        if (buffer.role == ir::BufferRole::kTemp) {
          TCC_CHECK(buffer.alignment <= kAlignment);
          args.push_back({TCC_RT_ARG_WORKSPACE, 0, static_cast<uint64_t>(first_scratch + at)});
          at += round_up(buffer.bytes);
          continue;
        }
        TCC_CHECK(param < binding.params.size(), "the kernel has more parameters than its task");
        TCC_TRY(tcc_rt_arg arg, place_param(buffer, binding.params[param++], gpu));
        args.push_back(arg);
      }
      TCC_CHECK(param == binding.params.size(), "the kernel has fewer parameters than its task");
      TCC_CHECK(places.empty() || first_scratch + at <= round_up(plan_.memory->workspace_bytes),
                "the memory plan has too little scratch for a kernel");
      layout_.workspace_bytes = std::max(layout_.workspace_bytes, first_scratch + at);
      all.push_back(std::move(args));
    }
    layout_.args.push_back(std::move(all));
    return {};
  }

  static void raise(uint64_t& alignment, const codegen::BufferInfo& buffer) {
    if (buffer.alignment > ir::type_bytes(buffer.type))
      alignment = std::max(alignment, static_cast<uint64_t>(buffer.alignment));
  }

  Result<tcc_rt_arg> place_param(const codegen::BufferInfo& buffer, const task::ParamSource& source, bool gpu) {
    const graph::ValueStorage& storage = plan_.memory->storage.at(static_cast<size_t>(source.value));
    check_alignment(buffer, storage, gpu);
    TCC_CHECK(storage.kind == graph::StorageKind::kConstant || buffer.layout.empty(),
              "only constants may have a layout of their own");
    switch (storage.kind) {
      case graph::StorageKind::kInput:
        raise(layout_.input_alignment.at(static_cast<size_t>(storage.index)), buffer);
        return tcc_rt_arg{TCC_RT_ARG_INPUT, input_number(storage.index), 0};
      case graph::StorageKind::kOutput:
        raise(layout_.output_alignment.at(static_cast<size_t>(storage.index)), buffer);
        return tcc_rt_arg{TCC_RT_ARG_OUTPUT, output_number(storage.index), 0};
      case graph::StorageKind::kWorkspace:
        return tcc_rt_arg{TCC_RT_ARG_WORKSPACE, 0, static_cast<uint64_t>(storage.offset)};
      case graph::StorageKind::kConstant: {
        TCC_TRY(int64_t offset, place_weight(buffer, source.value));
        return tcc_rt_arg{TCC_RT_ARG_WEIGHT, 0, static_cast<uint64_t>(offset)};
      }
      case graph::StorageKind::kNone:
        break;
    }
    TCC_UNREACHABLE("value {} is not in memory", source.value);
  }

  Result<int64_t> place_weight(const codegen::BufferInfo& buffer, graph::ValueId value) {
    auto [it, fresh] = known_.try_emplace({value, buffer.layout}, layout_.weights_bytes);
    if (!fresh) return it->second;
    int64_t bytes = plan_.graph->value(value).bytes();
    if (!buffer.layout.empty()) {
      Arena arena;
      TCC_TRY(const ir::Layout* layout, ir::parse_layout(arena, buffer.layout));
      bytes = layout->size * ir::type_bytes(buffer.type);
    }
    TCC_CHECK(bytes == buffer.bytes, "a weight of {} bytes where the kernel reads {}", bytes, buffer.bytes);
    layout_.weights.push_back({value, buffer.layout, layout_.weights_bytes, bytes});
    layout_.weights_bytes += round_up(bytes);
    return it->second;
  }

  const PackagePlan& plan_;
  ModelLayout layout_;
  std::map<std::pair<graph::ValueId, std::string>, int64_t> known_;
};

// Gives all weights to the sink, one at a time.
bool stream_weights(const graph::Graph& graph, const ModelLayout& layout, const ByteSink& sink) {
  static constexpr std::byte kZero[kAlignment] = {};
  for (const WeightPiece& piece : layout.weights) {
    const graph::Value& value = graph.value(piece.value);
    std::vector<std::byte> dense, physical;
    auto bytes = graph::dense_bytes(*value.constant, value.dtype, value.elements(), dense);
    if (!piece.layout.empty()) {
      Arena arena;
      auto parsed = ir::parse_layout(arena, piece.layout);
      TCC_CHECK(parsed.has_value(), "the layout parsed before");
      physical.resize(static_cast<size_t>(piece.bytes));
      ir::to_physical(**parsed, bytes, physical, graph::dtype_size(value.dtype));
      bytes = physical;
    }
    if (!sink(bytes)) return false;
    if (!sink(std::span(kZero, static_cast<size_t>(round_up(piece.bytes) - piece.bytes)))) return false;
  }
  return true;
}

class ModelWriter {
 public:
  ModelWriter(const PackagePlan& plan, const ModelLayout& layout, const std::string& id, const std::string& metadata)
      : plan_(plan), layout_(layout), id_(id), metadata_(metadata) {}

  Result<void> write(const std::string& path) {
    const int64_t plan_at = add_plan(0, plan_.codes);
    std::vector<int64_t> older;
    for (size_t i = 0; i < plan_.older.size(); ++i) older.push_back(add_plan(i + 1, plan_.older[i].codes));
    const std::vector<uint64_t> list(older.size() + 1, 0);  // of pointers, NULL behind the last
    const int64_t older_at = image_.add(std::span<const uint64_t>(list));
    for (size_t i = 0; i < older.size(); ++i)
      image_.point(older_at + static_cast<int64_t>(i * sizeof(uint64_t)), To::kData, older[i]);
    ElfObject object;
    auto data = object.add_section(".data.rel.ro", ElfObject::Kind::kRelocatedData, 64, image_.bytes());
    auto strings = object.add_section(".rodata", ElfObject::Kind::kReadOnly, 1, strings_.bytes());
    auto metadata =
        object.add_section(std::string(kMetadataSection), ElfObject::Kind::kReadOnly, 16, metadata_section(metadata_));
    auto weights = object.add_streamed_section(
        ".lrodata", ElfObject::Kind::kReadOnlyLarge, 64, static_cast<uint64_t>(layout_.weights_bytes),
        [&](const ByteSink& sink) { return stream_weights(*plan_.graph, layout_, sink); });
    // jmp tcc_rt_query: the argument and the result pass through.
    auto code = object.add_section(".text", ElfObject::Kind::kCode, 16, std::string("\xe9\0\0\0\0", 5));
    object.define(fmt::format("tcc_{}_query", id_), code, 0, 5, true, false);
    object.define("tcc_rt_the_plan", data, static_cast<uint64_t>(plan_at), sizeof(tcc_rt_plan), false, true);
    object.define("tcc_rt_older_plans", data, static_cast<uint64_t>(older_at), list.size() * sizeof(uint64_t), false,
                  true);
    object.call_at(code, 1, object.refer("tcc_rt_query"), -4);
    auto device_code = strings;  // not used without device code
    if (!image_.device_code().empty())
      device_code = object.add_section(".lrodata.device", ElfObject::Kind::kReadOnlyLarge, 64, image_.device_code());
    std::vector<ElfObject::SymbolId> symbols;
    for (const std::string& symbol : image_.symbols()) symbols.push_back(object.refer(symbol));
    const std::map<To, ElfObject::SectionId> sections = {{To::kData, data},
                                                         {To::kStrings, strings},
                                                         {To::kMetadata, metadata},
                                                         {To::kWeights, weights},
                                                         {To::kDeviceCode, device_code}};
    for (const PlanImage::Pointer& p : image_.pointers()) {
      if (p.to == To::kSymbol)
        object.point_at(data, p.at, symbols[static_cast<size_t>(p.addend)], 0);
      else
        object.point_at(data, p.at, object.section_symbol(sections.at(p.to)), p.addend);
    }
    return object.write(path);
  }

 private:
  using To = PlanImage::To;

  int64_t add_kernel(const codegen::Artifact& artifact) {
    std::vector<tcc_rt_launch> launches;
    for (const codegen::Launch& l : artifact.launches) launches.push_back({nullptr, l.extent});
    int64_t at = image_.add(std::span<const tcc_rt_launch>(launches));
    for (size_t i = 0; i < launches.size(); ++i)
      image_.point_at_symbol(at + static_cast<int64_t>(i * sizeof(tcc_rt_launch) + offsetof(tcc_rt_launch, fn)),
                             artifact.launches[i].symbol);
    tcc_rt_kernel kernel{nullptr, static_cast<uint32_t>(launches.size()),
                         static_cast<uint32_t>(artifact.buffers.size())};
    int64_t kernel_at = image_.add(kernel);
    image_.point(kernel_at + static_cast<int64_t>(offsetof(tcc_rt_kernel, launches)), To::kData, at);
    return kernel_at;
  }

  int64_t add_tensors(const PublicTensors& tensors, const std::vector<uint64_t>& alignment) {
    const std::vector<graph::ValueId>& values = tensors.values;
    std::vector<tcc_tensor_info> infos;
    std::vector<int64_t> dims, names_at;
    for (size_t i = 0; i < values.size(); ++i) {
      const graph::Value& v = plan_.graph->value(values[i]);
      dims.push_back(image_.add(std::span<const int64_t>(v.shape)));
      names_at.push_back(strings_.add(tensors.names[i]));
      tcc_tensor_info info{};
      info.bytes = static_cast<uint64_t>(v.bytes());
      info.dtype = dl_type(v.dtype);
      info.ndim = static_cast<int32_t>(v.shape.size());
      info.alignment = alignment[i];
      infos.push_back(info);
    }
    int64_t at = image_.add(std::span<const tcc_tensor_info>(infos));
    for (size_t i = 0; i < infos.size(); ++i) {
      auto base = at + static_cast<int64_t>(i * sizeof(tcc_tensor_info));
      image_.point(base + static_cast<int64_t>(offsetof(tcc_tensor_info, name)), To::kStrings, names_at[i]);
      image_.point(base + static_cast<int64_t>(offsetof(tcc_tensor_info, dims)), To::kData, dims[i]);
    }
    return at;
  }

  int64_t add_steps(size_t level, const std::vector<TaskCode>& codes) {
    std::vector<int64_t> kernels;
    for (const TaskCode& code : codes) kernels.push_back(add_kernel(code.artifact));
    std::vector<int64_t> args;
    for (const auto& list : layout_.args[level]) args.push_back(image_.add(std::span<const tcc_rt_arg>(list)));
    std::vector<tcc_rt_step> steps(args.size());
    int64_t at = image_.add(std::span<const tcc_rt_step>(steps));
    for (size_t i = 0; i < args.size(); ++i) {
      auto base = at + static_cast<int64_t>(i * sizeof(tcc_rt_step));
      auto task = static_cast<size_t>(plan_.tasks->bindings[i].task);
      image_.point(base + static_cast<int64_t>(offsetof(tcc_rt_step, kernel)), To::kData, kernels[task]);
      image_.point(base + static_cast<int64_t>(offsetof(tcc_rt_step, args)), To::kData, args[i]);
    }
    return at;
  }

  int64_t add_factors(const std::vector<graph::SymbolicShape>& shapes, const std::vector<int32_t>* appends_to,
                      const std::vector<int32_t>* append_axis) {
    std::vector<tcc_rt_dynamic_tensor> tensors;
    std::vector<int64_t> at;
    for (size_t i = 0; i < shapes.size(); ++i) {
      std::vector<tcc_rt_factor> factors;
      for (size_t axis = 0; axis < shapes[i].size(); ++axis)
        for (const graph::Factor& f : shapes[i][axis])
          factors.push_back({f.symbol, static_cast<uint32_t>(axis), f.scale, f.offset});
      at.push_back(image_.add(std::span<const tcc_rt_factor>(factors)));
      tcc_rt_dynamic_tensor tensor{};
      tensor.num_factors = static_cast<uint32_t>(factors.size());
      tensor.appends_to = appends_to == nullptr ? -1 : (*appends_to)[i];
      tensor.append_axis = append_axis == nullptr ? 0 : static_cast<uint32_t>((*append_axis)[i]);
      tensors.push_back(tensor);
    }
    const int64_t first = image_.add(std::span<const tcc_rt_dynamic_tensor>(tensors));
    for (size_t i = 0; i < at.size(); ++i)
      image_.point(
          first + static_cast<int64_t>(i * sizeof(tcc_rt_dynamic_tensor) + offsetof(tcc_rt_dynamic_tensor, factors)),
          To::kData, at[i]);
    return first;
  }

  int64_t add_dynamic(const DynamicPlan& plan) {
    const int64_t inputs = add_factors(plan.inputs, nullptr, nullptr),
                  outputs = add_factors(plan.outputs, &plan.appends_to, &plan.append_axis);
    std::vector<tcc_rt_bucket> buckets;
    std::vector<int64_t> bounds;
    for (const DynamicPlan::Bucket& bucket : plan.buckets) {
      bounds.push_back(image_.add(std::span<const int64_t>(bucket.bounds)));
      buckets.push_back({nullptr, static_cast<uint32_t>(bucket.first_step), static_cast<uint32_t>(bucket.steps)});
    }
    const int64_t buckets_at = image_.add(std::span<const tcc_rt_bucket>(buckets));
    for (size_t i = 0; i < bounds.size(); ++i)
      image_.point(buckets_at + static_cast<int64_t>(i * sizeof(tcc_rt_bucket) + offsetof(tcc_rt_bucket, bounds)),
                   To::kData, bounds[i]);
    tcc_rt_dynamic dynamic{};
    dynamic.num_buckets = static_cast<uint32_t>(buckets.size());
    dynamic.num_counts = static_cast<uint32_t>(plan.counts);
    dynamic.steps_bytes = static_cast<uint64_t>(layout_.steps_bytes);
    const int64_t at = image_.add(dynamic);
    image_.point(at + static_cast<int64_t>(offsetof(tcc_rt_dynamic, inputs)), To::kData, inputs);
    image_.point(at + static_cast<int64_t>(offsetof(tcc_rt_dynamic, outputs)), To::kData, outputs);
    image_.point(at + static_cast<int64_t>(offsetof(tcc_rt_dynamic, buckets)), To::kData, buckets_at);
    return at;
  }

  int64_t add_dims(const std::vector<graph::DimRange>& dims) {
    std::vector<tcc_dim_info> infos;
    for (const graph::DimRange& dim : dims) infos.push_back({nullptr, dim.low, dim.high});
    const int64_t at = image_.add(std::span<const tcc_dim_info>(infos));
    for (size_t i = 0; i < dims.size(); ++i)
      image_.point(at + static_cast<int64_t>(i * sizeof(tcc_dim_info) + offsetof(tcc_dim_info, name)), To::kStrings,
                   strings_.add(dims[i].name));
    return at;
  }

  static uint64_t mask_of(const target::CpuFeatures& features) {
    uint64_t mask = 0;
#define TCC_X(field, name) \
  if (features.field) mask |= tcc_rt_cpu_feature(name);
    TCC_CPU_FEATURES(TCC_X)
#undef TCC_X
    return mask;
  }

  // `level`: 0, or 1 + position in PackagePlan::older.
  int64_t add_plan(size_t level, const std::vector<TaskCode>& codes) {
    const bool gpu = !plan_.architectures.empty();
    const PublicTensors own_inputs = public_inputs(plan_), own_outputs = public_outputs(plan_);
    int64_t steps = gpu ? add_gpu_code(plan_, layout_, image_, strings_) : add_steps(level, codes);
    int64_t inputs = add_tensors(own_inputs, layout_.input_alignment),
            outputs = add_tensors(own_outputs, layout_.output_alignment);
    const int64_t dynamic = plan_.dynamic == nullptr ? 0 : add_dynamic(*plan_.dynamic),
                  dims = plan_.dynamic == nullptr ? 0 : add_dims(plan_.dynamic->dims);
    tcc_rt_plan plan{};
    plan.rt_version = TCC_RT_VERSION;
    plan.num_steps = static_cast<uint32_t>(layout_.args[0].size());
    plan.metadata_bytes = metadata_.size();
    plan.self_test_seed = 1;
    plan.self_test_tolerance = 0;  // kernels split work by the number of threads only: two runs agree bit by bit
    plan.info.struct_size = sizeof(tcc_model_info);
    plan.info.num_inputs = static_cast<uint32_t>(own_inputs.values.size());
    plan.info.num_outputs = static_cast<uint32_t>(own_outputs.values.size());
    plan.info.num_dims = plan_.dynamic == nullptr ? 0 : static_cast<uint32_t>(plan_.dynamic->dims.size());
    plan.info.workspace_bytes = static_cast<uint64_t>(layout_.workspace_bytes);
    plan.info.workspace_alignment = kAlignment;
    plan.info.weights_bytes = static_cast<uint64_t>(layout_.weights_bytes);
    plan.info.cpu_features = gpu ? 0 : mask_of(layout_.used_features[level]);
    plan.info.device_type = gpu ? TCC_DEVICE_CUDA : TCC_DEVICE_CPU;
    int64_t at = image_.add(plan);
    auto point = [&](size_t offset, To to, int64_t addend) {
      image_.point(at + static_cast<int64_t>(offset), to, addend);
    };
    point(gpu ? offsetof(tcc_rt_plan, gpu) : offsetof(tcc_rt_plan, steps), To::kData, steps);
    if (layout_.weights_bytes > 0) point(offsetof(tcc_rt_plan, weights), To::kWeights, 0);
    point(offsetof(tcc_rt_plan, metadata_json), To::kMetadata, kMetadataHeaderBytes);
    size_t info = offsetof(tcc_rt_plan, info);
    point(info + offsetof(tcc_model_info, id), To::kStrings, strings_.add(id_));
    point(info + offsetof(tcc_model_info, inputs), To::kData, inputs);
    point(info + offsetof(tcc_model_info, outputs), To::kData, outputs);
    if (plan_.dynamic != nullptr) {
      point(info + offsetof(tcc_model_info, dims), To::kData, dims);
      point(offsetof(tcc_rt_plan, dynamic), To::kData, dynamic);
    }
    return at;
  }

  const PackagePlan& plan_;
  const ModelLayout& layout_;
  const std::string& id_;
  const std::string& metadata_;
  PlanImage image_;
  StringPool strings_;
};

}  // namespace

tcc_dldtype dl_type(graph::DType dtype) {
  using graph::DType;
  const auto bits = static_cast<uint8_t>(graph::dtype_size(dtype) * 8);
  if (dtype == DType::kBool) return {TCC_DTYPE_BOOL, bits, 1};
  if (dtype == DType::kBF16) return {TCC_DTYPE_BFLOAT, bits, 1};
  if (graph::is_float(dtype)) return {TCC_DTYPE_FLOAT, bits, 1};
  return {static_cast<uint8_t>(graph::is_unsigned(dtype) ? TCC_DTYPE_UINT : TCC_DTYPE_INT), bits, 1};
}

namespace {

// The last values of each number below `count`.
PublicTensors last_of(const std::vector<graph::ValueId>& values, const std::vector<std::string>& names,
                      const std::vector<int32_t>& numbers, size_t count) {
  PublicTensors tensors{std::vector<graph::ValueId>(count, graph::kNone), std::vector<std::string>(count)};
  for (size_t i = 0; i < values.size(); ++i) {
    const auto number = static_cast<size_t>(numbers.at(i));
    if (number >= count) continue;
    tensors.values[number] = values[i];
    tensors.names[number] = names[i];
  }
  return tensors;
}

}  // namespace

PublicTensors public_inputs(const PackagePlan& plan) {
  std::vector<std::string> names;
  for (graph::ValueId id : plan.graph->inputs) names.push_back(plan.graph->value(id).name);
  if (plan.dynamic == nullptr) return {plan.graph->inputs, names};
  return last_of(plan.graph->inputs, names, plan.dynamic->input_numbers, plan.dynamic->inputs.size());
}

PublicTensors public_outputs(const PackagePlan& plan) {
  if (plan.dynamic == nullptr) return {plan.graph->outputs, plan.graph->output_names};
  return last_of(plan.graph->outputs, plan.graph->output_names, plan.dynamic->output_numbers,
                 plan.dynamic->outputs.size());
}

Result<ModelLayout> place_model(const PackagePlan& plan) {
  return Placer(plan).run();
}

Result<void> write_model_object(const PackagePlan& plan, const ModelLayout& layout, const std::string& id,
                                const std::string& metadata, const std::string& path) {
  return ModelWriter(plan, layout, id, metadata).write(path);
}

}  // namespace tcc::package
