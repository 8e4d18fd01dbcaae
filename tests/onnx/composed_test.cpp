// Einsum, recurrent networks and attention against loops that say what they mean.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>

#include "onnx/models.h"
#include "tcc/graph/passes.h"
#include "tcc/graph/refusal.h"
#include "tcc/support/rng.h"

using namespace tcc;
using namespace tcc::onnx;
using graph::Shape;
using Doubles = std::vector<double>;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

namespace {

Doubles random_numbers(const Shape& shape, uint64_t seed) {
  Doubles v(static_cast<size_t>(graph::element_count(shape)));
  Rng random(seed);
  for (double& x : v) x = static_cast<float>(2 * random.uniform() - 1);
  return v;
}

void check_near(const Doubles& actual, const Doubles& expected, double tolerance = 1e-9) {
  REQUIRE(actual.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) worst = std::max(worst, std::fabs(actual[i] - expected[i]));
  CHECK(worst <= tolerance);
}

// The sum over all letters that the result has not, of products: one loop over every combination. No ellipsis.
Doubles einsum(const std::string& equation, const std::vector<Shape>& shapes, const std::vector<Doubles>& data) {
  const size_t arrow = equation.find("->");
  std::vector<std::string> terms{""};
  for (char c : equation.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  const std::string result = equation.substr(arrow + 2);
  std::map<char, int64_t> extents, at;
  for (size_t t = 0; t < terms.size(); ++t)
    for (size_t i = 0; i < terms[t].size(); ++i) extents[terms[t][i]] = std::max(extents[terms[t][i]], shapes[t][i]);
  auto offset = [&](const std::string& letters, const Shape& shape) {
    int64_t o = 0;
    for (size_t i = 0; i < letters.size(); ++i) o = o * shape[i] + (shape[i] == 1 ? 0 : at[letters[i]]);
    return static_cast<size_t>(o);
  };
  Shape out;
  for (char c : result) out.push_back(extents[c]);
  Doubles sums(static_cast<size_t>(graph::element_count(out)), 0.0);
  std::function<void(std::map<char, int64_t>::iterator)> visit = [&](auto letter) {
    if (letter == extents.end()) {
      double product = 1;
      for (size_t t = 0; t < terms.size(); ++t) product *= data[t][offset(terms[t], shapes[t])];
      sums[offset(result, out)] += product;
      return;
    }
    for (int64_t i = 0; i < letter->second; ++i) {
      at[letter->first] = i;
      visit(std::next(letter));
    }
  };
  visit(extents.begin());
  return sums;
}

std::string einsum_model(const std::string& equation, const std::vector<Shape>& shapes) {
  ModelWriter w("einsum", 13);
  Strings names;
  for (size_t i = 0; i < shapes.size(); ++i) {
    names.push_back("x" + std::to_string(i));
    w.input(names.back(), shapes[i]);
  }
  w.node("Einsum", names, {"y"}, {{"equation", equation}});
  w.output("y");
  return w.finish();
}

std::string groups_of(const std::string& model) {
  auto g = import_text(model);
  REQUIRE(g);
  auto evaluator = graph::reference_evaluator();
  REQUIRE(graph::optimize(*g, evaluator.get()));
  std::string text;
  for (const auto& group : graph::fuse(*g, {.attention = true})) text += graph::group_text(*g, group) + " ";
  return text;
}

}  // namespace

TEST_CASE("Einsum is the sum of products over its letters") {
  const std::pair<const char*, std::vector<Shape>> cases[] = {
      {"ij,jk->ik", {{3, 4}, {4, 5}}},
      {"bhid,bhjd->bhij", {{2, 3, 4, 5}, {2, 3, 6, 5}}},
      {"bhwc,hkc->bhwk", {{2, 3, 4, 5}, {3, 6, 5}}},
      {"bhwc,wkc->bhwk", {{2, 3, 4, 5}, {4, 6, 5}}},
      {"ii->i", {{4, 4}}},
      {"ii->", {{4, 4}}},
      {"iji->j", {{3, 2, 3}}},
      {"iij,jk->ik", {{3, 3, 4}, {4, 5}}},
      {"ijij->ji", {{2, 3, 2, 3}}},
      {"abc->ca", {{2, 3, 4}}},
      {"i,j->ij", {{3}, {4}}},
      {"ab,b->ab", {{3, 4}, {4}}},
      {"abcd,ac->bd", {{2, 3, 4, 5}, {2, 4}}},
      {"ij,jk,kl->il", {{3, 4}, {4, 5}, {5, 2}}},
      {"ab,bc,ca->", {{3, 4}, {4, 5}, {5, 3}}},
      {"a,b,c->cab", {{2}, {3}, {4}}},
      {"ab,ab->ab", {{3, 4}, {1, 4}}},  // extents of 1 broadcast
      {"abk,bkc->ac", {{2, 1, 3}, {4, 3, 5}}},
  };
  for (const auto& [equation, shapes] : cases) {
    INFO(equation);
    std::vector<Doubles> data;
    for (const Shape& shape : shapes) data.push_back(random_numbers(shape, data.size() + 1));
    check_near(run_model(einsum_model(equation, shapes), {}, data)[0].data, einsum(equation, shapes, data));
  }
}

TEST_CASE("an ellipsis of Einsum stands for axes that broadcast; results may be implied") {
  const Doubles a = random_numbers({2, 1, 3, 4}, 1), b = random_numbers({5, 4, 6}, 2);
  auto y = run_model(einsum_model("...ij,...jk->...ik", {{2, 1, 3, 4}, {5, 4, 6}}), {}, {a, b})[0];
  CHECK(y.shape == Shape{2, 5, 3, 6});
  check_near(y.data, einsum("abij,bjk->abik", {{2, 1, 3, 4}, {5, 4, 6}}, {a, b}));
  const Doubles m = random_numbers({3, 4}, 3), n = random_numbers({4, 5}, 4);
  auto implied = run_model(einsum_model("kj , ji", {{3, 4}, {4, 5}}), {}, {m, n})[0];
  CHECK(implied.shape == Shape{5, 3});
  check_near(implied.data, einsum("kj,ji->ik", {{3, 4}, {4, 5}}, {m, n}));
  auto rows = run_model(einsum_model("...i->...", {{2, 3, 4}}), {}, {random_numbers({2, 3, 4}, 5)})[0];
  check_near(rows.data, einsum("abi->ab", {{2, 3, 4}}, {random_numbers({2, 3, 4}, 5)}));
  for (const char* wrong : {"ij,jk->ix", "ij->ii", "ij", "ij,jk,kl->il", "i?,jk->ik", "ijk,jk->i"})
    CHECK(!import_text(einsum_model(wrong, {{3, 4}, {4, 5}})));
  CHECK(!import_text(einsum_model("ij,jk->ik", {{3, 4}, {5, 6}})));
}

TEST_CASE("Einsum of two operands is one product without a copy") {
  CHECK(groups_of(einsum_model("bhid,bhjd->bhij", {{2, 3, 4, 5}, {2, 3, 6, 5}})) == "MatMul ");
  CHECK(groups_of(einsum_model("bhij,bhjd->bihd", {{2, 3, 4, 5}, {2, 3, 5, 6}})) == "MatMul ");
}

// --- recurrent networks ----------------------------------------------------------------------------------------------

namespace {

struct RecurrentCase {
  std::string op;
  std::string direction = "forward";
  bool bias = false, state = false, peepholes = false, linear = false, coupled = false;
  Ints lengths = {};
  double clip = 0;
};

constexpr int64_t kSteps = 4, kBatch = 3, kFeatures = 2, kHidden = 3;

struct RecurrentData {
  Doubles x, w, r, b, h, c, p;
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

int64_t gates_of(const std::string& op) {
  return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
}

// One direction of one sequence, in plain loops. Returns h of each step, then the last h and the last cell.
struct Walk {
  Doubles steps, h, c;
};
Walk walk(const RecurrentCase& t, const RecurrentData& data, int64_t d, int64_t sequence, bool reverse) {
  const int64_t gates = gates_of(t.op), n = kHidden, rows = gates * n;
  const int64_t length = t.lengths.empty() ? kSteps : t.lengths[static_cast<size_t>(sequence)];
  auto at = [](const Doubles& v, int64_t i) { return v.empty() ? 0.0 : v[static_cast<size_t>(i)]; };
  auto clipped = [&](double x) { return t.clip > 0 ? std::min(std::max(x, -t.clip), t.clip) : x; };
  Walk result{Doubles(kSteps * n, 0.0), Doubles(n), Doubles(n)};
  for (int64_t i = 0; i < n; ++i) {
    result.h[static_cast<size_t>(i)] = at(data.h, (d * kBatch + sequence) * n + i);
    result.c[static_cast<size_t>(i)] = at(data.c, (d * kBatch + sequence) * n + i);
  }
  for (int64_t k = 0; k < length; ++k) {
    const int64_t step = reverse ? length - 1 - k : k;
    auto from_x = [&](int64_t row) {
      double sum = at(data.b, d * 2 * rows + row);
      for (int64_t j = 0; j < kFeatures; ++j)
        sum += at(data.w, (d * rows + row) * kFeatures + j) * at(data.x, (step * kBatch + sequence) * kFeatures + j);
      return sum;
    };
    auto from_h = [&](int64_t row, const Doubles& h) {
      double sum = at(data.b, (d * 2 + 1) * rows + row);
      for (int64_t j = 0; j < n; ++j) sum += at(data.r, (d * rows + row) * n + j) * h[static_cast<size_t>(j)];
      return sum;
    };
    Doubles h = result.h, c = result.c, masked = h;
    for (int64_t i = 0; i < n; ++i) {
      auto e = static_cast<size_t>(i);
      if (t.op == "RNN") h[e] = std::tanh(clipped(from_x(i) + from_h(i, result.h)));
      if (t.op == "LSTM") {
        auto peep = [&](int64_t gate) { return at(data.p, (d * 3 + gate) * n + i); };
        auto gate = [&](int64_t g) { return from_x(g * n + i) + from_h(g * n + i, result.h); };
        const double in = sigmoid(clipped(gate(0) + peep(0) * result.c[e]));
        const double forget = t.coupled ? 1 - in : sigmoid(clipped(gate(2) + peep(2) * result.c[e]));
        c[e] = forget * result.c[e] + in * std::tanh(clipped(gate(3)));
        h[e] = sigmoid(clipped(gate(1) + peep(1) * c[e])) * std::tanh(c[e]);
      }
      if (t.op == "GRU") masked[e] = sigmoid(clipped(from_x(n + i) + from_h(n + i, result.h))) * result.h[e];
    }
    for (int64_t i = 0; i < n && t.op == "GRU"; ++i) {
      auto e = static_cast<size_t>(i);
      const double z = sigmoid(clipped(from_x(i) + from_h(i, result.h)));
      const double reset = sigmoid(clipped(from_x(n + i) + from_h(n + i, result.h)));
      const double inner = t.linear ? reset * from_h(2 * n + i, result.h) : from_h(2 * n + i, masked);
      h[e] = (1 - z) * std::tanh(clipped(from_x(2 * n + i) + inner)) + z * result.h[e];
    }
    result.h = h;
    result.c = c;
    for (int64_t i = 0; i < n; ++i) result.steps[static_cast<size_t>(step * n + i)] = h[static_cast<size_t>(i)];
  }
  return result;
}

void check_recurrent(const RecurrentCase& t, bool batch_first = false) {
  INFO(t.op << " " << t.direction << (t.bias ? " bias" : "") << (t.state ? " state" : ""));
  const int64_t directions = t.direction == "bidirectional" ? 2 : 1, gates = gates_of(t.op), rows = gates * kHidden;
  RecurrentData data;
  data.x = random_numbers({kSteps, kBatch, kFeatures}, 1);
  data.w = random_numbers({directions, rows, kFeatures}, 2);
  data.r = random_numbers({directions, rows, kHidden}, 3);
  if (t.bias) data.b = random_numbers({directions, 2 * rows}, 4);
  if (t.state) data.h = random_numbers({directions, kBatch, kHidden}, 5);
  if (t.state && t.op == "LSTM") data.c = random_numbers({directions, kBatch, kHidden}, 6);
  if (t.peepholes) data.p = random_numbers({directions, 3 * kHidden}, 7);
  auto floats = [](const Doubles& v) { return Floats(v.begin(), v.end()); };

  ModelWriter w("recurrent", 14);
  Strings inputs{"x", w.initializer("w", {{directions, rows, kFeatures}, floats(data.w)}),
                 w.initializer("r", {{directions, rows, kHidden}, floats(data.r)})};
  w.input("x", batch_first ? Shape{kBatch, kSteps, kFeatures} : Shape{kSteps, kBatch, kFeatures});
  inputs.push_back(t.bias ? w.initializer("b", {{directions, 2 * rows}, floats(data.b)}) : "");
  Doubles lengths(t.lengths.begin(), t.lengths.end());
  inputs.push_back(t.lengths.empty() ? "" : w.typed_initializer("l", graph::DType::kI32, {kBatch}, lengths));
  inputs.push_back(t.state ? w.initializer("h", {{directions, kBatch, kHidden}, floats(data.h)}) : "");
  if (t.op == "LSTM") {
    inputs.push_back(t.state ? w.initializer("c", {{directions, kBatch, kHidden}, floats(data.c)}) : "");
    inputs.push_back(t.peepholes ? w.initializer("p", {{directions, 3 * kHidden}, floats(data.p)}) : "");
  }
  std::vector<NamedAttribute> attributes{{"hidden_size", kHidden}, {"direction", t.direction}};
  if (t.clip > 0) attributes.push_back({"clip", static_cast<float>(t.clip)});
  if (t.linear) attributes.push_back({"linear_before_reset", int64_t{1}});
  if (t.coupled) attributes.push_back({"input_forget", int64_t{1}});
  if (batch_first) attributes.push_back({"layout", int64_t{1}});
  Strings outputs{"y", "y_h"};
  if (t.op == "LSTM") outputs.push_back("y_c");
  w.node(t.op, inputs, outputs, attributes);
  for (const std::string& name : outputs) w.output(name);
  Doubles x = data.x;
  if (batch_first) {
    for (int64_t s = 0; s < kSteps; ++s)
      for (int64_t b = 0; b < kBatch; ++b)
        for (int64_t f = 0; f < kFeatures; ++f)
          x[static_cast<size_t>((b * kSteps + s) * kFeatures + f)] =
              data.x[static_cast<size_t>((s * kBatch + b) * kFeatures + f)];
  }
  auto actual = run_model(w.finish(), {}, {x});

  Doubles y(static_cast<size_t>(kSteps * directions * kBatch * kHidden)),
      h(static_cast<size_t>(directions * kBatch * kHidden)), c = h;
  for (int64_t d = 0; d < directions; ++d) {
    for (int64_t b = 0; b < kBatch; ++b) {
      const Walk one = walk(t, data, d, b, t.direction == "reverse" || d == 1);
      for (int64_t i = 0; i < kHidden; ++i) {
        const int64_t last = batch_first ? (b * directions + d) * kHidden + i : (d * kBatch + b) * kHidden + i;
        h[static_cast<size_t>(last)] = one.h[static_cast<size_t>(i)];
        c[static_cast<size_t>(last)] = one.c[static_cast<size_t>(i)];
        for (int64_t s = 0; s < kSteps; ++s) {
          const int64_t place = batch_first ? ((b * kSteps + s) * directions + d) * kHidden + i
                                            : ((s * directions + d) * kBatch + b) * kHidden + i;
          y[static_cast<size_t>(place)] = one.steps[static_cast<size_t>(s * kHidden + i)];
        }
      }
    }
  }
  check_near(actual[0].data, y, 1e-6);
  check_near(actual[1].data, h, 1e-6);
  if (t.op == "LSTM") check_near(actual[2].data, c, 1e-6);
}

}  // namespace

TEST_CASE("RNN, GRU and LSTM step by step, in every direction") {
  for (const char* op : {"RNN", "GRU", "LSTM"}) {
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      check_recurrent({.op = op, .direction = direction});
      check_recurrent({.op = op, .direction = direction, .bias = true, .state = true});
      check_recurrent({.op = op, .direction = direction, .bias = true, .state = true, .lengths = {2, 4, 1}});
      check_recurrent({.op = op, .direction = direction, .lengths = {0, 3, 4}, .clip = 0.5});
    }
    check_recurrent({.op = op, .direction = "bidirectional", .bias = true, .state = false}, true);
  }
  check_recurrent({.op = "GRU", .bias = true, .linear = true});
  check_recurrent({.op = "GRU", .direction = "bidirectional", .bias = true, .state = true, .linear = true});
  check_recurrent({.op = "LSTM", .bias = true, .state = true, .peepholes = true});
  check_recurrent({.op = "LSTM", .bias = true, .state = true, .coupled = true});
}

TEST_CASE("all steps of a recurrent network share one product with their inputs") {
  ModelWriter w("lstm", 14);
  w.input("x", {8, 1, 16});
  w.initializer("w", {{1, 32, 16}, Floats(512, 0.1f)});
  w.initializer("r", {{1, 32, 8}, Floats(256, 0.1f)});
  w.node("LSTM", {"x", "w", "r"}, {"", "y"}, {{"hidden_size", int64_t{8}}});
  w.output("y");
  auto g = import_text(w.finish());
  REQUIRE(g);
  int64_t rows = 0, products = 0;
  for (graph::NodeId id : g->order) {
    const graph::Node& node = g->node(id);
    if (node.op != graph::Op::kGemm) continue;
    ++products;
    rows = std::max(rows, g->value(node.output).shape[0]);
  }
  CHECK(rows == 8);      // one of all steps
  CHECK(products == 8);  // and one for each step behind the first
}

TEST_CASE("recurrent networks that cannot be unrolled say why", "[errors]") {
  auto message = [](int64_t steps, std::vector<NamedAttribute> attributes, int64_t rows = 8) {
    ModelWriter w("lstm", 14);
    w.input("x", {steps, 1, 1});
    w.initializer("w", {{1, rows, 1}, Floats(static_cast<size_t>(rows), 0.1f)});
    w.initializer("r", {{1, 8, 2}, Floats(16, 0.1f)});
    w.node("LSTM", {"x", "w", "r"}, {"y"}, attributes);
    w.output("y");
    auto g = import_text(w.finish());
    REQUIRE(!g);
    return g.error().message;
  };
  using Catch::Contains;
  CHECK_THAT(message(5000, {}), Contains("5000 steps; at most 2048"));
  CHECK_THAT(message(2, {{"hidden_size", int64_t{3}}}), Contains("hidden_size is 3"));
  CHECK_THAT(message(2, {{"direction", std::string("sideways")}}), Contains("direction is 'sideways'"));
  CHECK_THAT(message(2, {{"activations", Strings{"Sigmoid", "Tanh", "Cosine"}}}), Contains("'Cosine'"));
  CHECK_THAT(message(2, {{"activations", Strings{"Sigmoid"}}}), Contains("expected 3"));
  CHECK_THAT(message(2, {}, 12), Contains("R (input 2) has shape"));
}

// --- attention -------------------------------------------------------------------------------------------------------

namespace {

struct AttentionCase {
  int64_t query_heads = 2, key_heads = 2, past = 0;
  bool causal = false, flat = false;
  double softcap = 0;
  Doubles mask = {};  // queries x keys, added
};

constexpr int64_t kQueries = 3, kKeys = 5, kSize = 4;

// Batch of one; q: heads, queries, features; k and v: heads, keys, features.
Doubles attention(const AttentionCase& t, const Doubles& q, const Doubles& k, const Doubles& v) {
  const int64_t keys = kKeys;
  Doubles y;
  for (int64_t head = 0; head < t.query_heads; ++head) {
    const int64_t kv = head / (t.query_heads / t.key_heads);
    for (int64_t i = 0; i < kQueries; ++i) {
      Doubles weights(keys);
      double sum = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double score = 0;
        for (int64_t d = 0; d < kSize; ++d)
          score += q[static_cast<size_t>((head * kQueries + i) * kSize + d)] *
                   k[static_cast<size_t>((kv * keys + j) * kSize + d)];
        score /= std::sqrt(static_cast<double>(kSize));
        if (t.softcap > 0) score = t.softcap * std::tanh(score / t.softcap);
        if (!t.mask.empty()) score += t.mask[static_cast<size_t>(i * keys + j)];
        if (t.causal && j > i + t.past) score = -HUGE_VAL;
        weights[static_cast<size_t>(j)] = std::exp(score);
        sum += weights[static_cast<size_t>(j)];
      }
      for (int64_t d = 0; d < kSize; ++d) {
        double value = 0;
        for (int64_t j = 0; j < keys && sum > 0; ++j)
          value += weights[static_cast<size_t>(j)] / sum * v[static_cast<size_t>((kv * keys + j) * kSize + d)];
        y.push_back(value);
      }
    }
  }
  return y;
}

// Heads in front of positions, or behind them.
Doubles positions_first(const Doubles& x, int64_t heads, int64_t positions) {
  Doubles y(x.size());
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t p = 0; p < positions; ++p)
      for (int64_t d = 0; d < kSize; ++d)
        y[static_cast<size_t>((p * heads + h) * kSize + d)] = x[static_cast<size_t>((h * positions + p) * kSize + d)];
  return y;
}

std::string attention_model(const AttentionCase& t) {
  const int64_t fresh = kKeys - t.past;
  ModelWriter w("attention", 23);
  auto shape = [&](int64_t heads, int64_t positions) {
    return t.flat ? Shape{1, positions, heads * kSize} : Shape{1, heads, positions, kSize};
  };
  w.input("q", shape(t.query_heads, kQueries));
  w.input("k", shape(t.key_heads, fresh));
  w.input("v", shape(t.key_heads, fresh));
  Strings inputs{"q", "k", "v", ""};
  if (!t.mask.empty()) inputs[3] = w.initializer("mask", {{kQueries, kKeys}, Floats(t.mask.begin(), t.mask.end())});
  if (t.past > 0) {
    w.input("past_k", {1, t.key_heads, t.past, kSize});
    w.input("past_v", {1, t.key_heads, t.past, kSize});
    inputs.insert(inputs.end(), {"past_k", "past_v"});
  }
  std::vector<NamedAttribute> attributes;
  if (t.flat) attributes = {{"q_num_heads", t.query_heads}, {"kv_num_heads", t.key_heads}};
  if (t.causal) attributes.push_back({"is_causal", int64_t{1}});
  if (t.softcap > 0) attributes.push_back({"softcap", static_cast<float>(t.softcap)});
  w.node("Attention", inputs, {"y"}, attributes);
  w.output("y");
  return w.finish();
}

void check_attention(const AttentionCase& t) {
  const Doubles q = random_numbers({t.query_heads, kQueries, kSize}, 1),
                k = random_numbers({t.key_heads, kKeys, kSize}, 2), v = random_numbers({t.key_heads, kKeys, kSize}, 3);
  // The past is the first keys of each head.
  auto cut = [&](const Doubles& x, int64_t first, int64_t count) {
    Doubles part;
    for (int64_t h = 0; h < t.key_heads; ++h) {
      auto from = x.begin() + (h * kKeys + first) * kSize;
      part.insert(part.end(), from, from + count * kSize);
    }
    return part;
  };
  const int64_t fresh = kKeys - t.past;
  Doubles fresh_k = cut(k, t.past, fresh), fresh_v = cut(v, t.past, fresh);
  std::vector<Doubles> data{q, fresh_k, fresh_v};
  if (t.flat) {
    data = {positions_first(q, t.query_heads, kQueries), positions_first(fresh_k, t.key_heads, fresh),
            positions_first(fresh_v, t.key_heads, fresh)};
  }
  if (t.past > 0) {
    data.push_back(cut(k, 0, t.past));
    data.push_back(cut(v, 0, t.past));
  }
  Doubles expected = attention(t, q, k, v);
  if (t.flat) expected = positions_first(expected, t.query_heads, kQueries);
  check_near(run_model(attention_model(t), {}, data)[0].data, expected, 1e-6);
}

}  // namespace

TEST_CASE("Attention with shared keys, past, masks, softcap, of rank 3 and 4") {
  const double none = -HUGE_VAL;
  const Doubles mask{0.5, 0, none, 1,    0,    0,    none, none,
                     0,   2, none, none, none, none, none};  // the last row sees nothing
  for (bool flat : {false, true}) {
    for (int64_t key_heads : {4, 2, 1}) {
      AttentionCase t{.query_heads = 4, .key_heads = key_heads, .flat = flat};
      check_attention(t);
      t.causal = true;
      check_attention(t);
      t.past = 2;
      check_attention(t);
      t.softcap = 0.7;
      check_attention(t);
      t.causal = false;
      t.mask = mask;
      check_attention(t);
    }
  }
}

TEST_CASE("Attention is one task") {
  // With as many queries as a group wants.
  ModelWriter w("attention", 23);
  for (const char* name : {"q", "k", "v"}) w.input(name, {2, 16, 32});
  w.node("Attention", {"q", "k", "v"}, {"y"},
         {{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{4}}, {"is_causal", int64_t{1}}});
  w.output("y");
  CHECK(groups_of(w.finish()) == "MatMul+Mul+Add+Softmax+MatMul ");
}

TEST_CASE("RotaryEmbedding turns pairs of features") {
  // One head of 4 features, 2 of which turn, two positions.
  auto turned = [](bool interleaved, int64_t rotated) {
    ModelWriter w("rotary", 23);
    w.input("x", {1, 1, 2, 4});
    w.initializer("cos", {{3, rotated / 2}, Floats(static_cast<size_t>(3 * rotated / 2), 0)});
    w.initializer("sin", {{3, rotated / 2}, Floats(static_cast<size_t>(3 * rotated / 2), 1)});
    w.initializer("at", {{1, 2}, Ints{2, 0}});
    w.node("RotaryEmbedding", {"x", "cos", "sin", "at"}, {"y"},
           {{"interleaved", int64_t{interleaved}}, {"rotary_embedding_dim", rotated}});
    w.output("y");
    return run_model(w.finish())[0].data;
  };
  // By a quarter: (a, b) to (-b, a).
  CHECK(turned(false, 4) == Doubles{-2, -3, 0, 1, -6, -7, 4, 5});
  CHECK(turned(true, 4) == Doubles{-1, 0, -3, 2, -5, 4, -7, 6});
  CHECK(turned(false, 2) == Doubles{-1, 0, 2, 3, -5, 4, 6, 7});
}
