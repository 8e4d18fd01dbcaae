// The operator table: dispatch is on (domain, operator, opset), never on the name alone.
#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "handlers.h"
#include "tcc/onnx/importer.h"

namespace tcc::onnx {

const std::vector<OperatorRow>& operator_table() {
  constexpr int64_t kMany = std::numeric_limits<int32_t>::max();
  constexpr int64_t kNow = kNewestOpset;
  static constexpr OperatorRow kRows[] = {
      {"", "Add", 1, kNow, 2, 2, import_binary},
      {"", "And", 1, kNow, 2, 2, import_comparison},
      {"", "ArgMax", 1, kNow, 1, 1, import_arg},
      {"", "ArgMin", 1, kNow, 1, 1, import_arg},
      {"", "AveragePool", 1, kNow, 1, 1, import_average_pool},
      {"", "BatchNormalization", 1, kNow, 5, 5, import_batch_norm},
      {"", "Cast", 1, kNow, 1, 1, import_cast},
      {"", "CastLike", 15, kNow, 2, 2, import_cast_like},
      {"", "Clip", 1, 10, 1, 1, import_clip},
      {"", "Clip", 11, kNow, 1, 3, import_clip},
      {"", "Concat", 1, kNow, 1, kMany, import_concat},
      {"", "Constant", 1, kNow, 0, 0, import_constant},
      {"", "ConstantOfShape", 9, kNow, 1, 1, import_constant_of_shape},
      {"", "Conv", 1, kNow, 2, 3, import_conv},
      {"", "ConvTranspose", 1, kNow, 2, 3, import_conv_transpose},
      {"", "CumSum", 11, kNow, 2, 2, import_cumsum},
      {"", "DepthToSpace", 1, kNow, 1, 1, import_depth_to_space},
      {"", "Div", 1, kNow, 2, 2, import_binary},
      {"", "Dropout", 1, 11, 1, 1, import_dropout},
      {"", "Dropout", 12, kNow, 1, 3, import_dropout},
      {"", "Equal", 1, kNow, 2, 2, import_comparison},
      {"", "Expand", 8, kNow, 2, 2, import_expand},
      {"", "EyeLike", 9, kNow, 1, 1, import_eye_like},
      {"", "Flatten", 1, kNow, 1, 1, import_flatten},
      {"", "Gather", 1, kNow, 2, 2, import_gather},
      {"", "GatherElements", 11, kNow, 2, 2, import_gather},
      {"", "GatherND", 11, kNow, 2, 2, import_gather_nd},
      {"", "Gemm", 1, 10, 3, 3, import_gemm},
      {"", "Gemm", 11, kNow, 2, 3, import_gemm},
      {"", "GlobalAveragePool", 1, kNow, 1, 1, import_global_average_pool},
      {"", "GlobalMaxPool", 1, kNow, 1, 1, import_global_max_pool},
      {"", "Greater", 1, kNow, 2, 2, import_comparison},
      {"", "GreaterOrEqual", 12, kNow, 2, 2, import_comparison},
      {"", "Hardmax", 1, kNow, 1, 1, import_softmax},
      {"", "Identity", 1, kNow, 1, 1, import_identity},
      {"", "InstanceNormalization", 1, kNow, 3, 3, import_instance_norm},
      {"", "LRN", 1, kNow, 1, 1, import_lrn},
      {"", "LayerNormalization", 17, kNow, 2, 3, import_layer_norm},
      {"", "LeakyRelu", 1, kNow, 1, 1, import_leaky_relu},
      {"", "Less", 1, kNow, 2, 2, import_comparison},
      {"", "LessOrEqual", 12, kNow, 2, 2, import_comparison},
      {"", "LogSoftmax", 1, kNow, 1, 1, import_softmax},
      {"", "LpNormalization", 1, kNow, 1, 1, import_lp_norm},
      {"", "MatMul", 1, kNow, 2, 2, import_matmul},
      {"", "Max", 1, kNow, 1, kMany, import_extremum},
      {"", "MaxPool", 1, kNow, 1, 1, import_max_pool},
      {"", "Mean", 1, kNow, 1, kMany, import_mean},
      {"", "MeanVarianceNormalization", 9, kNow, 1, 1, import_mean_variance},
      {"", "Min", 1, kNow, 1, kMany, import_extremum},
      {"", "Mod", 10, kNow, 2, 2, import_mod},
      {"", "Mul", 1, kNow, 2, 2, import_binary},
      {"", "NegativeLogLikelihoodLoss", 12, kNow, 2, 3, import_nll_loss},
      {"", "OneHot", 9, kNow, 3, 3, import_one_hot},
      {"", "Or", 1, kNow, 2, 2, import_comparison},
      {"", "PRelu", 1, kNow, 2, 2, import_prelu},
      {"", "Pad", 1, 10, 1, 1, import_pad},
      {"", "Pad", 11, 17, 2, 3, import_pad},
      {"", "Pad", 18, kNow, 2, 4, import_pad},
      {"", "Pow", 1, kNow, 2, 2, import_pow},
      {"", "RMSNormalization", 23, kNow, 2, 2, import_rms_norm},
      {"", "Range", 11, kNow, 3, 3, import_range},
      {"", "ReduceL1", 1, kNow, 1, 2, import_reduce},
      {"", "ReduceL2", 1, kNow, 1, 2, import_reduce},
      {"", "ReduceLogSum", 1, kNow, 1, 2, import_reduce},
      {"", "ReduceLogSumExp", 1, kNow, 1, 2, import_reduce},
      {"", "ReduceMax", 1, kNow, 1, 2, import_reduce},
      {"", "ReduceMean", 1, kNow, 1, 2, import_reduce},
      {"", "ReduceMin", 1, kNow, 1, 2, import_reduce},
      {"", "ReduceProd", 1, kNow, 1, 2, import_reduce},
      {"", "ReduceSum", 1, kNow, 1, 2, import_reduce},
      {"", "ReduceSumSquare", 1, kNow, 1, 2, import_reduce},
      {"", "Relu", 1, kNow, 1, 1, import_unary},
      {"", "Reshape", 1, 4, 1, 1, import_reshape},
      {"", "Reshape", 5, kNow, 2, 2, import_reshape},
      {"", "Shape", 1, kNow, 1, 1, import_shape},
      {"", "Sigmoid", 1, kNow, 1, 1, import_unary},
      {"", "Size", 1, kNow, 1, 1, import_size},
      {"", "Slice", 1, 9, 1, 1, import_slice},
      {"", "Slice", 10, kNow, 3, 5, import_slice},
      {"", "Softmax", 1, kNow, 1, 1, import_softmax},
      {"", "SoftmaxCrossEntropyLoss", 12, kNow, 2, 3, import_cross_entropy},
      {"", "SpaceToDepth", 1, kNow, 1, 1, import_space_to_depth},
      {"", "Split", 1, kNow, 1, 2, import_split},
      {"", "Squeeze", 1, kNow, 1, 2, import_squeeze},
      {"", "Sub", 1, kNow, 2, 2, import_binary},
      {"", "Sum", 1, kNow, 1, kMany, import_sum},
      {"", "Tanh", 1, kNow, 1, 1, import_unary},
      {"", "Tile", 1, 5, 3, 3, import_tile},
      {"", "Tile", 6, kNow, 2, 2, import_tile},
      {"", "Transpose", 1, kNow, 1, 1, import_transpose},
      {"", "Trilu", 14, kNow, 1, 2, import_trilu},
      {"", "Unsqueeze", 1, kNow, 1, 2, import_unsqueeze},
      {"", "Where", 9, kNow, 3, 3, import_where},
      {"", "Xor", 1, kNow, 2, 2, import_comparison},
  };
  // Functions of one element are rows of graph/scalar.h.
  static const std::vector<OperatorRow> kTable = [] {
    std::vector<OperatorRow> rows(std::begin(kRows), std::end(kRows));
    for (const graph::UnaryRow& row : graph::unary_rows())
      if (row.since > 0) rows.push_back({"", row.name.data(), row.since, kNow, 1, 1, import_function});
    std::stable_sort(rows.begin(), rows.end(), [](const OperatorRow& a, const OperatorRow& b) {
      return std::pair(std::string_view(a.domain), std::string_view(a.op)) <
             std::pair(std::string_view(b.domain), std::string_view(b.op));
    });
    return rows;
  }();
  return kTable;
}

const OperatorRow* find_operator(const std::string& domain, const std::string& op, int64_t opset) {
  int64_t served = std::min(opset, kNewestOpset);
  for (const OperatorRow& row : operator_table()) {
    if (domain == row.domain && op == row.op && served >= row.since && served <= row.until) return &row;
  }
  return nullptr;
}

std::vector<OperatorInfo> supported_operators() {
  std::vector<OperatorInfo> list;
  for (const OperatorRow& row : operator_table()) list.push_back({row.domain, row.op, row.since, row.until});
  return list;
}

}  // namespace tcc::onnx
