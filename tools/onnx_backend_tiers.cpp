#include "onnx_backend_tiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "tcc/onnx/importer.h"

namespace tcc::onnx_backend {
namespace {

constexpr const char* kTiers[] = {
    "Cast CastLike Constant ConstantOfShape Dropout Flatten Identity Range Reshape Shape Size Squeeze Transpose "
    "Unsqueeze",
    "Abs Add AveragePool BatchNormalization Clip Concat Conv Div Exp Gemm GlobalAveragePool GlobalMaxPool HardSigmoid "
    "HardSwish LRN LeakyRelu LogSoftmax MatMul Max MaxPool Min Mul Neg Pad Pow Reciprocal ReduceMean Relu Sigmoid "
    "Softmax Sqrt Sub Sum Tanh",
    "And ArgMax ArgMin Attention Ceil Cos CumSum Einsum Equal Erf Expand Floor Gather GatherElements GatherND Gelu "
    "Greater GreaterOrEqual GroupNormalization IsInf IsNaN LayerNormalization Less LessOrEqual Log Mean Mod Not Or "
    "RMSNormalization ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare RotaryEmbedding Round ScatterND Sign Sin Slice Split Swish TensorScatter Tile Trilu Where Xor",
    "Acos Acosh Asin Asinh Atan Atanh BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Celu ConvInteger "
    "ConvTranspose Cosh CumProd DepthToSpace DequantizeLinear DynamicQuantizeLinear Elu EyeLike GridSample Hardmax "
    "InstanceNormalization LpNormalization LpPool MatMulInteger MeanVarianceNormalization Mish OneHot PRelu "
    "QLinearConv "
    "QLinearMatMul QuantizeLinear Resize Scatter ScatterElements Selu Shrink Sinh Softplus Softsign SpaceToDepth Tan "
    "ThresholdedRelu TopK Upsample"};

std::string tier_of_operator(const std::string& op) {
  for (size_t tier = 0; tier < std::size(kTiers); ++tier) {
    std::istringstream words(kTiers[tier]);
    for (std::string word; words >> word;) {
      if (word == op) return fmt::format("tier{}", tier);
    }
  }
  return "other";
}

}  // namespace

std::string tier_of(const std::string& name, const std::filesystem::path& path) {
  std::string kind = name.substr(0, name.find('/'));
  if (kind != "node") return kind;
  std::filesystem::path folder = path;
  std::string leaf = folder.filename().string();
  if (size_t at = leaf.find("_expanded"); at != std::string::npos) {
    std::filesystem::path base = folder.parent_path() / leaf.substr(0, at);
    if (std::filesystem::exists(base)) folder = base;
  }
  auto description = onnx::describe_model((folder / "model.onnx").string());
  if (!description || description->operators.empty()) return "other";
  std::string tier = "tier0";
  for (const std::string& op : description->operators)
    tier = std::max(tier, tier_of_operator(op),
                    [](auto& a, auto& b) { return (a == "other" ? "tier9" : a) < (b == "other" ? "tier9" : b); });
  return tier;
}

}  // namespace tcc::onnx_backend
