#include "cli/command.h"
#include "cli/json.h"
#include "cli/output.h"
#include "cli/text_table.h"
#include "tcc/driver/catalogue.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

struct OpsArguments {
  Common common;
  std::string name;
};

std::string name_of(const onnx::OperatorInfo& op) {
  return op.domain.empty() ? op.op : op.domain + "." + op.op;
}

void declare(Options& options, OpsArguments& a) {
  std::vector<std::string> names;
  for (const onnx::OperatorInfo& op : onnx::supported_operators()) names.push_back(name_of(op));
  options.option("NAME", a.name, "One operator").words(std::move(names));
}

Result<int> ops(const OpsArguments& a) {
  std::vector<std::vector<std::string>> rows = {{"operator", "opsets"}};
  Json json = Json::array();
  std::vector<std::string> names;
  for (const onnx::OperatorInfo& op : onnx::supported_operators()) {
    const std::string name = name_of(op);
    names.push_back(name);
    if (!a.name.empty() && a.name != name) continue;
    rows.push_back({name, fmt::format("{} to {}", op.since_version, op.until_version)});
    json.push_back(
        {{"domain", op.domain}, {"operator", op.op}, {"since", op.since_version}, {"until", op.until_version}});
  }
  if (rows.size() == 1)
    return make_error(ErrorClass::kInput, fmt::format("tcc reads no operator '{}'", sanitize(a.name)),
                      suggest(a.name, names));
  return a.common.json ? print_json({{"operators", json}}) : print(format_table(rows, 2));
}

}  // namespace

Command ops_command() {
  return make_command("ops", "The ONNX operators that tcc reads", "  tcc ops\n  tcc ops Conv", declare, ops);
}

}  // namespace tcc::cli
