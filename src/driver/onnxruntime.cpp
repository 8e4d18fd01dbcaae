#include "driver/onnxruntime.h"

#include "tcc/support/files.h"
#include "tcc/support/process.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

// Exit status 3: a module is missing.
constexpr char kScript[] = R"(
import sys
try:
    import numpy, onnxruntime
except ImportError as error:
    print(error)
    sys.exit(3)
model, inputs, outputs = sys.argv[1:4]
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
try:
    session = onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'])
    given = numpy.load(inputs)
    results = session.run(None, {i.name: given[i.name] for i in session.get_inputs()})
except Exception as error:
    print(error)
    sys.exit(4)
numpy.savez(outputs, **{o.name: r for o, r in zip(session.get_outputs(), results)})
)";

}  // namespace

Result<void> run_onnxruntime(const ModelSource& source, const std::string& python, const std::string& inputs,
                             const std::string& outputs, const std::string& scratch) {
  std::string model = source.model;
  if (source.reseed || model.starts_with("zoo:")) {
    model = scratch + "/model.onnx";
    TCC_TRY_VOID(write_model(source.model, source, model));
  }
  const std::string script = scratch + "/run.py";
  TCC_TRY_VOID(write_file(script, kScript));
  const std::string hint = "pip install onnxruntime numpy into an environment, and name its Python with --python FILE";
  TCC_TRY(ProgramRun run, run_program({python, script, model, inputs, outputs}, scratch));
  if (!run.started)
    return make_error(ErrorClass::kEnvironment, fmt::format("--against onnxruntime: no program '{}'", sanitize(python)),
                      hint);
  if (run.status == 0) return {};
  const std::string said = sanitize(run.text, 500);
  // The script's own statuses, as waitpid gives them.
  if (run.status == 3 << 8)
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("--against onnxruntime: '{}' lacks a module: {}", sanitize(python), said), hint);
  return make_error(ErrorClass::kInput, fmt::format("ONNX Runtime does not run '{}'", sanitize(source.model)),
                    "compare with the reference instead: leave --against out", {said});
}

}  // namespace tcc::driver
