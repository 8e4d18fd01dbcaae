#include "tcc/driver/run.h"

#include "cli/command.h"
#include "cli/denormals.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/ranges.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

struct RunArguments {
  Common common;
  LibraryArguments library;
  std::vector<std::string> inputs, saves;  // NAME=FILE
  std::string inputs_npz, output;
  bool random = false;
  uint64_t seed = 1;
  std::string denormals = "flush";
};

void declare(Options& options, RunArguments& a) {
  options.section("Data");
  options.list("--input", a.inputs, "An input's data, as NAME=FILE.npy or .pb; may be repeated").value("NAME=FILE");
  options.option("--inputs", a.inputs_npz, "Inputs by name from one file").value("FILE.npz");
  options.flag("--random", a.random, "Random numbers for inputs that are not given");
  options.option("--seed", a.seed, "Of the random numbers").show_default();
  options.option("-o,--output", a.output, "All outputs, by name, into one file").value("FILE.npz");
  options.list("--save", a.saves, "One output, as NAME=FILE.npy or .pb; may be repeated").value("NAME=FILE");
  add_denormals(options, a.denormals);
  add_library(options, a.library);
}

Result<int> run_library(const RunArguments& a) {
  driver::RunOptions options;
  TCC_TRY(options.files, parse_files("--input", a.inputs));
  TCC_TRY(options.out_files, parse_files("--save", a.saves));
  if (!a.inputs_npz.empty()) {
    TCC_TRY(options.arrays, driver::read_npz(a.inputs_npz));
  }
  if (!a.output.empty() && !a.output.ends_with(".npz"))
    return make_error(ErrorClass::kUsage, fmt::format("--output {}: expected a .npz file", sanitize(a.output)),
                      "for one output in a .npy or .pb file: --save NAME=FILE");
  options.random = a.random;
  options.seed = a.seed;
  TCC_TRY(options.sizes, library_sizes(a.library.model));
  options.threads = static_cast<int>(a.library.threads);
  options.cuda_driver = a.library.target.cuda_driver;
  options.keep_denormals = a.denormals == "keep";
  options.archive = a.output;
  TCC_TRY(LibraryOnDisk library, find_library(a.library, a.common.quiet));
  TCC_TRY(driver::RunReport report, driver::run_library(library.path, options));
  if (a.common.json) {
    Json json = {{"library", report.id}, {"seconds", report.seconds}, {"files", report.files}};
    for (const driver::TensorRange& input : report.inputs) json["inputs"].push_back(range_json(input));
    for (const driver::TensorRange& output : report.outputs) json["outputs"].push_back(range_json(output));
    return print_json(json);
  }
  std::string text;
  for (const driver::TensorRange& input : report.inputs) text += "input   " + range_text(input) + "\n";
  for (const driver::TensorRange& output : report.outputs) text += "output  " + range_text(output) + "\n";
  for (const std::string& file : report.files) text += "wrote   " + file + "\n";
  return print(text);
}

}  // namespace

Command run_command() {
  return make_command("run", "Run a library or model on data from files",
                      "  tcc run out/libnet.so --input x=image.npy -o results.npz\n"
                      "  tcc run net.onnx --inputs batch.npz --save y=y.npy\n"
                      "  tcc run zoo:mlp --random --seed 7\n"
                      "  tcc run out/libnet.so --random --cuda-driver /usr/lib/wsl/lib/libcuda.so.1",
                      declare, run_library);
}

}  // namespace tcc::cli
