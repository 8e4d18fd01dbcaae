// Layouts between tasks: plain N,C,spatial or channels in blocks, decided for the whole graph before anything is tuned.
//
// Each operator that can work on blocked channels asks one question with two answers, a convolution one for its input
// and one for its output. An answer has a cost of its own (the operator's estimated time in that layout), and two
// answers that meet at a tensor and differ cost a conversion. Costs of disagreement are never negative, so the cheapest
// assignment is a minimum cut (Greig, Porteous and Seheult 1989): plain on the source's side, blocked on the sink's.
#include <algorithm>
#include <limits>
#include <map>
#include <queue>

#include "rewrite.h"

namespace tcc::graph {
namespace {

// Costs in seconds: kNever of a layout that is impossible, kUnwanted of one that is not asked for. Both are more than a
// graph's conversions and operators take together.
constexpr double kNever = 1e18, kUnwanted = 1e9;

// Minimum cut by augmenting shortest paths (Edmonds and Karp 1972); graphs have a few hundred vertices.
class Cut {
 public:
  explicit Cut(size_t vertices) : edges_(vertices + 2), source_(vertices), sink_(vertices + 1) {}
  void add_cost(size_t v, double plain, double blocked) {
    add(source_, v, blocked, 0);
    add(v, sink_, plain, 0);
  }
  void add_disagreement(size_t u, size_t v, double cost) { add(u, v, cost, cost); }

  // Whether each vertex is on the sink's side; where both sides cost the same it is not.
  std::vector<char> solve() {
    while (augment()) {
    }
    std::vector<char> reaches(edges_.size(), 0);
    std::vector<size_t> stack{sink_};
    reaches[sink_] = 1;
    while (!stack.empty()) {
      size_t v = stack.back();
      stack.pop_back();
      for (const Edge& e : edges_[v]) {
        if (reaches[e.to] || !(edges_[e.to][e.back].room > kEpsilon)) continue;
        reaches[e.to] = 1;
        stack.push_back(e.to);
      }
    }
    return reaches;
  }

 private:
  static constexpr double kEpsilon = 1e-15;  // seconds
  struct Edge {
    size_t to, back;  // edges_[to][back] is the same edge the other way
    double room;
  };
  void add(size_t u, size_t v, double room, double room_back) {
    edges_[u].push_back({v, edges_[v].size(), room});
    edges_[v].push_back({u, edges_[u].size() - 1, room_back});
  }
  bool augment() {
    std::vector<Edge*> into(edges_.size(), nullptr);
    std::queue<size_t> queue({source_});
    while (!queue.empty() && into[sink_] == nullptr) {
      size_t v = queue.front();
      queue.pop();
      for (Edge& e : edges_[v]) {
        if (e.to == source_ || into[e.to] != nullptr || !(e.room > kEpsilon)) continue;
        into[e.to] = &e;
        queue.push(e.to);
      }
    }
    if (into[sink_] == nullptr) return false;
    double flow = std::numeric_limits<double>::infinity();
    auto before = [&](size_t v) { return edges_[v][into[v]->back].to; };
    for (size_t v = sink_; v != source_; v = before(v)) flow = std::min(flow, into[v]->room);
    for (size_t v = sink_; v != source_; v = before(v)) {
      into[v]->room -= flow;
      edges_[v][into[v]->back].room += flow;
    }
    return true;
  }

  std::vector<std::vector<Edge>> edges_;
  size_t source_, sink_;
};

class LayoutPass {
 public:
  LayoutPass(Graph& graph, const LayoutModel& model) : graph_(graph), model_(model) {}

  int64_t run() {
    for (NodeId id : graph_.order) multiplies_bytes_ = multiplies_bytes_ || is_byte_product(graph_.node(id));
    for (NodeId id : graph_.order) ask(graph_.node(id));
    if (questions_.empty()) return 0;
    decide();
    return rewrite();
  }

 private:
  struct Question {
    double plain = 0, blocked = 0;
  };
  // Indices of questions; none for what takes and makes plain tensors only.
  struct Answers {
    std::optional<size_t> in, out;
  };

  const Shape& shape(ValueId id) const { return graph_.value(id).shape; }
  bool is_byte_product(const Node& node) const {
    return node.op == Op::kConv && is_byte(graph_.value(node.inputs[0]).dtype);
  }
  bool are_constants(const Node& node) const {
    return std::all_of(node.inputs.begin() + 1, node.inputs.end(),
                       [&](ValueId id) { return graph_.value(id).is_constant(); });
  }
  // Channels side by side of a tensor with this many; 1: it cannot be blocked. Products of 8 bits read groups of
  // neighbors, so that smaller blocks pay, too, and so does a last block that is filled up: a vector of half as many
  // channels takes some 1.4 times as long for each of them.
  int64_t block_of(int64_t channels) const {
    if (!multiplies_bytes_) return channels % model_.block == 0 ? model_.block : 1;
    constexpr double kHalfVector = 1.4, kFilling = 1.1;
    double least = std::numeric_limits<double>::infinity(), factor = 1;
    int64_t best = 1;
    for (int64_t block = model_.byte_block; block >= kByteGroup; block /= 2, factor *= kHalfVector) {
      const int64_t all = round_up(channels, block);
      if (all != channels && (!model_.fills_byte_blocks || 2 * channels <= block || channels < kByteGroup)) continue;
      const double cost = static_cast<double>(all) * factor * (all == channels ? 1 : kFilling);
      if (!model_.fills_byte_blocks) return block;
      if (cost < least) least = cost, best = block;
    }
    return best;
  }
  static int64_t round_up(int64_t channels, int64_t block) { return (channels + block - 1) / block * block; }
  // Of a blocked tensor, all blocks filled.
  int64_t filled(int64_t channels) const { return round_up(channels, block_of(channels)); }
  bool fills(int64_t channels) const { return filled(channels) != channels; }
  int64_t block_of(const Shape& s) const { return s.size() >= 3 ? block_of(s[1]) : 1; }
  double conversion(ValueId id) const {
    return 2 * static_cast<double>(graph_.value(id).bytes()) / model_.bytes_per_second;
  }

  // How much faster than a blocked one a plain depthwise convolution runs.
  double plain_depthwise(const ConvAttrs& a, const Shape& out) const {
    const LayoutModel::Depthwise& d = model_.depthwise;
    const auto columns = static_cast<double>(out.back());
    const double rows = columns / (columns + d.half_row * static_cast<double>(model_.block));
    return std::min(d.long_rows * rows, d.cap) * (a.strides.back() > 1 ? d.strided : 1);
  }

  size_t add_question(const Shape& tensor) {
    questions_.push_back({0, block_of(tensor) > 1 ? 0 : kNever});
    return questions_.size() - 1;
  }

  // Run-time operands that have the result's shape; nothing when another operand cannot be read in blocks.
  std::optional<std::vector<size_t>> pointwise_operands(const Node& node) const {
    const Shape& full = shape(node.output);
    if (op_class(node.op) != OpClass::kElementwise || node.op == Op::kBatchNorm || full.size() < 3) return std::nullopt;
    std::vector<size_t> operands;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& v = graph_.value(node.inputs[i]);
      if (v.elements() == 1 && graph_.value(node.output).elements() > 1) continue;
      if (!v.is_constant() && v.shape == full) {
        operands.push_back(i);
      } else if (!v.is_constant() || !is_channel_constant(v, full)) {
        return std::nullopt;
      }
    }
    return operands;
  }
  // One number, or one a channel.
  static bool is_channel_constant(const Value& v, const Shape& full) {
    if (v.elements() == 1) return true;
    size_t skip = full.size() - std::min(full.size(), v.shape.size());
    for (size_t i = 0; i < v.shape.size(); ++i)
      if (v.shape[i] != 1 && (skip + i != 1 || v.shape[i] != full[1])) return false;
    return true;
  }
  bool reduces_space(const Node& node) const {
    if (op_class(node.op) != OpClass::kReduction) return false;
    const auto& a = node.as<ReduceAttrs>();
    auto rank = static_cast<int64_t>(shape(node.inputs[0]).size());
    return rank >= 3 && static_cast<int64_t>(a.axes.size()) == rank - 2 && a.axes[0] == 2;
  }

  void ask(const Node& node) {
    Answers answers;
    std::vector<size_t> operands{0};
    if (node.op == Op::kConv) {
      const auto& a = node.as<ConvAttrs>();
      if (a.winograd > 0) return;
      const int64_t channels = shape(node.inputs[0])[1], filters = shape(node.output)[1];
      const bool depthwise = a.group > 1 && a.group == channels && a.group == filters;
      if (a.group > 1 && !depthwise) return;
      double plain_work = node_flops(graph_, node) / model_.flops_per_second / model_.plain_efficiency,
             blocked_work = node_flops(graph_, node) / model_.flops_per_second / model_.blocked_efficiency;
      if (depthwise) {
        plain_work /= model_.depthwise.share * plain_depthwise(a, shape(node.output));
        blocked_work /= model_.depthwise.share;
      }
      answers.in = add_question(shape(node.inputs[0]));
      answers.out = depthwise ? answers.in : add_question(shape(node.output));
      // Blocks that are not whole vectors serve products of 8 bits only.
      const bool bytes = is_byte_product(node);
      if (!bytes && channels % model_.block != 0) questions_[*answers.in].blocked += kNever;
      if (!bytes && filters % model_.block != 0) questions_[*answers.out].blocked += kNever;
      if (!are_constants(node)) {
        if (fills(channels)) questions_[*answers.in].blocked += kNever;
        if (fills(filters)) questions_[*answers.out].blocked += kNever;
      }
      // Neighbors along the sum that are apart in memory cannot be multiplied at once.
      if (bytes) plain_work *= kByteGroup;
      for (size_t q : {*answers.in, *answers.out}) {
        questions_[q].plain += model_.always_blocked ? kUnwanted : plain_work / 2;
        questions_[q].blocked += blocked_work / 2;
      }
    } else if (node.op == Op::kMaxPool || node.op == Op::kAveragePool) {
      answers.in = answers.out = add_question(shape(node.inputs[0]));
    } else if (reduces_space(node)) {
      answers.in = add_question(shape(node.inputs[0]));
    } else if (auto pointwise = pointwise_operands(node); pointwise && !pointwise->empty()) {
      operands = *pointwise;
      answers.in = answers.out = add_question(shape(node.output));
    } else {
      return;
    }
    answers_[node.id] = answers;
    operands_[node.id] = operands;
  }

  std::optional<size_t> made_by(ValueId id) const {
    auto it = answers_.find(graph_.value(id).producer);
    return it == answers_.end() ? std::nullopt : it->second.out;
  }

  void decide() {
    std::vector<std::pair<std::pair<size_t, size_t>, double>> meetings;
    std::vector<char> wanted_plain(graph_.values.size(), 0);
    for (ValueId id : graph_.outputs) wanted_plain[static_cast<size_t>(id)] = 1;
    for (NodeId id : graph_.order) {
      const Node& node = graph_.node(id);
      auto own = answers_.find(id);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId x = node.inputs[i];
        if (graph_.value(x).is_constant()) continue;
        bool flexible = own != answers_.end() && std::count(operands_[id].begin(), operands_[id].end(), i) > 0;
        auto maker = made_by(x);
        if (!flexible) {
          wanted_plain[static_cast<size_t>(x)] = 1;
        } else if (maker) {
          meetings.push_back({{*maker, *own->second.in}, conversion(x)});
        } else {
          questions_[*own->second.in].blocked += conversion(x);
        }
      }
    }
    for (size_t v = 0; v < wanted_plain.size(); ++v) {
      auto id = static_cast<ValueId>(v);
      if (!wanted_plain[v]) continue;
      if (auto maker = made_by(id)) questions_[*maker].blocked += conversion(id);
    }
    Cut cut(questions_.size());
    for (size_t q = 0; q < questions_.size(); ++q) cut.add_cost(q, questions_[q].plain, questions_[q].blocked);
    for (const auto& [pair, cost] : meetings) cut.add_disagreement(pair.first, pair.second, cost);
    blocked_ = cut.solve();
  }
  bool is_blocked(const std::optional<size_t>& question) const { return question && blocked_[*question] != 0; }

  // --- rewriting: a value may exist in either layout, or both
  // The bytes of both layouts are the same.
  static bool is_one_position(const Shape& own) { return element_count(Shape(own.begin() + 2, own.end())) == 1; }
  // Blocks behind each other under the plain shape, without what fills the last one.
  // `own` is a copy: nodes that are made move the values that shapes belong to.
  ValueId unblocked(ValueId id, const Shape own) {
    Shape whole = own;
    whole[1] = filled(own[1]);
    return emit_resized(graph_, emit_reshape(graph_, id, whole), 1, own[1]);
  }
  ValueId plain(ValueId id) {
    auto [it, fresh] = plain_.emplace(id, id);
    auto other = blocks_.find(id);
    if (!fresh || other == blocks_.end()) return it->second;
    const Shape own = shape(id);
    if (is_one_position(own)) return plain_[id] = unblocked(other->second, own);
    std::vector<int64_t> perm{0, 1, static_cast<int64_t>(own.size())};
    for (size_t i = 2; i < own.size(); ++i) perm.push_back(static_cast<int64_t>(i));
    const std::string name = graph_.value(id).name;
    ValueId moved = emit_node(graph_, Op::kTranspose, TransposeAttrs{perm}, {other->second}, name);
    return plain_[id] = unblocked(moved, own);
  }
  ValueId blocked(ValueId id) {
    if (auto it = blocks_.find(id); it != blocks_.end()) return it->second;
    const Shape own = shape(id);
    const int64_t block = block_of(own);
    const ValueId whole = emit_resized(graph_, plain(id), 1, filled(own[1]));
    const int64_t blocks = filled(own[1]) / block;
    if (is_one_position(own)) {
      Shape same(own.size(), 1);
      same[0] = own[0], same[1] = blocks;
      same.push_back(block);
      return blocks_[id] = emit_reshape(graph_, whole, same);
    }
    Shape split{own[0], blocks, block};
    split.insert(split.end(), own.begin() + 2, own.end());
    std::vector<int64_t> perm{0, 1};
    for (size_t i = 3; i < split.size(); ++i) perm.push_back(static_cast<int64_t>(i));
    perm.push_back(2);
    ValueId wide = emit_reshape(graph_, whole, split);
    return blocks_[id] = emit_node(graph_, Op::kTranspose, TransposeAttrs{perm}, {wide}, graph_.value(id).name);
  }
  // A number, or one a channel, beside blocked tensors.
  ValueId blocked_constant(ValueId id, size_t rank) {
    if (graph_.value(id).elements() == 1) return emit_reshape(graph_, id, {});
    Shape s(rank, 1);
    const int64_t channels = graph_.value(id).elements(), block = block_of(channels);
    s[1] = filled(channels) / block;
    s.push_back(block);
    // What fills a block divides by no zero.
    return emit_reshape(graph_, emit_resized(graph_, emit_reshape(graph_, id, {channels}), 0, filled(channels), 1), s);
  }

  // M/b,C/b,kernel...,b,b: groups of channels side by side for each filter.
  ValueId blocked_weight(ValueId id, const ConvAttrs& a) {
    const Shape own = shape(id);
    Shape split{own[0] / a.block_out, a.block_out, own[1] / a.block_in, a.block_in};
    split.insert(split.end(), own.begin() + 2, own.end());
    std::vector<int64_t> perm{0, 2};
    for (size_t i = 4; i < split.size(); ++i) perm.push_back(static_cast<int64_t>(i));
    perm.insert(perm.end(), {3, 1});
    return emit_transposed(graph_, emit_reshape(graph_, id, split), perm);
  }

  // Weights of channels that fill blocks are zero: nothing that such channels hold reaches a result.
  void fill_weights(Node& node, ConvAttrs& a, bool in, bool out) {
    const Shape own = shape(node.inputs[1]);
    const int64_t filters = out ? filled(own[0]) : own[0];
    node.inputs[1] = emit_resized(graph_, node.inputs[1], 0, filters);
    if (node.inputs.size() > 2) node.inputs[2] = emit_resized(graph_, node.inputs[2], 0, filters);
    if (a.group > 1) {
      a.group = filters;
    } else if (in) {
      node.inputs[1] = emit_resized(graph_, node.inputs[1], 1, filled(own[1]));
    }
  }

  int64_t rewrite() {
    const std::vector<NodeId> order = std::move(graph_.order);
    graph_.order.clear();
    int64_t convolutions = 0;
    for (NodeId id : order) {
      Node node = graph_.node(id);
      auto it = answers_.find(id);
      const Answers answers = it == answers_.end() ? Answers{} : it->second;
      const bool in = is_blocked(answers.in), out = is_blocked(answers.out);
      if (!in && !out) {
        for (ValueId& input : node.inputs)
          if (!graph_.value(input).is_constant()) input = plain(input);
        graph_.node(id) = node;
        graph_.order.push_back(id);
        continue;
      }
      convolutions += node.op == Op::kConv;
      blocked_node(node, in, out);
    }
    for (ValueId& output : graph_.outputs) output = plain(output);
    return convolutions;
  }

  void blocked_node(Node node, bool in, bool out) {
    const std::vector<size_t>& operands = operands_[node.id];
    const bool pointwise = op_class(node.op) == OpClass::kElementwise;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      bool operand = std::find(operands.begin(), operands.end(), i) != operands.end();
      if (operand)
        node.inputs[i] = in ? blocked(node.inputs[i]) : plain(node.inputs[i]);
      else if (pointwise)
        node.inputs[i] = blocked_constant(node.inputs[i], shape(node.output).size());
    }
    if (node.op == Op::kConv) {
      auto attrs = node.as<ConvAttrs>();
      attrs.block_in = in ? shape(node.inputs[0]).back() : 1;
      attrs.block_out = out ? block_of(shape(node.output)) : 1;
      fill_weights(node, attrs, in, out);
      if (in && out && attrs.group == 1 && is_byte_product(node) && graph_.value(node.inputs[1]).is_constant())
        node.inputs[1] = blocked_weight(node.inputs[1], attrs);
      node.attrs = attrs;
    } else if (node.op == Op::kMaxPool || node.op == Op::kAveragePool) {
      auto attrs = node.as<PoolAttrs>();
      attrs.block = block_of(shape(node.output));
      node.attrs = attrs;
    }
    ValueId made = emit_node(graph_, node.op, node.attrs, node.inputs, node);
    if (op_class(node.op) == OpClass::kReduction) {
      // One position is left: the blocks have the order of the channels.
      plain_[node.output] = unblocked(made, shape(node.output));
    } else if (out) {
      blocks_[node.output] = made;
    } else {
      plain_[node.output] = made;
    }
  }

  Graph& graph_;
  const LayoutModel& model_;
  bool multiplies_bytes_ = false;  // some convolution of the graph
  std::vector<Question> questions_;
  std::map<NodeId, Answers> answers_;
  std::map<NodeId, std::vector<size_t>> operands_;
  std::vector<char> blocked_;         // by question
  std::map<ValueId, ValueId> plain_;  // by the value before the pass
  std::map<ValueId, ValueId> blocks_;
};

}  // namespace

int64_t assign_layouts(Graph& graph, const LayoutModel& model) {
  return LayoutPass(graph, model).run();
}

}  // namespace tcc::graph
