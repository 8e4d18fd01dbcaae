// Builds a graph as a user's model is built, and runs the library.
#pragma once

#include <catch2/catch.hpp>
#include <vector>

#include "tcc/driver/compile.h"
#include "tcc/graph/reference.h"
#include "tcc/package/loaded_model.h"
#include "tcc/support/files.h"
#include "tcc/target/target.h"

namespace tcc::driver_test {

// A library built from the graph without records, and its outputs for these inputs.
inline std::vector<std::vector<double>> run_built(const graph::Graph& graph,
                                                  const std::vector<graph::HostTensor>& inputs,
                                                  const target::Target& target = target::host_target()) {
  auto folder = TemporaryDirectory::create("tcc-graphs-test-");
  REQUIRE(folder.has_value());
  driver::Model model;
  model.source.model = "random.onnx";
  model.graph = graph;
  model.hash = "0000000000000000";
  driver::BuildOptions options;
  options.folder = (*folder)->path();
  options.targets = {target};
  auto report = driver::build_model(model, options);
  if (!report) FAIL(report.error().message);
  auto library = package::LoadedModel::open(report->package.library);
  REQUIRE(library.has_value());
  auto context = (*library)->create_context({.threads = 2});
  REQUIRE(context.has_value());
  std::vector<std::vector<std::byte>> in, out;
  std::vector<const void*> in_pointers;
  std::vector<void*> out_pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const graph::Value& v = graph.value(graph.inputs[i]);
    const graph::Constant bytes = graph::make_constant_from_doubles(v.dtype, inputs[i].data);
    in.emplace_back(bytes.bytes.begin(), bytes.bytes.end());
  }
  for (graph::ValueId id : graph.outputs) out.emplace_back(static_cast<size_t>(graph.value(id).bytes()));
  for (auto& bytes : in) in_pointers.push_back(bytes.data());
  for (auto& bytes : out) out_pointers.push_back(bytes.data());
  REQUIRE((*context)->run(in_pointers, out_pointers).has_value());
  std::vector<std::vector<double>> values;
  for (size_t i = 0; i < out.size(); ++i) {
    const graph::Value& v = graph.value(graph.outputs[i]);
    values.push_back(graph::constant_doubles(graph::make_constant(out[i]), v.dtype, v.elements()));
  }
  return values;
}

}  // namespace tcc::driver_test
