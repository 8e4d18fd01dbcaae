#include "tcc/driver/model.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "tcc/driver/tensor_file.h"
#include "tcc/graph/passes.h"
#include "tcc/onnx/reseed.h"
#include "tcc/record/record.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kZooPrefix = "zoo:";

bool is_zoo(const std::string& model) {
  return model.starts_with(kZooPrefix);
}

std::string tensor_hash(const onnx::TensorFile& tensor) {
  std::vector<std::byte> storage;
  auto bytes = graph::dense_bytes(tensor.constant, tensor.dtype, graph::element_count(tensor.shape), storage);
  return record::hash_text(hash_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

template <class T>
T member_or(const Json& json, const char* name, T otherwise) {
  auto it = json.find(name);
  if (it == json.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>) {
    return it->is_string() ? it->get<std::string>() : otherwise;
  } else {
    return it->is_number() ? it->get<T>() : otherwise;
  }
}

// Zoo models are made for their sizes.
Result<onnx::ZooOptions> zoo_at(const std::string& name, const ModelSource& source,
                                const std::map<std::string, int64_t>& dims) {
  onnx::ZooOptions options = source.zoo;
  const bool is_step = name == "llama-tiny";  // one token, behind all others of --sequence
  std::map<std::string, int64_t onnx::ZooOptions::*> sizes{{"batch", &onnx::ZooOptions::batch}};
  if (onnx::check_zoo_size(name, "image")) sizes["image"] = &onnx::ZooOptions::image;
  if (onnx::check_zoo_size(name, "past")) sizes["past"] = &onnx::ZooOptions::past;
  if (onnx::check_zoo_size(name, "sequence")) sizes[is_step ? "past" : "seq"] = &onnx::ZooOptions::sequence;
  for (const auto& [dim, size] : dims) {
    const auto known = sizes.find(dim);
    if (known == sizes.end()) {
      std::vector<std::string> names;
      for (const auto& [other, field] : sizes) names.push_back(other);
      return make_error(ErrorClass::kUsage,
                        fmt::format("--dim {}: expected a dimension of zoo:{}", sanitize(dim), sanitize(name)),
                        fmt::format("it has {}", fmt::join(names, ", ")));
    }
    options.*known->second = is_step && dim == "past" ? size + 1 : size;
  }
  return options;
}

// Fills graph and hash.
Result<void> import_graph(Model& model) {
  const ModelSource& source = model.source;
  onnx::ImportOptions import_options = source.import_options;
  for (const graph::DimRange& range : source.ranges) import_options.dims[range.name] = range.high;
  if (is_zoo(source.model)) {
    const std::string name = source.model.substr(kZooPrefix.size());
    TCC_TRY(const onnx::ZooOptions zoo, zoo_at(name, source, import_options.dims));
    import_options.dims.clear();
    TCC_TRY(std::string made, onnx::zoo_model(name, zoo));
    auto bytes = std::make_shared<const std::string>(std::move(made));
    model.hash = record::hash_text(hash_bytes(*bytes));
    TCC_TRY(model.graph, onnx::import_bytes(bytes, source.model, import_options));
    return {};
  }
  TCC_TRY(model.graph, onnx::import_model(source.model, import_options));
  TCC_TRY(auto file, MappedFile::open(source.model));
  auto bytes = file->bytes();
  model.hash = record::hash_text(hash_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  return {};
}

// A model whose shapes depend on the values of inputs: the flags that fix them.
Error with_flags(Error error, const std::vector<std::string>& to_freeze) {
  std::string flags;
  for (const std::string& input : to_freeze) flags += fmt::format(" --freeze {0}=@{0}.npy", sanitize(input));
  if (!flags.empty()) error.hint = fmt::format("fix the values that shapes depend on:{}", flags);
  return error;
}

Result<Model> load_unnamed(const ModelSource& given) {
  Model model;
  model.source = given;
  ModelSource& source = model.source;
  for (const auto& [input, path] : source.frozen) {
    TCC_TRY(onnx::TensorFile tensor, read_tensor(path));
    source.import_options.frozen[input] = std::move(tensor);
  }
  std::vector<std::string> to_freeze;
  source.import_options.inputs_to_freeze = &to_freeze;
  Result<void> imported = import_graph(model);
  source.import_options.inputs_to_freeze = nullptr;
  if (!imported) return tl::make_unexpected(with_flags(std::move(imported).error(), to_freeze));
  if (source.reseed) graph::reseed_weights(model.graph, *source.reseed);
  return model;
}

}  // namespace

Result<Model> load_model(const ModelSource& source) {
  Result<Model> model = load_unnamed(source);
  const std::string name = sanitize(source.model);
  if (model || model.error().message.find(name) != std::string::npos) return model;
  return tl::make_unexpected(std::move(model).error().with_context(fmt::format("'{}'", name)));
}

Result<void> write_model(const std::string& model, const ModelSource& source, const std::string& path) {
  const std::string name = is_zoo(model) ? model.substr(kZooPrefix.size()) : model;
  if (!source.reseed) {
    if (file_exists(name))
      return make_error(ErrorClass::kUsage, fmt::format("'{}' is a file, and a copy would be the same", sanitize(name)),
                        "--reseed-weights SEED writes it with other weights");
    return onnx::write_zoo(name, source.zoo, path);
  }
  if (!is_zoo(model) && file_exists(name)) {
    TCC_TRY(std::string bytes, onnx::reseeded_model(name, source.import_options, *source.reseed));
    return write_file(path, bytes);
  }
  TCC_TRY(std::string made, onnx::zoo_model(name, source.zoo));
  TCC_TRY(std::string bytes, onnx::reseeded_bytes(std::make_shared<const std::string>(std::move(made)), name,
                                                  source.import_options, *source.reseed));
  return write_file(path, bytes);
}

std::string model_stem(const std::string& model) {
  if (is_zoo(model)) return model.substr(kZooPrefix.size());
  return std::filesystem::path(model).stem().string();
}

std::string source_to_json(const Model& model, double flops) {
  const ModelSource& source = model.source;
  Json json = {{"model", source.model}, {"hash", model.hash}, {"flops", flops}};
  for (const graph::DimRange& range : source.ranges)
    json["ranges"].push_back({{"name", range.name}, {"low", range.low}, {"high", range.high}, {"tuned", range.tuned}});
  if (source.reseed) json["reseed_weights"] = *source.reseed;
  if (source.precision != target::Precision::kF32) json["precision"] = target::precision_name(source.precision);
  if (source.fast_math) json["fast_math"] = true;
  if (source.import_options.external_symlinks) json["external_symlinks"] = true;
  for (const graph::DataFile& file : model.graph.data_files)
    json["external_data"][file.location] = record::hash_text(file.hash);
  for (const auto& [name, shape] : source.import_options.input_shapes) json["shapes"][name] = shape;
  for (const auto& [name, extent] : source.import_options.dims) json["dims"][name] = extent;
  for (const auto& [input, path] : source.frozen) {
    const onnx::TensorFile& tensor = source.import_options.frozen.at(input);
    json["frozen"][input] = {{"file", path}, {"hash", tensor_hash(tensor)}};
  }
  if (is_zoo(source.model))
    json["zoo"] = {{"batch", source.zoo.batch},
                   {"image", source.zoo.image},
                   {"seed", source.zoo.seed},
                   {"sequence", source.zoo.sequence},
                   {"width", source.zoo.width},
                   {"layers", source.zoo.layers},
                   {"past", source.zoo.past},
                   {"opset", source.zoo.opset},
                   {"precision", graph::dtype_name(source.zoo.precision)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<RecordedSource> source_from_metadata(const std::string& metadata, const std::string& library) {
  const Json root = Json::parse(metadata, nullptr, false);
  auto it = root.is_object() ? root.find("source") : root.end();
  if (it == root.end() || !it->is_object() || member_or<std::string>(*it, "model", "").empty()) {
    return make_error(ErrorClass::kInput, fmt::format("'{}' does not say which model it was built from", library),
                      "build it again with this tcc");
  }
  RecordedSource recorded;
  recorded.hash = member_or<std::string>(*it, "hash", "");
  recorded.flops = member_or(*it, "flops", 0.0);
  ModelSource& source = recorded.source;
  source.model = member_or<std::string>(*it, "model", "");
  const std::string precision = member_or<std::string>(*it, "precision", "f32");
  if (auto known = target::find_precision(precision))
    source.precision = *known;
  else
    return make_error(ErrorClass::kInput,
                      fmt::format("'{}' was built with the precision '{}', which this tcc does not know", library,
                                  sanitize(precision)),
                      "build it again with this tcc");
  if (it->contains("reseed_weights")) source.reseed = member_or<uint64_t>(*it, "reseed_weights", 0);
  source.fast_math = it->value("fast_math", Json(false)) == Json(true);
  source.import_options.external_symlinks = it->value("external_symlinks", Json(false)) == Json(true);
  if (it->contains("shapes") && it->at("shapes").is_object()) {
    for (const auto& [name, shape] : it->at("shapes").items()) {
      graph::Shape extents;
      for (const Json& extent : shape)
        if (extent.is_number_integer()) extents.push_back(extent.get<int64_t>());
      source.import_options.input_shapes[name] = extents;
    }
  }
  if (it->contains("dims") && it->at("dims").is_object())
    for (const auto& [name, extent] : it->at("dims").items())
      if (extent.is_number_integer()) source.import_options.dims[name] = extent.get<int64_t>();
  if (it->contains("ranges") && it->at("ranges").is_array())
    for (const Json& range : it->at("ranges")) {
      graph::DimRange& r = source.ranges.emplace_back();
      r.name = member_or<std::string>(range, "name", "");
      r.low = member_or<int64_t>(range, "low", 1);
      r.high = member_or<int64_t>(range, "high", 1);
      const Json tuned = range.is_object() ? range.value("tuned", Json::array()) : Json::array();
      for (const Json& size : tuned)
        if (size.is_number_integer()) r.tuned.push_back(size.get<int64_t>());
    }
  if (it->contains("frozen") && it->at("frozen").is_object())
    for (const auto& [input, tensor] : it->at("frozen").items()) {
      source.frozen[input] = member_or<std::string>(tensor, "file", "");
      recorded.frozen_hashes[input] = member_or<std::string>(tensor, "hash", "");
    }
  if (it->contains("zoo") && it->at("zoo").is_object()) {
    const Json& zoo = it->at("zoo");
    source.zoo.batch = member_or(zoo, "batch", source.zoo.batch);
    source.zoo.image = member_or(zoo, "image", source.zoo.image);
    source.zoo.seed = member_or(zoo, "seed", source.zoo.seed);
    source.zoo.sequence = member_or(zoo, "sequence", source.zoo.sequence);
    source.zoo.width = member_or(zoo, "width", source.zoo.width);
    source.zoo.layers = member_or(zoo, "layers", source.zoo.layers);
    source.zoo.past = member_or(zoo, "past", source.zoo.past);
    source.zoo.opset = member_or(zoo, "opset", source.zoo.opset);
    source.zoo.precision =
        onnx::find_zoo_precision(member_or<std::string>(zoo, "precision", "f32")).value_or(source.zoo.precision);
  }
  return recorded;
}

Result<Model> load_recorded(const RecordedSource& recorded, const std::string& path,
                            const std::map<std::string, std::string>& frozen) {
  ModelSource source = recorded.source;
  if (!path.empty()) source.model = path;
  for (auto& [input, file] : source.frozen) {
    if (auto now = frozen.find(input); now != frozen.end()) file = now->second;
    if (file_exists(file)) continue;
    return make_error(
        ErrorClass::kInput,
        fmt::format("the value that input '{}' was fixed to is not at '{}'", sanitize(input), sanitize(file)),
        fmt::format("say where it is with --freeze {}=@FILE", sanitize(input)));
  }
  if (!is_zoo(source.model) && !file_exists(source.model)) {
    return make_error(ErrorClass::kInput,
                      fmt::format("the model that the library was built from is not at '{}'", sanitize(source.model)),
                      "say where it is with --model FILE");
  }
  TCC_TRY(Model model, load_model(source));
  if (model.hash != recorded.hash) {
    return make_error(
        ErrorClass::kInput,
        fmt::format("'{}' is not the model that the library was built from: its hash is {}, the library's {}",
                    sanitize(source.model), model.hash, recorded.hash),
        "build the library again, or give the original file with --model FILE");
  }
  for (const auto& [input, hash] : recorded.frozen_hashes) {
    if (tensor_hash(model.source.import_options.frozen.at(input)) == hash) continue;
    return make_error(ErrorClass::kInput,
                      fmt::format("'{}' is not the value that input '{}' was fixed to when the library was built",
                                  sanitize(source.frozen.at(input)), sanitize(input)),
                      "build the library again, or give the original file with --freeze");
  }
  return model;
}

}  // namespace tcc::driver
