#include "cli/command.h"
#include "cli/json.h"
#include "cli/output.h"
#include "tcc/driver/catalogue.h"

namespace tcc::cli {
namespace {

struct Arguments {
  Common common;
};

void declare(Options&, Arguments&) {}

Result<int> ops(const Arguments& a) {
  std::vector<std::vector<std::string>> rows = {{"operator", "opsets"}};
  Json json = Json::array();
  for (const onnx::OperatorInfo& op : onnx::supported_operators()) {
    const std::string name = op.domain.empty() ? op.op : op.domain + "." + op.op;
    rows.push_back({name, fmt::format("{} to {}", op.since_version, op.until_version)});
    json.push_back(
        {{"domain", op.domain}, {"operator", op.op}, {"since", op.since_version}, {"until", op.until_version}});
  }
  return a.common.json ? print_json(json) : print(format_table(rows, 2));
}

}  // namespace

Command ops_command() {
  return make_command("ops", "The ONNX operators that tcc reads", "  tcc ops", declare, ops);
}

}  // namespace tcc::cli
