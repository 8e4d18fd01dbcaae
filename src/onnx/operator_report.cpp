// The report of operators that are not supported: all of them at once, with how often and where each occurs first, and
// the nearest form that is supported.
#include <string_view>
#include <utility>

#include "node_importer.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

constexpr size_t kMaxReportLines = 50;

// The nearest form that is supported, or what to do instead. The first row that fits counts; an empty operator stands
// for all of its domain.
struct Advice {
  std::string_view domain, op, text;
};
constexpr std::string_view kStrings = "strings are not supported: tokenize outside of the model";
constexpr std::string_view kTrained = "training is not supported; export the model for inference";
constexpr std::string_view kSearched = "compile the decoder by itself and search for the next tokens outside of it";
constexpr std::string_view kBetween = "use the operator in floats between DequantizeLinear and QuantizeLinear";
constexpr std::string_view kPadded = "use MultiHeadAttention on padded rows, with a mask";
constexpr std::string_view kChannelsFirst =
    "use the operator of ai.onnx, which has channels first, between two Transpose";
constexpr Advice kAdvice[] = {
    {"", "ImageDecoder", "images are decoded outside of the model"},
    {"", "MaxRoiPool", "use RoiAlign with mode max"},
    {"", "RegexFullMatch", kStrings},
    {"", "StringConcat", kStrings},
    {"", "StringNormalizer", kStrings},
    {"", "StringSplit", kStrings},
    {"", "TfIdfVectorizer", "count tokens outside of the model"},
    {"", "Gradient", kTrained},
    {"ai.onnx.preview", "FlexAttention", "use Attention of opset 23, with a mask"},
    {"ai.onnx.preview.training", "", kTrained},
    {"ai.onnx.training", "", kTrained},
    {"ai.onnx.ml", "", "classical models (trees, scalers, encoders) are not supported; run it outside of the model"},
    {"com.microsoft", "BeamSearch", kSearched},
    {"com.microsoft", "BiasAdd", "use two Add"},
    {"com.microsoft", "BiasSoftmax", "use Add and Softmax"},
    {"com.microsoft", "BiasSplitGelu", "use Add, Split, Gelu and Mul"},
    {"com.microsoft", "ConvTransposeWithDynamicPads", "use ConvTranspose of ai.onnx with constant pads"},
    {"com.microsoft", "CropAndResize", "use RoiAlign of ai.onnx"},
    {"com.microsoft", "DecoderAttention", "use MultiHeadAttention"},
    {"com.microsoft", "DecoderMaskedMultiHeadAttention", "use MultiHeadAttention with past keys and values"},
    {"com.microsoft", "DecoderMaskedSelfAttention", "use Attention with past keys and values"},
    {"com.microsoft", "DynamicQuantizeLSTM", "use LSTM of ai.onnx, in floats"},
    {"com.microsoft", "ExpandDims", "use Unsqueeze of ai.onnx"},
    {"com.microsoft", "FusedMatMulActivation", "use FusedMatMul and the activation"},
    {"com.microsoft", "GatherBlockQuantized", "use Gather and DequantizeLinear of ai.onnx"},
    {"com.microsoft", "GemmFastGelu", "use MatMul and FastGelu"},
    {"com.microsoft", "GemmaRotaryEmbedding", "use RotaryEmbedding"},
    {"com.microsoft", "GreedySearch", kSearched},
    {"com.microsoft", "GroupNorm", "use GroupNormalization of ai.onnx, which has channels first"},
    {"com.microsoft", "Irfft", "use DFT of ai.onnx"},
    {"com.microsoft", "MatMulBnb4", "use MatMulNBits"},
    {"com.microsoft", "MatMulFpQ4", "use MatMulNBits"},
    {"com.microsoft", "MatMulInteger16", "use MatMul of int32"},
    {"com.microsoft", "MoE", "write the experts as MatMul and choose among them with TopK and GatherElements"},
    {"com.microsoft", "NhwcConv", kChannelsFirst},
    {"com.microsoft", "NhwcFusedConv", kChannelsFirst},
    {"com.microsoft", "NhwcMaxPool", kChannelsFirst},
    {"com.microsoft", "PackedAttention", kPadded},
    {"com.microsoft", "PackedMultiHeadAttention", kPadded},
    {"com.microsoft", "PagedAttention", "use GroupQueryAttention with one cache for each sequence"},
    {"com.microsoft", "QAttention", kBetween},
    {"com.microsoft", "QEmbedLayerNormalization", kBetween},
    {"com.microsoft", "QLinearAveragePool", kBetween},
    {"com.microsoft", "QLinearReduceMean", kBetween},
    {"com.microsoft", "QLinearWhere", kBetween},
    {"com.microsoft", "QMoE", "write the experts as MatMulNBits and choose among them with TopK and GatherElements"},
    {"com.microsoft", "RemovePadding", "leave the padding in, with a mask"},
    {"com.microsoft", "RestorePadding", "leave the padding in, with a mask"},
    {"com.microsoft", "Rfft", "use DFT of ai.onnx"},
    {"com.microsoft", "Sampling", kSearched},
    {"com.microsoft", "SkipGroupNorm", "use Add and GroupNormalization of ai.onnx, which has channels first"},
    {"com.microsoft", "Tokenizer", kStrings},
    {"com.microsoft", "TransposeMatMul", "use FusedMatMul"},
    {"com.microsoft", "WhisperBeamSearch", kSearched},
};

std::string advice_for(const std::string& domain, const std::string& op, int64_t opset) {
  for (const Advice& row : kAdvice)
    if (row.domain == domain && (row.op.empty() || row.op == op)) return std::string(row.text);
  std::vector<std::string> names;
  for (const OperatorRow& row : operator_table()) {
    if (row.domain == domain && row.op == op)
      return opset < row.since ? fmt::format("supported from opset {} on", row.since)
                               : fmt::format("supported up to opset {}", row.until);
    if (row.domain == domain) names.emplace_back(row.op);
  }
  if (!domain.empty() && find_operator("", op, kNewestOpset) != nullptr)
    return fmt::format("use {} of ai.onnx: the same node without its domain", sanitize(op, 60));
  if (std::string near = suggest(op, names); !near.empty()) return near;
  if (domain == "com.microsoft") return "optimize the model at a level that keeps the operators of ai.onnx";
  if (domain.empty()) return "write it as a function of the model, of other operators";
  return "export it as operators of ai.onnx, or as a function of the model";
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
    notes.push_back(fmt::format("{}{}{}  opset {}  {} node{}  (first: {})  {}", sanitize(domain, 60),
                                domain.empty() ? "" : "::", sanitize(op, 60), finding.opset, finding.count,
                                finding.count == 1 ? "" : "s", finding.first, advice_for(domain, op, finding.opset)));
  }
  return graph::refusal(Refusal::kOperator,
                        fmt::format("{} operator{} in '{}' {} not supported ({} of {} nodes)", report.missing.size(),
                                    report.missing.size() == 1 ? "" : "s", sanitize(name_),
                                    report.missing.size() == 1 ? "is" : "are", report.nodes, report.all),
                        "'tcc ops' lists what is supported", std::move(notes));
}

}  // namespace tcc::onnx
