// What tests of damaged files do with any bytes.
#pragma once

#include <memory>
#include <string>

#include "graph/print_graph.h"
#include "tcc/graph/passes.h"
#include "tcc/onnx/importer.h"

namespace tcc::onnx_test {

enum class AnyBytes { kImported, kRefused, kRefusedWithoutReason };

// Import, inference of shapes, folding and fusion, as every command does them.
inline AnyBytes import_and_fold(std::string bytes, const onnx::ImportOptions& options = {}) {
  auto graph = onnx::import_bytes(std::make_shared<const std::string>(std::move(bytes)), "damaged.onnx", options);
  if (!graph) return graph.error().message.empty() ? AnyBytes::kRefusedWithoutReason : AnyBytes::kRefused;
  graph::verify_graph(*graph);
  auto evaluator = graph::reference_evaluator();
  if (graph::optimize(*graph, evaluator.get())) {
    graph::plan_memory(*graph, graph::fuse(*graph, {.attention = true}));
    graph::print_graph(*graph);
  }
  return AnyBytes::kImported;
}

}  // namespace tcc::onnx_test
