// Language models that predict the next token, in the small operators that exporters write for the eager models. With a
// past, the keys and values of earlier tokens are inputs, and those of all tokens are outputs.
//   GPT-2: Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
//   OPT: Zhang et al., OPT: Open Pre-trained Transformer Language Models, 2022.
//   Llama: Touvron et al., LLaMA: Open and Efficient Foundation Language Models, 2023.
//   Mistral: Jiang et al., Mistral 7B, 2023.
#include <fmt/format.h>

#include "zoo_builder.h"

namespace tcc::onnx {
namespace {

constexpr int64_t kToFloat = 1, kToBool = 9;  // TensorProto.DataType, of Cast

class DecoderBuilder {
 public:
  DecoderBuilder(const DecoderShape& shape, const ZooOptions& options)
      : shape_(shape),
        layers_(options.layers > 0 ? options.layers : shape.layers),
        batch_(options.batch),
        fresh_(options.sequence),
        past_(options.past),
        b_(shape.name, options, parameters()),
        w_(b_.writer()) {}

  std::string make() {
    w_.integer_input("input_ids", {batch_, fresh_});
    w_.integer_input("attention_mask", {batch_, total()});
    if (is_llama()) w_.integer_input("position_ids", {batch_, fresh_});
    make_constants();
    mask_ = make_mask();
    const std::string words = b_.normal("embed_tokens.weight", {shape_.words, hidden()}, is_llama() ? 1 : 0.5);
    std::string x = node("Gather", {words, "input_ids"}, "embed_tokens");
    if (is_llama())
      make_angles();
    else
      x = node("Add", {x, positions()}, "embedded");
    for (int64_t i = 0; i < layers_; ++i) {
      const std::string name = fmt::format("layers.{}", i);
      x = node("Add", {x, attention(name + ".attention", norm(name + ".norm1", x), i)}, name + ".attended");
      x = node("Add", {x, feed_forward(name + ".mlp", norm(name + ".norm2", x))}, name + ".output");
    }
    x = norm("norm", x);
    // GPT-2 and OPT predict with the table of the words.
    const std::string head =
        is_llama() ? b_.normal("lm_head.weight", {hidden(), shape_.words}, 1 / std::sqrt(static_cast<double>(hidden())))
                   : node("Transpose", {words}, "lm_head.weight", {{"perm", Ints{1, 0}}});
    node("MatMul", {x, head}, "logits");
    w_.output("logits", {batch_, fresh_, shape_.words});
    return w_.finish();
  }

 private:
  bool is_llama() const { return shape_.family == DecoderFamily::kLlama; }
  int64_t hidden() const { return shape_.hidden; }
  int64_t head_size() const { return shape_.hidden / shape_.heads; }
  int64_t total() const { return past_ + fresh_; }
  int64_t parameters() const {
    const int64_t keys = 2 * shape_.key_heads * (shape_.hidden / shape_.heads);
    const int64_t layer =
        shape_.hidden * (2 * shape_.hidden + keys + (is_llama() ? 3 : 2) * shape_.inner + 12) + shape_.inner;
    return layers_ * layer + shape_.hidden * (shape_.words * (is_llama() ? 2 : 1) + shape_.positions + 16);
  }
  std::string node(const char* op, const Strings& inputs, const std::string& name,
                   const std::vector<NamedAttribute>& attributes = {}) {
    return w_.node(op, inputs, {name}, attributes);
  }
  std::string number(const std::string& name, double v) {
    return w_.initializer(name, {{}, std::vector<float>{static_cast<float>(v)}});
  }
  std::string integers(const std::string& name, const Ints& v) { return w_.initializer(name, {{std::ssize(v)}, v}); }
  void make_constants() {
    number("zero", 0);
    number("masked", -3.40282347e38);
    number("epsilon", 1e-5);
    number("two", 2);
    number("scale", 1 / std::sqrt(static_cast<double>(head_size())));
    w_.initializer("start", {{}, Ints{0}});
    w_.initializer("past", {{}, Ints{past_}});
    w_.initializer("step", {{}, Ints{1}});
    w_.initializer("last", {{}, Ints{1}});
    integers("axis0", {0});
    integers("axis1", {1});
    integers("axis2", {2});
    integers("last_axis", {-1});
    integers("split", {0, 0, shape_.heads, head_size()});
    integers("split_keys", {0, 0, shape_.key_heads, head_size()});
    integers("join", {0, 0, hidden()});
    if (shape_.family == DecoderFamily::kGpt2) {
      number("gelu.cube", 3);
      number("gelu.small", 0.044715);
      number("gelu.root", 0.7978845608);
      number("gelu.one", 1);
      number("gelu.half", 0.5);
      integers("flat", {-1, hidden()});
      integers("thirds", {hidden(), hidden(), hidden()});
    }
  }

  // 0 where a token sees another, the smallest float elsewhere: those to its right, and those that attention_mask
  // hides.
  std::string make_mask() {
    std::string extent = node("Gather", {node("Shape", {"attention_mask"}, "mask/Shape"), "last"}, "mask/Gather",
                              {{"axis", int64_t{0}}});
    const std::string keys = node("Range", {"start", extent, "step"}, "mask/Keys");
    const std::string queries =
        node("Unsqueeze", {node("Range", {"past", extent, "step"}, "mask/Queries"), "last_axis"}, "mask/Column");
    const std::string causal = node("LessOrEqual", {keys, queries}, "mask/Causal");
    std::string seen = node("Cast", {"attention_mask"}, "mask/Cast", {{"to", kToBool}});
    seen = node("Unsqueeze", {node("Unsqueeze", {seen, "axis1"}, "mask/Rows"), "axis2"}, "mask/Planes");
    return node("Where", {node("And", {seen, causal}, "mask/And"), "zero", "masked"}, "mask/Where");
  }

  // Learned positions: those of the tokens in order, and for OPT those among the tokens that the mask shows, from 2 on.
  std::string positions() {
    if (shape_.family == DecoderFamily::kGpt2) {
      const std::string extent = node("Gather", {node("Shape", {"attention_mask"}, "positions/Shape"), "last"},
                                      "positions/Gather", {{"axis", int64_t{0}}});
      const std::string ids =
          node("Unsqueeze", {node("Range", {"past", extent, "step"}, "positions/Range"), "axis0"}, "position_ids");
      return node("Gather", {b_.normal("embed_positions.weight", {shape_.positions, hidden()}, 0.2), ids}, "positions");
    }
    std::string at = node("CumSum", {"attention_mask", "last"}, "positions/CumSum");
    at = node("Mul", {at, "attention_mask"}, "positions/Mul");
    at = node("Add", {at, integers("positions.offset", {1})}, "positions/Add");
    at = node("Slice", {at, integers("positions.from", {past_}), integers("positions.to", {total()}), "axis1"},
              "position_ids");
    return node("Gather", {b_.normal("embed_positions.weight", {shape_.positions + 2, hidden()}, 0.2), at},
                "positions");
  }

  // Cosines and sines of the positions, by a product with the frequencies.
  void make_angles() {
    const int64_t half = head_size() / 2;
    std::vector<float> frequencies;
    for (int64_t i = 0; i < half; ++i)
      frequencies.push_back(static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half))));
    w_.initializer("inv_freq", {{1, half, 1}, frequencies});
    std::string at = node("Cast", {node("Unsqueeze", {"position_ids", "axis1"}, "rotary/Unsqueeze")}, "rotary/Cast",
                          {{"to", kToFloat}});
    at = node("Transpose", {node("MatMul", {"inv_freq", at}, "rotary/MatMul")}, "rotary/Angles",
              {{"perm", Ints{0, 2, 1}}});
    at = node("Concat", {at, at}, "rotary/Concat", {{"axis", int64_t{-1}}});
    node("Unsqueeze", {node("Cos", {at}, "rotary/Cos"), "axis1"}, "cos");
    node("Unsqueeze", {node("Sin", {at}, "rotary/Sin"), "axis1"}, "sin");
    integers("rotary.half", {half});
    integers("rotary.size", {head_size()});
  }

  std::string norm(const std::string& name, const std::string& x) {
    if (!is_llama()) return b_.layer_norm(name, x, hidden());
    std::string square = node("Pow", {x, "two"}, name + "/Pow");
    std::string mean = b_.opset() < 18 ? node("ReduceMean", {square}, name + "/ReduceMean", {{"axes", Ints{-1}}})
                                       : node("ReduceMean", {square, "last_axis"}, name + "/ReduceMean");
    std::string root = node("Sqrt", {node("Add", {mean, "epsilon"}, name + "/Add")}, name + "/Sqrt");
    std::string y = node("Mul", {x, node("Reciprocal", {root}, name + "/Reciprocal")}, name + "/Mul");
    return node("Mul", {b_.uniform(name + ".weight", {hidden()}, 0.8, 1.2), y}, name + "/Scaled");
  }

  // A linear layer over rows that are flattened first, as GPT-2's Conv1D.
  std::string flat_dense(const std::string& name, const std::string& x, int64_t in, int64_t out) {
    const std::string rows = in == hidden() ? "flat" : integers(name + ".rows", {-1, in});
    std::string weight = b_.normal(name + ".weight", {in, out}, std::sqrt(2.0 / static_cast<double>(in + out)));
    std::string y =
        node("Gemm", {node("Reshape", {x, rows}, name + "/Rows"), weight, b_.normal(name + ".bias", {out}, 0.05)},
             name + "/Gemm");
    return node("Reshape", {y, integers(name + ".shape", {batch_, fresh_, out})}, name + "/Reshape");
  }

  // x cos + (-right half of x, left half of x) sin
  std::string turned(const std::string& name, const std::string& x) {
    const std::string left = node("Slice", {x, "axis0", "rotary.half", "last_axis"}, name + "/Left");
    const std::string right = node("Slice", {x, "rotary.half", "rotary.size", "last_axis"}, name + "/Right");
    const std::string swapped =
        node("Concat", {node("Neg", {right}, name + "/Neg"), left}, name + "/Swapped", {{"axis", int64_t{-1}}});
    return node("Add", {node("Mul", {x, "cos"}, name + "/Cos"), node("Mul", {swapped, "sin"}, name + "/Sin")},
                name + "/Turned");
  }

  // Keys or values of the past before those of the new tokens; each head of them serves several heads of queries.
  std::string with_past(const std::string& name, const char* which, std::string x, int64_t layer) {
    const int64_t heads = shape_.key_heads, group = shape_.heads / heads;
    if (past_ > 0) {
      const std::string input = fmt::format("past_key_values.{}.{}", layer, which),
                        output = fmt::format("present.{}.{}", layer, which);
      w_.input(input, {batch_, heads, past_, head_size()});
      x = node("Concat", {input, x}, output, {{"axis", int64_t{2}}});
      w_.output(output, {batch_, heads, total(), head_size()});
    }
    if (group == 1) return x;
    x = node("Unsqueeze", {x, "axis2"}, name + "/Unsqueeze");
    x = node("Expand", {x, integers(name + ".groups", {batch_, heads, group, total(), head_size()})}, name + "/Expand");
    return node("Reshape", {x, integers(name + ".heads", {batch_, shape_.heads, total(), head_size()})},
                name + "/Reshape");
  }

  std::string attention(const std::string& name, const std::string& x, int64_t layer) {
    const bool bias = !is_llama();
    const int64_t keys = shape_.key_heads * head_size();
    std::string query, key, value;
    if (shape_.family == DecoderFamily::kGpt2) {
      const std::string all = flat_dense(name + ".c_attn", x, hidden(), 3 * hidden());
      query = name + "/query", key = name + "/key", value = name + "/value";
      w_.node("Split", {all, "thirds"}, {query, key, value}, {{"axis", int64_t{2}}});
    } else {
      query = b_.dense(name + ".q_proj", x, hidden(), hidden(), bias);
      key = b_.dense(name + ".k_proj", x, hidden(), keys, bias);
      value = b_.dense(name + ".v_proj", x, hidden(), keys, bias);
    }
    auto heads = [&](const char* which, const std::string& y, const char* split) {
      const std::string part = fmt::format("{}.{}", name, which);
      return node("Transpose", {node("Reshape", {y, split}, part + "/Reshape")}, part + "/Transpose",
                  {{"perm", Ints{0, 2, 1, 3}}});
    };
    query = heads("query", query, "split");
    key = heads("key", key, "split_keys");
    value = heads("value", value, "split_keys");
    if (is_llama()) query = turned(name + ".query", query), key = turned(name + ".key", key);
    key = with_past(name + ".keys", "key", key, layer);
    value = with_past(name + ".values", "value", value, layer);
    key = node("Transpose", {key}, name + "/Keys", {{"perm", Ints{0, 1, 3, 2}}});
    std::string scores = node("Mul", {node("MatMul", {query, key}, name + "/Scores"), "scale"}, name + "/Scaled");
    scores = node("Add", {scores, mask_}, name + "/Masked");
    const std::string weights = node("Softmax", {scores}, name + "/Softmax", {{"axis", int64_t{-1}}});
    std::string y = node("Transpose", {node("MatMul", {weights, value}, name + "/Context")}, name + "/Back",
                         {{"perm", Ints{0, 2, 1, 3}}});
    y = node("Reshape", {y, "join"}, name + "/Join");
    if (shape_.family == DecoderFamily::kGpt2) return flat_dense(name + ".c_proj", y, hidden(), hidden());
    return b_.dense(name + ".o_proj", y, hidden(), hidden(), bias);
  }

  std::string feed_forward(const std::string& name, const std::string& x) {
    if (shape_.family == DecoderFamily::kOpt) {
      std::string y = b_.relu(name + "/Relu", b_.dense(name + ".fc1", x, hidden(), shape_.inner));
      return b_.dense(name + ".fc2", y, shape_.inner, hidden());
    }
    if (shape_.family == DecoderFamily::kGpt2) {
      std::string y = flat_dense(name + ".c_fc", x, hidden(), shape_.inner);
      return flat_dense(name + ".c_proj", gelu(name, y), shape_.inner, hidden());
    }
    std::string gate = b_.dense(name + ".gate_proj", x, hidden(), shape_.inner, false);
    gate = node("Mul", {gate, node("Sigmoid", {gate}, name + "/Sigmoid")}, name + "/Swish");
    gate = node("Mul", {gate, b_.dense(name + ".up_proj", x, hidden(), shape_.inner, false)}, name + "/Inner");
    return b_.dense(name + ".down_proj", gate, shape_.inner, hidden(), false);
  }

  // The approximation by tanh.
  std::string gelu(const std::string& name, const std::string& x) {
    std::string y = node("Mul", {node("Pow", {x, "gelu.cube"}, name + "/Cube"), "gelu.small"}, name + "/Small");
    y = node("Mul", {node("Add", {x, y}, name + "/Inside"), "gelu.root"}, name + "/Root");
    y = node("Add", {node("Tanh", {y}, name + "/Tanh"), "gelu.one"}, name + "/One");
    return node("Mul", {node("Mul", {x, "gelu.half"}, name + "/Half"), y}, name + "/Gelu");
  }

  DecoderShape shape_;
  int64_t layers_, batch_, fresh_, past_;
  NetworkBuilder b_;
  ModelWriter& w_;
  std::string mask_;
};

}  // namespace

std::string make_decoder(const DecoderShape& shape, const ZooOptions& options) {
  return DecoderBuilder(shape, options).make();
}

}  // namespace tcc::onnx
