// A graph of one group: its nests under the interpreter against the graph's own definition.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <vector>

#include "task/nest.h"
#include "tcc/graph/reference.h"
#include "tcc/interp/interp.h"
#include "tcc/ir/text.h"
#include "tcc/ir/verify.h"
#include "tcc/task/task.h"

namespace tcc::task_test {

using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Shape;
using graph::ValueId;

// u32 and u64 as kernels hold them, in the signed type, and back.
inline std::vector<double> shifted_range(std::vector<double> values, DType dtype, bool hold) {
  const double range = dtype == DType::kU64 ? 0x1p64 : dtype == DType::kU32 ? 0x1p32 : 0;
  for (double& x : values)
    if (hold ? range > 0 && x >= range / 2 : x < 0 && range > 0) x += hold ? -range : range;
  return values;
}

struct Model {
  Graph g;
  std::map<ValueId, std::vector<double>> data;
  task::TaskOptions options;

  ValueId input(DType dtype, Shape shape, std::vector<double> values) {
    REQUIRE(static_cast<int64_t>(values.size()) == graph::element_count(shape));
    ValueId id = g.add_input("x", dtype, shape);
    data[id] = graph::constant_doubles(graph::make_constant_from_doubles(dtype, values), dtype,
                                       static_cast<int64_t>(values.size()));
    return id;
  }
  ValueId node(Op op, graph::Attributes attrs, std::vector<ValueId> inputs) {
    auto id = g.add_node(op, std::move(attrs), std::move(inputs), "node");
    if (!id) FAIL(id.error().message);
    return *id;
  }
  // Interprets the one group and compares with the reference. Returns the values.
  std::vector<double> check(ValueId y, double tolerance) {
    g.add_output(y, "y");
    auto groups = graph::fuse(g);
    REQUIRE(groups.size() == 1);
    auto task = task::make_task(g, groups[0], options);
    REQUIRE(task.has_value());
    INFO(task->workload << "\n" << ir::print(task->kernel));
    REQUIRE(ir::verify(task->kernel).empty());
    std::vector<interp::TensorData> tensors;
    std::vector<graph::HostTensor> inputs;
    for (ValueId id : g.inputs) inputs.push_back({g.value(id).shape, data.at(id)});
    for (const task::ParamSource& p : task->params) {
      const graph::Value& v = g.value(p.value);
      ir::Type type = task::ir_type(v.dtype);
      if (p.kind == task::ParamKind::kOutput) tensors.push_back(interp::TensorData::zeros(type, v.shape));
      if (p.kind == task::ParamKind::kInput)
        tensors.push_back(
            interp::TensorData::from_doubles(type, v.shape, shifted_range(data.at(p.value), v.dtype, true)));
      if (p.kind == task::ParamKind::kConstant)
        tensors.push_back(interp::TensorData::from_doubles(
            type, v.shape, shifted_range(graph::constant_doubles(*v.constant, v.dtype, v.elements()), v.dtype, true)));
    }
    std::vector<interp::TensorData*> params;
    for (auto& t : tensors) params.push_back(&t);
    interp::Report report = interp::run(task->kernel, params);
    INFO(report.text());
    REQUIRE(report.ok());
    auto expected = graph::run_reference(g, inputs, 1);
    REQUIRE(expected.has_value());
    const std::vector<double> got = shifted_range(tensors.back().to_doubles(), g.value(y).dtype, false);
    const std::vector<double>& want = expected->at(0).data;
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      INFO("element " << i << ": " << got[i] << ", expected " << want[i]);
      bool same = (std::isnan(got[i]) && std::isnan(want[i])) || got[i] == want[i] ||
                  std::fabs(got[i] - want[i]) <= tolerance * std::max(1.0, std::fabs(want[i]));
      REQUIRE(same);
    }
    return got;
  }
};

}  // namespace tcc::task_test
