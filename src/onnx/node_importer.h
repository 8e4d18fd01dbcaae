// The nodes of a model's graph, of the bodies of its control flow and of its functions, imported into one tensor graph.
//
// Bodies and functions are inlined: every call imports the nodes again, under new names of their own. A loop so becomes
// its iterations one after the other, as the number of them is known when the model is compiled.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "handlers.h"
#include "tcc/support/files.h"

namespace tcc::onnx {

using NodeList = google::protobuf::RepeatedPtrField<tcc_onnx::Node>;
using Opsets = std::map<std::string, int64_t>;  // by domain; "" is ai.onnx

constexpr int64_t kMaxInlinedNodes = 100'000;  // of bodies and functions, in all
constexpr int kMaxCallDepth = 64;              // bodies and functions within each other

// The names that nodes may read.
struct Scope {
  const Scope* outer = nullptr;  // of a body: the scope around it
  const Opsets* opsets = nullptr;
  // Of a function: the attributes of the call, which its nodes refer to.
  const std::map<std::string, const tcc_onnx::Attribute*>* attributes = nullptr;
  std::unordered_map<std::string, Item> items = {};

  const Item* find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
      if (auto it = scope->items.find(name); it != scope->items.end()) return &it->second;
    }
    return nullptr;
  }
};

// "'name'", or, where the model gives none, the position and the first output.
std::string node_text(const NodeList& nodes, int i);
std::string domain_of(const tcc_onnx::Node& node);
// Opsets as a model or a function lists them.
Result<Opsets> read_opsets(const google::protobuf::RepeatedPtrField<tcc_onnx::OperatorSet>& imports,
                           const std::string& what);

class NodeImporter final : public BodyImporter {
 public:
  // `name` is the file's. Nodes that are made of copies of messages are kept alive by `copies`.
  NodeImporter(const tcc_onnx::Model& model, ImportState& state, std::list<tcc_onnx::Node>& copies, std::string name,
               double seconds);

  // One report of everything that is not supported in these nodes, in bodies that run in any case and in the functions
  // that they call. Branches of If are checked when they are taken.
  Result<void> check_operators(const NodeList& nodes, const Opsets& opsets);
  // In topological order, whatever the order in the file.
  Result<void> import_nodes(const NodeList& nodes, Scope& scope);
  Result<void> read_initializer(const tcc_onnx::Tensor& tensor, Scope& scope);
  Result<Items> import_body(const tcc_onnx::Graph& body, const Items& inputs) override;

 private:
  struct Report;
  void collect(const NodeList& nodes, const Opsets& opsets, Report& report, int depth);
  Result<std::vector<int>> sort_nodes(const NodeList& nodes, const Scope& scope) const;
  Result<void> import_node(const NodeList& nodes, int i, Scope& scope);
  Result<void> import_node_unlabelled(const tcc_onnx::Node& node, Scope& scope);
  Result<void> import_call(const tcc_onnx::Node& node, const tcc_onnx::Function& function, const Items& inputs,
                           Scope& scope);
  Result<void> import_operator(const tcc_onnx::Node& node, Items inputs, Scope& scope);
  const tcc_onnx::Node& resolved(const tcc_onnx::Node& node, const Scope& scope);
  const tcc_onnx::Function* function_of(const tcc_onnx::Node& node) const;

  const tcc_onnx::Model& model_;
  ImportState& state_;
  std::list<tcc_onnx::Node>& copies_;
  std::string name_;
  double seconds_;
  Stopwatch watch_;
  Scope* scope_ = nullptr;  // of the node whose handler runs
  int depth_ = 0;
  int64_t inlined_ = 0, constant_bytes_ = 0;
  std::map<std::tuple<std::string, std::string, std::string>, const tcc_onnx::Function*> functions_;
  std::map<const tcc_onnx::Function*, Opsets> function_opsets_;
  std::set<const tcc_onnx::Function*> active_;  // whose nodes are being imported
  std::unordered_map<const NodeList*, std::vector<int>> orders_;
  std::unordered_map<const tcc_onnx::Tensor*, graph::ValueId> initializers_;  // of bodies
  std::set<const NodeList*> checked_;
};

}  // namespace tcc::onnx
