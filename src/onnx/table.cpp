// The operator table: dispatch is on (domain, operator, opset), never on the name alone.
#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "handlers.h"
#include "tcc/onnx/importer.h"

namespace tcc::onnx {

constexpr int64_t kMany = std::numeric_limits<int32_t>::max();
constexpr int64_t kNow = kNewestOpset;

// X(operator, first and last opset, fewest and most inputs, handler). A row declares its handler, which one of
// handlers_*.cpp defines.
// clang-format off
#define TCC_ONNX_OPERATORS(X) \
  X("Add", 1, kNow, 2, 2, import_binary) \
  X("And", 1, kNow, 2, 2, import_comparison) \
  X("ArgMax", 1, kNow, 1, 1, import_arg) \
  X("ArgMin", 1, kNow, 1, 1, import_arg) \
  X("AveragePool", 1, kNow, 1, 1, import_average_pool) \
  X("BatchNormalization", 1, kNow, 5, 5, import_batch_norm) \
  X("Cast", 1, kNow, 1, 1, import_cast) \
  X("CastLike", 15, kNow, 2, 2, import_cast_like) \
  X("Clip", 1, 10, 1, 1, import_clip) \
  X("Clip", 11, kNow, 1, 3, import_clip) \
  X("Concat", 1, kNow, 1, kMany, import_concat) \
  X("Constant", 1, kNow, 0, 0, import_constant) \
  X("ConstantOfShape", 9, kNow, 1, 1, import_constant_of_shape) \
  X("Conv", 1, kNow, 2, 3, import_conv) \
  X("ConvTranspose", 1, kNow, 2, 3, import_conv_transpose) \
  X("DepthToSpace", 1, kNow, 1, 1, import_depth_to_space) \
  X("Div", 1, kNow, 2, 2, import_binary) \
  X("Dropout", 1, 11, 1, 1, import_dropout) \
  X("Dropout", 12, kNow, 1, 3, import_dropout) \
  X("Equal", 1, kNow, 2, 2, import_comparison) \
  X("Expand", 8, kNow, 2, 2, import_expand) \
  X("EyeLike", 9, kNow, 1, 1, import_eye_like) \
  X("Flatten", 1, kNow, 1, 1, import_flatten) \
  X("Gather", 1, kNow, 2, 2, import_gather) \
  X("GatherElements", 11, kNow, 2, 2, import_gather) \
  X("GatherND", 11, kNow, 2, 2, import_gather_nd) \
  X("Gemm", 1, 10, 3, 3, import_gemm) \
  X("Gemm", 11, kNow, 2, 3, import_gemm) \
  X("GlobalAveragePool", 1, kNow, 1, 1, import_global_pool) \
  X("GlobalMaxPool", 1, kNow, 1, 1, import_global_pool) \
  X("Greater", 1, kNow, 2, 2, import_comparison) \
  X("GreaterOrEqual", 12, kNow, 2, 2, import_comparison) \
  X("Hardmax", 1, kNow, 1, 1, import_softmax) \
  X("InstanceNormalization", 1, kNow, 3, 3, import_instance_norm) \
  X("LRN", 1, kNow, 1, 1, import_lrn) \
  X("LayerNormalization", 1, kNow, 2, 3, import_layer_norm) \
  X("LeakyRelu", 1, kNow, 1, 1, import_leaky_relu) \
  X("Less", 1, kNow, 2, 2, import_comparison) \
  X("LessOrEqual", 12, kNow, 2, 2, import_comparison) \
  X("LogSoftmax", 1, kNow, 1, 1, import_softmax) \
  X("LpNormalization", 1, kNow, 1, 1, import_lp_norm) \
  X("MatMul", 1, kNow, 2, 2, import_matmul) \
  X("Max", 1, kNow, 1, kMany, import_extremum) \
  X("MaxPool", 1, kNow, 1, 1, import_max_pool) \
  X("Mean", 1, kNow, 1, kMany, import_mean) \
  X("MeanVarianceNormalization", 9, kNow, 1, 1, import_mean_variance) \
  X("Min", 1, kNow, 1, kMany, import_extremum) \
  X("Mod", 10, kNow, 2, 2, import_mod) \
  X("Mul", 1, kNow, 2, 2, import_binary) \
  X("NegativeLogLikelihoodLoss", 12, kNow, 2, 3, import_nll_loss) \
  X("OneHot", 9, kNow, 3, 3, import_one_hot) \
  X("Or", 1, kNow, 2, 2, import_comparison) \
  X("PRelu", 1, kNow, 2, 2, import_prelu) \
  X("Pad", 1, 10, 1, 1, import_pad) \
  X("Pad", 11, 17, 2, 3, import_pad) \
  X("Pad", 18, kNow, 2, 4, import_pad) \
  X("Pow", 1, kNow, 2, 2, import_pow) \
  X("RMSNormalization", 23, kNow, 2, 2, import_rms_norm) \
  X("Range", 11, kNow, 3, 3, import_range) \
  X("ReduceL1", 1, kNow, 1, 2, import_reduce) \
  X("ReduceL2", 1, kNow, 1, 2, import_reduce) \
  X("ReduceLogSum", 1, kNow, 1, 2, import_reduce) \
  X("ReduceLogSumExp", 1, kNow, 1, 2, import_reduce) \
  X("ReduceMax", 1, kNow, 1, 2, import_reduce) \
  X("ReduceMean", 1, kNow, 1, 2, import_reduce) \
  X("ReduceMin", 1, kNow, 1, 2, import_reduce) \
  X("ReduceProd", 1, kNow, 1, 2, import_reduce) \
  X("ReduceSum", 1, kNow, 1, 2, import_reduce) \
  X("ReduceSumSquare", 1, kNow, 1, 2, import_reduce) \
  X("Relu", 1, kNow, 1, 1, import_unary) \
  X("Reshape", 1, 4, 1, 1, import_reshape) \
  X("Reshape", 5, kNow, 2, 2, import_reshape) \
  X("Shape", 1, kNow, 1, 1, import_shape) \
  X("Sigmoid", 1, kNow, 1, 1, import_unary) \
  X("Size", 1, kNow, 1, 1, import_size) \
  X("Slice", 1, 9, 1, 1, import_slice) \
  X("Slice", 10, kNow, 3, 5, import_slice) \
  X("Softmax", 1, kNow, 1, 1, import_softmax) \
  X("SoftmaxCrossEntropyLoss", 12, kNow, 2, 3, import_cross_entropy) \
  X("SpaceToDepth", 1, kNow, 1, 1, import_space_to_depth) \
  X("Split", 1, kNow, 1, 2, import_split) \
  X("Squeeze", 1, kNow, 1, 2, import_squeeze) \
  X("Sub", 1, kNow, 2, 2, import_binary) \
  X("Sum", 1, kNow, 1, kMany, import_sum) \
  X("Tanh", 1, kNow, 1, 1, import_unary) \
  X("Tile", 1, 5, 3, 3, import_tile) \
  X("Tile", 6, kNow, 2, 2, import_tile) \
  X("Transpose", 1, kNow, 1, 1, import_transpose) \
  X("Trilu", 14, kNow, 1, 2, import_trilu) \
  X("Unsqueeze", 1, kNow, 1, 2, import_unsqueeze) \
  X("Where", 9, kNow, 3, 3, import_where) \
  X("Xor", 1, kNow, 2, 2, import_comparison)

// Operators that take or give sequences and optionals.
#define TCC_ONNX_LIST_OPERATORS(X) \
  X("ConcatFromSequence", 11, kNow, 1, 1, import_concat_from_sequence) \
  X("Identity", 1, kNow, 1, 1, import_identity) \
  X("If", 1, kNow, 1, 1, import_if) \
  X("Loop", 1, kNow, 0, kMany, import_loop) \
  X("Optional", 15, kNow, 0, 1, import_optional) \
  X("OptionalGetElement", 15, kNow, 1, 1, import_optional_get_element) \
  X("OptionalHasElement", 15, kNow, 0, 1, import_optional_has_element) \
  X("Scan", 8, kNow, 0, kMany, import_scan) \
  X("SequenceAt", 11, kNow, 2, 2, import_sequence_at) \
  X("SequenceConstruct", 11, kNow, 1, kMany, import_sequence_construct) \
  X("SequenceEmpty", 11, kNow, 0, 0, import_sequence_empty) \
  X("SequenceErase", 11, kNow, 1, 2, import_sequence_erase) \
  X("SequenceInsert", 11, kNow, 2, 3, import_sequence_insert) \
  X("SequenceLength", 11, kNow, 1, 1, import_sequence_length) \
  X("SequenceMap", 17, kNow, 1, kMany, import_sequence_map) \
  X("SplitToSequence", 11, kNow, 1, 2, import_split_to_sequence)
// Operators made of graph operators.
#define TCC_ONNX_COMPOSED_OPERATORS(X) \
  X("AffineGrid", 20, kNow, 2, 2, import_affine_grid) \
  X("Attention", 23, kNow, 3, 7, import_attention) \
  X("BlackmanWindow", 17, kNow, 1, 1, import_window) \
  X("CausalConvWithState", 27, kNow, 2, 4, import_causal_conv) \
  X("CenterCropPad", 18, kNow, 2, 2, import_center_crop_pad) \
  X("Col2Im", 18, kNow, 3, 3, import_col2im) \
  X("ConvInteger", 10, kNow, 2, 4, import_conv_integer) \
  X("DFT", 17, 19, 1, 2, import_dft) \
  X("DFT", 20, kNow, 1, 3, import_dft) \
  X("DequantizeLinear", 10, kNow, 2, 3, import_dequantize_linear) \
  X("Det", 11, kNow, 1, 1, import_det) \
  X("DynamicQuantizeLinear", 11, kNow, 1, 1, import_dynamic_quantize_linear) \
  X("Einsum", 12, kNow, 1, kMany, import_einsum) \
  X("GRU", 1, kNow, 3, 6, import_gru) \
  X("GlobalLpPool", 1, kNow, 1, 1, import_global_lp_pool) \
  X("GroupNormalization", 18, kNow, 3, 3, import_group_norm) \
  X("HammingWindow", 17, kNow, 1, 1, import_window) \
  X("HannWindow", 17, kNow, 1, 1, import_window) \
  X("LSTM", 1, kNow, 3, 8, import_lstm) \
  X("LpPool", 2, kNow, 1, 1, import_lp_pool) \
  X("MatMulInteger", 10, kNow, 2, 4, import_matmul_integer) \
  X("MelWeightMatrix", 17, kNow, 5, 5, import_mel_weight_matrix) \
  X("QLinearConv", 10, kNow, 8, 9, import_qlinear_conv) \
  X("QLinearMatMul", 10, kNow, 8, 8, import_qlinear_matmul) \
  X("QuantizeLinear", 10, kNow, 2, 3, import_quantize_linear) \
  X("RNN", 1, kNow, 3, 6, import_rnn) \
  X("ReverseSequence", 10, kNow, 2, 2, import_reverse_sequence) \
  X("LinearAttention", 27, kNow, 3, 6, import_linear_attention) \
  X("RotaryEmbedding", 23, kNow, 3, 4, import_rotary_embedding) \
  X("STFT", 17, kNow, 2, 4, import_stft) \
  X("SimplifiedLayerNormalization", 1, kNow, 2, 2, import_rms_norm) \
  X("SwiGLU", 28, kNow, 2, 2, import_swiglu) \
  X("TensorScatter", 24, kNow, 2, 3, import_tensor_scatter)
// Of domain com.microsoft.
#define TCC_ONNX_MICROSOFT_OPERATORS(X) \
  X("Attention", 1, kNow, 2, 7, import_microsoft_attention) \
  X("BiasGelu", 1, kNow, 2, 2, import_fused_gelu) \
  X("DequantizeLinear", 1, kNow, 2, 3, import_dequantize_linear) \
  X("DynamicQuantizeMatMul", 1, kNow, 3, 5, import_dynamic_quantize_matmul) \
  X("EmbedLayerNormalization", 1, kNow, 1, 9, import_embed_layer_norm) \
  X("FastGelu", 1, kNow, 1, 2, import_fused_gelu) \
  X("FusedConv", 1, kNow, 2, 4, import_fused_conv) \
  X("FusedGemm", 1, kNow, 2, 3, import_fused_gemm) \
  X("FusedMatMul", 1, kNow, 2, 2, import_fused_matmul) \
  X("Gelu", 1, kNow, 1, 1, import_fused_gelu) \
  X("GroupQueryAttention", 1, kNow, 1, 12, import_group_query_attention) \
  X("MatMulIntegerToFloat", 1, kNow, 4, 7, import_matmul_integer_to_float) \
  X("MatMulNBits", 1, kNow, 3, 6, import_matmul_nbits) \
  X("MultiHeadAttention", 1, kNow, 1, 10, import_multi_head_attention) \
  X("NhwcMaxPool", 1, kNow, 1, 1, import_nhwc_max_pool) \
  X("QGemm", 1, kNow, 6, 9, import_qgemm) \
  X("QLinearAdd", 1, kNow, 7, 8, import_qlinear_binary) \
  X("QLinearAveragePool", 1, kNow, 4, 5, import_qlinear_unary) \
  X("QLinearConcat", 1, kNow, 5, kMany, import_qlinear_concat) \
  X("QLinearGlobalAveragePool", 1, kNow, 4, 5, import_qlinear_unary) \
  X("QLinearLeakyRelu", 1, kNow, 4, 5, import_qlinear_unary) \
  X("QLinearMul", 1, kNow, 7, 8, import_qlinear_binary) \
  X("QLinearSigmoid", 1, kNow, 4, 5, import_qlinear_unary) \
  X("QLinearSoftmax", 1, kNow, 4, 5, import_qlinear_unary) \
  X("QLinearWhere", 1, kNow, 8, 9, import_qlinear_where) \
  X("QuantizeLinear", 1, kNow, 2, 3, import_quantize_linear) \
  X("QuickGelu", 1, kNow, 1, 1, import_quick_gelu) \
  X("RotaryEmbedding", 1, kNow, 4, 4, import_microsoft_rotary_embedding) \
  X("SimplifiedLayerNormalization", 1, kNow, 2, 2, import_rms_norm) \
  X("SkipLayerNormalization", 1, kNow, 3, 5, import_skip_layer_norm) \
  X("SkipSimplifiedLayerNormalization", 1, kNow, 3, 4, import_skip_layer_norm)
// Operators that place, order and sample elements.
#define TCC_ONNX_PLACING_OPERATORS(X) \
  X("Bernoulli", 15, kNow, 1, 1, import_bernoulli) \
  X("BitCast", 26, kNow, 1, 1, import_bit_cast) \
  X("BitShift", 11, kNow, 2, 2, import_bit_shift) \
  X("BitwiseAnd", 18, kNow, 2, 2, import_bitwise) \
  X("BitwiseOr", 18, kNow, 2, 2, import_bitwise) \
  X("BitwiseXor", 18, kNow, 2, 2, import_bitwise) \
  X("Compress", 9, kNow, 2, 2, import_compress) \
  X("CumProd", 26, kNow, 2, 2, import_cumulative) \
  X("CumSum", 11, kNow, 2, 2, import_cumulative) \
  X("DeformConv", 19, kNow, 3, 5, import_deform_conv) \
  X("GridSample", 16, kNow, 2, 2, import_grid_sample) \
  X("MaxUnpool", 9, kNow, 2, 3, import_max_unpool) \
  X("Multinomial", 7, kNow, 1, 1, import_multinomial) \
  X("NonMaxSuppression", 10, kNow, 2, 5, import_non_max_suppression) \
  X("NonZero", 9, kNow, 1, 1, import_non_zero) \
  X("RandomNormal", 1, kNow, 0, 0, import_random) \
  X("RandomNormalLike", 1, kNow, 1, 1, import_random) \
  X("RandomUniform", 1, kNow, 0, 0, import_random) \
  X("RandomUniformLike", 1, kNow, 1, 1, import_random) \
  X("Resize", 10, 10, 2, 2, import_upsample) \
  X("Resize", 11, kNow, 1, 4, import_resize) \
  X("RoiAlign", 10, kNow, 3, 3, import_roi_align) \
  X("Scatter", 9, 10, 3, 3, import_scatter_elements) \
  X("ScatterElements", 11, kNow, 3, 3, import_scatter_elements) \
  X("ScatterND", 11, kNow, 3, 3, import_scatter_nd) \
  X("TopK", 1, 9, 1, 1, import_top_k) \
  X("TopK", 10, kNow, 2, 2, import_top_k) \
  X("Unique", 11, kNow, 1, 1, import_unique) \
  X("Upsample", 1, 8, 1, 1, import_upsample) \
  X("Upsample", 9, 9, 2, 2, import_upsample)
// clang-format on

#define TCC_X(op, since, until, fewest, most, handler) Result<void> handler(NodeContext&);
TCC_ONNX_OPERATORS(TCC_X)
TCC_ONNX_LIST_OPERATORS(TCC_X)
TCC_ONNX_COMPOSED_OPERATORS(TCC_X)
TCC_ONNX_MICROSOFT_OPERATORS(TCC_X)
TCC_ONNX_PLACING_OPERATORS(TCC_X)
#undef TCC_X
Result<void> import_function(NodeContext&);  // of one element: the rows of graph/scalar.h

const std::vector<OperatorRow>& operator_table() {
  static const std::vector<OperatorRow> kTable = [] {
    std::vector<OperatorRow> rows = {
#define TCC_X(op, since, until, fewest, most, handler) {"", op, since, until, fewest, most, handler},
        TCC_ONNX_OPERATORS(TCC_X) TCC_ONNX_COMPOSED_OPERATORS(TCC_X) TCC_ONNX_PLACING_OPERATORS(TCC_X)
#undef TCC_X
#define TCC_X(op, since, until, fewest, most, handler) {"com.microsoft", op, since, until, fewest, most, handler},
            TCC_ONNX_MICROSOFT_OPERATORS(TCC_X)
#undef TCC_X
#define TCC_X(op, since, until, fewest, most, handler) {"", op, since, until, fewest, most, handler, true},
                TCC_ONNX_LIST_OPERATORS(TCC_X)
#undef TCC_X
    };
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
