// BERT the way PyTorch exports the eager model: LayerNorm and Gelu written out in small operators, shapes computed at
// run time from Shape, Gather and Concat, matrix products of three axes with a bias added, key transposed for the
// product.
#include <fmt/format.h>

#include "zoo_builder.h"

namespace tcc::onnx {
namespace {

constexpr int64_t kVocabulary = 30522, kSegments = 2;
constexpr float kMasked = -3.40282347e38f;

class BertBuilder {
 public:
  BertBuilder(const BertShape& shape, const ZooOptions& options)
      : layers_(options.layers > 0 ? options.layers : shape.layers),
        b_(shape.name, options,
           shape.hidden * (kVocabulary + 1000 + layers_ * (12 * shape.hidden + 20) + shape.hidden)),
        w_(b_.writer()),
        shape_(shape),
        options_(options) {}

  std::string make() {
    const graph::Shape tokens{options_.batch, options_.sequence};
    for (const char* name : {"input_ids", "attention_mask", "token_type_ids"}) w_.integer_input(name, tokens);
    make_constants();
    std::string mask = make_mask();
    std::string x = embeddings();
    for (int64_t layer = 0; layer < layers_; ++layer) {
      std::string name = fmt::format("/encoder/layer.{}", layer);
      std::string attended = attention(name + "/attention", x, mask);
      std::string inner =
          gelu(name + "/intermediate", dense(name + "/intermediate/dense", attended, hidden(), 4 * hidden()));
      std::string y = dense(name + "/output/dense", inner, 4 * hidden(), hidden());
      y = node("Add", {y, attended}, name + "/output/Add");
      bool last = layer + 1 == layers_;
      x = layer_norm(name + "/output/LayerNorm", y, last ? "last_hidden_state" : "");
    }
    std::string first = w_.node("Gather", {x, "zero"}, {"/pooler/Gather"}, {{"axis", int64_t{1}}});
    double deviation = std::sqrt(1.0 / static_cast<double>(hidden()));
    std::string weight = b_.normal("pooler.dense.weight", {hidden(), hidden()}, deviation);
    std::string bias = b_.normal("pooler.dense.bias", {hidden()}, 0.05);
    first = w_.node("Gemm", {first, weight, bias}, {"/pooler/dense/Gemm"},
                    {{"alpha", 1.0f}, {"beta", 1.0f}, {"transB", int64_t{1}}});
    w_.node("Tanh", {first}, {"pooler_output"});
    w_.output("last_hidden_state", {options_.batch, options_.sequence, hidden()});
    w_.output("pooler_output", {options_.batch, hidden()});
    return w_.finish();
  }

 private:
  int64_t hidden() const { return shape_.hidden; }
  int64_t head_size() const { return shape_.hidden / shape_.heads; }
  std::string node(const char* op, const Strings& inputs, const std::string& name,
                   const std::vector<NamedAttribute>& attributes = {}) {
    return w_.node(op, inputs, {name}, attributes);
  }
  std::string number(const std::string& name, float v) { return w_.initializer(name, {{}, std::vector<float>{v}}); }
  std::string integers(const std::string& name, const graph::Shape& shape, const Ints& v) {
    return w_.initializer(name, {shape, v});
  }

  void make_constants() {
    number("one", 1);
    number("two", 2);
    number("half", 0.5f);
    number("root2", 1.41421354f);
    number("epsilon", 1e-12f);
    number("masked", kMasked);
    number("root_head", std::sqrt(static_cast<float>(head_size())));
    integers("zero", {}, {0});
    integers("axis1", {}, {1});
    integers("axes0", {1}, {0});
    integers("axes1", {1}, {1});
    integers("axes2", {1}, {2});
    integers("heads", {1}, {shape_.heads});
    integers("head_size", {1}, {head_size()});
    integers("hidden_size", {1}, {hidden()});
  }

  // 0 for keys that are attended to, the smallest float for others.
  std::string make_mask() {
    std::string m = node("Unsqueeze", {"attention_mask", "axes1"}, "/Unsqueeze");
    m = node("Unsqueeze", {m, "axes2"}, "/Unsqueeze_1");
    m = node("Cast", {m}, "/Cast", {{"to", int64_t{1}}});
    m = node("Sub", {"one", m}, "/Sub");
    std::string hidden_keys = node("Cast", {m}, "/Cast_1", {{"to", int64_t{9}}});
    return node("Where", {hidden_keys, "masked", m}, "/Where");
  }

  std::string embeddings() {
    auto table = [&](const std::string& name, int64_t rows) {
      return b_.normal("embeddings." + name + ".weight", {rows, hidden()}, 0.5);
    };
    std::string words = table("word_embeddings", kVocabulary);
    std::string positions = table("position_embeddings", kBertPositions);
    std::string segments = table("token_type_embeddings", kSegments);
    // The positions are a slice of a stored row of numbers, as long as the input.
    Ints numbers(static_cast<size_t>(kBertPositions));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
    integers("embeddings.position_ids", {1, kBertPositions}, numbers);
    std::string length = extent("/embeddings", "input_ids", "axis1");
    std::string ids = node("Slice", {"embeddings.position_ids", "axes0", length, "axes1"}, "/embeddings/Slice");
    std::string x = node("Gather", {words, "input_ids"}, "/embeddings/word_embeddings/Gather");
    std::string t = node("Gather", {segments, "token_type_ids"}, "/embeddings/token_type_embeddings/Gather");
    x = node("Add", {x, t}, "/embeddings/Add");
    std::string p = node("Gather", {positions, ids}, "/embeddings/position_embeddings/Gather");
    x = node("Add", {x, p}, "/embeddings/Add_1");
    return layer_norm("/embeddings/LayerNorm", x);
  }

  // One extent of a tensor, as a list of one number.
  std::string extent(const std::string& name, const std::string& x, const std::string& axis) {
    std::string base = fmt::format("{}/extent{}", name, extents_++);
    std::string shape = node("Shape", {x}, base + "/Shape");
    std::string picked = node("Gather", {shape, axis}, base + "/Gather", {{"axis", int64_t{0}}});
    return node("Unsqueeze", {picked, "axes0"}, base + "/Unsqueeze");
  }

  std::string dense(const std::string& name, const std::string& x, int64_t in, int64_t out) {
    double deviation = std::sqrt(2.0 / static_cast<double>(in + out));  // Xavier
    std::string weight = b_.normal(name + ".weight", {in, out}, deviation);
    std::string bias = b_.normal(name + ".bias", {out}, 0.05);
    return node("Add", {bias, node("MatMul", {x, weight}, name + "/MatMul")}, name + "/Add");
  }

  // One operator from opset 17 on, as exporters write it.
  std::string layer_norm(const std::string& name, const std::string& x, const std::string& output = "") {
    if (b_.opset() >= 17) return b_.layer_norm(name, x, hidden(), 1e-12f, output);
    const std::vector<NamedAttribute> last{{"axes", Ints{-1}}};
    std::string mean = node("ReduceMean", {x}, name + "/ReduceMean", last);
    std::string d = node("Sub", {x, mean}, name + "/Sub");
    std::string square = node("Pow", {d, "two"}, name + "/Pow");
    std::string variance = node("ReduceMean", {square}, name + "/ReduceMean_1", last);
    std::string root = node("Sqrt", {node("Add", {variance, "epsilon"}, name + "/Add")}, name + "/Sqrt");
    std::string scale = b_.uniform(name + ".weight", {hidden()}, 0.8, 1.2);
    std::string bias = b_.normal(name + ".bias", {hidden()}, 0.05);
    std::string y = node("Mul", {node("Div", {d, root}, name + "/Div"), scale}, name + "/Mul");
    return node("Add", {y, bias}, output.empty() ? name + "/Add_1" : output);
  }

  std::string gelu(const std::string& name, const std::string& x) {
    std::string e = node("Erf", {node("Div", {x, "root2"}, name + "/Div")}, name + "/Erf");
    std::string y = node("Mul", {x, node("Add", {e, "one"}, name + "/Add")}, name + "/Mul");
    return node("Mul", {y, "half"}, name + "/Mul_1");
  }

  std::string heads(const std::string& name, const std::string& x, const std::string& source, const Ints& perm) {
    std::string shape =
        node("Concat", {extent(name, source, "zero"), extent(name, source, "axis1"), "heads", "head_size"},
             name + "/Concat", {{"axis", int64_t{0}}});
    return node("Transpose", {node("Reshape", {x, shape}, name + "/Reshape")}, name + "/Transpose", {{"perm", perm}});
  }

  std::string attention(const std::string& name, const std::string& x, const std::string& mask) {
    const std::string self = name + "/self";
    auto project = [&](const char* which, const Ints& perm) {
      std::string base = self + "/" + which;
      std::string y = dense(base, x, hidden(), hidden());
      return heads(base, y, y, perm);
    };
    std::string query = project("query", {0, 2, 1, 3});
    std::string key = project("key", {0, 2, 3, 1});
    std::string value = project("value", {0, 2, 1, 3});
    std::string scores = node("Div", {node("MatMul", {query, key}, self + "/MatMul"), "root_head"}, self + "/Div");
    scores = node("Add", {scores, mask}, self + "/Add");
    std::string weights = node("Softmax", {scores}, self + "/Softmax", {{"axis", int64_t{-1}}});
    std::string context = node("Transpose", {node("MatMul", {weights, value}, self + "/MatMul_1")},
                               self + "/Transpose_3", {{"perm", Ints{0, 2, 1, 3}}});
    std::string shape = node("Concat", {extent(self, context, "zero"), extent(self, context, "axis1"), "hidden_size"},
                             self + "/Concat_3", {{"axis", int64_t{0}}});
    context = node("Reshape", {context, shape}, self + "/Reshape_3");
    std::string y = dense(name + "/output/dense", context, hidden(), hidden());
    return layer_norm(name + "/output/LayerNorm", node("Add", {y, x}, name + "/output/Add"));
  }

  int64_t layers_;
  NetworkBuilder b_;
  ModelWriter& w_;
  BertShape shape_;
  ZooOptions options_;
  int extents_ = 0;
};

}  // namespace

std::string make_bert(const BertShape& shape, const ZooOptions& options) {
  return BertBuilder(shape, options).make();
}

}  // namespace tcc::onnx
