// The operator table: dispatch is on (domain, operator, opset), never on the name alone.
#include <limits>

#include "handlers.h"
#include "tcc/onnx/importer.h"

namespace tcc::onnx {

const std::vector<OperatorRow>& operator_table() {
  constexpr int64_t kMany = std::numeric_limits<int32_t>::max();
  constexpr int64_t kNow = kNewestOpset;
  static const std::vector<OperatorRow> kTable = {
      {"", "Add", 1, kNow, 2, 2, import_binary},
      {"", "AveragePool", 1, kNow, 1, 1, import_average_pool},
      {"", "BatchNormalization", 1, kNow, 5, 5, import_batch_norm},
      {"", "Cast", 1, kNow, 1, 1, import_cast},
      {"", "Clip", 1, 10, 1, 1, import_clip},
      {"", "Clip", 11, kNow, 1, 3, import_clip},
      {"", "Concat", 1, kNow, 1, kMany, import_concat},
      {"", "Constant", 1, kNow, 0, 0, import_constant},
      {"", "ConstantOfShape", 9, kNow, 1, 1, import_constant_of_shape},
      {"", "Conv", 1, kNow, 2, 3, import_conv},
      {"", "Div", 1, kNow, 2, 2, import_binary},
      {"", "Dropout", 1, 11, 1, 1, import_dropout},
      {"", "Dropout", 12, kNow, 1, 3, import_dropout},
      {"", "Flatten", 1, kNow, 1, 1, import_flatten},
      {"", "Gather", 1, kNow, 2, 2, import_gather},
      {"", "Gemm", 1, 10, 3, 3, import_gemm},
      {"", "Gemm", 11, kNow, 2, 3, import_gemm},
      {"", "GlobalAveragePool", 1, kNow, 1, 1, import_global_average_pool},
      {"", "GlobalMaxPool", 1, kNow, 1, 1, import_global_max_pool},
      {"", "Identity", 1, kNow, 1, 1, import_identity},
      {"", "LRN", 1, kNow, 1, 1, import_lrn},
      {"", "LeakyRelu", 1, kNow, 1, 1, import_leaky_relu},
      {"", "MatMul", 1, kNow, 2, 2, import_matmul},
      {"", "MaxPool", 1, kNow, 1, 1, import_max_pool},
      {"", "Mul", 1, kNow, 2, 2, import_binary},
      {"", "Pad", 1, 10, 1, 1, import_pad},
      {"", "Pad", 11, 17, 2, 3, import_pad},
      {"", "Pad", 18, kNow, 2, 4, import_pad},
      {"", "ReduceMax", 1, kNow, 1, 2, import_reduce},
      {"", "ReduceMean", 1, kNow, 1, 2, import_reduce},
      {"", "ReduceSum", 1, kNow, 1, 2, import_reduce},
      {"", "Relu", 1, kNow, 1, 1, import_unary},
      {"", "Reshape", 1, 4, 1, 1, import_reshape},
      {"", "Reshape", 5, kNow, 2, 2, import_reshape},
      {"", "Shape", 1, kNow, 1, 1, import_shape},
      {"", "Sigmoid", 1, kNow, 1, 1, import_unary},
      {"", "Softmax", 1, kNow, 1, 1, import_softmax},
      {"", "Squeeze", 1, kNow, 1, 2, import_squeeze},
      {"", "Sub", 1, kNow, 2, 2, import_binary},
      {"", "Sum", 1, kNow, 1, kMany, import_sum},
      {"", "Tanh", 1, kNow, 1, 1, import_unary},
      {"", "Transpose", 1, kNow, 1, 1, import_transpose},
      {"", "Unsqueeze", 1, kNow, 1, 2, import_unsqueeze},
  };
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
