#include "tcc/driver/dynamic.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>
#include <tuple>

#include "driver/build.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/forms.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

bool parse_size(std::string_view text, int64_t& size) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  return error == std::errc() && end == text.data() + text.size();
}

tl::unexpected<Error> bad_range(const std::string& name, const std::string& text, const std::string& expected) {
  return make_error(ErrorClass::kUsage,
                    fmt::format("--dim {}={}: expected {}", sanitize(name), sanitize(text), expected),
                    "write a range as LOW..HIGH, with sizes to tune for as LOW..HIGH@A,B: --dim batch=1..64@8,32");
}

// The sizes of one dimension that kernels are made for.
std::vector<int64_t> bounds_of(const graph::DimRange& range) {
  std::vector<int64_t> bounds = range.tuned;
  if (bounds.empty() || bounds.back() != range.high) bounds.push_back(range.high);
  return bounds;
}

std::map<std::string, int64_t> named(const std::vector<graph::DimRange>& ranges, const std::vector<int64_t>& sizes) {
  std::map<std::string, int64_t> result;
  for (size_t i = 0; i < ranges.size(); ++i) result[ranges[i].name] = sizes[i];
  return result;
}

// The model at several sizes, each imported once.
class Imports {
 public:
  explicit Imports(const Model& model) : model_(model) {}

  Result<std::shared_ptr<const graph::Graph>> at(const std::vector<int64_t>& sizes) {
    auto known = graphs_.find(sizes);
    if (known != graphs_.end()) return known->second;
    TCC_TRY(Model model, load_model(source_at(model_.source, named(model_.source.ranges, sizes))));
    return graphs_[sizes] = std::make_shared<const graph::Graph>(std::move(model.graph));
  }

 private:
  const Model& model_;
  std::map<std::vector<int64_t>, std::shared_ptr<const graph::Graph>> graphs_;
};

// Near the bounds: further away a model may have other nodes, and beyond them no positions. An extent of 1 broadcasts.
Result<std::vector<std::vector<int64_t>>> probe_sizes(const Model& model, Imports& imports,
                                                      const std::vector<int64_t>& bounds,
                                                      const std::vector<int32_t>& symbols) {
  std::vector<std::vector<int64_t>> probes;
  std::vector<int64_t> all = bounds;
  for (int32_t symbol : symbols) {
    const auto s = static_cast<size_t>(symbol);
    std::optional<Error> refused;
    size_t found = 0;
    for (int64_t step : {-1, -2, -3, 1, 2, 3}) {
      std::vector<int64_t> sizes = bounds;
      sizes[s] += step;
      if (sizes[s] < 2 || found == 2) continue;
      if (auto graph = imports.at(sizes); !graph) {
        if (!refused) refused = std::move(graph).error().with_context(sizes_text(named(model.source.ranges, sizes)));
        continue;
      }
      if (found++ == 0) all[s] = sizes[s];
      probes.push_back(sizes);
    }
    if (found == 2) continue;
    refused->hint = fmt::format("give '{}' one size, as in --dim {}={}", sanitize(model.source.ranges[s].name),
                                sanitize(model.source.ranges[s].name), bounds[s]);
    return tl::make_unexpected(std::move(*refused));
  }
  if (symbols.size() > 1) probes.push_back(all);
  return probes;
}

struct Bucket {
  graph::BoundGraph bound;
  std::vector<int32_t> symbols;  // the dimensions whose sizes the graph reads, behind the model's inputs
};

Result<Bucket> bind_bucket(const Model& model, Imports& imports, const std::vector<int64_t>& bounds) {
  const std::vector<graph::DimRange>& ranges = model.source.ranges;
  Bucket bucket;
  for (size_t s = 0; s < ranges.size(); ++s)
    if (bounds[s] > ranges[s].low) bucket.symbols.push_back(static_cast<int32_t>(s));
  TCC_TRY(const auto graph, imports.at(bounds));
  TCC_TRY(const auto sizes, probe_sizes(model, imports, bounds, bucket.symbols));
  std::vector<std::string> names;
  std::vector<int64_t> own_bounds;
  for (int32_t s : bucket.symbols) {
    names.push_back(ranges[static_cast<size_t>(s)].name);
    own_bounds.push_back(bounds[static_cast<size_t>(s)]);
  }
  std::vector<std::shared_ptr<const graph::Graph>> graphs;
  std::vector<graph::Probe> probes;
  for (const std::vector<int64_t>& probe : sizes) {
    TCC_TRY(const auto at, imports.at(probe));
    graphs.push_back(at);
    std::vector<int64_t> own;
    for (int32_t s : bucket.symbols) own.push_back(probe[static_cast<size_t>(s)]);
    probes.push_back({std::move(own), graphs.back().get()});
  }
  TCC_TRY(bucket.bound, graph::bind_dims(*graph, names, own_bounds, probes));
  return bucket;
}

// Puts graphs one behind the other into one, constants of the same bytes once.
class Joiner {
 public:
  explicit Joiner(graph::Graph& to) : to_(to) {}

  void append(const graph::Graph& from, std::vector<graph::FusionGroup> groups,
              std::vector<graph::FusionGroup>& joined) {
    values_.assign(from.values.size(), graph::kNone);
    std::vector<graph::NodeId> nodes(from.nodes.size(), graph::kNone);
    if (to_.name.empty()) to_.name = from.name;
    if (to_.sources.empty()) to_.sources = from.sources;
    if (to_.data_files.empty()) to_.data_files = from.data_files;
    to_.fast_math = from.fast_math;
    for (graph::ValueId id : from.inputs) to_.inputs.push_back(value_of(from, id));
    for (graph::NodeId id : from.order) {
      graph::Node node = from.node(id);
      for (graph::ValueId& input : node.inputs) input = value_of(from, input);
      node.output = value_of(from, node.output);
      node.id = nodes[static_cast<size_t>(id)] = static_cast<graph::NodeId>(to_.nodes.size());
      to_.value(node.output).producer = node.id;
      to_.order.push_back(node.id);
      to_.nodes.push_back(std::move(node));
    }
    for (size_t i = 0; i < from.outputs.size(); ++i)
      to_.add_output(value_of(from, from.outputs[i]), from.output_names[i]);
    for (graph::FusionGroup& group : groups) {
      group.id = std::ssize(joined);
      group.anchor = nodes[static_cast<size_t>(group.anchor)];
      for (graph::NodeId& node : group.nodes) node = nodes[static_cast<size_t>(node)];
      for (auto* list : {&group.inputs, &group.constants})
        for (graph::ValueId& value : *list) value = value_of(from, value);
      group.output = value_of(from, group.output);
      joined.push_back(std::move(group));
    }
  }

 private:
  graph::ValueId value_of(const graph::Graph& from, graph::ValueId id) {
    graph::ValueId& now = values_[static_cast<size_t>(id)];
    if (now != graph::kNone) return now;
    const graph::Value& value = from.value(id);
    if (value.is_constant()) {
      const graph::Constant& c = *value.constant;
      const uint64_t hash = hash_bytes({reinterpret_cast<const char*>(c.bytes.data()), c.bytes.size()});
      std::vector<graph::ValueId>& same = constants_[{hash, value.dtype, value.shape, c.splat}];
      for (graph::ValueId other : same)
        if (std::ranges::equal(to_.value(other).constant->bytes, c.bytes)) return now = other;
      now = copy(value);
      same.push_back(now);
      return now;
    }
    return now = copy(value);
  }
  graph::ValueId copy(graph::Value value) {
    value.id = static_cast<graph::ValueId>(to_.values.size());
    value.producer = graph::kNone;
    to_.values.push_back(std::move(value));
    return to_.values.back().id;
  }

  graph::Graph& to_;
  std::vector<graph::ValueId> values_;
  std::map<std::tuple<uint64_t, graph::DType, graph::Shape, bool>, std::vector<graph::ValueId>> constants_;
};

}  // namespace

Result<graph::DimRange> parse_range(const std::string& name, const std::string& text) {
  graph::DimRange range;
  range.name = name;
  const size_t dots = text.find(".."), at = std::min(text.find('@'), text.size());
  if (dots == std::string::npos || at < dots || !parse_size(std::string_view(text).substr(0, dots), range.low) ||
      !parse_size(std::string_view(text).substr(dots + 2, at - dots - 2), range.high))
    return bad_range(name, text, "two numbers around '..'");
  if (range.low < 1) return bad_range(name, text, fmt::format("a lowest size from 1 on, found {}", range.low));
  if (range.high <= range.low)
    return bad_range(name, text, fmt::format("a highest size above {}, found {}", range.low, range.high));
  if (range.high > graph::kMaxElements)
    return bad_range(name, text, fmt::format("a highest size of at most {}", graph::kMaxElements));
  std::set<int64_t> tuned;
  for (size_t from = at; from < text.size();) {
    const size_t end = std::min(text.find(',', from + 1), text.size());
    const std::string word = text.substr(from + 1, end - from - 1);
    int64_t size = 0;
    if (!parse_size(word, size)) return bad_range(name, text, fmt::format("a size behind '@', found '{}'", word));
    if (size < range.low || size > range.high)
      return bad_range(name, text,
                       fmt::format("sizes to tune for from {} to {}, found {}", range.low, range.high, size));
    tuned.insert(size);
    from = end;
  }
  range.tuned.assign(tuned.begin(), tuned.end());
  return range;
}

Result<std::vector<std::vector<int64_t>>> bucket_bounds(const std::vector<graph::DimRange>& ranges) {
  std::vector<std::vector<int64_t>> all{{}};
  for (const graph::DimRange& range : ranges) {
    std::vector<std::vector<int64_t>> longer;
    for (const auto& bounds : all)
      for (int64_t bound : bounds_of(range)) {
        longer.push_back(bounds);
        longer.back().push_back(bound);
      }
    if (longer.size() > kMaxBuckets)
      return make_error(ErrorClass::kUsage,
                        fmt::format("--dim: expected at most {} combinations of sizes to tune for, found {} or more",
                                    kMaxBuckets, longer.size()),
                        "name fewer sizes behind '@'");
    all = std::move(longer);
  }
  auto volume = [](const std::vector<int64_t>& bounds) {
    double product = 1;
    for (int64_t bound : bounds) product *= static_cast<double>(bound);
    return product;
  };
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return volume(a) < volume(b); });
  return all;
}

std::string sizes_text(const std::map<std::string, int64_t>& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", sanitize(name), size);
  return text;
}

ModelSource source_at(const ModelSource& source, const std::map<std::string, int64_t>& sizes) {
  ModelSource fixed = source;
  fixed.ranges.clear();
  for (const auto& [name, size] : sizes) fixed.import_options.dims[name] = size;
  return fixed;
}

std::vector<std::map<std::string, int64_t>> sizes_to_check(const std::vector<graph::DimRange>& ranges, size_t most) {
  std::vector<std::vector<int64_t>> lists;
  size_t longest = 0;
  for (const graph::DimRange& range : ranges) {
    std::vector<int64_t> list{range.low, range.high};
    auto add = [&](int64_t size) {
      if (size >= range.low && size <= range.high && std::find(list.begin(), list.end(), size) == list.end())
        list.push_back(size);
    };
    for (int64_t size : range.tuned) add(size);
    for (int64_t size : bounds_of(range)) add(size - 1);
    for (int64_t size : bounds_of(range)) add(size + 1);
    add((range.low + range.high) / 2 | 1);
    add((3 * range.low + range.high) / 4 | 1);
    longest = std::max(longest, list.size());
    lists.push_back(std::move(list));
  }
  std::vector<std::map<std::string, int64_t>> all;
  for (size_t k = 0; k < longest && all.size() < most; ++k) {
    std::map<std::string, int64_t> sizes;
    // Different lists are out of step, so that a small size of one meets a large one of another.
    for (size_t i = 0; i < ranges.size(); ++i) {
      const std::vector<int64_t>& list = lists[i];
      sizes[ranges[i].name] = list[(k < 2 ? k : k + i) % list.size()];
    }
    if (std::find(all.begin(), all.end(), sizes) == all.end()) all.push_back(std::move(sizes));
  }
  return all;
}

Result<Program> make_dynamic_program(const Model& model, const target::Target& target, const FormRecords& records) {
  if (!backend::backend_of(target).runs_on_host(target))
    return make_error(ErrorClass::kUsage,
                      fmt::format("--dim with a range: expected a CPU as target, found '{}'", sanitize(target.name)),
                      "give each dimension one size, or take --target host");
  if (model.graph.counts > 0)
    return make_error(
        ErrorClass::kUsage,
        fmt::format("--dim with a range: output '{}' has an extent that depends on the data, too",
                    sanitize(model.graph.output_names[static_cast<size_t>(model.graph.counted_axes.at(0).output)])),
        "give each dimension one size");
  TCC_TRY(const auto buckets, bucket_bounds(model.source.ranges));
  Program program;
  package::DynamicPlan plan;
  plan.dims = model.source.ranges;
  Imports imports(model);
  Joiner joiner(program.graph);
  for (const std::vector<int64_t>& bounds : buckets) {
    TCC_TRY(Bucket bucket, bind_bucket(model, imports, bounds));
    TCC_TRY_VOID(optimize_graph(bucket.bound.graph, model.source, target));
    auto groups = graph::fuse(bucket.bound.graph, {.attention = true});
    program.flops = 0;  // of the largest sizes
    for (const graph::FusionGroup& group : groups) program.flops += graph::group_flops(bucket.bound.graph, group);
    plan.buckets.push_back({bounds, std::ssize(program.groups), std::ssize(groups)});
    const auto inputs = static_cast<int32_t>(bucket.bound.inputs.size());
    for (int32_t i = 0; i < inputs; ++i) plan.input_numbers.push_back(i);
    for (int32_t symbol : bucket.symbols) plan.input_numbers.push_back(inputs + symbol);
    for (size_t i = 0; i < bucket.bound.outputs.size(); ++i) plan.output_numbers.push_back(static_cast<int32_t>(i));
    joiner.append(bucket.bound.graph, std::move(groups), program.groups);
    // The last bucket, in which every dimension has a range.
    plan.inputs = std::move(bucket.bound.inputs);
    plan.outputs = std::move(bucket.bound.outputs);
    plan.appends_to = std::move(bucket.bound.appends_to);
    plan.append_axis = std::move(bucket.bound.append_axis);
  }
  TCC_TRY(program.tasks, task::extract_tasks(program.graph, program.groups, task_options(model.source, target)));
  TCC_TRY_VOID(decide_forms(program, model.source, target, records));
  program.dynamic = std::move(plan);
  return program;
}

}  // namespace tcc::driver
