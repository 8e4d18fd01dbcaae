// oneDNN (2.x) as a peer. Weights are in the layout it likes best; plain=1 holds inputs and outputs to row-major NCHW.
#include <omp.h>

#include <dnnl.hpp>

#include "peer.h"

namespace tcc::benchmarks {
namespace {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

Tag plain_tag(size_t rank) {
  switch (rank) {
    case 1:
      return Tag::a;
    case 2:
      return Tag::ab;
    case 3:
      return Tag::abc;
    case 4:
      return Tag::abcd;
    case 5:
      return Tag::abcde;
    case 6:
      return Tag::abcdef;
  }
  throw std::runtime_error("no plain layout of this rank");
}

class DnnlOperation : public Operation {
 public:
  explicit DnnlOperation(const Request& r) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    if (r.op == "gemm")
      make_gemm(r);
    else if (r.op == "conv")
      make_conv(r);
    else if (r.op == "deconv")
      make_deconv(r);
    else if (r.op == "attention")
      make_attention(r);
    else if (r.op == "norm")
      make_norm(r);
    else if (r.op == "softmax")
      make_softmax(r);
    else
      make_layernorm(r);
  }
  void run() override {
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }
  std::vector<float> output() override {
    memory plain({shape_, memory::data_type::f32, plain_tag(shape_.size())}, engine_);
    memory& dst = arguments_.at(DNNL_ARG_DST);
    dnnl::reorder(dst, plain).execute(stream_, dst, plain);
    stream_.wait();
    const auto* data = static_cast<const float*>(plain.get_data_handle());
    return {data, data + plain.get_desc().get_size() / sizeof(float)};
  }

 private:
  // The tensor's data in the wanted layout and type; `shape` is the logical shape.
  memory tensor(const Dims& shape, const memory::desc& wanted, uint32_t index) {
    memory plain({shape, memory::data_type::f32, plain_tag(shape.size())}, engine_), result(wanted, engine_);
    fill(static_cast<float*>(plain.get_data_handle()),
         static_cast<int64_t>(plain.get_desc().get_size() / sizeof(float)), index);
    dnnl::reorder(plain, result).execute(stream_, plain, result);
    stream_.wait();
    return result;
  }
  memory tensor(const Dims& shape, const memory::desc& wanted, const std::vector<float>& values) {
    memory plain({shape, memory::data_type::f32, plain_tag(shape.size())}, engine_), result(wanted, engine_);
    std::copy(values.begin(), values.end(), static_cast<float*>(plain.get_data_handle()));
    dnnl::reorder(plain, result).execute(stream_, plain, result);
    stream_.wait();
    return result;
  }
  static dnnl::primitive_attr attributes(const Request& r) {
    dnnl::primitive_attr attr;
    if (!r["relu"]) return attr;
    dnnl::post_ops ops;
    ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0, 0);
    attr.set_post_ops(ops);
    return attr;
  }

  // u8 by i8 into i32.
  void make_int8_gemm(const Request& r) {
    Dims a{r["m"], r["k"]}, b{r["k"], r["n"]};
    shape_ = {r["m"], r["n"]};
    memory::desc da(a, memory::data_type::u8, Tag::ab), db(b, memory::data_type::s8, Tag::any),
        dc(shape_, memory::data_type::s32, Tag::ab), plain(b, memory::data_type::s8, Tag::ab);
    dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(da, db, dc), engine_);
    primitive_ = dnnl::matmul(pd);
    memory src(da, engine_), weights(plain, engine_), packed(pd.weights_desc(), engine_);
    auto* x = static_cast<uint8_t*>(src.get_data_handle());
    auto* w = static_cast<int8_t*>(weights.get_data_handle());
    for (int64_t i = 0; i < a[0] * a[1]; ++i) x[i] = byte_at(i, 0);
    for (int64_t i = 0; i < b[0] * b[1]; ++i) w[i] = signed_byte_at(i, 1);
    dnnl::reorder(weights, packed).execute(stream_, weights, packed);
    stream_.wait();
    arguments_ = {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, memory(pd.dst_desc(), engine_)}};
  }

  void make_gemm(const Request& r) {
    if (r["int8"]) return make_int8_gemm(r);
    auto type = r["bf16"] ? memory::data_type::bf16 : memory::data_type::f32;
    Dims a{r["m"], r["k"]}, b{r["k"], r["n"]}, bias{1, r["n"]};
    shape_ = {r["m"], r["n"]};
    memory::desc da(a, type, Tag::ab), db(b, type, Tag::any), dc(shape_, type, Tag::ab),
        dbias(bias, memory::data_type::f32, Tag::ab);
    auto desc = r["bias"] ? dnnl::matmul::desc(da, db, dbias, dc) : dnnl::matmul::desc(da, db, dc);
    dnnl::matmul::primitive_desc pd(desc, attributes(r), engine_);
    primitive_ = dnnl::matmul(pd);
    arguments_ = {{DNNL_ARG_SRC, tensor(a, pd.src_desc(), 0)},
                  {DNNL_ARG_WEIGHTS, tensor(b, pd.weights_desc(), 1)},
                  {DNNL_ARG_DST, memory(pd.dst_desc(), engine_)}};
    if (r["bias"]) arguments_.emplace(DNNL_ARG_BIAS, tensor(bias, dbias, 2));
  }

  // What convolutions and transposed ones have in common.
  struct Window {
    Dims src, weights, strides, dilations, pads;
    bool bias;
  };
  Window window(const Request& r) {
    Window w{{r["batch"], r["c"]}, {r["f"], r["c"]}, {}, {}, {}, r["bias"] != 0 || r["bn"] != 0};
    const int64_t group = std::max<int64_t>(r["group"], 1), dilation = std::max<int64_t>(r["dilation"], 1);
    if (group > 1) w.weights = {group, r["f"] / group, r["c"] / group};
    shape_ = {r["batch"], r["f"]};
    const char* axes[] = {"d", "h", "w"};
    for (int64_t i = 3 - (r["rank"] > 0 ? r["rank"] : 2); i < 3; ++i) {
      const int64_t in = r[axes[i]], reach = (r["kernel"] - 1) * dilation + 1;
      w.src.push_back(in);
      w.weights.push_back(r["kernel"]);
      w.strides.push_back(r["stride"]);
      w.dilations.push_back(dilation - 1);
      w.pads.push_back(r["pad"]);
      shape_.push_back(r.op == "deconv" ? (in - 1) * r["stride"] - 2 * r["pad"] + reach
                                        : (in + 2 * r["pad"] - reach) / r["stride"] + 1);
    }
    return w;
  }
  // Weights and bias; with bn they are scaled and shifted as batch normalization would, ahead of the run.
  memory filters(const Request& r, const Window& w, const memory::desc& wanted) {
    if (!r["bn"]) return tensor(w.weights, wanted, 1);
    int64_t count = 1;
    for (int64_t d : w.weights) count *= d;
    std::vector<float> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
      values[static_cast<size_t>(i)] = data_at(i, 1) * data_at(i / (count / r["f"]), 3);
    return tensor(w.weights, wanted, values);
  }
  memory shift(const Request& r, const memory::desc& wanted) {
    if (!r["bn"]) return tensor({r["f"]}, wanted, 2);
    std::vector<float> values(static_cast<size_t>(r["f"]));
    for (int64_t f = 0; f < r["f"]; ++f) values[static_cast<size_t>(f)] = data_at(f, 2) - data_at(f, 3) * data_at(f, 4);
    return tensor({r["f"]}, wanted, values);
  }

  void make_conv(const Request& r) {
    auto f32 = memory::data_type::f32;
    const Window w = window(r);
    const Tag layout = r["plain"] ? plain_tag(w.src.size()) : Tag::any;
    memory::desc ds(w.src, f32, layout), dw(w.weights, f32, Tag::any), dd(shape_, f32, layout),
        dbias({r["f"]}, f32, Tag::a);
    using Conv = dnnl::convolution_forward;
    auto kind = dnnl::prop_kind::forward_inference;
    auto algorithm = dnnl::algorithm::convolution_direct;
    auto desc = w.bias ? Conv::desc(kind, algorithm, ds, dw, dbias, dd, w.strides, w.dilations, w.pads, w.pads)
                       : Conv::desc(kind, algorithm, ds, dw, dd, w.strides, w.dilations, w.pads, w.pads);
    Conv::primitive_desc pd(desc, attributes(r), engine_);
    primitive_ = Conv(pd);
    arguments_ = {{DNNL_ARG_SRC, tensor(w.src, pd.src_desc(), 0)},
                  {DNNL_ARG_WEIGHTS, filters(r, w, pd.weights_desc())},
                  {DNNL_ARG_DST, memory(pd.dst_desc(), engine_)}};
    if (w.bias) arguments_.emplace(DNNL_ARG_BIAS, shift(r, dbias));
  }

  // ONNX holds these weights as [C, F, ...].
  void make_deconv(const Request& r) {
    auto f32 = memory::data_type::f32;
    const Window w = window(r);
    if (r["group"] > 1 || w.bias) throw std::runtime_error("transposed convolutions have one group and no bias here");
    const Tag layout = r["plain"] ? plain_tag(w.src.size()) : Tag::any;
    memory::desc ds(w.src, f32, layout), dw(w.weights, f32, Tag::any), dd(shape_, f32, layout);
    using Deconv = dnnl::deconvolution_forward;
    Deconv::primitive_desc pd({dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct, ds, dw, dd,
                               w.strides, w.dilations, w.pads, w.pads},
                              attributes(r), engine_);
    primitive_ = Deconv(pd);
    int64_t taps = 1;
    for (size_t i = 2; i < w.weights.size(); ++i) taps *= w.weights[i];
    std::vector<float> values(static_cast<size_t>(r["f"] * r["c"] * taps));
    for (int64_t f = 0; f < r["f"]; ++f)
      for (int64_t c = 0; c < r["c"]; ++c)
        for (int64_t t = 0; t < taps; ++t)
          values[static_cast<size_t>((f * r["c"] + c) * taps + t)] = data_at((c * r["f"] + f) * taps + t, 1);
    arguments_ = {{DNNL_ARG_SRC, tensor(w.src, pd.src_desc(), 0)},
                  {DNNL_ARG_WEIGHTS, tensor(w.weights, pd.weights_desc(), values)},
                  {DNNL_ARG_DST, memory(pd.dst_desc(), engine_)}};
  }

  // Both operands are read in place: the transposes are strides.
  void make_attention(const Request& r) {
    auto f32 = memory::data_type::f32;
    const int64_t tokens = r["tokens"], heads = r["heads"], depth = r["depth"], row = heads * depth;
    Dims q{heads, tokens, depth}, k{heads, depth, tokens}, flat{heads * tokens * depth};
    shape_ = {heads, tokens, tokens};
    memory::desc dq(q, f32, Dims{depth, row, 1}), dk(k, f32, Dims{depth, 1, row}), dd(shape_, f32, Tag::abc);
    dnnl::matmul::primitive_desc pd({dq, dk, dd}, engine_);
    primitive_ = dnnl::matmul(pd);
    memory mq(dq, engine_), mk(dk, engine_);
    fill(static_cast<float*>(mq.get_data_handle()), flat[0], 0);
    fill(static_cast<float*>(mk.get_data_handle()), flat[0], 1);
    arguments_ = {{DNNL_ARG_SRC, mq}, {DNNL_ARG_WEIGHTS, mk}, {DNNL_ARG_DST, memory(dd, engine_)}};
  }

  void make_norm(const Request& r) {
    Dims src{1, r["rows"], r["cols"]};
    shape_ = {1, 1, 1};
    auto f32 = memory::data_type::f32;
    memory::desc ds(src, f32, Tag::abc), dd(shape_, f32, Tag::abc);
    dnnl::reduction::primitive_desc pd({dnnl::algorithm::reduction_norm_lp_sum, ds, dd, 2.0f, 0.0f}, engine_);
    primitive_ = dnnl::reduction(pd);
    arguments_ = {{DNNL_ARG_SRC, tensor(src, ds, 0)}, {DNNL_ARG_DST, memory(dd, engine_)}};
  }

  void make_softmax(const Request& r) {
    shape_ = {r["rows"], r["cols"]};
    memory::desc data(shape_, memory::data_type::f32, Tag::ab);
    dnnl::softmax_forward::primitive_desc pd({dnnl::prop_kind::forward_inference, data, 1}, engine_);
    primitive_ = dnnl::softmax_forward(pd);
    arguments_ = {{DNNL_ARG_SRC, tensor(shape_, data, 0)}, {DNNL_ARG_DST, memory(data, engine_)}};
  }

  void make_layernorm(const Request& r) {
    using Norm = dnnl::layer_normalization_forward;
    shape_ = {r["rows"], r["cols"]};
    memory::desc data(shape_, memory::data_type::f32, Tag::ab);
    auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
    Norm::primitive_desc pd({dnnl::prop_kind::forward_inference, data, 1e-5f, flags}, engine_);
    primitive_ = Norm(pd);
    Dims row{r["cols"]};
    memory::desc vector(row, memory::data_type::f32, Tag::a);
    arguments_ = {{DNNL_ARG_SRC, tensor(shape_, data, 0)},
                  {DNNL_ARG_SCALE, tensor(row, vector, 1)},
                  {DNNL_ARG_SHIFT, tensor(row, vector, 2)},
                  {DNNL_ARG_DST, memory(data, engine_)}};
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::unordered_map<int, memory> arguments_;
  Dims shape_;
};

std::unique_ptr<Operation> prepare(const Request& r) {
  const char* known[] = {"gemm", "conv", "deconv", "attention", "norm", "softmax", "layernorm"};
  const bool window = r.op == "conv" || r.op == "deconv";
  // Only convolutions have a preferred layout of their own.
  if (std::find(std::begin(known), std::end(known), r.op) == std::end(known) || (!window && !r["plain"]))
    return nullptr;
  omp_set_num_threads(static_cast<int>(r["threads"]));
  return std::make_unique<DnnlOperation>(r);
}

}  // namespace
}  // namespace tcc::benchmarks

int main() {
  return tcc::benchmarks::serve(tcc::benchmarks::prepare);
}
