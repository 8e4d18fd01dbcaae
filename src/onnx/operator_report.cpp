// The report of operators that are not supported: all of them at once, with how often and where each occurs first, and
// the nearest form that is supported.
#include <string_view>
#include <utility>

#include "node_importer.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

constexpr size_t kMaxReportLines = 50;

// What to do instead. The first row that fits counts; an empty operator stands for all of its domain.
struct Advice {
  std::string_view domain, op, text;
};
constexpr Advice kAdvice[] = {
    {"", "ImageDecoder", "images are decoded outside of the model"},
    {"", "StringNormalizer", "strings are not supported: tokenize outside of the model"},
    {"", "StringConcat", "strings are not supported: tokenize outside of the model"},
    {"", "StringSplit", "strings are not supported: tokenize outside of the model"},
    {"", "RegexFullMatch", "strings are not supported: tokenize outside of the model"},
    {"", "TfIdfVectorizer", "count tokens outside of the model"},
    {"", "NonMaxSuppression", "the size of its result depends on data; end the model before it"},
    {"", "Gradient", "training is not supported; export the model for inference"},
    {"ai.onnx.preview.training", "", "training is not supported; export the model for inference"},
    {"ai.onnx.ml", "", "classical models (trees, scalers, encoders) are not supported; run it outside of the model"},
    {"ai.onnx.training", "", "training is not supported; export the model for inference"},
};

std::string_view advice_for(const std::string& domain, const std::string& op) {
  for (const Advice& row : kAdvice)
    if (row.domain == domain && (row.op.empty() || row.op == op)) return row.text;
  return "";
}

}  // namespace

struct NodeImporter::Report {
  struct Finding {
    int64_t count = 0;
    std::string first;
    int64_t opset = 0;
  };
  std::map<std::pair<std::string, std::string>, Finding> missing;  // by domain and operator
  std::unordered_map<std::string, bool> served;                    // by opset, domain and operator
  int64_t nodes = 0, all = 0;
};

void NodeImporter::collect(const NodeList& nodes, const Opsets& opsets, Report& report, int depth) {
  if (depth > kMaxCallDepth) return;  // the call is refused when it is imported
  if (!checked_.insert(&nodes).second) return;
  report.all += nodes.size();
  for (int i = 0; i < nodes.size(); ++i) {
    const auto& node = nodes.Get(i);
    if (const tcc_onnx::Function* function = function_of(node)) {
      // Versions that are wrong are an error of the call.
      auto own = read_opsets(function->opset_import(), "a function");
      if (own) collect(function->node(), *own, report, depth + 1);
      continue;
    }
    const std::string domain = domain_of(node);
    auto version = opsets.find(domain);
    const int64_t opset = version == opsets.end() ? 0 : version->second;
    auto [known, fresh] = report.served.try_emplace(fmt::format("{}\n{}\n{}", opset, domain, node.op_type()));
    if (fresh) known->second = find_operator(domain, node.op_type(), opset) != nullptr;
    if (!known->second) {
      Report::Finding& finding = report.missing[{domain, node.op_type()}];
      if (finding.count++ == 0) {
        finding.first = node_text(nodes, i);
        finding.opset = opset;
      }
      ++report.nodes;
    }
    if (node.op_type() == "If" && domain.empty()) continue;
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) collect(attribute.g().node(), opsets, report, depth + 1);
    }
  }
}

Result<void> NodeImporter::check_operators(const NodeList& nodes, const Opsets& opsets) {
  Report report;
  collect(nodes, opsets, report, 0);
  if (report.missing.empty()) return {};
  std::vector<std::string> notes;
  for (const auto& [key, finding] : report.missing) {
    if (notes.size() == kMaxReportLines) {
      notes.push_back(fmt::format("... and {} more operators", report.missing.size() - kMaxReportLines));
      break;
    }
    const auto& [domain, op] = key;
    std::string_view advice = advice_for(domain, op);
    std::string range;
    for (const OperatorRow& row : operator_table()) {
      if (row.domain == domain && row.op == op && finding.opset < row.since)
        range = fmt::format("  supported from opset {} on", row.since);
    }
    notes.push_back(fmt::format("{}{}{}  opset {}  {} node{}  (first: {}){}{}{}", sanitize(domain, 60),
                                domain.empty() ? "" : "::", sanitize(op, 60), finding.opset, finding.count,
                                finding.count == 1 ? "" : "s", finding.first, range, advice.empty() ? "" : "  ",
                                advice));
  }
  return graph::refusal(Refusal::kOperator,
                        fmt::format("{} operator{} in '{}' {} not supported ({} of {} nodes)", report.missing.size(),
                                    report.missing.size() == 1 ? "" : "s", sanitize(name_),
                                    report.missing.size() == 1 ? "is" : "are", report.nodes, report.all),
                        "'tcc ops' lists what is supported", std::move(notes));
}

}  // namespace tcc::onnx
