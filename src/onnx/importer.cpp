// Bytes -> messages -> pre-flight report -> topological order -> one pass that evaluates, infers and emits.
#include "tcc/onnx/importer.h"

#include <fmt/ranges.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <queue>
#include <set>
#include <unordered_map>

#include "handlers.h"
#include "limits.h"
#include "tcc/graph/reference.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"
#include "wire.h"

namespace tcc::onnx {
namespace {

using graph::ValueId;

constexpr int64_t kMaxConstantBytes = int64_t{1} << 36;  // as if all splats were written out
constexpr size_t kMaxReportLines = 50;

struct Magic {
  std::string_view bytes;
  const char* what;
};
constexpr Magic kForeignFiles[] = {
    {"PK\x03\x04", "a ZIP archive (a PyTorch checkpoint?); export it with torch.onnx.export"},
    {"\x89HDF", "an HDF5 file (a Keras model?); convert it with tf2onnx"},
    {"\x7f"
     "ELF",
     "an ELF binary"},
    {"\x1f\x8b", "a gzip file; unpack it first"},
    {"version https://git-lfs", "a Git LFS pointer; run 'git lfs pull'"},
    {"<", "HTML or XML: the download may have failed"},
    {"{", "JSON"},
};

tl::unexpected<Error> not_onnx(const std::string& name, std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string message = fmt::format("'{}' is not an ONNX model, or is damaged or truncated", sanitize(name));
  for (const Magic& magic : kForeignFiles) {
    if (text.starts_with(magic.bytes)) {
      return make_error(ErrorClass::kInput, fmt::format("'{}' is not an ONNX model", sanitize(name)),
                        fmt::format("it looks like {}", magic.what));
    }
  }
  return make_error(ErrorClass::kInput, message, "give a file written by an ONNX exporter, or zoo:NAME");
}

// A parsed model. Large weights stay in the file's bytes.
struct ParsedModel {
  std::shared_ptr<const tcc_onnx::Model> message;
  std::vector<std::optional<std::span<const std::byte>>> raw;  // by initializer; empty: all are in the message
  std::shared_ptr<const void> owner;                           // of the bytes
};

class Importer {
 public:
  Importer(ParsedModel parsed, std::string name, const ImportOptions& options, const std::string& folder)
      : parsed_(std::move(parsed)),
        model_(parsed_.message),
        proto_(model_->graph()),
        name_(std::move(name)),
        options_(options),
        files_(folder, options.external_symlinks) {}

  Result<graph::Graph> run() {
    graph_.name = proto_.name();
    TCC_TRY_VOID(check_header());
    TCC_TRY_VOID(check_operators());
    TCC_TRY_VOID(read_initializers());
    TCC_TRY_VOID(bind_inputs());
    TCC_TRY(std::vector<int> order, sort_nodes());
    Stopwatch watch;
    for (int i : order) {
      if (watch.seconds() > options_.seconds) return too_slow(watch.seconds(), i);
      auto imported = import_node(i);
      if (imported) continue;
      if (options_.inputs_to_freeze)
        options_.inputs_to_freeze->assign(state_.to_freeze.begin(), state_.to_freeze.end());
      return tl::make_unexpected(std::move(imported).error());
    }
    TCC_TRY_VOID(check_declared(proto_.value_info()));
    TCC_TRY_VOID(check_declared(proto_.output()));
    TCC_TRY_VOID(collect_outputs());
    graph_.data_files = files_.opened();
    return std::move(graph_);
  }

 private:
  tl::unexpected<Error> too_slow(double seconds, int node) const {
    return make_error(ErrorClass::kInput,
                      fmt::format("'{}' is given up after {:.3g} s of folding its constants, at {}", sanitize(name_),
                                  seconds, node_text(node)),
                      "fold them beforehand (onnxsim), or split the model");
  }

  Result<void> check_header() {
    if (proto_.sparse_initializer_size() > 0) {
      return refuse(Refusal::kNotATensor, "'{}' has {} sparse initializers, which are not supported", sanitize(name_),
                    proto_.sparse_initializer_size());
    }
    for (const auto& import : model_->opset_import()) {
      const std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
      if (import.version() < 1)
        return input_error("'{}' imports opset {} of domain '{}'", sanitize(name_), import.version(), sanitize(domain));
      opsets_[domain] = import.version();
    }
    // Files before IR version 3 name no opset: they use the first.
    if (opsets_.empty()) opsets_[""] = 1;
    return {};
  }

  int64_t opset_of(const std::string& domain) const {
    auto it = opsets_.find(domain);
    return it == opsets_.end() ? 0 : it->second;
  }
  static std::string domain_of(const tcc_onnx::Node& node) { return node.domain() == "ai.onnx" ? "" : node.domain(); }

  // One report of everything that is not supported.
  Result<void> check_operators() {
    struct Finding {
      int64_t count = 0;
      std::string first;
    };
    std::map<std::pair<std::string, std::string>, Finding> missing;
    std::unordered_map<std::string, bool> served;  // by domain and name
    int64_t nodes = 0;
    for (int i = 0; i < proto_.node_size(); ++i) {
      const auto& node = proto_.node(i);
      std::string domain = domain_of(node);
      auto [known, fresh] = served.try_emplace(domain + '\0' + node.op_type());
      if (fresh) known->second = find_operator(domain, node.op_type(), opset_of(domain)) != nullptr;
      if (known->second) continue;
      Finding& finding = missing[{domain, node.op_type()}];
      if (finding.count++ == 0) finding.first = node_text(i);
      ++nodes;
    }
    if (missing.empty()) return {};
    std::set<std::pair<std::string, std::string>> functions;
    for (const auto& function : model_->functions()) functions.emplace(function.domain(), function.name());
    std::vector<std::string> notes;
    for (const auto& [key, finding] : missing) {
      if (notes.size() == kMaxReportLines) {
        notes.push_back(fmt::format("... and {} more operators", missing.size() - kMaxReportLines));
        break;
      }
      const auto& [domain, op] = key;
      notes.push_back(fmt::format(
          "{}{}{}  opset {}  {} node{}  (first: {}){}", sanitize(domain, 60),
          domain.empty() ? "" : "::", sanitize(op, 60), opset_of(domain), finding.count, finding.count == 1 ? "" : "s",
          finding.first, functions.contains(key) ? "  a function of the model: inline it (onnx.inliner)" : ""));
    }
    return graph::refusal(Refusal::kOperator,
                          fmt::format("{} operator{} in '{}' {} not supported ({} of {} nodes)", missing.size(),
                                      missing.size() == 1 ? "" : "s", sanitize(name_),
                                      missing.size() == 1 ? "is" : "are", nodes, proto_.node_size()),
                          "'tcc ops' lists what is supported", std::move(notes));
  }

  std::string node_text(int i) const {
    const auto& node = proto_.node(i);
    if (!node.name().empty()) return fmt::format("'{}'", sanitize(node.name(), 80));
    if (node.output_size() > 0) return fmt::format("node {}, output '{}'", i, sanitize(node.output(0), 80));
    return fmt::format("node {}", i);
  }

  Result<void> read_initializers() {
    for (int i = 0; i < proto_.initializer_size(); ++i) {
      const auto& tensor = proto_.initializer(i);
      const std::string what = fmt::format("initializer '{}'", sanitize(tensor.name()));
      auto n = static_cast<size_t>(i);
      bool cut_out = n < parsed_.raw.size() && parsed_.raw[n].has_value();
      TCC_TRY(TensorConstant constant, cut_out ? read_raw_tensor(tensor, *parsed_.raw[n], parsed_.owner, files_, what)
                                               : read_tensor(tensor, model_, files_, what));
      ValueId id = graph_.add_constant(tensor.name(), constant.dtype, constant.shape, constant.constant);
      if (!values_.emplace(tensor.name(), id).second)
        return input_error("initializer '{}' appears twice", sanitize(tensor.name()));
    }
    return {};
  }

  void need_flag(std::string flag) {
    if (std::find(flags_.begin(), flags_.end(), flag) == flags_.end()) flags_.push_back(std::move(flag));
  }

  // A declared tensor type with dims bound by the options. `unbound` collects what is missing.
  Result<graph::TensorType> bind_type(const tcc_onnx::ValueInfo& info, std::vector<std::string>& unbound,
                                      std::vector<std::string>* names) {
    std::string label = fmt::format("input '{}'", sanitize(info.name()));
    if (!info.type().has_tensor_type())
      return refuse(Refusal::kNotATensor, "{} is not a tensor (sequence, map, optional or sparse)", label);
    const auto& tensor = info.type().tensor_type();
    auto dtype = dtype_of(tensor.elem_type());
    if (!dtype) return tl::make_unexpected(std::move(dtype.error()).with_context(label));
    graph::TensorType type{*dtype, {}};
    auto given = options_.input_shapes.find(info.name());
    if (tensor.shape().dim_size() > graph::kMaxRank)
      return input_error("{} has {} dimensions", label, tensor.shape().dim_size());
    if (!tensor.has_shape() && given == options_.input_shapes.end()) {
      unbound.push_back(fmt::format("{}: the rank is unknown", label));
      need_flag(fmt::format("--shape {}=...", sanitize(info.name())));
      return type;
    }
    if (given != options_.input_shapes.end()) {
      type.shape = given->second;
      if (tensor.has_shape() && tensor.shape().dim_size() != static_cast<int>(type.shape.size())) {
        return input_error("{} has rank {}, the shape {} given for it has rank {}", label, tensor.shape().dim_size(),
                           graph::shape_text(type.shape), type.shape.size());
      }
    }
    for (int i = 0; i < tensor.shape().dim_size(); ++i) {
      const auto& dim = tensor.shape().dim(i);
      std::string param = dim.has_dim_param() ? dim.dim_param() : "";
      if (names) names->push_back(param);
      if (names && !param.empty()) named_dims_.insert(param);
      if (given != options_.input_shapes.end()) {
        if (dim.has_dim_value() && dim.dim_value() != type.shape[static_cast<size_t>(i)]) reshaped_ = true;
      } else if (dim.has_dim_value()) {
        type.shape.push_back(dim.dim_value());
      } else if (auto it = options_.dims.find(param); it != options_.dims.end()) {
        bound_dims_.insert(param);
        type.shape.push_back(it->second);
      } else {
        unbound.push_back(param.empty() ? fmt::format("{}: axis {} has no extent", label, i)
                                        : fmt::format("{}: axis {} is '{}'", label, i, sanitize(param)));
        need_flag(param.empty() ? fmt::format("--shape {}=...", sanitize(info.name()))
                                : fmt::format("--dim {}=1", sanitize(param)));
        type.shape.push_back(1);
      }
    }
    TCC_TRY_VOID(graph::check_shape(type.shape, label));
    return type;
  }

  Result<void> freeze(const std::string& name, const graph::TensorType& type, const TensorFile& data) {
    if (data.dtype != type.dtype || data.shape != type.shape) {
      return make_error(ErrorClass::kUsage,
                        fmt::format("the tensor given for input '{}' is {} {}, the input is {} {}", sanitize(name),
                                    graph::dtype_name(data.dtype), graph::shape_text(data.shape),
                                    graph::dtype_name(type.dtype), graph::shape_text(type.shape)));
    }
    ValueId id = graph_.add_constant(name, data.dtype, data.shape, data.constant);
    if (!values_.emplace(name, id).second) return input_error("input '{}' appears twice", sanitize(name));
    return {};
  }

  Result<void> check_given(const std::string& input, const char* what, const std::vector<std::string>& known) const {
    if (std::find(known.begin(), known.end(), input) != known.end()) return {};
    return make_error(
        ErrorClass::kUsage,
        fmt::format("a {} is given for '{}', which is not an input of '{}'", what, sanitize(input), sanitize(name_)),
        suggest(input, known));
  }

  // A dimension that an input names, and whose size is not given by a shape of that input.
  Result<void> check_dim(const std::string& dim) const {
    if (bound_dims_.contains(dim)) return {};
    const std::vector<std::string> known(named_dims_.begin(), named_dims_.end());
    std::string hint = suggest(dim, known);
    if (named_dims_.contains(dim))
      hint = "the shapes that are given say its size; leave --dim out";
    else if (hint.empty())
      hint = known.empty() ? "its inputs have no named dimensions; --shape NAME=DIMS gives a shape"
                           : fmt::format("it has {}", fmt::join(known, ", "));
    return make_error(ErrorClass::kUsage,
                      fmt::format("--dim {}: expected a dimension of an input of '{}'", sanitize(dim), sanitize(name_)),
                      sanitize(hint));
  }

  Result<void> bind_inputs() {
    std::vector<std::string> unbound, known;
    for (const auto& info : proto_.input()) {
      // Before IR version 4 initializers are listed among the inputs as well.
      if (values_.contains(info.name()) && graph_.value(values_.at(info.name())).is_constant()) continue;
      std::vector<std::string> names;
      TCC_TRY(graph::TensorType type, bind_type(info, unbound, &names));
      if (auto frozen = options_.frozen.find(info.name()); frozen != options_.frozen.end()) {
        TCC_TRY_VOID(freeze(info.name(), type, frozen->second));
        known.push_back(info.name());
        continue;
      }
      ValueId id = graph_.add_input(info.name(), type.dtype, type.shape);
      graph_.value(id).dim_names = std::move(names);
      known.push_back(info.name());
      if (!values_.emplace(info.name(), id).second)
        return input_error("input '{}' appears twice", sanitize(info.name()));
    }
    if (!unbound.empty()) {
      for (const auto& [dim, extent] : options_.dims) TCC_TRY_VOID(check_dim(dim));
      return make_error(
          ErrorClass::kUsage, fmt::format("'{}' has inputs without a fixed shape", sanitize(name_)),
          fmt::format("say how large each is, for example{}: {}",
                      std::any_of(flags_.begin(), flags_.end(), [](const auto& f) { return f.ends_with("..."); })
                          ? " with a shape such as 1x3x224x224 for ..."
                          : "",
                      fmt::join(flags_, " ")),
          std::move(unbound));
    }
    for (const auto& [dim, extent] : options_.dims) TCC_TRY_VOID(check_dim(dim));
    for (const auto& [input, shape] : options_.input_shapes) TCC_TRY_VOID(check_given(input, "shape", known));
    for (const auto& [input, tensor] : options_.frozen) TCC_TRY_VOID(check_given(input, "value", known));
    return {};
  }

  // Kahn's algorithm, smallest position first: files in order stay in order, and cycles are found.
  Result<std::vector<int>> sort_nodes() const {
    std::unordered_map<std::string, int> producer;
    int count = proto_.node_size();
    for (int i = 0; i < count; ++i) {
      for (const auto& output : proto_.node(i).output()) {
        if (output.empty()) continue;
        if (values_.contains(output) || !producer.emplace(output, i).second) {
          return input_error("'{}' is produced more than once (again by {})", sanitize(output), node_text(i));
        }
      }
    }
    std::vector<std::vector<int>> readers(static_cast<size_t>(count));
    std::vector<int> waiting(static_cast<size_t>(count), 0);
    for (int i = 0; i < count; ++i) {
      for (const auto& input : proto_.node(i).input()) {
        if (input.empty() || values_.contains(input)) continue;
        auto it = producer.find(input);
        if (it == producer.end())
          return input_error("{} ({}) reads '{}', which nothing produces", node_text(i),
                             sanitize(proto_.node(i).op_type()), sanitize(input));
        readers[static_cast<size_t>(it->second)].push_back(i);
        ++waiting[static_cast<size_t>(i)];
      }
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int i = 0; i < count; ++i) {
      if (waiting[static_cast<size_t>(i)] == 0) ready.push(i);
    }
    std::vector<int> order;
    while (!ready.empty()) {
      int i = ready.top();
      ready.pop();
      order.push_back(i);
      for (int reader : readers[static_cast<size_t>(i)]) {
        if (--waiting[static_cast<size_t>(reader)] == 0) ready.push(reader);
      }
    }
    if (static_cast<int>(order.size()) != count) {
      auto stuck = std::find_if(waiting.begin(), waiting.end(), [](int w) { return w > 0; });
      return input_error("the graph has a cycle through {}", node_text(static_cast<int>(stuck - waiting.begin())));
    }
    return order;
  }

  Result<void> import_node(int i) {
    auto result = import_node_unlabelled(i);
    if (result) return {};
    return tl::make_unexpected(
        std::move(result.error())
            .with_context(fmt::format("{} ({})", node_text(i), sanitize(proto_.node(i).op_type()))));
  }

  Result<void> import_node_unlabelled(int i) {
    const auto& node = proto_.node(i);
    std::vector<ValueId> inputs;
    for (const auto& input : node.input()) {
      if (input.empty()) {
        inputs.push_back(graph::kNone);
        continue;
      }
      auto it = values_.find(input);
      if (it == values_.end())
        return refuse(Refusal::kExtraOutput, "reads '{}', an output that is not supported here", sanitize(input));
      inputs.push_back(it->second);
    }
    int64_t opset = opset_of(domain_of(node));
    const OperatorRow* row = find_operator(domain_of(node), node.op_type(), opset);
    graph_.sources.push_back(
        {node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name(), node.op_type()});
    NodeContext context(state_, node, opset, std::move(inputs));
    auto count = static_cast<int64_t>(context.input_count());
    if (count < row->fewest_inputs || count > row->most_inputs) {
      return input_error("has {} inputs; opset {} takes {} to {}", count, opset, row->fewest_inputs, row->most_inputs);
    }
    // Handlers read the required inputs without asking; operators of any number have no absent ones.
    int64_t required = row->most_inputs > 8 ? count : row->fewest_inputs;
    for (int64_t k = 0; k < required; ++k) {
      if (!context.has_input(static_cast<size_t>(k))) return input_error("input {} is required", k);
    }
    if (node.output_size() == 0 || node.output(0).empty()) return input_error("has no output");
    TCC_TRY_VOID(row->handler(context));
    TCC_TRY_VOID(context.check_all_attributes_read());
    for (int k = 0; k < node.output_size(); ++k) {
      ValueId id = context.output(static_cast<size_t>(k));
      if (id == graph::kNone || node.output(k).empty()) continue;
      graph::Value& value = graph_.value(id);
      values_[node.output(k)] = id;
      if (value.producer != graph::kNone || value.is_constant()) value.name = node.output(k);
      if (value.is_constant()) constant_bytes_ += value.bytes();
    }
    if (constant_bytes_ > kMaxConstantBytes)
      return input_error("the model's constants take more than {}",
                         format_bytes(static_cast<double>(kMaxConstantBytes)));
    return {};
  }

  // Declared shapes must agree with what the operators compute: a model with a wrong declaration is refused.
  template <class Infos>
  Result<void> check_declared(const Infos& infos) const {
    if (reshaped_) return {};
    for (const auto& info : infos) {
      auto it = values_.find(info.name());
      if (it == values_.end() || !info.type().has_tensor_type() || !info.type().tensor_type().has_shape()) continue;
      const auto& declared = info.type().tensor_type().shape();
      const graph::Shape& computed = graph_.value(it->second).shape;
      bool same = declared.dim_size() == static_cast<int>(computed.size());
      std::string text;
      for (int i = 0; i < std::min(declared.dim_size(), static_cast<int>(graph::kMaxRank)); ++i) {
        const auto& dim = declared.dim(i);
        text += fmt::format("{}{}", i ? "x" : "", dim.has_dim_value() ? std::to_string(dim.dim_value()) : "?");
        if (same && dim.has_dim_value()) same = dim.dim_value() == computed[static_cast<size_t>(i)];
      }
      if (!same) {
        return input_error("'{}' is declared with shape {}, but its operators compute {}", sanitize(info.name()),
                           text.empty() ? "scalar" : text, graph::shape_text(computed));
      }
    }
    return {};
  }

  Result<void> collect_outputs() {
    if (proto_.output_size() == 0) return input_error("'{}' has no outputs", sanitize(name_));
    for (const auto& info : proto_.output()) {
      auto it = values_.find(info.name());
      if (it == values_.end())
        return refuse(Refusal::kExtraOutput, "output '{}' is not produced by any supported node output",
                      sanitize(info.name()));
      graph_.add_output(it->second, info.name());
    }
    return {};
  }

  ParsedModel parsed_;
  std::shared_ptr<const tcc_onnx::Model> model_;
  const tcc_onnx::Graph& proto_;
  std::string name_;
  const ImportOptions& options_;
  ExternalFiles files_;
  std::map<std::string, int64_t> opsets_;
  std::unordered_map<std::string, ValueId> values_;  // by ONNX name
  graph::Graph graph_;
  std::unique_ptr<graph::Evaluator> evaluator_ = graph::reference_evaluator();
  ImportState state_{graph_, model_, files_, *evaluator_, {}};
  std::vector<std::string> flags_;                 // that would bind what is unbound
  std::set<std::string> named_dims_, bound_dims_;  // of the inputs; those that an option gives a size
  bool reshaped_ = false;
  int64_t constant_bytes_ = 0;
};

Result<ParsedModel> parse_model(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                const std::string& name) {
  if (bytes.empty()) return input_error("'{}' is empty", sanitize(name));
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return make_error(ErrorClass::kInput,
                      fmt::format("'{}' has more than 2 GiB, the limit of the format", sanitize(name)),
                      "store its weights as external data");
  }
  TCC_TRY(bool plausible, check_limits(bytes, name));
  if (!plausible) return not_onnx(name, bytes);
  auto model = std::make_shared<tcc_onnx::Model>();
  std::optional<SplitModel> split = split_weights(bytes);
  std::span<const std::byte> rest = split ? std::as_bytes(std::span(split->rest)) : bytes;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(rest.data()),
                                                static_cast<int>(rest.size()));
  stream.SetRecursionLimit(100);
  bool complete = model->ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
  // Random bytes can parse as unknown fields; a model has a graph and a version.
  if (!complete || !model->has_graph() || (model->ir_version() < 1 && model->opset_import_size() == 0))
    return not_onnx(name, bytes);
  ParsedModel parsed{model, {}, std::move(owner)};
  if (split) parsed.raw = std::move(split->raw);
  return parsed;
}

Result<graph::Graph> import_span(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                 const std::string& name, const ImportOptions& options, const std::string& folder) {
  TCC_TRY(ParsedModel parsed, parse_model(bytes, std::move(owner), name));
  return Importer(std::move(parsed), name, options, folder).run();
}

}  // namespace

Result<graph::Graph> import_model(const std::string& path, const ImportOptions& options) {
  TCC_TRY(std::shared_ptr<MappedFile> file, MappedFile::open(path));
  std::string folder = std::filesystem::path(path).parent_path().string();
  return import_span(file->bytes(), file, path, options, folder.empty() ? "." : folder);
}

Result<graph::Graph> import_bytes(std::shared_ptr<const std::string> bytes, const std::string& name,
                                  const ImportOptions& options, const std::string& folder) {
  return import_span(std::as_bytes(std::span(bytes->data(), bytes->size())), bytes, name, options, folder);
}

Result<ModelDescription> describe_model(const std::string& path) {
  TCC_TRY(std::shared_ptr<MappedFile> file, MappedFile::open(path));
  TCC_TRY(ParsedModel parsed, parse_model(file->bytes(), file, path));
  const auto& model = parsed.message;
  ModelDescription description;
  std::set<std::string> initializers;
  for (const auto& tensor : model->graph().initializer()) initializers.insert(tensor.name());
  for (const auto& input : model->graph().input()) {
    if (!initializers.contains(input.name())) description.inputs.push_back(input.name());
  }
  for (const auto& node : model->graph().node()) {
    bool own = node.domain().empty() || node.domain() == "ai.onnx";
    description.operators.push_back(own ? node.op_type() : node.domain() + "::" + node.op_type());
  }
  return description;
}

}  // namespace tcc::onnx
