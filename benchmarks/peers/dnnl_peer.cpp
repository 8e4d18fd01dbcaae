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
    case 4:
      return Tag::abcd;
    case 5:
      return Tag::abcde;
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
  static dnnl::primitive_attr attributes(const Request& r) {
    dnnl::primitive_attr attr;
    if (!r["relu"]) return attr;
    dnnl::post_ops ops;
    ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0, 0);
    attr.set_post_ops(ops);
    return attr;
  }

  void make_gemm(const Request& r) {
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

  void make_conv(const Request& r) {
    auto f32 = memory::data_type::f32;
    int64_t group = std::max<int64_t>(r["group"], 1), kernel = r["kernel"];
    Tag layout = r["plain"] ? Tag::nchw : Tag::any;
    Dims src{r["batch"], r["c"], r["h"], r["w"]}, bias{r["f"]}, strides{r["stride"], r["stride"]},
        pads{r["pad"], r["pad"]};
    Dims weights{r["f"], r["c"] / group, kernel, kernel};
    if (group > 1) weights = {group, r["f"] / group, r["c"] / group, kernel, kernel};
    auto extent = [&](int64_t in) { return (in + 2 * r["pad"] - kernel) / r["stride"] + 1; };
    shape_ = {r["batch"], r["f"], extent(r["h"]), extent(r["w"])};
    memory::desc ds(src, f32, layout), dw(weights, f32, Tag::any), dd(shape_, f32, layout), dbias(bias, f32, Tag::a);
    using Conv = dnnl::convolution_forward;
    auto kind = dnnl::prop_kind::forward_inference;
    auto algorithm = dnnl::algorithm::convolution_direct;
    auto desc = r["bias"] ? Conv::desc(kind, algorithm, ds, dw, dbias, dd, strides, pads, pads)
                          : Conv::desc(kind, algorithm, ds, dw, dd, strides, pads, pads);
    Conv::primitive_desc pd(desc, attributes(r), engine_);
    primitive_ = Conv(pd);
    arguments_ = {{DNNL_ARG_SRC, tensor(src, pd.src_desc(), 0)},
                  {DNNL_ARG_WEIGHTS, tensor(weights, pd.weights_desc(), 1)},
                  {DNNL_ARG_DST, memory(pd.dst_desc(), engine_)}};
    if (r["bias"]) arguments_.emplace(DNNL_ARG_BIAS, tensor(bias, dbias, 2));
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
  bool known = r.op == "gemm" || r.op == "conv" || r.op == "softmax" || r.op == "layernorm";
  // Only convolutions have a preferred layout of their own.
  if (!known || (r.op != "conv" && !r["plain"])) return nullptr;
  omp_set_num_threads(static_cast<int>(r["threads"]));
  return std::make_unique<DnnlOperation>(r);
}

}  // namespace
}  // namespace tcc::benchmarks

int main() {
  return tcc::benchmarks::serve(tcc::benchmarks::prepare);
}
