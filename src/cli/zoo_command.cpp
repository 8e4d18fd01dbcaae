#include "cli/command.h"
#include "cli/json.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/text_table.h"
#include "tcc/driver/catalogue.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

struct ZooArguments {
  Common common;
  ModelArguments model;  // shapes, weights and sizes; the model's name is below
  std::string name, output;
};

void declare(Options& options, ZooArguments& a) {
  std::vector<std::string> names;
  for (const onnx::ZooEntry& entry : onnx::zoo_models()) names.push_back(entry.name);
  options.option("NAME", a.name, "The model; with --reseed-weights an ONNX file, too").words(std::move(names));
  add_shapes(options, a.model);
  add_reseed(options, a.model);
  options.option("-o,--output", a.output, "File to write").value("FILE");
  add_zoo(options, a.model);
}

Result<int> zoo(const ZooArguments& a) {
  if (a.name.empty()) {
    std::vector<std::vector<std::string>> rows;
    Json json = Json::array();
    for (const onnx::ZooEntry& entry : onnx::zoo_models()) {
      rows.push_back({entry.name, entry.description});
      json.push_back({{"name", entry.name}, {"description", entry.description}});
    }
    return a.common.json ? print_json({{"models", json}}) : print(format_rows(rows, 2));
  }
  if (a.output.empty())
    return make_error(ErrorClass::kUsage, fmt::format("tcc zoo {} needs -o FILE: the file to write", sanitize(a.name)),
                      fmt::format("tcc zoo {0} -o {0}.onnx", sanitize(a.name)));
  ModelArguments named = a.model;
  named.model = file_exists(a.name) ? a.name : "zoo:" + a.name;
  TCC_TRY(driver::ModelSource source, parse_model(named));
  TCC_TRY_VOID(driver::write_model(a.name, source, a.output));
  if (a.common.json) print_json({{"model", a.name}, {"file", a.output}});
  remark(a.common.quiet, fmt::format("wrote {}", a.output));
  return kOk;
}

}  // namespace

Command zoo_command() {
  return make_command(
      "zoo", "Write one of the built-in models as an ONNX file, or any with other weights; without NAME, list them",
      "  tcc zoo\n"
      "  tcc zoo resnet18 --batch 4 -o resnet18.onnx\n"
      "  tcc zoo net.onnx --reseed-weights 1 -o reseeded.onnx",
      declare, zoo);
}

}  // namespace tcc::cli
