// fuse and plan_memory.
#include <algorithm>
#include <map>
#include <optional>

#include "passes_internal.h"
#include "tcc/graph/finite.h"
#include "tcc/support/check.h"

namespace tcc::graph {

namespace {

// Of an attention whose products share tiles of keys; a single query, as in decoding, reads each key once anyway.
constexpr int64_t kMinQueries = 4;

// Elementwise members are computed inside the expression that reads them, once for each time they are read. A chain
// whose members read a value twice doubles with each of them: a group ends before its last value reads its operands
// more often than this.
constexpr double kMaxReads = 256;

// Nodes of a branch that is looked for from its end.
constexpr int64_t kMostInBranch = 32;

// Members of a diamond that joins a group.
constexpr int64_t kMostInDiamond = 4;

// How often the formula of one element reads the operand.
double reads_in_formula(const Graph& graph, const Node& node) {
  if (limits_numbers(graph, node)) return 1;
  switch (node.op) {
    case Op::kRelu:
      return 2;
    case Op::kLeakyRelu:
      return 3;
    case Op::kClip:
      return 4;
    case Op::kUnary:
      return unary_reads(node.as<UnaryAttrs>().fn);
    case Op::kBinary:
      return binary_reads(node.as<BinaryAttrs>().fn);
    default:
      return 1;
  }
}

class Fuser {
 public:
  Fuser(const Graph& graph, const FuseOptions& options)
      : graph_(graph),
        options_(options),
        consumers_(find_consumers(graph)),
        group_of_(graph.nodes.size(), kNone),
        waits_(graph.nodes.size(), 0) {
    is_output_.resize(graph.values.size(), 0);
    for (ValueId id : graph.outputs) is_output_[static_cast<size_t>(id)] = 1;
  }

  std::vector<FusionGroup> run() {
    for (NodeId id : graph_.order) {
      const Node& node = graph_.node(id);
      if (op_class(node.op) == OpClass::kView || group_of_[static_cast<size_t>(id)] != kNone) continue;
      if (is_nothing(node) || waits_[static_cast<size_t>(id)]) continue;
      // What waited for this node in vain runs now; a Concat takes it in.
      for (ValueId input : node.inputs)
        if (const Branch* branch = waiting(input); branch != nullptr && node.op != Op::kConcat)
          make_group(branch->nodes.front(), false);
      if (group_of_[static_cast<size_t>(id)] != kNone) continue;  // and took this node
      // Of two branches that meet in an Add, the heavier one takes the Add: the lighter has to run first.
      if (const Node* lighter = lighter_sibling(node)) make_group(lighter->id, false);
      make_group(id, true);
    }
    return std::move(groups_);
  }

 private:
  // Elements that the group of their only reader makes where it reads them. They wait for its other operands.
  struct Branch {
    std::vector<NodeId> nodes;
    double reads;  // of what was there before, for one element
  };

  void make_group(NodeId id, bool may_wait) {
    FusionGroup group;
    group.id = static_cast<int64_t>(groups_.size());
    group.anchor = id;
    const Node& anchor = graph_.node(id);
    if (anchor.op == Op::kConcat)
      for (ValueId input : anchor.inputs) take_branch(group, input);
    append(group, id);
    if (takes_consumers(anchor.op)) {
      const double reads =
          take_members(group, op_class(anchor.op) == OpClass::kElementwise ? reads_behind(anchor, kNone, 1) : 1);
      if (may_wait && waits(group)) {
        for (NodeId member : group.nodes) {
          group_of_[static_cast<size_t>(member)] = kNone;
          waits_[static_cast<size_t>(member)] = 1;
        }
        branches_[group.output] = {std::move(group.nodes), reads};
        return;
      }
      if (const Node* softmax = softmax_of_scores(group)) {
        append(group, softmax->id);
        if (const Node* rounding = rounding_of(*softmax)) append(group, rounding->id);
        append(group, only_consumer(group.output)->id);
        take_members(group, 1);
      }
      if (const Node* reduction = reduction_of(group)) {
        append(group, reduction->id);
        group.anchor = reduction->id;
        take_members(group, 1);
      }
    }
    collect_operands(group);
    groups_.push_back(std::move(group));
  }

  // Returns how often the group's last value reads what was there before.
  double take_members(FusionGroup& group, double reads) {
    for (;;) {
      if (const Node* next = next_member(group.output, takes_moves(group))) {
        const double behind = reads_behind(*next, group.output, reads);
        if (behind > kMaxReads) return reads;
        reads = behind;
        for (ValueId input : next->inputs)
          if (input != group.output) take_branch(group, input);
        append(group, next->id);
        continue;
      }
      const std::vector<NodeId> members = diamond(group);
      if (members.empty()) return reads;
      std::map<ValueId, double> behind{{group.output, reads}};
      for (NodeId id : members) {
        const Node& node = graph_.node(id);
        double sum = 0;
        for (ValueId input : node.inputs) sum += behind.contains(input) ? behind[input] : 1;
        behind[node.output] = sum * reads_in_formula(graph_, node);
      }
      const double most = behind[graph_.node(members.back()).output];
      if (most > kMaxReads) return reads;
      reads = most;
      for (NodeId id : members) append(group, id);
    }
  }

  // Nodes between the group's last value, which several read, and the node where they meet, as in
  // Where(Cast(m), x, m): elementwise and of its shape, with ready operands, and nothing else reads what they make.
  // They are few, and the group is elementwise: what they read twice is cheap. Empty where they do not meet.
  std::vector<NodeId> diamond(const FusionGroup& group) const {
    std::vector<NodeId> members;
    if (op_class(graph_.node(group.anchor).op) != OpClass::kElementwise) return {};
    const Shape& shape = graph_.value(group.output).shape;
    std::vector<ValueId> made{group.output};  // the last one is the value where the members may meet
    auto is_made = [&](ValueId id) { return std::find(made.begin(), made.end(), id) != made.end(); };
    auto is_member = [&](NodeId id) { return std::find(members.begin(), members.end(), id) != members.end(); };
    while (std::ssize(members) < kMostInDiamond) {
      const Node* next = nullptr;
      for (ValueId value : made) {
        if (is_output_[static_cast<size_t>(value)] && value != made.back()) return {};
        for (NodeId id : consumers_[static_cast<size_t>(value)]) {
          const Node& node = graph_.node(id);
          if (is_member(id) || group_of_[static_cast<size_t>(id)] != kNone) continue;
          if (op_class(node.op) != OpClass::kElementwise || graph_.value(node.output).shape != shape) continue;
          const bool ready = std::all_of(node.inputs.begin(), node.inputs.end(),
                                         [&](ValueId input) { return is_made(input) || is_ready(input); });
          if (ready && (next == nullptr || id < next->id)) next = &node;
        }
      }
      if (next == nullptr || is_output_[static_cast<size_t>(group.output)]) return {};
      members.push_back(next->id);
      made.push_back(next->output);
      const bool closed = std::all_of(made.begin(), made.end() - 1, [&](ValueId value) {
        const auto& readers = consumers_[static_cast<size_t>(value)];
        return !is_output_[static_cast<size_t>(value)] && std::all_of(readers.begin(), readers.end(), is_member);
      });
      if (closed) return members;
    }
    return {};
  }

  // --- branches: written to memory they would be written and read once more than they have to, and bytes as floats
  // take four times as much as what they are made from.
  bool waits(const FusionGroup& group) const {
    const bool maps = std::all_of(group.nodes.begin(), group.nodes.end(), [&](NodeId id) {
      const Node& node = graph_.node(id);
      return op_class(node.op) == OpClass::kElementwise || is_row_slice(node);
    });
    if (!maps) return false;
    const Node* reader = only_consumer(group.output);
    if (reader == nullptr) return false;
    if (reader->op == Op::kConcat) return true;
    return next_elementwise(group.output) != nullptr &&
           std::any_of(reader->inputs.begin(), reader->inputs.end(),
                       [&](ValueId input) { return input != group.output && !is_ready(input); });
  }
  // Reads neighbors for neighbors: vectors read vectors.
  bool is_row_slice(const Node& node) const { return node.op == Op::kSlice && node.as<SliceAttrs>().steps.back() == 1; }
  // The branch that ends with the value and waits; nullptr: none does.
  const Branch* waiting(ValueId end) const {
    auto it = branches_.find(end);
    return it != branches_.end() && group_of_[static_cast<size_t>(it->second.nodes.front())] == kNone ? &it->second
                                                                                                      : nullptr;
  }
  // The same, or one that a later node of the order would begin; none: something in it cannot run now.
  std::optional<Branch> branch_to(ValueId end) const {
    Branch found{{}, 1};
    if (!find_branch(end, found)) return std::nullopt;
    return found;
  }
  // Appends the nodes that make the value, and sets how often it reads what was there before.
  bool find_branch(ValueId end, Branch& branch) const {
    if (const Branch* known = waiting(end)) {
      branch.nodes.insert(branch.nodes.end(), known->nodes.begin(), known->nodes.end());
      branch.reads = known->reads;
      return true;
    }
    const Value& value = graph_.value(end);
    if (value.producer == kNone || only_consumer(end) == nullptr) return false;
    const Node& node = graph_.node(value.producer);
    if (group_of_[static_cast<size_t>(node.id)] != kNone || std::ssize(branch.nodes) >= kMostInBranch) return false;
    if (op_class(node.op) != OpClass::kElementwise && !is_row_slice(node)) return false;
    double sum = 0;
    for (ValueId input : node.inputs) {
      branch.reads = 1;
      if (!is_ready(input) && (graph_.value(input).shape != value.shape || !find_branch(input, branch))) return false;
      sum += branch.reads;
    }
    branch.reads = sum * reads_in_formula(graph_, node);
    branch.nodes.push_back(node.id);
    return true;
  }
  // Loops of products and windows have their own order of elements, which a slice's neighbors need not fit.
  bool takes_moves(const FusionGroup& group) const {
    const OpClass anchor = op_class(graph_.node(group.anchor).op);
    return anchor == OpClass::kElementwise || anchor == OpClass::kMove;
  }
  bool may_take(const Branch& branch, bool moves) const {
    return moves || std::all_of(branch.nodes.begin(), branch.nodes.end(),
                                [&](NodeId id) { return op_class(graph_.node(id).op) == OpClass::kElementwise; });
  }
  void take_branch(FusionGroup& group, ValueId end) {
    if (is_ready(end)) return;
    if (const std::optional<Branch> branch = branch_to(end))
      for (NodeId id : branch->nodes) append(group, id);
  }
  // How often the node's result reads what was there before its group, where it reads `value` that does so `reads`
  // times.
  double reads_behind(const Node& node, ValueId value, double reads) const {
    double sum = 0;
    for (ValueId input : node.inputs) {
      const std::optional<Branch> branch = input == value || is_ready(input) ? std::nullopt : branch_to(input);
      sum += input == value ? reads : branch ? branch->reads : 1;
    }
    return sum * reads_in_formula(graph_, node);
  }

  // The contraction that keeps this one from taking the elementwise operator where their results meet, if it can run
  // now and is less work.
  const Node* lighter_sibling(const Node& node) const {
    if (op_class(node.op) != OpClass::kContraction) return nullptr;
    ValueId out = node.output;
    while (const Node* next = next_member(out, false)) out = next->output;
    const Node* blocked = next_elementwise(out);
    if (blocked == nullptr) return nullptr;
    const Node* sibling = nullptr;
    for (ValueId input : blocked->inputs) {
      if (input == out || is_ready(input)) continue;
      const Value& value = graph_.value(input);
      if (sibling != nullptr || value.producer == kNone) return nullptr;
      sibling = &graph_.node(value.producer);
    }
    if (sibling == nullptr || op_class(sibling->op) != OpClass::kContraction) return nullptr;
    bool runs_now =
        std::all_of(sibling->inputs.begin(), sibling->inputs.end(), [&](ValueId id) { return is_ready(id); });
    return runs_now && node_flops(graph_, *sibling) < node_flops(graph_, node) ? sibling : nullptr;
  }

  // Parts of a Concat are written by nests of their own, an Identity is there to be a copy, and elements of the others
  // need those before them where they are.
  static bool takes_consumers(Op op) {
    return op != Op::kConcat && op != Op::kIdentity && op != Op::kScan && op != Op::kFind && op != Op::kSuppress &&
           op != Op::kDeterminant;
  }

  void append(FusionGroup& group, NodeId id) {
    TCC_CHECK(group_of_[static_cast<size_t>(id)] == kNone, "node {} is in two groups", id);
    group.nodes.push_back(id);
    group.output = graph_.node(id).output;
    group_of_[static_cast<size_t>(id)] = static_cast<int32_t>(group.id);
  }

  // Makes no element that anything reads.
  bool is_nothing(const Node& node) const {
    if (graph_.value(node.output).elements() != 0) return false;
    const auto& readers = consumers_[static_cast<size_t>(node.output)];
    return std::all_of(readers.begin(), readers.end(),
                       [&](NodeId id) { return graph_.value(graph_.node(id).output).elements() == 0; });
  }

  // Known before the group being built runs, or made inside it.
  bool is_ready(ValueId id) const {
    const Value& root = graph_.value(storage_root(graph_, id));
    if (root.producer == kNone) return true;
    const Node& producer = graph_.node(root.producer);
    if (producer.op != Op::kJoin) return group_of_[static_cast<size_t>(producer.id)] != kNone;
    return std::all_of(producer.inputs.begin(), producer.inputs.end(), [&](ValueId part) { return is_ready(part); });
  }

  // The only node that reads a value which stays inside; nullptr: several, or no group may take it any more.
  const Node* only_consumer(ValueId value) const {
    auto out = static_cast<size_t>(value);
    if (is_output_[out] || consumers_[out].empty()) return nullptr;
    const Node& next = graph_.node(consumers_[out].front());
    for (NodeId id : consumers_[out]) {
      if (id != next.id) return nullptr;
    }
    return group_of_[static_cast<size_t>(next.id)] == kNone ? &next : nullptr;
  }

  // The softmax of an attention whose scores the group makes.
  const Node* softmax_of_scores(const FusionGroup& group) const {
    if (!options_.attention || graph_.node(group.anchor).op != Op::kMatMul) return nullptr;
    const Node* softmax = only_consumer(group.output);
    if (softmax == nullptr || softmax->op != Op::kSoftmax) return nullptr;
    const Shape& shape = graph_.value(softmax->output).shape;
    if (softmax->as<AxisAttrs>().axis + 1 != std::ssize(shape) || shape.size() < 2) return nullptr;
    if (shape[shape.size() - 2] < kMinQueries) return nullptr;
    const Node* rounding = rounding_of(*softmax);
    const ValueId weights = rounding != nullptr ? rounding->output : softmax->output;
    const Node* product = only_consumer(weights);
    if (product == nullptr || product->op != Op::kMatMul || product->inputs[0] != weights) return nullptr;
    const ValueId right = product->inputs[1];
    const bool plain = product->as<MatMulAttrs>().perm_a.empty() && right != weights;
    return plain && is_ready(right) ? softmax : nullptr;
  }

  // The only reader of an elementwise group's result, where it reads each element once: as sums do. The group's
  // elements are then made where they are added, and never written.
  const Node* reduction_of(const FusionGroup& group) const {
    if (op_class(graph_.node(group.anchor).op) != OpClass::kElementwise) return nullptr;
    const Node* next = only_consumer(group.output);
    if (next == nullptr || op_class(next->op) != OpClass::kReduction || next->as<ReduceAttrs>().axes.empty())
      return nullptr;
    return next->inputs[0] == group.output ? next : nullptr;
  }

  // The Cast to 16 bits between a softmax in f32 and a product in less.
  const Node* rounding_of(const Node& softmax) const {
    const Node* cast = only_consumer(softmax.output);
    if (cast == nullptr || cast->op != Op::kCast) return nullptr;
    const DType to = cast->as<CastAttrs>().to;
    return to == DType::kF16 || to == DType::kBF16 ? cast : nullptr;
  }

  // The only consumer of a value that no group has taken, when it is elementwise and of the same shape. It may have
  // another element type: a Cast, a comparison, a Where.
  const Node* next_elementwise(ValueId value) const {
    const Node* next = only_consumer(value);
    if (next == nullptr || op_class(next->op) != OpClass::kElementwise) return nullptr;
    return graph_.value(value).shape == graph_.value(next->output).shape ? next : nullptr;
  }
  // The same, when its other operands are ready, or wait: it joins the group whose output `value` is. `moves`: may
  // slices join, too?
  const Node* next_member(ValueId value, bool moves) const {
    const Node* next = next_elementwise(value);
    if (next == nullptr) return nullptr;
    const bool ready = std::all_of(next->inputs.begin(), next->inputs.end(), [&](ValueId id) {
      if (id == value || is_ready(id)) return true;
      const std::optional<Branch> branch = branch_to(id);
      return branch && may_take(*branch, moves);
    });
    return ready ? next : nullptr;
  }

  void collect_operands(FusionGroup& group) const {
    auto add = [](std::vector<ValueId>& list, ValueId id) {
      if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
    };
    for (NodeId id : group.nodes) {
      for (ValueId input : graph_.node(id).inputs) {
        const Value& value = graph_.value(input);
        bool inside = value.producer != kNone &&
                      std::find(group.nodes.begin(), group.nodes.end(), value.producer) != group.nodes.end();
        if (!inside) add(value.is_constant() ? group.constants : group.inputs, input);
      }
    }
  }

  const Graph& graph_;
  FuseOptions options_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<int32_t> group_of_;       // by NodeId
  std::vector<char> is_output_;         // by ValueId
  std::vector<char> waits_;             // by NodeId: it is a part of a branch
  std::map<ValueId, Branch> branches_;  // by the last node's result
  std::vector<FusionGroup> groups_;
};

struct Interval {
  ValueId home;         // kNone: scratch of the group
  int64_t first, last;  // groups
  int64_t bytes, offset;
};

int64_t round_up(int64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

// Largest first, each at the lowest offset that is free during its whole life.
int64_t place(std::vector<Interval>& intervals) {
  std::stable_sort(intervals.begin(), intervals.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  int64_t total = 0;
  std::vector<const Interval*> overlapping;
  for (size_t i = 0; i < intervals.size(); ++i) {
    overlapping.clear();
    for (size_t k = 0; k < i; ++k) {
      if (intervals[k].first <= intervals[i].last && intervals[i].first <= intervals[k].last) {
        overlapping.push_back(&intervals[k]);
      }
    }
    std::sort(overlapping.begin(), overlapping.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
    int64_t offset = 0;
    for (const Interval* other : overlapping) {
      if (other->offset >= offset + intervals[i].bytes) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    intervals[i].offset = offset;
    total = std::max(total, offset + intervals[i].bytes);
  }
  return total;
}

}  // namespace

std::vector<FusionGroup> fuse(const Graph& graph, const FuseOptions& options) {
  return Fuser(graph, options).run();
}

std::string group_text(const Graph& graph, const FusionGroup& group) {
  std::string text;
  for (NodeId id : group.nodes) text += fmt::format("{}{}", text.empty() ? "" : "+", node_name(graph.node(id)));
  return text;
}

double group_flops(const Graph& graph, const FusionGroup& group) {
  double flops = 0;
  for (NodeId id : group.nodes) flops += node_flops(graph, graph.node(id));
  return flops;
}

MemoryPlan plan_memory(const Graph& graph, const std::vector<FusionGroup>& groups, std::span<const GroupMemory> needs) {
  TCC_CHECK(needs.empty() || needs.size() == groups.size());
  MemoryPlan plan;
  plan.storage.resize(graph.values.size());
  auto storage = [&](ValueId id) -> ValueStorage& { return plan.storage[static_cast<size_t>(id)]; };
  for (const Value& value : graph.values) {
    if (value.is_constant()) storage(value.id) = {StorageKind::kConstant, 0, 0, value.bytes()};
  }
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    storage(graph.inputs[i]) = {StorageKind::kInput, static_cast<int64_t>(i), 0, graph.value(graph.inputs[i]).bytes()};
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    ValueId root = storage_root(graph, graph.outputs[i]);
    TCC_CHECK(graph.value(root).producer != kNone && storage(root).kind == StorageKind::kNone,
              "output {} has no storage of its own", i);
    storage(root) = {StorageKind::kOutput, static_cast<int64_t>(i), 0, graph.value(root).bytes()};
  }

  // Parts of a Join are made in its result: the outermost Join is the home of all.
  std::map<ValueId, Place> joined;
  for (NodeId id : graph.order) {
    const Node& node = graph.node(id);
    if (node.op != Op::kJoin) continue;
    int64_t at = 0;
    for (ValueId part : node.inputs) {
      joined[storage_root(graph, part)] = {node.output, at};
      at += graph.value(part).bytes();
    }
  }
  auto home_of = [&](ValueId value) {
    Place place = place_of(graph, value);
    for (auto it = joined.find(place.root); it != joined.end(); it = joined.find(place.root))
      place = {it->second.root, place.offset + it->second.offset};
    return place;
  };

  std::map<ValueId, Interval> lives;
  auto live = [&](ValueId value, int64_t group) {
    const ValueId home = home_of(value).root;
    if (storage(home).kind != StorageKind::kNone) return;
    const int64_t bytes = round_up(graph.value(home).bytes());
    Interval& interval = lives.try_emplace(home, Interval{home, group, group, bytes, 0}).first->second;
    interval.last = std::max(interval.last, group);
  };
  for (const FusionGroup& group : groups) {
    live(group.output, group.id);
    for (ValueId id : group.inputs) live(id, group.id);
  }
  for (const auto& [home, interval] : lives) plan.unshared_bytes += interval.bytes;

  // Outputs that take the place of an input, which is the home of both from then on.
  std::map<ValueId, ValueId> taken;
  auto settled = [&](ValueId home) {
    for (auto it = taken.find(home); it != taken.end(); it = taken.find(home)) home = it->second;
    return home;
  };
  for (size_t g = 0; g < needs.size(); ++g) {
    const FusionGroup& group = groups[g];
    const Place place = home_of(group.output);
    const auto output = lives.find(place.root);
    // A part of a Join is made beside others.
    if (output == lives.end() || graph.value(place.root).bytes() != graph.value(group.output).bytes()) continue;
    const auto may_take = [&](ValueId home) {
      const auto input = lives.find(home);
      const bool ends = input != lives.end() && input->second.last == group.id && input->second.first < group.id;
      return ends && graph.value(home).bytes() == graph.value(place.root).bytes() &&
             std::all_of(group.inputs.begin(), group.inputs.end(), [&](ValueId id) {
               const auto& allowed = needs[g].overwritable;
               if (settled(home_of(id).root) != home) return true;
               return graph.value(id).bytes() == graph.value(home).bytes() &&
                      std::find(allowed.begin(), allowed.end(), id) != allowed.end();
             });
    };
    for (ValueId id : needs[g].overwritable) {
      const ValueId home = settled(home_of(id).root);
      if (!may_take(home)) continue;
      lives.at(home).last = output->second.last;
      taken[place.root] = home;
      lives.erase(output);
      break;
    }
  }

  std::vector<Interval> intervals;
  for (const auto& [home, interval] : lives) intervals.push_back(interval);
  std::map<int64_t, size_t> numbers;  // of groups by their ids
  for (size_t g = 0; g < needs.size(); ++g) {
    numbers[groups[g].id] = g;
    if (needs[g].scratch_bytes > 0)
      intervals.push_back({kNone, groups[g].id, groups[g].id, round_up(needs[g].scratch_bytes), 0});
  }
  std::stable_sort(intervals.begin(), intervals.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  plan.workspace_bytes = place(intervals);
  plan.scratch.resize(needs.size());
  for (const Interval& interval : intervals)
    if (interval.home == kNone)
      plan.scratch[numbers.at(interval.first)] = interval.offset;
    else
      storage(interval.home) = {StorageKind::kWorkspace, 0, interval.offset, graph.value(interval.home).bytes()};
  for (const auto& [output, input] : taken) storage(output) = storage(settled(input));
  auto settle = [&](ValueId value) {
    const Place place = home_of(value);
    ValueStorage there = storage(place.root);
    if (there.kind == StorageKind::kNone) return;
    there.offset += place.offset;
    there.bytes = graph.value(value).bytes();
    storage(value) = there;
  };
  for (const FusionGroup& group : groups)
    if (storage(group.output).kind == StorageKind::kNone) settle(group.output);
  for (NodeId id : graph.order)
    if (op_class(graph.node(id).op) == OpClass::kView) settle(graph.node(id).output);
  return plan;
}

}  // namespace tcc::graph
