#include <algorithm>
#include <cmath>
#include <limits>

#include "tcc/driver/library.h"
#include "tcc/driver/run.h"
#include "tcc/graph/reference.h"
#include "tcc/package/loaded_model.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

using graph::HostTensor;

TensorRange range_of(const package::TensorSpec& spec, const std::vector<double>& values) {
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

OutputCheck check_output(const package::TensorSpec& spec, const std::vector<double>& actual,
                         const std::vector<double>& expected, double tolerance) {
  OutputCheck check;
  check.actual = range_of(spec, actual);
  for (double v : expected) check.scale = std::max(check.scale, std::fabs(v));
  int64_t worst = 0, not_finite = -1;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!std::isfinite(actual[i]) && not_finite < 0) not_finite = static_cast<int64_t>(i);
    const double difference = std::fabs(actual[i] - expected[i]);
    const double error = difference == 0 ? 0 : difference / std::max(check.scale, std::numeric_limits<double>::min());
    if (error > check.max_error) {
      check.max_error = error;
      worst = static_cast<int64_t>(i);
    }
  }
  if (not_finite >= 0) worst = not_finite;
  const bool defined = std::all_of(expected.begin(), expected.end(), [](double v) { return std::isfinite(v); });
  if (!actual.empty()) {
    check.where = index_text(spec.shape, worst);
    check.expected_there = expected[static_cast<size_t>(worst)];
    check.actual_there = actual[static_cast<size_t>(worst)];
  }
  const bool all_equal =
      actual.size() > 1 && std::all_of(actual.begin(), actual.end(), [&](double v) { return v == actual.front(); });
  if (not_finite >= 0) {
    check.failure = fmt::format("the value at {} is not finite", check.where);
  } else if (!defined) {
    check.failure = "the reference is not finite on these inputs; try another --seed";
  } else if (check.max_error > tolerance) {
    check.failure =
        fmt::format("the largest error is {:.3g} of the output's scale, more than {:g}", check.max_error, tolerance);
  } else if (all_equal) {
    check.failure = fmt::format("all {} values are {:g}: such an output proves nothing", actual.size(), actual.front());
  }
  return check;
}

Result<void> check_signature(const graph::Graph& graph, const package::LoadedModel& library) {
  bool same = graph.inputs.size() == library.inputs().size() && graph.outputs.size() == library.outputs().size();
  for (size_t i = 0; same && i < graph.inputs.size(); ++i)
    same = graph.value(graph.inputs[i]).shape == library.inputs()[i].shape &&
           graph.value(graph.inputs[i]).dtype == library.inputs()[i].dtype;
  for (size_t i = 0; same && i < graph.outputs.size(); ++i)
    same = graph.value(graph.outputs[i]).shape == library.outputs()[i].shape &&
           graph.value(graph.outputs[i]).dtype == library.outputs()[i].dtype;
  if (same) return {};
  return make_error(ErrorClass::kInput,
                    fmt::format("{}: the model's inputs or outputs are not the library's", library.id()),
                    "build the library again");
}

}  // namespace

Result<VerifyReport> verify_library(const std::string& library, const VerifyOptions& options) {
  TCC_TRY(auto loaded, package::LoadedModel::open(library));
  TCC_TRY(RecordedSource recorded, source_from_metadata(loaded->metadata_json(), library));
  TCC_TRY(Model model, load_recorded(recorded, options.model, options.frozen));
  const graph::Graph& graph = model.graph;
  TCC_TRY_VOID(check_signature(graph, *loaded));

  VerifyReport report;
  report.id = loaded->id();
  report.model = model.source.model;
  report.precision = model.source.precision;
  report.tolerance = options.tolerance.value_or(target::precision_tolerance(report.precision));

  // The same numbers for both: rounded to the input's type first.
  std::vector<graph::Constant> input_bytes;
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const graph::Value& value = graph.value(graph.inputs[i]);
    HostTensor tensor = graph::random_tensor(value, options.seed + i);
    input_bytes.push_back(graph::make_constant_from_doubles(value.dtype, tensor.data));
    tensor.data = graph::constant_doubles(input_bytes.back(), value.dtype, value.elements());
    report.inputs.push_back(range_of(loaded->inputs()[i], tensor.data));
    inputs.push_back(std::move(tensor));
  }

  std::vector<std::vector<std::byte>> outputs;
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
  for (const graph::Constant& bytes : input_bytes) input_pointers.push_back(bytes.bytes.data());
  for (const package::TensorSpec& spec : loaded->outputs())
    outputs.emplace_back(static_cast<size_t>(spec.bytes), std::byte{0xff});  // NaN: what no kernel writes shows
  for (auto& bytes : outputs) output_pointers.push_back(bytes.data());
  {
    TCC_TRY(auto context, loaded->create_context({.threads = options.threads, .cuda_driver = options.cuda_driver}));
    TCC_TRY_VOID(context->run(input_pointers, output_pointers));
    if (auto tested = context->self_test(); !tested) report.self_test = tested.error().message;
  }

  Stopwatch watch;
  TCC_TRY(std::vector<HostTensor> expected, graph::run_reference(graph, inputs));
  report.reference_seconds = watch.seconds();

  report.passed = report.self_test.empty();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const package::TensorSpec& spec = loaded->outputs()[i];
    const std::vector<double> actual = graph::constant_doubles(graph::make_constant(std::move(outputs[i])), spec.dtype,
                                                               graph::element_count(spec.shape));
    report.outputs.push_back(check_output(spec, actual, expected[i].data, report.tolerance));
    report.passed = report.passed && report.outputs.back().failure.empty();
  }
  return report;
}

Result<std::string> library_metadata(const std::string& library) {
  return package::read_metadata(library);
}

bool is_library(const std::string& name) {
  return name.ends_with(".so");
}

}  // namespace tcc::driver
