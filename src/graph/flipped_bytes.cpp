// Numbers of 8 bits that a product takes with the other sign (quantized.cpp), and that others read as floats:
//
//   v = Cast(.., u8);  product(Cast(Cast(v, i32) - 128, i8));  Cast(v, f32)
//     becomes
//   s = Cast(Cast(v, i32) - 128, i8);  product(s);  Cast(s, f32) + 128
//
// Then nothing but s is in memory: v is computed where s is, in the kernel that makes both.
#include <algorithm>
#include <map>

#include "rewrite.h"

namespace tcc::graph {
namespace {

class FlippedReader {
 public:
  explicit FlippedReader(Graph& graph) : graph_(graph), consumers_(find_consumers(graph)) {}

  void run() {
    for (NodeId id : graph_.order)
      if (const std::optional<Chain> chain = chain_to(graph_.node(id)); chain && is_shared(*chain))
        chains_.emplace(chain->from, *chain);
    if (chains_.empty()) return;
    const std::vector<NodeId> order = std::move(graph_.order);
    graph_.order.clear();
    std::vector<char> placed(graph_.nodes.size(), 0);
    Replacements replacements(graph_);
    for (NodeId id : order) {
      if (placed[static_cast<size_t>(id)]) continue;
      replacements.update(graph_.node(id));
      const Node node = graph_.node(id);
      const auto read = node.op == Op::kCast ? chains_.find(node.inputs[0]) : chains_.end();
      if (read != chains_.end()) {
        replacements.replace(node.output, read_flipped(node, read->second));
        continue;
      }
      graph_.order.push_back(id);
      // Behind the value, in front of all that reads it.
      if (const auto made = chains_.find(node.output); made != chains_.end())
        for (NodeId member : made->second.nodes) {
          graph_.order.push_back(member);
          placed[static_cast<size_t>(member)] = 1;
        }
    }
    replacements.update_outputs();
  }

 private:
  struct Chain {
    ValueId from = kNone, to = kNone;
    double moved = 0;  // what is added on the way
    std::vector<NodeId> nodes;
  };

  const Node* maker(ValueId id, Op op) const {
    const NodeId producer = graph_.value(id).is_constant() ? kNone : graph_.value(id).producer;
    return producer != kNone && graph_.node(producer).op == op ? &graph_.node(producer) : nullptr;
  }
  bool read_once(ValueId id) const { return consumers_[static_cast<size_t>(id)].size() == 1 && !is_output(id); }
  bool is_output(ValueId id) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
  }

  // Ends the node a chain?
  std::optional<Chain> chain_to(const Node& last) const {
    if (last.op != Op::kCast || !is_byte(last.as<CastAttrs>().to)) return std::nullopt;
    const Node* add = maker(last.inputs[0], Op::kAdd);
    if (add == nullptr || !read_once(add->output)) return std::nullopt;
    const Node* wide = maker(add->inputs[0], Op::kCast);
    const Value& half = graph_.value(add->inputs[1]);
    if (wide == nullptr || !read_once(wide->output) || half.dtype != DType::kI32 || !half.is_constant() ||
        half.elements() != 1)
      return std::nullopt;
    const ValueId from = wide->inputs[0];
    const DType own = graph_.value(from).dtype, to = last.as<CastAttrs>().to;
    const double moved = constant_element(*half.constant, half.dtype, 0);
    if (!is_byte(own) || own == to || moved != (to == DType::kU8 ? 128 : -128)) return std::nullopt;
    return Chain{from, last.output, moved, {wide->id, add->id, last.id}};
  }

  // A value that some kernel computes, that others read, too, and all of them as wider numbers.
  bool is_shared(const Chain& chain) const {
    if (maker(chain.from, Op::kCast) == nullptr || is_output(chain.from)) return false;
    const std::vector<NodeId>& readers = consumers_[static_cast<size_t>(chain.from)];
    return readers.size() > 1 && std::all_of(readers.begin(), readers.end(), [&](NodeId id) {
             const Node& node = graph_.node(id);
             if (node.op != Op::kCast) return false;
             const DType to = node.as<CastAttrs>().to;
             return id == chain.nodes[0] || to == DType::kF32 || to == DType::kI32;
           });
  }

  ValueId read_flipped(const Node& cast, const Chain& chain) {
    const DType to = cast.as<CastAttrs>().to;
    const ValueId wide = emit_node(graph_, Op::kCast, CastAttrs{to}, {chain.to}, cast);
    const ValueId back = graph_.add_constant("", to, {}, make_splat(to, -chain.moved));
    return emit_node(graph_, Op::kAdd, NoAttrs{}, {wide, back}, cast);
  }

  Graph& graph_;
  const std::vector<std::vector<NodeId>> consumers_;
  std::map<ValueId, Chain> chains_;  // by Chain::from
};

}  // namespace

void read_flipped_bytes(Graph& graph) {
  FlippedReader(graph).run();
}

}  // namespace tcc::graph
