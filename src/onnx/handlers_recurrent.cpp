// RNN, GRU and LSTM, unrolled over the steps of a sequence of known length. The products with the inputs do not depend
// on the steps before: one product of all steps comes first.
//
//   g = reshape(x, T * B, I) W^T + b            all steps and gates at once
//   h1 = cell(g[0], h0), h2 = cell(g[1] + h1 R^T, h1), ...
//
// With sequence lengths, a step beyond the end of a sequence keeps its state and gives zeros.
#include <strings.h>

#include <algorithm>
#include <optional>

#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

constexpr int64_t kMaxSteps = 2048;

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

// The functions that have alpha or beta, and their defaults.
struct ActivationRow {
  const char* name;
  bool alpha, beta;
  double default_alpha, default_beta;
};
constexpr ActivationRow kActivations[] = {
    {"Relu", false, false, 0, 0},        {"Tanh", false, false, 0, 0},
    {"Sigmoid", false, false, 0, 0},     {"Softsign", false, false, 0, 0},
    {"Softplus", false, false, 0, 0},    {"Affine", true, true, 1, 0},
    {"LeakyRelu", true, false, 0.01, 0}, {"ThresholdedRelu", true, false, 1, 0},
    {"ScaledTanh", true, true, 1, 1},    {"HardSigmoid", true, true, 0.2, 0.5},
    {"Elu", true, false, 1, 0},
};

const ActivationRow* activation_row(const std::string& name) {
  for (const ActivationRow& row : kActivations)
    if (strcasecmp(row.name, name.c_str()) == 0) return &row;
  return nullptr;
}

Made apply(NodeContext& c, const Activation& f, const Made& x) {
  if (!x) return x;
  const DType dtype = c.value(*x).dtype;
  if (f.name == "Relu") return c.emit(Op::kRelu, graph::NoAttrs{}, {x});
  if (f.name == "Tanh") return c.emit(Op::kTanh, graph::NoAttrs{}, {x});
  if (f.name == "Sigmoid") return c.emit(Op::kSigmoid, graph::NoAttrs{}, {x});
  if (f.name == "Softsign") return c.unary(UnaryFn::kSoftsign, x);
  if (f.name == "Softplus") return c.unary(UnaryFn::kSoftplus, x);
  if (f.name == "LeakyRelu") return c.emit(Op::kLeakyRelu, graph::LeakyAttrs{f.alpha}, {x});
  if (f.name == "ThresholdedRelu") return c.unary(UnaryFn::kThresholdedRelu, x, f.alpha);
  if (f.name == "HardSigmoid") return c.unary(UnaryFn::kHardSigmoid, x, f.alpha, f.beta);
  if (f.name == "Elu") return c.unary(UnaryFn::kElu, x, f.alpha);
  if (f.name == "Affine")
    return c.arithmetic(Op::kAdd, c.arithmetic(Op::kMul, x, c.scalar(dtype, f.alpha)), c.scalar(dtype, f.beta));
  // ScaledTanh
  Made inner = c.emit(Op::kTanh, graph::NoAttrs{}, {c.arithmetic(Op::kMul, x, c.scalar(dtype, f.beta))});
  return c.arithmetic(Op::kMul, inner, c.scalar(dtype, f.alpha));
}

enum class Cell { kRnn, kGru, kLstm };

// Everything that the attributes and inputs say, once.
struct Recurrence {
  Cell cell = Cell::kRnn;
  int64_t gates = 1, steps = 0, batch = 0, features = 0, hidden = 0, directions = 1;
  bool reverse_only = false, batch_first = false;
  bool linear_before_reset = false, input_forget = false;
  std::optional<double> clip;
  std::vector<Activation> activations;  // of all directions
  DType dtype = DType::kF32;
  ValueId x = graph::kNone;                                        // steps, batch, features
  std::optional<ValueId> bias, lengths, h, cell_state, peepholes;  // lengths: batch x 1, i64

  size_t functions() const { return cell == Cell::kLstm ? 3 : cell == Cell::kGru ? 2 : 1; }
};

// activation_alpha and activation_beta list the numbers of those functions that have one, in order.
Result<void> read_activations(NodeContext& c, Recurrence& r) {
  std::vector<std::string> names;
  TCC_TRY(auto listed, c.get_strings("activations"));
  if (listed) {
    names = *listed;
  } else {
    for (int64_t d = 0; d < r.directions; ++d) {
      if (r.cell != Cell::kRnn) names.emplace_back("Sigmoid");
      names.emplace_back("Tanh");
      if (r.cell == Cell::kLstm) names.emplace_back("Tanh");
    }
  }
  if (names.size() != r.functions() * static_cast<size_t>(r.directions))
    return input_error("{} activations are given, expected {} for each of {} directions", names.size(), r.functions(),
                       r.directions);
  TCC_TRY(auto alphas, c.get_floats("activation_alpha"));
  TCC_TRY(auto betas, c.get_floats("activation_beta"));
  size_t alpha = 0, beta = 0;
  for (const std::string& name : names) {
    const ActivationRow* row = activation_row(name);
    if (row == nullptr) return refuse(Refusal::kAttribute, "activation '{}' is not supported", sanitize(name));
    Activation f{row->name, row->default_alpha, row->default_beta};
    if (row->alpha && alphas && alpha < alphas->size()) f.alpha = (*alphas)[alpha++];
    if (row->beta && betas && beta < betas->size()) f.beta = (*betas)[beta++];
    r.activations.push_back(f);
  }
  return {};
}

Result<void> check_input(NodeContext& c, size_t i, const char* what, const Shape& expected) {
  if (c.input_value(i).shape != expected)
    return input_error("{} (input {}) has shape {}, expected {}", what, i, graph::shape_text(c.input_value(i).shape),
                       graph::shape_text(expected));
  return {};
}

// initial_h and initial_c: directions, batch, hidden; with batch_first batch, directions, hidden.
Result<std::optional<ValueId>> read_state(NodeContext& c, size_t i, const char* what, const Recurrence& r) {
  if (!c.has_input(i)) return std::nullopt;
  if (!r.batch_first) {
    TCC_TRY_VOID(check_input(c, i, what, {r.directions, r.batch, r.hidden}));
    return c.input(i);
  }
  TCC_TRY_VOID(check_input(c, i, what, {r.batch, r.directions, r.hidden}));
  TCC_TRY(ValueId moved, c.emit(Op::kTranspose, graph::TransposeAttrs{{1, 0, 2}}, {c.input(i)}));
  return moved;
}

Result<void> read_lengths(NodeContext& c, Recurrence& r) {
  if (!c.has_input(4)) return {};
  TCC_TRY_VOID(check_input(c, 4, "sequence_lens", {r.batch}));
  if (c.input_value(4).is_constant()) {
    TCC_TRY(auto lengths, c.constant_integers(4, "sequence_lens"));
    for (int64_t length : lengths) {
      if (length < 0 || length > r.steps) return input_error("sequence_lens has {}, expected 0 to {}", length, r.steps);
    }
    if (std::all_of(lengths.begin(), lengths.end(), [&](int64_t n) { return n == r.steps; })) return {};
  }
  TCC_TRY(ValueId lengths, c.emit_reshape(c.cast(c.input(4), DType::kI64), {r.batch, 1}));
  r.lengths = lengths;
  return {};
}

Result<Recurrence> read_recurrence(NodeContext& c, Cell cell) {
  Recurrence r;
  r.cell = cell;
  r.gates = cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1;
  TCC_TRY(std::string direction, c.get_string("direction", "forward"));
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return input_error("direction is '{}', expected forward, reverse or bidirectional", sanitize(direction));
  r.directions = direction == "bidirectional" ? 2 : 1;
  r.reverse_only = direction == "reverse";
  TCC_TRY(r.batch_first, c.get_flag("layout", false, 14));
  if (c.has_attribute("clip")) TCC_TRY_SET(r.clip, c.get_float("clip", 0));
  if (cell == Cell::kGru) TCC_TRY_SET(r.linear_before_reset, c.get_flag("linear_before_reset", false));
  if (cell == Cell::kLstm) TCC_TRY_SET(r.input_forget, c.get_flag("input_forget", false));
  // Before opset 7 this said whether all results are wanted; the outputs say so as well.
  if (c.opset() < 7) c.ignore_attribute("output_sequence");
  const Shape& x = c.input_value(0).shape;
  if (x.size() != 3) return input_error("X must have three axes, got {}", graph::shape_text(x));
  r.dtype = c.input_value(0).dtype;
  r.steps = x[r.batch_first ? 1 : 0];
  r.batch = x[r.batch_first ? 0 : 1];
  r.features = x[2];
  if (r.steps < 1 || r.batch < 1)
    return refuse(Refusal::kNoElements, "X of shape {} has no elements", graph::shape_text(x));
  if (r.steps > kMaxSteps)
    return refuse(Refusal::kTooLarge, "sequences of {} steps; at most {} are unrolled: cut them into shorter ones",
                  r.steps, kMaxSteps);
  r.x = c.input(0);
  if (r.batch_first) TCC_TRY_SET(r.x, c.emit(Op::kTranspose, graph::TransposeAttrs{{1, 0, 2}}, {r.x}));
  const Shape& w = c.input_value(1).shape;
  if (w.size() != 3) return input_error("W must have three axes, got {}", graph::shape_text(w));
  r.hidden = w[1] / r.gates;
  if (r.hidden < 1) return input_error("W of shape {} has no {} gates", graph::shape_text(w), r.gates);
  TCC_TRY(int64_t hidden, c.get_int("hidden_size", r.hidden));
  if (hidden != r.hidden)
    return input_error("hidden_size is {}, W of shape {} has {}", hidden, graph::shape_text(w), r.hidden);
  TCC_TRY_VOID(check_input(c, 1, "W", {r.directions, r.gates * r.hidden, r.features}));
  TCC_TRY_VOID(check_input(c, 2, "R", {r.directions, r.gates * r.hidden, r.hidden}));
  if (c.has_input(3)) {
    TCC_TRY_VOID(check_input(c, 3, "B", {r.directions, 2 * r.gates * r.hidden}));
    r.bias = c.input(3);
  }
  TCC_TRY_VOID(read_lengths(c, r));
  TCC_TRY(r.h, read_state(c, 5, "initial_h", r));
  if (cell == Cell::kLstm) {
    TCC_TRY(r.cell_state, read_state(c, 6, "initial_c", r));
    if (c.has_input(7)) {
      TCC_TRY_VOID(check_input(c, 7, "P", {r.directions, 3 * r.hidden}));
      r.peepholes = c.input(7);
    }
  }
  TCC_TRY_VOID(read_activations(c, r));
  return r;
}

// One direction of a recurrence.
class Direction {
 public:
  Direction(NodeContext& c, const Recurrence& r, int64_t number) : c_(c), r_(r), number_(number) {}

  // h and cell state after the last step, and h of each step in the sequence's order.
  struct Results {
    ValueId h = graph::kNone, cell = graph::kNone;
    std::vector<ValueId> steps;
  };

  Result<Results> run() {
    TCC_TRY_VOID(prepare());
    Results results;
    results.steps.resize(static_cast<size_t>(r_.steps));
    const bool reverse = r_.reverse_only || number_ == 1;
    for (int64_t i = 0; i < r_.steps; ++i) {
      const int64_t t = reverse ? r_.steps - 1 - i : i;
      Made x = c_.emit_reshape(c_.slice(products_, 0, t, 1), {r_.batch, r_.gates * r_.hidden});
      State next;
      switch (r_.cell) {
        case Cell::kRnn:
          TCC_TRY_SET(next, rnn(x));
          break;
        case Cell::kGru:
          TCC_TRY_SET(next, gru(x));
          break;
        case Cell::kLstm:
          TCC_TRY_SET(next, lstm(x));
          break;
      }
      ValueId step = next.h;
      if (r_.lengths) {
        Made active = c_.binary(BinaryFn::kLess, c_.scalar(DType::kI64, static_cast<double>(t)), *r_.lengths);
        TCC_TRY(step, c_.where(active, next.h, c_.scalar(r_.dtype, 0)));
        TCC_TRY_SET(next.h, c_.where(active, next.h, or_zero(h_)));
        if (r_.cell == Cell::kLstm) TCC_TRY_SET(next.cell, c_.where(active, next.cell, or_zero(cell_)));
      }
      h_ = next.h;
      if (r_.cell == Cell::kLstm) cell_ = next.cell;
      results.steps[static_cast<size_t>(t)] = step;
    }
    results.h = *h_;
    if (cell_) results.cell = *cell_;
    return results;
  }

 private:
  struct State {
    ValueId h = graph::kNone, cell = graph::kNone;
  };

  // This direction's part of a tensor whose first axis is directions.
  Made part(ValueId x, Shape shape) { return c_.emit_reshape(c_.slice(x, 0, number_, 1), std::move(shape)); }
  Made or_zero(const std::optional<ValueId>& x) { return x ? Made(*x) : Made(c_.scalar(r_.dtype, 0)); }
  const Activation& f(size_t i) const { return r_.activations[static_cast<size_t>(number_) * r_.functions() + i]; }
  // Gates [first, first + count) of rows of gates.
  Made gates(const Made& x, int64_t first, int64_t count) {
    if (count == r_.gates) return x;
    return c_.slice(x, 1, first * r_.hidden, count * r_.hidden);
  }
  Made activate(size_t i, Made x) {
    if (r_.clip) x = c_.emit(Op::kClip, graph::ClipAttrs{-*r_.clip, *r_.clip}, {x});
    return apply(c_, f(i), x);
  }
  Made add(const Made& x, const Made& y) { return c_.arithmetic(Op::kAdd, x, y); }
  Made mul(const Made& x, const Made& y) { return c_.arithmetic(Op::kMul, x, y); }
  Made one_minus(const Made& x) { return c_.arithmetic(Op::kSub, c_.scalar(r_.dtype, 1), x); }
  // h * (rows of R for some gates)^T
  Made product(const Made& h, ValueId weights) {
    return c_.emit(Op::kGemm, graph::GemmAttrs{1, 1, false, true}, {h, weights});
  }

  Result<void> prepare() {
    const int64_t rows = r_.gates * r_.hidden;
    Made w = part(c_.input(1), {rows, r_.features});
    Made x = c_.emit_reshape(r_.x, {r_.steps * r_.batch, r_.features});
    TCC_TRY(recurrent_, part(c_.input(2), {rows, r_.hidden}));
    std::vector<Made> operands{x, w};
    if (r_.bias) {
      Made both = part(*r_.bias, {2, rows});
      Made input_bias = c_.emit_reshape(c_.slice(both, 0, 0, 1), {rows});
      Made recurrent_bias = c_.emit_reshape(c_.slice(both, 0, 1, 1), {rows});
      if (r_.cell == Cell::kGru && r_.linear_before_reset) {
        // The hidden gate's recurrent bias is multiplied by the reset gate.
        Made outer = c_.slice(recurrent_bias, 0, 0, 2 * r_.hidden);
        TCC_TRY_SET(hidden_bias_, c_.slice(recurrent_bias, 0, 2 * r_.hidden, r_.hidden));
        Made zero = c_.constant(r_.dtype, {r_.hidden}, graph::make_splat(r_.dtype, 0));
        recurrent_bias = c_.emit(Op::kConcat, graph::AxisAttrs{0}, {outer, zero});
      }
      operands.push_back(add(input_bias, recurrent_bias));
    }
    Made all = c_.emit(Op::kGemm, graph::GemmAttrs{1, 1, false, true}, operands);
    TCC_TRY(products_, c_.emit_reshape(all, {r_.steps, r_.batch, rows}));
    if (r_.cell == Cell::kGru) {
      TCC_TRY(update_reset_, c_.slice(recurrent_, 0, 0, 2 * r_.hidden));
      TCC_TRY(hidden_weights_, c_.slice(recurrent_, 0, 2 * r_.hidden, r_.hidden));
    }
    if (r_.h) TCC_TRY_SET(h_, part(*r_.h, {r_.batch, r_.hidden}));
    if (r_.cell_state) TCC_TRY_SET(cell_, part(*r_.cell_state, {r_.batch, r_.hidden}));
    return {};
  }

  // x + h R^T; the state before the first step is zero where none is given.
  Made with_state(const Made& x, ValueId weights) { return h_ ? add(product(*h_, weights), x) : x; }

  Result<State> rnn(const Made& x) {
    TCC_TRY(ValueId h, activate(0, with_state(x, recurrent_)));
    return State{h};
  }

  Result<State> gru(const Made& x) {
    Made outer = with_state(gates(x, 0, 2), update_reset_);
    auto half = [&](int64_t i) { return c_.slice(outer, 1, i * r_.hidden, r_.hidden); };
    TCC_TRY(ValueId z, activate(0, half(0)));
    Made inner = gates(x, 2, 1);
    if (h_ || hidden_bias_) {
      Made reset = activate(0, half(1));
      if (r_.linear_before_reset) {
        Made linear = h_ ? product(*h_, hidden_weights_) : Made(*hidden_bias_);
        if (h_ && hidden_bias_) linear = add(linear, *hidden_bias_);
        inner = add(mul(reset, linear), inner);
      } else if (h_) {
        inner = add(product(mul(reset, *h_), hidden_weights_), inner);
      }
    }
    Made fresh = mul(one_minus(z), activate(1, inner));
    TCC_TRY(ValueId h, h_ ? add(fresh, mul(z, *h_)) : fresh);
    return State{h};
  }

  // Gates in the order i, o, f, c; peepholes in the order i, o, f.
  Result<State> lstm(const Made& x) {
    TCC_TRY(ValueId all, with_state(x, recurrent_));
    auto gate = [&](int64_t i, const std::optional<ValueId>& seen) -> Made {
      Made part_of = gates(all, i, 1);
      if (!r_.peepholes || i == 3 || !seen) return part_of;
      Made weights = part(*r_.peepholes, {3 * r_.hidden});
      return add(part_of, mul(c_.slice(weights, 0, i * r_.hidden, r_.hidden), *seen));
    };
    TCC_TRY(ValueId input, activate(0, gate(0, cell_)));
    Made forget = r_.input_forget ? one_minus(input) : activate(0, gate(2, cell_));
    Made fresh = mul(input, activate(1, gate(3, {})));
    TCC_TRY(ValueId cell, cell_ ? add(mul(forget, *cell_), fresh) : fresh);
    Made output = activate(0, gate(1, cell));
    // The clip is that of the gates' sums, not of the cell.
    TCC_TRY(ValueId h, mul(output, apply(c_, f(2), cell)));
    return State{h, cell};
  }

  NodeContext& c_;
  const Recurrence& r_;
  int64_t number_;
  ValueId recurrent_ = graph::kNone, products_ = graph::kNone;
  ValueId update_reset_ = graph::kNone, hidden_weights_ = graph::kNone;  // of a GRU
  std::optional<ValueId> hidden_bias_, h_, cell_;
};

Result<void> import_recurrent(NodeContext& c, Cell cell) {
  TCC_TRY(Recurrence r, read_recurrence(c, cell));
  std::vector<Made> sequences, last, cells;
  for (int64_t d = 0; d < r.directions; ++d) {
    TCC_TRY(Direction::Results results, Direction(c, r, d).run());
    std::vector<Made> steps;
    if (c.wants_output(0)) {
      for (ValueId step : results.steps) steps.push_back(c.emit_reshape(step, {1, 1, r.batch, r.hidden}));
      sequences.push_back(steps.size() == 1 ? steps[0] : c.emit(Op::kConcat, graph::AxisAttrs{0}, steps));
    }
    last.push_back(c.emit_reshape(results.h, {1, r.batch, r.hidden}));
    if (cell == Cell::kLstm) cells.push_back(c.emit_reshape(results.cell, {1, r.batch, r.hidden}));
  }
  auto joined = [&](const std::vector<Made>& parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : c.emit(Op::kConcat, graph::AxisAttrs{axis}, parts);
  };
  auto set = [&](size_t output, Made x, std::vector<int64_t> batch_first) -> Result<void> {
    if (!c.wants_output(output)) return {};
    if (r.batch_first) x = c.emit(Op::kTranspose, graph::TransposeAttrs{std::move(batch_first)}, {x});
    TCC_TRY(ValueId id, x);
    c.set_output(output, id);
    return {};
  };
  if (c.wants_output(0)) TCC_TRY_VOID(set(0, joined(sequences, 1), {2, 0, 1, 3}));
  TCC_TRY_VOID(set(1, joined(last, 0), {1, 0, 2}));
  if (cell == Cell::kLstm) TCC_TRY_VOID(set(2, joined(cells, 0), {1, 0, 2}));
  return {};
}

}  // namespace

Result<void> import_rnn(NodeContext& c) {
  return import_recurrent(c, Cell::kRnn);
}

Result<void> import_gru(NodeContext& c) {
  return import_recurrent(c, Cell::kGru);
}

Result<void> import_lstm(NodeContext& c) {
  return import_recurrent(c, Cell::kLstm);
}

}  // namespace tcc::onnx
