#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "driver/named_tensors.h"
#include "driver/onnxruntime.h"
#include "tcc/driver/dynamic.h"
#include "tcc/driver/library.h"
#include "tcc/driver/run.h"
#include "tcc/graph/error_bound.h"
#include "tcc/graph/input_domains.h"
#include "tcc/package/loaded_model.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

using graph::HostTensor;
using package::TensorSpec;
using Tensors = std::map<std::string, TensorFile>;
using Sizes = std::map<std::string, int64_t>;

constexpr size_t kMostSizes = 12;  // of a library for several sizes, that are checked

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Growth of rounding errors by Winograd's transforms of 2x2 and 4x4 outputs (docs/papers.md).
constexpr double kWinogradGrowth2 = 64.0 / 9, kWinogradGrowth4 = 256;
constexpr double kDeviceFunctionUlps = 4;  // of a GPU's exp, log, ...: CUDA C++ Programming Guide, appendix E

TensorRange values_range(const TensorSpec& spec, const std::vector<double>& values) {
  return driver::range_of(spec.name, spec.dtype, spec.shape, values);
}

std::string index_text(const graph::Shape& shape, int64_t flat) {
  std::string text;
  for (size_t axis = shape.size(); axis-- > 0;) {
    text = fmt::format("{}{}{}", flat % shape[axis], text.empty() ? "" : ", ", text);
    flat /= shape[axis];
  }
  return "[" + text + "]";
}

double rounded_to(graph::DType dtype, double value) {
  return graph::constant_element(graph::make_constant_from_doubles(dtype, std::span(&value, 1)), dtype, 0);
}

// The difference as a share of what is allowed: above 1 the element is wrong.
double error_share(graph::DType dtype, double actual, double expected, double allowed) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected))) return 0;
  if (allowed == kInfinity) return 0;
  const double rounded = graph::is_float(dtype) ? rounded_to(dtype, expected) : expected;
  if (actual == rounded) return 0;
  if (std::isnan(expected) || !std::isfinite(expected) || std::isnan(actual)) return kInfinity;
  // Near the largest number of the type both it and infinity are right.
  if (std::isinf(actual)) {
    const double furthest = rounded_to(dtype, expected + std::copysign(allowed, actual));
    return furthest == actual ? 1 : kInfinity;
  }
  const double difference = std::fabs(actual - expected);
  return allowed > 0 ? difference / allowed : kInfinity;
}

bool all_equal(const std::vector<double>& values) {
  return values.size() > 1 && std::all_of(values.begin(), values.end(), [&](double v) {
           return v == values.front() || (std::isnan(v) && std::isnan(values.front()));
         });
}

// Why values that are right say nothing; "": they do.
std::string inconclusive(const std::vector<double>& actual, const graph::BoundedTensor& reference, double scale) {
  if (all_equal(reference.value.data) && all_equal(actual))
    return fmt::format("is {:g} everywhere, in the reference too", actual.front());
  const auto open = std::count_if(reference.allowed.begin(), reference.allowed.end(), [&](double allowed) {
    return allowed == kInfinity || (allowed > scale && scale > 0);
  });
  if (2 * open > std::ssize(actual))
    return fmt::format("may be changed by rounding to any value of its range, at {} of {} elements", open,
                       actual.size());
  return "";
}

struct Worst {
  double share = -1;
  size_t at = 0;
};

void describe_worst(OutputCheck& check, const TensorSpec& spec, const std::vector<double>& actual,
                    const graph::BoundedTensor& reference, size_t worst) {
  const double scale = std::max(check.scale, std::numeric_limits<double>::min());
  check.where = index_text(spec.shape, static_cast<int64_t>(worst));
  check.expected_there = reference.value.data[worst];
  check.actual_there = actual[worst];
  const double difference = std::fabs(check.actual_there - check.expected_there);
  check.error_there = std::isfinite(difference) ? difference / scale : 0;
  check.allowed_there = reference.allowed[worst] / scale;
}

// Whether the library has 0 in place of a number that its type can hold, but not as a normal one.
bool is_flushed(graph::DType dtype, double actual, double expected) {
  if (actual != 0 || expected == 0 || !graph::is_float(dtype)) return false;
  const double normal = graph::smallest_normal(dtype);
  if (std::fabs(expected) >= normal) return false;
  const std::vector<double> stored =
      graph::constant_doubles(graph::make_constant_from_doubles(dtype, std::vector<double>{expected}), dtype, 1);
  return stored[0] != 0;
}

OutputCheck check_output(const TensorSpec& spec, const std::vector<double>& actual,
                         const graph::BoundedTensor& reference) {
  OutputCheck check;
  check.actual = values_range(spec, actual);
  check.terms = reference.terms;
  const std::vector<double>& expected = reference.value.data;
  for (double v : expected)
    if (std::isfinite(v)) check.scale = std::max(check.scale, std::fabs(v));
  Worst worst;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double share = error_share(spec.dtype, actual[i], expected[i], reference.allowed[i]);
    if (share > worst.share) worst = {share, i};
    check.wrong += share > 1 ? 1 : 0;
    check.flushed += is_flushed(spec.dtype, actual[i], expected[i]) ? 1 : 0;
    const double difference = std::fabs(actual[i] - expected[i]);
    if (std::isfinite(difference) && difference > 0)
      check.max_error =
          std::max(check.max_error, difference / std::max(check.scale, std::numeric_limits<double>::min()));
  }
  if (!actual.empty()) describe_worst(check, spec, actual, reference, worst.at);
  if (check.wrong > reference.may_flip && reference.unsure) {
    check.verdict = Verdict::kInconclusive;
    check.failure = "depends on integers beyond 2^53, which the reference rounds";
    return check;
  }
  if (check.wrong > reference.may_flip) {
    check.verdict = Verdict::kWrong;
    const std::string others = check.wrong > 1 ? fmt::format(" ({} of {} are wrong)", check.wrong, actual.size()) : "";
    if (std::isfinite(check.actual_there) && std::isfinite(check.expected_there) && graph::is_float(spec.dtype))
      check.failure = fmt::format(
          "the error at {} is {:.3g} of the output's scale, more than the {:.3g} that {} over "
          "{} allows{}",
          check.where, check.error_there, check.allowed_there, graph::dtype_name(spec.dtype),
          reference.terms == 1 ? "1 term" : fmt::format("{} terms", reference.terms), others);
    else
      check.failure = fmt::format("the value at {} is {:.7g}, not {:.7g}{}", check.where, check.actual_there,
                                  check.expected_there, others);
    return check;
  }
  if (std::string reason = inconclusive(actual, reference, check.scale); !reason.empty()) {
    check.verdict = Verdict::kInconclusive;
    check.failure = std::move(reason);
  }
  return check;
}

// An output whose extents depend on the data, and are others.
OutputCheck other_shape(const TensorSpec& spec, const std::vector<double>& actual, const graph::Shape& expected) {
  OutputCheck check;
  check.actual = values_range(spec, actual);
  check.wrong = 1;
  check.verdict = Verdict::kWrong;
  check.failure = fmt::format("its shape is {}, not {}", graph::shape_text(spec.shape), graph::shape_text(expected));
  return check;
}

Result<void> check_signature(const graph::Graph& graph, const package::LoadedModel& library) {
  bool same = graph.inputs.size() == library.inputs().size() && graph.model_outputs() == library.outputs().size();
  for (size_t i = 0; same && i < graph.inputs.size(); ++i)
    same = graph.value(graph.inputs[i]).shape == library.inputs()[i].shape &&
           graph.value(graph.inputs[i]).dtype == library.inputs()[i].dtype;
  for (size_t i = 0; same && i < graph.model_outputs(); ++i)
    same = graph.value(graph.outputs[i]).shape == library.outputs()[i].shape &&
           graph.value(graph.outputs[i]).dtype == library.outputs()[i].dtype;
  if (same) return {};
  return make_error(ErrorClass::kInput,
                    fmt::format("{}: the model's inputs or outputs are not the library's", library.id()),
                    "build the library again");
}

bool has_bf16(const std::vector<TensorSpec>& specs) {
  return std::any_of(specs.begin(), specs.end(), [](const TensorSpec& s) { return s.dtype == graph::DType::kBF16; });
}

Result<Tensors> read_tensors(const std::string& path, const std::vector<TensorSpec>& specs, const char* what) {
  if (path.empty()) return Tensors{};
  TCC_TRY(Tensors tensors, read_npz(path, has_bf16(specs)));
  TCC_TRY_VOID(check_tensor_names(tensors, specs, what));
  return tensors;
}

// The same numbers for the library and the reference.
struct Inputs {
  std::vector<graph::Constant> bytes;
  std::vector<HostTensor> values;
};

// `positive`: floats without a domain of their own are near 1. `fast_math`: all floats are numbers.
Result<Inputs> make_inputs(const graph::Graph& graph, const std::vector<TensorSpec>& specs,
                           const VerifyOptions& options, bool positive, bool fast_math) {
  TCC_TRY(const Tensors given, read_tensors(options.inputs, specs, "input"));
  TCC_TRY_VOID(check_tensor_names(options.seeds, specs, "input"));
  TCC_TRY_VOID(check_tensor_names(options.ranges, specs, "input"));
  const std::vector<graph::InputDomain> domains = graph::input_domains(graph);
  Inputs inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const graph::Value& value = graph.value(graph.inputs[i]);
    const std::string& name = specs[i].name;
    if (auto tensor = given.find(name); tensor != given.end()) {
      TCC_TRY(std::vector<std::byte> bytes,
              take_tensor(specs[i], tensor->second, fmt::format("the array '{}'", sanitize(name))));
      inputs.bytes.push_back(graph::make_constant(std::move(bytes)));
    } else {
      const auto range = options.ranges.find(name);
      const auto seed = options.seeds.find(name);
      graph::InputDomain domain = domains[i];
      if (fast_math) domain.special = false;
      if (positive && graph::is_float(value.dtype) && !domain.low) domain = {.low = 0.5, .high = 1.5};
      if (range != options.ranges.end()) domain = {.low = range->second.low, .high = range->second.high};
      const HostTensor drawn =
          graph::random_tensor(value, seed == options.seeds.end() ? options.seed + i : seed->second, domain);
      inputs.bytes.push_back(graph::make_constant_from_doubles(value.dtype, drawn.data));
    }
    inputs.values.push_back({value.shape, graph::constant_doubles(inputs.bytes.back(), value.dtype, value.elements())});
  }
  return inputs;
}

// How the library was allowed to round: its precision, transforms of convolutions, the functions of its device.
Result<graph::RoundingModel> rounding_of(const package::LoadedModel& library, target::Precision precision) {
  graph::RoundingModel model;
  if (precision == target::Precision::kTf32) model.product_unit = graph::unit_roundoff(graph::DType::kF16);
  if (precision == target::Precision::kF16)
    model.product_unit = model.storage_unit = graph::unit_roundoff(graph::DType::kF16);
  if (precision == target::Precision::kBF16)
    model.product_unit = model.storage_unit = graph::unit_roundoff(graph::DType::kBF16);
  if (library.on_gpu()) model.function_ulps = kDeviceFunctionUlps;
  const nlohmann::json metadata = nlohmann::json::parse(library.metadata_json(), nullptr, false);
  if (!metadata.is_object() || !metadata.contains("tasks") || !metadata["tasks"].is_array()) return model;
  for (const nlohmann::json& task : metadata["tasks"]) {
    if (!task.is_object() || !task.contains("workload") || !task["workload"].is_string()) continue;
    const std::string workload = task["workload"].get<std::string>();
    if (workload.find(" winograd2") != std::string::npos) model.winograd = std::max(model.winograd, kWinogradGrowth2);
    if (workload.find(" winograd4") != std::string::npos) model.winograd = std::max(model.winograd, kWinogradGrowth4);
  }
  return model;
}

bool has_counts(const graph::Graph& graph, size_t output) {
  return std::any_of(graph.counted_axes.begin(), graph.counted_axes.end(),
                     [&](const graph::CountedAxis& a) { return static_cast<size_t>(a.output) == output; });
}

// Puts the values of a file in the place of the reference's. Where extents depend on the data, its shape is taken, too.
Result<void> take_expected(const std::string& path, const graph::Graph& graph, std::vector<TensorSpec>& specs,
                           std::vector<graph::BoundedTensor>& reference) {
  if (path.empty()) return {};
  TCC_TRY(const Tensors expected, read_tensors(path, specs, "output"));
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto tensor = expected.find(specs[i].name);
    if (tensor == expected.end()) continue;
    if (tensor->second.shape != specs[i].shape && has_counts(graph, i)) {
      specs[i].shape = tensor->second.shape;
      continue;
    }
    TCC_TRY(std::vector<std::byte> bytes,
            take_tensor(specs[i], tensor->second, fmt::format("the array '{}'", sanitize(specs[i].name))));
    reference[i].value.data = graph::constant_doubles(graph::make_constant(std::move(bytes)), specs[i].dtype,
                                                      graph::element_count(specs[i].shape));
    for (double& allowed : reference[i].allowed) allowed *= 2;
    reference[i].unsure = false;
  }
  return {};
}

// The elements of the reference before its counts, as a tensor of their own, and the shape of that.
graph::BoundedTensor counted_part(const graph::Graph& graph, size_t output,
                                  const std::vector<graph::BoundedTensor>& reference, graph::Shape& shape) {
  const graph::BoundedTensor& whole = reference[output];
  shape = graph.value(graph.outputs[output]).shape;
  const graph::Shape room = shape;
  bool any = false;
  for (const graph::CountedAxis& a : graph.counted_axes) {
    if (static_cast<size_t>(a.output) != output) continue;
    const double count = reference[graph.model_outputs() + static_cast<size_t>(a.count)].value.data[0];
    shape[static_cast<size_t>(a.axis)] =
        std::clamp<int64_t>(static_cast<int64_t>(count), 0, room[static_cast<size_t>(a.axis)]);
    any = true;
  }
  if (!any) return whole;
  graph::BoundedTensor part = whole;
  part.value.shape = shape;
  part.value.data.clear();
  part.allowed.clear();
  std::vector<int64_t> at(shape.size(), 0);
  for (int64_t n = graph::element_count(shape); n-- > 0;) {
    int64_t from = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) from = from * room[axis] + at[axis];
    part.value.data.push_back(whole.value.data[static_cast<size_t>(from)]);
    part.allowed.push_back(whole.allowed[static_cast<size_t>(from)]);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++at[axis] < shape[axis]) break;
      at[axis] = 0;
    }
  }
  return part;
}

// The outputs of ONNX Runtime for the same inputs, and the values of frozen ones, in a file in `scratch`.
Result<std::string> outputs_of_peer(const Model& model, const std::vector<TensorSpec>& specs, const Inputs& inputs,
                                    const std::string& python, const std::string& scratch) {
  std::vector<NamedTensor> given;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].dtype == graph::DType::kBF16)
      return make_error(
          ErrorClass::kUsage,
          fmt::format("--against onnxruntime: NumPy has no bf16, the type of input '{}'", sanitize(specs[i].name)),
          "compare with the reference instead: leave --against out");
    given.push_back({specs[i].name, specs[i].dtype, specs[i].shape, inputs.bytes[i].bytes});
  }
  for (const auto& [name, tensor] : model.source.import_options.frozen)
    given.push_back({name, tensor.dtype, tensor.shape, tensor.constant.bytes});
  const std::string in = scratch + "/inputs.npz", out = scratch + "/outputs.npz";
  TCC_TRY_VOID(write_npz(in, given));
  TCC_TRY_VOID(run_onnxruntime(model.source, python, in, out, scratch));
  return out;
}

// Some output is the same everywhere, or no number at most places.
bool says_nothing(const std::vector<graph::BoundedTensor>& reference) {
  return std::any_of(reference.begin(), reference.end(), [](const graph::BoundedTensor& output) {
    const std::vector<double>& values = output.value.data;
    const auto numbers = std::count_if(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
    return all_equal(values) || 2 * numbers < std::ssize(values);
  });
}

Result<std::vector<std::vector<std::byte>>> run(package::ModelContext& context, const std::vector<TensorSpec>& specs,
                                                const Inputs& inputs) {
  std::vector<std::vector<std::byte>> outputs;
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
  for (const graph::Constant& bytes : inputs.bytes) input_pointers.push_back(bytes.bytes.data());
  for (const TensorSpec& spec : specs)
    outputs.emplace_back(static_cast<size_t>(spec.bytes), std::byte{0xff});  // NaN: what no kernel writes shows
  for (auto& bytes : outputs) output_pointers.push_back(bytes.data());
  TCC_TRY_VOID(context.run(input_pointers, output_pointers));
  return outputs;
}

Result<std::vector<graph::BoundedTensor>> run_reference(const graph::Graph& graph, const Inputs& inputs,
                                                        const graph::RoundingModel& rounding,
                                                        const VerifyOptions& options) {
  Stopwatch watch;
  graph::ReferenceProgress progress;
  if (options.progress)
    progress = [&](double share) {
      const double elapsed = watch.seconds();
      options.progress({share, elapsed, share > 0 ? elapsed / share - elapsed : 0});
    };
  return graph::run_bounded_reference(graph, inputs.values, rounding, 0, progress);
}

Verdict worse(Verdict a, Verdict b) {
  if (a == Verdict::kWrong || b == Verdict::kWrong) return Verdict::kWrong;
  return a == Verdict::kInconclusive ? a : b;
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRight:
      return "right";
    case Verdict::kWrong:
      return "wrong";
    case Verdict::kInconclusive:
      return "inconclusive";
  }
  TCC_UNREACHABLE();
}

namespace {

// `model`: what the library was built from, at the sizes given. With the library's own test where `self_test`.
Result<VerifyReport> verify_at(const std::string& library, const VerifyOptions& options, const Model& model,
                               const Sizes& sizes, bool self_test) {
  TCC_TRY(auto loaded, package::LoadedModel::open(library, sizes));
  const graph::Graph& graph = model.graph;
  TCC_TRY_VOID(check_signature(graph, *loaded));

  VerifyReport report;
  report.id = loaded->id();
  report.model = model.source.model;
  report.precision = model.source.precision;
  report.fast_math = model.source.fast_math;
  report.sizes = sizes;
  TCC_TRY(const graph::RoundingModel rounding, rounding_of(*loaded, report.precision));
  const graph::ReferenceCost cost = graph::bounded_reference_cost(graph);
  if (options.plan) options.plan({cost.flops, cost.bytes});
  std::vector<std::vector<std::byte>> outputs;
  std::vector<TensorSpec> specs = loaded->outputs();  // of the actual outputs
  std::vector<graph::BoundedTensor> expected;
  std::unique_ptr<TemporaryDirectory> scratch;
  std::string expected_file = options.expected;
  {
    TCC_TRY(auto context, loaded->create_context({.threads = options.threads,
                                                  .keep_denormals = options.keep_denormals,
                                                  .cuda_driver = options.cuda_driver}));
    TCC_TRY(Inputs inputs, make_inputs(graph, loaded->inputs(), options, false, report.fast_math));
    Stopwatch watch;
    const auto reference = [&] { return run_reference(graph, inputs, rounding, options); };
    TCC_TRY(expected, reference());
    // Intermediate values may leave the domains of operators: near 1 few do.
    if (options.inputs.empty() && options.ranges.empty() && says_nothing(expected)) {
      TCC_TRY(inputs, make_inputs(graph, loaded->inputs(), options, true, report.fast_math));
      TCC_TRY(expected, reference());
    }
    report.reference_seconds = watch.seconds();
    for (size_t i = 0; i < inputs.values.size(); ++i)
      report.inputs.push_back(values_range(loaded->inputs()[i], inputs.values[i].data));
    TCC_TRY(outputs, run(*context, loaded->outputs(), inputs));
    for (size_t i = 0; i < outputs.size(); ++i) specs[i].shape = context->output_shape(i);
    if (!options.onnxruntime_python.empty()) {
      TCC_TRY(scratch, TemporaryDirectory::create("tcc-verify"));
      TCC_TRY(expected_file,
              outputs_of_peer(model, loaded->inputs(), inputs, options.onnxruntime_python, scratch->path()));
    }
    if (self_test) {
      if (auto tested = context->self_test(); !tested) report.self_test = tested.error().message;
    }
  }
  std::vector<TensorSpec> expected_specs = specs;
  {
    std::vector<graph::BoundedTensor> parts;
    for (size_t i = 0; i < specs.size(); ++i)
      parts.push_back(counted_part(graph, i, expected, expected_specs[i].shape));
    expected = std::move(parts);
  }
  TCC_TRY_VOID(take_expected(expected_file, graph, expected_specs, expected));

  report.verdict = report.self_test.empty() ? Verdict::kRight : Verdict::kWrong;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorSpec& spec = specs[i];
    outputs[i].resize(static_cast<size_t>(graph::element_count(spec.shape) * graph::dtype_size(spec.dtype)));
    const std::vector<double> actual = graph::constant_doubles(graph::make_constant(std::move(outputs[i])), spec.dtype,
                                                               graph::element_count(spec.shape));
    if (spec.shape != expected_specs[i].shape) {
      report.outputs.push_back(other_shape(spec, actual, expected_specs[i].shape));
      report.verdict = Verdict::kWrong;
      continue;
    }
    if (options.tolerance && graph::is_float(spec.dtype)) {
      double scale = 0;
      for (double v : expected[i].value.data)
        if (std::isfinite(v)) scale = std::max(scale, std::fabs(v));
      expected[i].allowed.assign(actual.size(), *options.tolerance * scale);
    }
    report.outputs.push_back(check_output(spec, actual, expected[i]));
    report.tolerance = std::max(report.tolerance, report.outputs.back().allowed_there);
    report.verdict = worse(report.verdict, report.outputs.back().verdict);
  }
  return report;
}

}  // namespace

Result<VerifyReport> verify_library(const std::string& library, const VerifyOptions& options) {
  TCC_TRY(auto loaded, package::LoadedModel::open(library, options.sizes));
  const std::vector<graph::DimRange>& dims = loaded->dims();
  TCC_TRY(const RecordedSource recorded, source_from_metadata(loaded->metadata_json(), library));
  TCC_TRY(const Model model, load_recorded(recorded, options.model, options.frozen));
  if (dims.empty()) return verify_at(library, options, model, {}, true);
  std::vector<Sizes> all;
  if (!options.sizes.empty() || !options.inputs.empty()) {
    Sizes sizes = options.sizes;
    for (const graph::DimRange& dim : dims) sizes.emplace(dim.name, dim.high);
    all.push_back(std::move(sizes));
  } else {
    all = sizes_to_check(dims, kMostSizes);
  }
  std::optional<VerifyReport> whole;
  for (const Sizes& sizes : all) {
    auto at = load_model(source_at(model.source, sizes));
    auto report = at ? verify_at(library, options, *at, sizes, !whole) : tl::make_unexpected(std::move(at).error());
    if (!report) return tl::make_unexpected(std::move(report).error().with_context(sizes_text(sizes)));
    if (!whole) {
      whole = std::move(*report);
      continue;
    }
    whole->verdict = worse(whole->verdict, report->verdict);
    whole->further.push_back(std::move(*report));
  }
  return std::move(*whole);
}

Result<std::string> library_metadata(const std::string& library) {
  return package::read_metadata(library);
}

bool is_library(const std::string& name) {
  return name.ends_with(".so");
}

}  // namespace tcc::driver
