#include "tcc/package/loaded_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "library_file.h"
#include "model_data.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::package {
namespace {

// "lib<ID>.so" -> "<ID>"; "" for other names.
std::string id_of_path(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  if (name.size() <= 6 || name.rfind("lib", 0) != 0 || name.substr(name.size() - 3) != ".so") return "";
  return name.substr(3, name.size() - 6);
}

Result<graph::DType> dtype_of(const tcc_dldtype& t, const std::string& path) {
  using graph::DType;
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8, DType::kI32, DType::kI64,
                      DType::kU8, DType::kU32, DType::kU64, DType::kBool, DType::kI16, DType::kU16})
    if (const tcc_dldtype own = dl_type(dtype); own.code == t.code && own.bits == t.bits) return dtype;
  return environment_error("'{}' has a tensor of a type this tool does not know (code {}, {} bits)", path, t.code,
                           t.bits);
}

Result<std::vector<TensorSpec>> read_specs(const tcc_tensor_info* infos, uint32_t count, const std::string& path) {
  std::vector<TensorSpec> specs;
  for (uint32_t i = 0; i < count; ++i) {
    const tcc_tensor_info& info = infos[i];
    TCC_TRY(graph::DType dtype, dtype_of(info.dtype, path));
    specs.push_back(
        {info.name, dtype, graph::Shape(info.dims, info.dims + info.ndim), static_cast<int64_t>(info.bytes)});
  }
  return specs;
}

std::string metadata_of(const tcc_model_api& api) {
  uint64_t length = 0;
  const char* text = api.metadata_json(&length);
  return {text, length};
}

// `shapes` are read by run(), and those of outputs written where they differ.
std::vector<tcc_dltensor> make_tensors(const tcc_tensor_info* infos, uint32_t count, graph::Shape* shapes) {
  std::vector<tcc_dltensor> tensors(count);
  for (uint32_t i = 0; i < count; ++i) {
    tensors[i].device = {TCC_DEVICE_CPU, 0};
    tensors[i].ndim = infos[i].ndim;
    tensors[i].dtype = infos[i].dtype;
    tensors[i].shape = shapes[i].data();
  }
  return tensors;
}

}  // namespace

Result<std::string> read_metadata(const std::string& path) {
  TCC_TRY(std::optional<std::string> metadata, check_library(path));
  if (metadata) return std::move(*metadata);
  return make_error(
      ErrorClass::kInput,
      fmt::format("'{}' has no section {}: another program or an older tcc made it", sanitize(path), kMetadataSection),
      "build it again with this tcc");
}

Result<std::shared_ptr<LoadedModel>> LoadedModel::open(const std::string& path,
                                                       const std::map<std::string, int64_t>& sizes) {
  std::string id = id_of_path(path);
  if (id.empty()) {
    return make_error(ErrorClass::kInput, fmt::format("'{}' is not named like a model library", sanitize(path)),
                      "give the lib<ID>.so that was built, under its own name");
  }
  std::error_code code;
  std::string absolute = std::filesystem::absolute(path, code).string();
  if (code) return environment_error("'{}': {}", sanitize(path), code.message());
  // The loader waits for a pipe's writer for ever, and a file that ends early kills the process.
  auto metadata = check_library(path);
  if (!metadata) return tl::make_unexpected(std::move(metadata).error().with_context("model library"));
  auto library = DynamicLibrary::open({absolute});
  if (!library) return tl::make_unexpected(std::move(library).error().with_context("model library"));
  std::shared_ptr<LoadedModel> model(new LoadedModel);
  model->library_ = std::move(*library);
  model->id_ = id;
  std::string symbol = fmt::format("tcc_{}_query", id);
  auto query = model->library_->function<const tcc_model_api* (*)(uint32_t)>(symbol.c_str());
  if (query == nullptr) {
    return make_error(ErrorClass::kEnvironment, fmt::format("'{}' does not export {}", sanitize(path), symbol),
                      "is it a library built by tcc, under the name it was built with?");
  }
  model->api_ = query(TCC_MODEL_ABI_VERSION);
  if (model->api_ == nullptr) {
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("'{}' has a newer interface than version {}", sanitize(path), TCC_MODEL_ABI_VERSION),
                      "use the tcc that built it, or build it again");
  }
  model->metadata_ = *metadata ? std::move(**metadata) : metadata_of(*model->api_);
  if (std::string problem = metadata_problem(model->metadata_); !problem.empty())
    return make_error(ErrorClass::kInput, fmt::format("'{}': its metadata are damaged: {}", sanitize(path), problem),
                      "build it again");
  const tcc_model_info* info = model->api_->info();
  TCC_TRY(model->inputs_, read_specs(info->inputs, info->num_inputs, path));
  TCC_TRY(model->outputs_, read_specs(info->outputs, info->num_outputs, path));
  TCC_TRY_VOID(model->take_sizes(sizes));
  return model;
}

Result<void> LoadedModel::take_sizes(const std::map<std::string, int64_t>& sizes) {
  const nlohmann::json metadata = nlohmann::json::parse(metadata_, nullptr, false);
  const auto damaged = [&] {
    return make_error(ErrorClass::kInput, fmt::format("{}: its metadata do not describe its dimensions", id_),
                      "build the library again with this tcc");
  };
  if (metadata.is_object() && metadata.contains("dims")) {
    if (!metadata["dims"].is_array()) return damaged();
    for (const auto& dim : metadata["dims"]) {
      if (!dim.is_object()) return damaged();
      dims_.push_back({dim.value("name", ""), dim.value("low", int64_t{1}), dim.value("high", int64_t{1}),
                       dim.value("tuned", std::vector<int64_t>())});
    }
  }
  std::vector<int64_t> actual;
  for (const graph::DimRange& dim : dims_) {
    const auto given = sizes.find(dim.name);
    actual.push_back(given == sizes.end() ? dim.high : given->second);
    if (actual.back() < dim.low || actual.back() > dim.high)
      return make_error(ErrorClass::kUsage,
                        fmt::format("--dim {}={}: expected a size from {} to {}, for which {} was built",
                                    sanitize(dim.name), actual.back(), dim.low, dim.high, id_),
                        "build it with a wider range");
  }
  bool counted = false;
  for (const auto& most : metadata.is_object() ? metadata.value("counts", nlohmann::json::array()) : nlohmann::json()) {
    if (!most.is_number_integer()) return damaged();
    actual.push_back(most.get<int64_t>());
    counted = true;
  }
  for (const auto& [name, size] : sizes) {
    const bool known =
        std::any_of(dims_.begin(), dims_.end(), [&](const graph::DimRange& dim) { return dim.name == name; });
    if (known) continue;
    std::vector<std::string> names;
    for (const graph::DimRange& dim : dims_) names.push_back(sanitize(dim.name));
    return make_error(
        ErrorClass::kUsage, fmt::format("--dim {}: expected a dimension of several sizes of {}", sanitize(name), id_),
        names.empty() ? "every size of this library is fixed" : fmt::format("it has {}", fmt::join(names, ", ")));
  }
  if (dims_.empty() && !counted) return {};
  for (auto [name, specs] : {std::pair("inputs", &inputs_), std::pair("outputs", &outputs_)}) {
    for (size_t i = 0; i < specs->size(); ++i) {
      graph::Shape shape;
      graph::SymbolicShape symbolic;
      const auto list = metadata.value(name, nlohmann::json::array());
      if (i >= list.size() || !list[i].is_object() || !list[i].contains("axes")) return damaged();
      for (const auto& axis : list[i]["axes"]) {
        graph::SymbolicAxis factors;
        for (const auto& factor : axis) {
          const auto numbers = factor.is_array() ? factor.get<std::vector<int64_t>>() : std::vector<int64_t>();
          if (numbers.size() != 3 || numbers[0] >= std::ssize(actual)) return damaged();
          factors.push_back({static_cast<int32_t>(numbers[0]), numbers[1], numbers[2]});
        }
        shape.push_back(graph::axis_extent(factors, actual));
        symbolic.push_back(std::move(factors));
      }
      if (specs == &inputs_) symbolic_inputs_.push_back(std::move(symbolic));
      if (shape.size() != (*specs)[i].shape.size()) return damaged();
      (*specs)[i].shape = shape;
      (*specs)[i].bytes = graph::element_count(shape) * graph::dtype_size((*specs)[i].dtype);
    }
  }
  return {};
}

std::map<std::string, int64_t> LoadedModel::sizes_of(const std::map<std::string, graph::Shape>& shapes) const {
  std::map<std::string, int64_t> sizes;
  for (size_t i = 0; i < symbolic_inputs_.size(); ++i) {
    const auto given = shapes.find(inputs_[i].name);
    if (given == shapes.end() || given->second.size() != symbolic_inputs_[i].size()) continue;
    for (size_t axis = 0; axis < given->second.size(); ++axis) {
      const graph::SymbolicAxis& factors = symbolic_inputs_[i][axis];
      if (factors.size() != 1 || factors[0].symbol < 0 || factors[0].scale == 0) continue;
      sizes[dims_[static_cast<size_t>(factors[0].symbol)].name] =
          (given->second[axis] - factors[0].offset) / factors[0].scale;
    }
  }
  return sizes;
}

int64_t LoadedModel::workspace_bytes() const {
  return static_cast<int64_t>(api_->workspace_bytes());
}
int64_t LoadedModel::weights_bytes() const {
  return static_cast<int64_t>(api_->info()->weights_bytes);
}

bool LoadedModel::on_gpu() const {
  const tcc_model_info* info = api_->info();
  const bool says = info->struct_size >= offsetof(tcc_model_info, device_type) + sizeof info->device_type;
  return says && info->device_type == TCC_DEVICE_CUDA;
}

Result<std::unique_ptr<ModelContext>> LoadedModel::create_context(const ContextOptions& options) {
  tcc_create_options create{};
  create.struct_size = sizeof create;
  create.threads = options.threads;
  create.spin_us = options.spin_us;
  create.flags = options.pin ? static_cast<uint32_t>(TCC_CREATE_PIN_THREADS) : 0;
  if (options.keep_denormals) create.flags |= TCC_CREATE_KEEP_DENORMALS;
  if (on_gpu()) {
    if (options.host_tensors) create.flags |= TCC_CREATE_HOST_TENSORS;
    if (!options.cuda_driver.empty()) create.cuda_driver = options.cuda_driver.c_str();
  }
  tcc_context* context = nullptr;
  tcc_status status = api_->create(&create, &context);
  if (status != TCC_OK) {
    return make_error(
        ErrorClass::kEnvironment,
        fmt::format("{}: cannot make a context: {} ({})", id_, api_->last_error(), api_->status_string(status)),
        on_gpu() ? "the library runs on an NVIDIA GPU; `tcc inspect` shows for which it has code" : "");
  }
  return std::unique_ptr<ModelContext>(new ModelContext(shared_from_this(), context));
}

ModelContext::ModelContext(std::shared_ptr<const LoadedModel> model, tcc_context* context)
    : model_(std::move(model)), context_(context) {
  const tcc_model_info* info = model_->api().info();
  for (const auto* specs : {&model_->inputs(), &model_->outputs()})
    for (const TensorSpec& spec : *specs) shapes_.push_back(spec.shape);
  inputs_ = make_tensors(info->inputs, info->num_inputs, shapes_.data());
  outputs_ = make_tensors(info->outputs, info->num_outputs, shapes_.data() + info->num_inputs);
}

ModelContext::~ModelContext() {
  model_->api().destroy(context_);
}

Result<void> ModelContext::check(tcc_status status, const char* what) const {
  if (status == TCC_OK) return {};
  const tcc_model_api& api = model_->api();
  return environment_error("{}: {}: {} ({})", model_->id(), what, api.last_error(), api.status_string(status));
}

void ModelContext::take(std::span<const void* const> inputs, std::span<void* const> outputs, tcc_dldevice device) {
  TCC_CHECK(inputs.size() == inputs_.size() && outputs.size() == outputs_.size(),
            "{} inputs and {} outputs for {} and {}", inputs.size(), outputs.size(), inputs_.size(), outputs_.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs_[i].data = const_cast<void*>(inputs[i]);
    inputs_[i].device = device;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs_[i].data = outputs[i];
    outputs_[i].device = device;
    std::ranges::copy(model_->outputs()[i].shape, outputs_[i].shape);  // the last run wrote its own
  }
}

Result<void> ModelContext::run(std::span<const void* const> inputs, std::span<void* const> outputs) {
  take(inputs, outputs, {TCC_DEVICE_CPU, 0});
  return check(model_->api().run(context_, inputs_.data(), static_cast<uint32_t>(inputs_.size()), outputs_.data(),
                                 static_cast<uint32_t>(outputs_.size()), nullptr, 0, nullptr),
               "run failed");
}

Result<void> ModelContext::enqueue(std::span<const uint64_t> inputs, std::span<const uint64_t> outputs, void* stream) {
  TCC_CHECK(model_->on_gpu(), "{} does not run on a GPU", model_->id());
  const tcc_dldevice device = {TCC_DEVICE_CUDA, info().device};
  // Addresses are pointers here: both have 64 bits.
  take({reinterpret_cast<const void* const*>(inputs.data()), inputs.size()},
       {reinterpret_cast<void* const*>(outputs.data()), outputs.size()}, device);
  return check(model_->api().run(context_, inputs_.data(), static_cast<uint32_t>(inputs_.size()), outputs_.data(),
                                 static_cast<uint32_t>(outputs_.size()), nullptr, 0, stream),
               "run failed");
}

Result<void> ModelContext::run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                                     std::span<uint64_t> step_ns) {
  const tcc_model_api& api = model_->api();
  if (api.struct_size < offsetof(tcc_model_api, run_timed) + sizeof api.run_timed)
    return make_error(ErrorClass::kInput, fmt::format("{} is too old to time its kernels", model_->id()),
                      "build it again with this tcc");
  take(inputs, outputs, {TCC_DEVICE_CPU, 0});
  return check(api.run_timed(context_, inputs_.data(), static_cast<uint32_t>(inputs_.size()), outputs_.data(),
                             static_cast<uint32_t>(outputs_.size()), nullptr, 0, step_ns.data(),
                             static_cast<uint32_t>(step_ns.size())),
               "run failed");
}

Result<void> ModelContext::self_test() {
  return check(model_->api().self_test(context_), "self test failed");
}

tcc_context_info ModelContext::info() const {
  tcc_context_info info{};
  info.struct_size = sizeof info;
  tcc_status status = model_->api().context_info(context_, &info);
  TCC_CHECK(status == TCC_OK);
  return info;
}

int ModelContext::threads() const {
  return info().threads;
}

}  // namespace tcc::package
