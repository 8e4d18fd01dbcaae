// Bytes -> messages -> pre-flight report -> topological order -> one pass that evaluates, infers and emits.
#include "tcc/onnx/importer.h"

#include <fmt/ranges.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <unordered_map>

#include "handlers.h"
#include "limits.h"
#include "node_importer.h"
#include "small_types.h"
#include "tcc/graph/reference.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"
#include "wire.h"

namespace tcc::onnx {
namespace {

using graph::ValueId;

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
    scope_.opsets = &opsets_;
    TCC_TRY_VOID(nodes_.check_operators(proto_.node(), opsets_));
    TCC_TRY_VOID(read_initializers());
    TCC_TRY_VOID(bind_inputs());
    if (auto imported = nodes_.import_nodes(proto_.node(), scope_); !imported) {
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
  Result<void> check_header() {
    if (proto_.sparse_initializer_size() > 0) {
      return refuse(Refusal::kNotATensor, "'{}' has {} sparse initializers, which are not supported", sanitize(name_),
                    proto_.sparse_initializer_size());
    }
    TCC_TRY_SET(opsets_, read_opsets(model_->opset_import(), fmt::format("'{}'", sanitize(name_))));
    // Files before IR version 3 name no opset: they use the first.
    if (opsets_.empty()) opsets_[""] = 1;
    return {};
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
      if (!scope_.items.emplace(tensor.name(), Item{id, nullptr, false, small_type(tensor.data_type())}).second)
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
      return refuse(Refusal::kNotATensor, "{} is not a tensor (map, optional or sparse)", label);
    const auto& tensor = info.type().tensor_type();
    auto dtype = storage_of(tensor.elem_type());
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

  Result<void> freeze(const std::string& name, const graph::TensorType& type, const SmallType* small,
                      const TensorFile& data) {
    if (data.dtype != type.dtype || data.shape != type.shape) {
      return make_error(ErrorClass::kUsage,
                        fmt::format("the tensor given for input '{}' is {} {}, the input is {} {}", sanitize(name),
                                    graph::dtype_name(data.dtype), graph::shape_text(data.shape),
                                    graph::dtype_name(type.dtype), graph::shape_text(type.shape)));
    }
    ValueId id = graph_.add_constant(name, data.dtype, data.shape, data.constant);
    if (!scope_.items.emplace(name, Item{id, nullptr, false, small}).second)
      return input_error("input '{}' appears twice", sanitize(name));
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

  // A sequence is as many inputs as shapes are given for its elements: name.0, name.1, ...
  Result<void> bind_sequence(const tcc_onnx::ValueInfo& info, std::vector<std::string>& unbound,
                             std::vector<std::string>& known) {
    const auto& element = info.type().sequence_type().elem_type();
    if (!element.has_tensor_type() || small_type(element.tensor_type().elem_type()) != nullptr)
      return refuse(Refusal::kNotATensor, "input '{}' is a sequence of elements that are not supported",
                    sanitize(info.name()));
    tcc_onnx::ValueInfo one;
    *one.mutable_type() = element;
    std::vector<ValueId> list;
    while (true) {
      one.set_name(fmt::format("{}.{}", info.name(), list.size()));
      if (!options_.input_shapes.contains(one.name())) break;
      std::vector<std::string> names;
      TCC_TRY(graph::TensorType type, bind_type(one, unbound, &names));
      list.push_back(graph_.add_input(one.name(), type.dtype, type.shape));
      graph_.value(list.back()).dim_names = std::move(names);
      known.push_back(one.name());
    }
    if (list.empty()) {
      unbound.push_back(fmt::format("input '{}': the sequence has no known number of elements", sanitize(info.name())));
      need_flag(fmt::format("--shape {}.0=...", sanitize(info.name())));
    }
    const Item item{graph::kNone, std::make_shared<const std::vector<ValueId>>(std::move(list))};
    if (!scope_.items.emplace(info.name(), item).second)
      return input_error("input '{}' appears twice", sanitize(info.name()));
    return {};
  }

  Result<void> bind_inputs() {
    std::vector<std::string> unbound, known;
    for (const auto& info : proto_.input()) {
      // Before IR version 4 initializers are listed among the inputs as well.
      if (const Item* held = scope_.find(info.name());
          held && held->tensor != graph::kNone && graph_.value(held->tensor).is_constant())
        continue;
      if (info.type().has_sequence_type()) {
        TCC_TRY_VOID(bind_sequence(info, unbound, known));
        continue;
      }
      std::vector<std::string> names;
      TCC_TRY(graph::TensorType type, bind_type(info, unbound, &names));
      const SmallType* small = small_type(info.type().tensor_type().elem_type());
      if (auto frozen = options_.frozen.find(info.name()); frozen != options_.frozen.end()) {
        TCC_TRY_VOID(freeze(info.name(), type, small, frozen->second));
        known.push_back(info.name());
        continue;
      }
      ValueId id = graph_.add_input(info.name(), type.dtype, type.shape);
      graph_.value(id).dim_names = std::move(names);
      known.push_back(info.name());
      if (!scope_.items.emplace(info.name(), Item{id, nullptr, false, small}).second)
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

  // Declared shapes must agree with what the operators compute: a model with a wrong declaration is refused.
  template <class Infos>
  Result<void> check_declared(const Infos& infos) const {
    if (reshaped_) return {};
    for (const auto& info : infos) {
      const Item* item = scope_.find(info.name());
      if (item == nullptr || item->tensor == graph::kNone) continue;
      if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape()) continue;
      const auto& declared = info.type().tensor_type().shape();
      const graph::Shape& computed = graph_.value(item->tensor).shape;
      const auto counts = state_.counts.counts.find(item->tensor);
      bool same = declared.dim_size() == static_cast<int>(computed.size());
      std::string text;
      for (int i = 0; i < std::min(declared.dim_size(), static_cast<int>(graph::kMaxRank)); ++i) {
        const auto& dim = declared.dim(i);
        text += fmt::format("{}{}", i ? "x" : "", dim.has_dim_value() ? std::to_string(dim.dim_value()) : "?");
        if (counts != state_.counts.counts.end() && same && counts->second[static_cast<size_t>(i)] != graph::kNone)
          continue;  // the declared extent is one that it may have
        if (same && dim.has_dim_value()) same = dim.dim_value() == computed[static_cast<size_t>(i)];
      }
      if (!same) {
        return input_error("'{}' is declared with shape {}, but its operators compute {}", sanitize(info.name()),
                           text.empty() ? "scalar" : text, graph::shape_text(computed));
      }
    }
    return {};
  }

  // A sequence is as many outputs as it has elements, name.0, name.1, ...
  Result<void> add_sequence(const std::string& name, const std::vector<ValueId>& elements) {
    for (size_t i = 0; i < elements.size(); ++i) {
      const std::string own = fmt::format("{}.{}", name, i);
      if (std::find(graph_.output_names.begin(), graph_.output_names.end(), own) != graph_.output_names.end())
        return input_error("outputs '{}' and '{}' need the same name", sanitize(name), sanitize(own));
      if (state_.counts.counts.contains(elements[i]))
        return refuse(Refusal::kRunTimeShape, "element {} of output '{}' has an extent that is known at run time only",
                      i, sanitize(name));
      auto copy = graph_.add_node(graph::Op::kIdentity, graph::NoAttrs{}, {elements[i]}, own);
      if (!copy) return tl::make_unexpected(std::move(copy).error());
      graph_.add_output(*copy, own);
    }
    return {};
  }

  Result<void> collect_outputs() {
    if (proto_.output_size() == 0) return input_error("'{}' has no outputs", sanitize(name_));
    for (const auto& info : proto_.output()) {
      const Item* item = scope_.find(info.name());
      if (item == nullptr)
        return refuse(Refusal::kExtraOutput, "output '{}' is not produced by any supported node output",
                      sanitize(info.name()));
      if (item->list != nullptr) {
        TCC_TRY_VOID(add_sequence(info.name(), *item->list));
        continue;
      }
      if (item->tensor == graph::kNone)
        return refuse(Refusal::kNotATensor, "output '{}' is an optional without a value, expected a tensor",
                      sanitize(info.name()));
      graph_.add_output(item->tensor, info.name());
    }
    if (graph_.outputs.empty()) return input_error("the sequences that '{}' gives have no elements", sanitize(name_));
    return collect_counts();
  }

  // Behind the outputs come the extents that run() computes, those of one size and bound once.
  Result<void> collect_counts() {
    const size_t outputs = graph_.outputs.size();
    std::map<std::pair<ValueId, int64_t>, int32_t> numbers;
    for (size_t i = 0; i < outputs; ++i) {
      const auto counts = state_.counts.counts.find(graph_.outputs[i]);
      if (counts == state_.counts.counts.end()) continue;
      const graph::Shape shape = graph_.value(graph_.outputs[i]).shape;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        if (counts->second[axis] == graph::kNone) continue;
        const auto [number, fresh] = numbers.try_emplace({counts->second[axis], shape[axis]}, graph_.counts);
        graph_.counted_axes.push_back({static_cast<int32_t>(i), static_cast<int32_t>(axis), number->second});
        if (!fresh) continue;
        ++graph_.counts;
        graph_.add_output(counts->second[axis], fmt::format("n{}", number->second));
      }
    }
    return {};
  }

  ParsedModel parsed_;
  std::shared_ptr<const tcc_onnx::Model> model_;
  const tcc_onnx::Graph& proto_;
  std::string name_;
  const ImportOptions& options_;
  ExternalFiles files_;
  Opsets opsets_;
  Scope scope_;
  graph::Graph graph_;
  std::unique_ptr<graph::Evaluator> evaluator_ = graph::reference_evaluator();
  // What constants may view: the parsed model, and copies of nodes of functions.
  struct Messages {
    std::shared_ptr<const tcc_onnx::Model> model;
    std::list<tcc_onnx::Node> copies;
  };
  std::shared_ptr<Messages> messages_ = std::make_shared<Messages>(Messages{model_, {}});
  ImportState state_{graph_, messages_, files_, *evaluator_};
  NodeImporter nodes_{*model_, state_, messages_->copies, name_, options_.seconds};
  std::vector<std::string> flags_;                 // that would bind what is unbound
  std::set<std::string> named_dims_, bound_dims_;  // of the inputs; those that an option gives a size
  bool reshaped_ = false;
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
  const auto is_list = [](const auto& info) {
    return info.type().has_sequence_type() || info.type().has_optional_type();
  };
  const auto& graph = model->graph();
  description.only_tensors = std::none_of(graph.input().begin(), graph.input().end(), is_list) &&
                             std::none_of(graph.output().begin(), graph.output().end(), is_list);
  for (const auto& node : model->graph().node()) {
    bool own = node.domain().empty() || node.domain() == "ai.onnx";
    description.operators.push_back(own ? node.op_type() : node.domain() + "::" + node.op_type());
  }
  return description;
}

}  // namespace tcc::onnx
