#include "tcc/driver/run.h"

#include <algorithm>
#include <cmath>

#include "driver/named_tensors.h"
#include "tcc/graph/reference.h"
#include "tcc/package/loaded_model.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

using package::TensorSpec;

Result<void> check_complete(const std::vector<TensorSpec>& specs, const RunOptions& options) {
  std::vector<std::string> missing;
  std::string flags;
  for (const TensorSpec& spec : specs) {
    if (options.random || options.files.contains(spec.name) || options.arrays.contains(spec.name)) continue;
    missing.push_back(fmt::format("input {}", describe_tensor(spec)));
    flags += fmt::format(" --input {}=FILE.npy", sanitize(spec.name));
  }
  if (missing.empty()) return {};
  return make_error(ErrorClass::kUsage, fmt::format("{} of {} inputs are not given", missing.size(), specs.size()),
                    fmt::format("add{}, or --random for random numbers", flags), missing);
}

// The library at the sizes that the tensors say.
Result<std::shared_ptr<package::LoadedModel>> open_for(const std::string& library, const RunOptions& options) {
  TCC_TRY(auto loaded, package::LoadedModel::open(library, options.sizes));
  if (loaded->dims().empty()) return loaded;
  std::map<std::string, graph::Shape> shapes;
  for (const auto& [name, array] : options.arrays) shapes[name] = array.shape;
  for (const TensorSpec& spec : loaded->inputs()) {
    const auto file = options.files.find(spec.name);
    if (file == options.files.end()) continue;
    TCC_TRY(const TensorFile tensor, read_tensor(file->second, spec.dtype == graph::DType::kBF16));
    shapes[spec.name] = tensor.shape;
  }
  std::map<std::string, int64_t> sizes = options.sizes;
  for (const auto& [name, size] : loaded->sizes_of(shapes)) sizes[name] = size;
  return package::LoadedModel::open(library, sizes);
}

Result<std::vector<std::byte>> input_bytes(const TensorSpec& spec, size_t index, const RunOptions& options) {
  if (auto file = options.files.find(spec.name); file != options.files.end()) {
    TCC_TRY(TensorFile tensor, read_tensor(file->second, spec.dtype == graph::DType::kBF16));
    return take_tensor(spec, tensor, fmt::format("'{}'", sanitize(file->second)));
  }
  if (auto array = options.arrays.find(spec.name); array != options.arrays.end())
    return take_tensor(spec, array->second, fmt::format("the array '{}'", sanitize(spec.name)));
  graph::Value value;
  value.dtype = spec.dtype;
  value.shape = spec.shape;
  graph::Constant made =
      graph::make_constant_from_doubles(spec.dtype, graph::random_tensor(value, options.seed + index).data);
  return std::vector<std::byte>(made.bytes.begin(), made.bytes.end());
}

// The elements of an output are the first ones of its memory where its extents depend on the data.
TensorRange bytes_range(const TensorSpec& spec, std::span<const std::byte> bytes) {
  const graph::Constant view{nullptr, bytes, false};
  return driver::range_of(spec.name, spec.dtype, spec.shape,
                          graph::constant_doubles(view, spec.dtype, graph::element_count(spec.shape)));
}

Result<void> write_outputs(const std::vector<NamedTensor>& tensors, const RunOptions& options, RunReport& report) {
  for (const NamedTensor& tensor : tensors) {
    auto file = options.out_files.find(tensor.name);
    if (file == options.out_files.end()) continue;
    TCC_TRY_VOID(write_tensor(file->second, tensor));
    report.files.push_back(file->second);
  }
  if (options.archive.empty()) return {};
  TCC_TRY_VOID(write_npz(options.archive, tensors));
  report.files.push_back(options.archive);
  return {};
}

}  // namespace

TensorRange range_of(const std::string& name, graph::DType dtype, const graph::Shape& shape,
                     const std::vector<double>& values) {
  TensorRange range{name, std::string(graph::dtype_name(dtype)), graph::shape_text(shape)};
  double sum = 0;
  int64_t finite = 0;
  for (double v : values) {
    range.nans += std::isnan(v) ? 1 : 0;
    range.infinite += std::isinf(v) ? 1 : 0;
    if (!std::isfinite(v)) continue;
    range.low = finite == 0 ? v : std::min(range.low, v);
    range.high = finite == 0 ? v : std::max(range.high, v);
    sum += v;
    ++finite;
  }
  range.mean = finite == 0 ? 0 : sum / static_cast<double>(finite);
  return range;
}

Result<RunReport> run_library(const std::string& library, const RunOptions& options) {
  TCC_TRY(auto loaded, open_for(library, options));
  TCC_TRY_VOID(check_tensor_names(options.files, loaded->inputs(), "input"));
  TCC_TRY_VOID(check_tensor_names(options.arrays, loaded->inputs(), "input"));
  TCC_TRY_VOID(check_tensor_names(options.out_files, loaded->outputs(), "output"));
  TCC_TRY_VOID(check_complete(loaded->inputs(), options));

  RunReport report;
  report.id = loaded->id();
  std::vector<std::vector<std::byte>> inputs, outputs;
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
  for (const TensorSpec& spec : loaded->inputs()) {
    TCC_TRY(std::vector<std::byte> bytes, input_bytes(spec, inputs.size(), options));
    report.inputs.push_back(bytes_range(spec, bytes));
    inputs.push_back(std::move(bytes));
  }
  for (const auto& bytes : inputs) input_pointers.push_back(bytes.data());
  for (const TensorSpec& spec : loaded->outputs()) outputs.emplace_back(static_cast<size_t>(spec.bytes));
  for (auto& bytes : outputs) output_pointers.push_back(bytes.data());

  TCC_TRY(auto context, loaded->create_context({.threads = options.threads,
                                                .keep_denormals = options.keep_denormals,
                                                .cuda_driver = options.cuda_driver}));
  Stopwatch watch;
  TCC_TRY_VOID(context->run(input_pointers, output_pointers));
  report.seconds = watch.seconds();

  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < outputs.size(); ++i) {
    TensorSpec spec = loaded->outputs()[i];
    spec.shape = context->output_shape(i);
    outputs[i].resize(static_cast<size_t>(graph::element_count(spec.shape) * graph::dtype_size(spec.dtype)));
    report.outputs.push_back(bytes_range(spec, outputs[i]));
    tensors.push_back({spec.name, spec.dtype, spec.shape, outputs[i]});
  }
  TCC_TRY_VOID(write_outputs(tensors, options, report));
  return report;
}

}  // namespace tcc::driver
