#include "model_data.h"

#include <cstddef>
#include <cstring>
#include <map>

#include "tcc/ir/permute.h"
#include "tcc/support/check.h"

namespace tcc::package {
namespace {

constexpr int64_t kAlignment = TCC_RT_WORKSPACE_ALIGNMENT;
static_assert(graph::kWorkspaceAlignment % TCC_RT_WORKSPACE_ALIGNMENT == 0);

int64_t round_up(int64_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

// Kernels may not assume more than rt promises.
void check_alignment(const codegen::BufferInfo& buffer, const graph::ValueStorage& storage) {
  bool callers = storage.kind == graph::StorageKind::kInput || storage.kind == graph::StorageKind::kOutput;
  int64_t promised = callers ? ir::type_bytes(buffer.type) : kAlignment;
  TCC_CHECK(buffer.alignment <= promised, "a kernel assumes {} bytes of alignment where {} are promised",
            buffer.alignment, promised);
}

class Placer {
 public:
  explicit Placer(const PackagePlan& plan) : plan_(plan) {}

  Result<ModelLayout> run() {
    int64_t scratch = 0, first_scratch = round_up(plan_.memory->workspace_bytes);
    for (const task::GroupBinding& binding : plan_.tasks->bindings) {
      const codegen::Artifact& artifact = plan_.codes[static_cast<size_t>(binding.task)].artifact;
      TCC_CHECK(artifact.format == codegen::CodeFormat::kHostObject, "only host code makes a library");
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
        TCC_TRY(tcc_rt_arg arg, place_param(buffer, binding.params[param++]));
        args.push_back(arg);
      }
      TCC_CHECK(param == binding.params.size(), "the kernel has fewer parameters than its task");
      scratch = std::max(scratch, at);
      layout_.args.push_back(std::move(args));
    }
    layout_.workspace_bytes = first_scratch + scratch;
    return std::move(layout_);
  }

 private:
  Result<tcc_rt_arg> place_param(const codegen::BufferInfo& buffer, const task::ParamSource& source) {
    const graph::ValueStorage& storage = plan_.memory->storage.at(static_cast<size_t>(source.value));
    check_alignment(buffer, storage);
    TCC_CHECK(storage.kind == graph::StorageKind::kConstant || buffer.layout.empty(),
              "only constants may have a layout of their own");
    switch (storage.kind) {
      case graph::StorageKind::kInput:
        return tcc_rt_arg{TCC_RT_ARG_INPUT, static_cast<uint32_t>(storage.index), 0};
      case graph::StorageKind::kOutput:
        return tcc_rt_arg{TCC_RT_ARG_OUTPUT, static_cast<uint32_t>(storage.index), 0};
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

// Strings, zero-terminated, each once.
class StringPool {
 public:
  int64_t add(const std::string& text) {
    auto [it, fresh] = known_.try_emplace(text, static_cast<int64_t>(bytes_.size()));
    if (fresh) bytes_.append(text.c_str(), text.size() + 1);
    return it->second;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::map<std::string, int64_t> known_;
  std::string bytes_;
};

// The C structs of the plan as one block of data with the places of its pointers.
class PlanImage {
 public:
  enum class To : uint8_t { kData, kStrings, kWeights, kCode };
  struct Pointer {
    uint64_t at;
    To to;
    int64_t addend;  // kCode: index into codes
  };

  template <class T>
  int64_t add(std::span<const T> items) {
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    auto at = static_cast<int64_t>(bytes_.size());
    bytes_.append(reinterpret_cast<const char*>(items.data()), items.size_bytes());
    return at;
  }
  template <class T>
  int64_t add(const T& item) {
    return add(std::span<const T>(&item, 1));
  }
  void point(int64_t at, To to, int64_t addend) { pointers_.push_back({static_cast<uint64_t>(at), to, addend}); }
  const std::string& bytes() const { return bytes_; }
  const std::vector<Pointer>& pointers() const { return pointers_; }

 private:
  std::string bytes_;
  std::vector<Pointer> pointers_;
};

class ModelWriter {
 public:
  ModelWriter(const PackagePlan& plan, const ModelLayout& layout, const std::string& id, const std::string& metadata)
      : plan_(plan), layout_(layout), id_(id), metadata_(metadata) {}

  Result<void> write(const std::string& path) {
    uint64_t plan_at = add_plan();
    ElfObject object;
    auto data = object.add_section(".data.rel.ro", ElfObject::Kind::kRelocatedData, 64, image_.bytes());
    auto strings = object.add_section(".rodata", ElfObject::Kind::kReadOnly, 1, strings_.bytes());
    auto weights = object.add_streamed_section(
        ".lrodata", ElfObject::Kind::kReadOnlyLarge, 64, static_cast<uint64_t>(layout_.weights_bytes),
        [&](const ByteSink& sink) { return stream_weights(*plan_.graph, layout_, sink); });
    // jmp tcc_rt_query: the argument and the result pass through.
    auto code = object.add_section(".text", ElfObject::Kind::kCode, 16, std::string("\xe9\0\0\0\0", 5));
    object.define(fmt::format("tcc_{}_query", id_), code, 0, 5, true, false);
    object.define("tcc_rt_the_plan", data, plan_at, sizeof(tcc_rt_plan), false, true);
    object.call_at(code, 1, object.refer("tcc_rt_query"), -4);
    std::vector<ElfObject::SymbolId> functions;
    for (const std::string& symbol : symbols_) functions.push_back(object.refer(symbol));
    for (const PlanImage::Pointer& p : image_.pointers()) {
      switch (p.to) {
        case PlanImage::To::kData:
          object.point_at(data, p.at, object.section_symbol(data), p.addend);
          break;
        case PlanImage::To::kStrings:
          object.point_at(data, p.at, object.section_symbol(strings), p.addend);
          break;
        case PlanImage::To::kWeights:
          object.point_at(data, p.at, object.section_symbol(weights), p.addend);
          break;
        case PlanImage::To::kCode:
          object.point_at(data, p.at, functions[static_cast<size_t>(p.addend)], 0);
          break;
      }
    }
    return object.write(path);
  }

 private:
  using To = PlanImage::To;

  int64_t add_kernel(const codegen::Artifact& artifact) {
    std::vector<tcc_rt_launch> launches;
    for (const codegen::Launch& l : artifact.launches) launches.push_back({nullptr, l.extent});
    int64_t at = image_.add(std::span<const tcc_rt_launch>(launches));
    for (size_t i = 0; i < launches.size(); ++i) {
      image_.point(at + static_cast<int64_t>(i * sizeof(tcc_rt_launch) + offsetof(tcc_rt_launch, fn)), To::kCode,
                   static_cast<int64_t>(symbols_.size()));
      symbols_.push_back(artifact.launches[i].symbol);
    }
    tcc_rt_kernel kernel{nullptr, static_cast<uint32_t>(launches.size()),
                         static_cast<uint32_t>(artifact.buffers.size())};
    int64_t kernel_at = image_.add(kernel);
    image_.point(kernel_at + static_cast<int64_t>(offsetof(tcc_rt_kernel, launches)), To::kData, at);
    return kernel_at;
  }

  int64_t add_tensors(const std::vector<graph::ValueId>& values, const std::vector<std::string>* names) {
    std::vector<tcc_tensor_info> infos;
    std::vector<int64_t> dims, names_at;
    for (size_t i = 0; i < values.size(); ++i) {
      const graph::Value& v = plan_.graph->value(values[i]);
      dims.push_back(image_.add(std::span<const int64_t>(v.shape)));
      names_at.push_back(strings_.add(names != nullptr ? (*names)[i] : v.name));
      tcc_tensor_info info{};
      info.bytes = static_cast<uint64_t>(v.bytes());
      info.dtype = dl_type(v.dtype);
      info.ndim = static_cast<int32_t>(v.shape.size());
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

  int64_t add_steps() {
    std::vector<int64_t> kernels;
    for (const TaskCode& code : plan_.codes) kernels.push_back(add_kernel(code.artifact));
    std::vector<int64_t> args;
    for (const auto& list : layout_.args) args.push_back(image_.add(std::span<const tcc_rt_arg>(list)));
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

  uint64_t cpu_features() const {
    uint64_t mask = 0;
#define TCC_X(field, name) \
  if (plan_.target.cpu.features.field) mask |= tcc_rt_cpu_feature(name);
    TCC_CPU_FEATURES(TCC_X)
#undef TCC_X
    return mask;
  }

  uint64_t add_plan() {
    const graph::Graph& g = *plan_.graph;
    int64_t steps = add_steps(), inputs = add_tensors(g.inputs, nullptr),
            outputs = add_tensors(g.outputs, &g.output_names);
    tcc_rt_plan plan{};
    plan.rt_version = TCC_RT_VERSION;
    plan.num_steps = static_cast<uint32_t>(layout_.args.size());
    plan.metadata_bytes = metadata_.size();
    plan.self_test_seed = 1;
    plan.self_test_tolerance = 0;  // kernels split work by the number of threads only: two runs agree bit by bit
    plan.info.struct_size = sizeof(tcc_model_info);
    plan.info.num_inputs = static_cast<uint32_t>(g.inputs.size());
    plan.info.num_outputs = static_cast<uint32_t>(g.outputs.size());
    plan.info.workspace_bytes = static_cast<uint64_t>(layout_.workspace_bytes);
    plan.info.workspace_alignment = kAlignment;
    plan.info.weights_bytes = static_cast<uint64_t>(layout_.weights_bytes);
    plan.info.cpu_features = cpu_features();
    int64_t at = image_.add(plan);
    auto point = [&](size_t offset, To to, int64_t addend) {
      image_.point(at + static_cast<int64_t>(offset), to, addend);
    };
    point(offsetof(tcc_rt_plan, steps), To::kData, steps);
    if (layout_.weights_bytes > 0) point(offsetof(tcc_rt_plan, weights), To::kWeights, 0);
    point(offsetof(tcc_rt_plan, metadata_json), To::kStrings, strings_.add(metadata_));
    size_t info = offsetof(tcc_rt_plan, info);
    point(info + offsetof(tcc_model_info, id), To::kStrings, strings_.add(id_));
    point(info + offsetof(tcc_model_info, inputs), To::kData, inputs);
    point(info + offsetof(tcc_model_info, outputs), To::kData, outputs);
    return static_cast<uint64_t>(at);
  }

  const PackagePlan& plan_;
  const ModelLayout& layout_;
  const std::string& id_;
  const std::string& metadata_;
  PlanImage image_;
  StringPool strings_;
  std::vector<std::string> symbols_;  // of all launches
};

}  // namespace

tcc_dldtype dl_type(graph::DType dtype) {
  auto bits = static_cast<uint8_t>(graph::dtype_size(dtype) * 8);
  switch (dtype) {
    case graph::DType::kF32:
    case graph::DType::kF64:
    case graph::DType::kF16:
      return {TCC_DTYPE_FLOAT, bits, 1};
    case graph::DType::kBF16:
      return {TCC_DTYPE_BFLOAT, bits, 1};
    case graph::DType::kI8:
    case graph::DType::kI32:
    case graph::DType::kI64:
      return {TCC_DTYPE_INT, bits, 1};
    case graph::DType::kU8:
    case graph::DType::kU32:
    case graph::DType::kU64:
      return {TCC_DTYPE_UINT, bits, 1};
    case graph::DType::kBool:
      return {TCC_DTYPE_BOOL, bits, 1};
  }
  TCC_UNREACHABLE();
}

Result<ModelLayout> place_model(const PackagePlan& plan) {
  return Placer(plan).run();
}

Result<void> write_model_object(const PackagePlan& plan, const ModelLayout& layout, const std::string& id,
                                const std::string& metadata, const std::string& path) {
  return ModelWriter(plan, layout, id, metadata).write(path);
}

}  // namespace tcc::package
