#include "tcc/nn/checkpoint.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "nn/bytes.h"
#include "nn/graph.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"

namespace tcc::nn {
namespace {

constexpr std::string_view kMagic = "tccnet1\n";
constexpr size_t kFixed = 8 + 3 * 8;
constexpr int64_t kVersion = 1;

size_t padded(size_t n) {
  return (n + 63) / 64 * 64;
}

struct Header {
  int64_t version = 0, parameters = 0, buffers = 0;
  Config config;
  Card card;
  bool half = false;
};

Result<Header> parse_header(std::string_view text, const std::string& name) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return input_error("{}: the header of the checkpoint is not a JSON object", name);
  Header h;
  auto integer = [&](const char* key, int64_t& to) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_number_integer()) return false;
    to = it->get<int64_t>();
    return true;
  };
  auto string = [&](const char* key, std::string& to) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_string()) return false;
    to = it->get<std::string>();
    return true;
  };
  if (!integer("version", h.version)) return input_error("{}: the header of the checkpoint lacks 'version'", name);
  if (h.version != kVersion)
    return input_error(
        "{}: checkpoint version {}, but this tcc reads version {}: train the network again, or use the tcc that "
        "wrote it",
        name, h.version, kVersion);
  std::string storage;
  for (const auto& [ok, key] :
       {std::pair{integer("parameters", h.parameters), "parameters"},
        std::pair{integer("buffers", h.buffers), "buffers"}, std::pair{string("features", h.card.features), "features"},
        std::pair{string("platform", h.card.platform), "platform"}, std::pair{string("card", h.card.text), "card"},
        std::pair{string("storage", storage), "storage"}})
    if (!ok) return input_error("{}: the header of the checkpoint lacks '{}' or has another type there", name, key);
  if (storage != "f32" && storage != "f16")
    return input_error("{}: the checkpoint stores parameters as '{}'; expected f32 or f16", name, storage);
  h.half = storage == "f16";
  const auto config = json.find("config");
  if (config == json.end()) return input_error("{}: the header of the checkpoint lacks 'config'", name);
  auto parsed = Config::from_json(config->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (!parsed) return tl::unexpected(std::move(parsed).error().with_context(name));
  h.config = *parsed;
  return h;
}

}  // namespace

uint16_t to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65,520 and above round to infinity
  if (magnitude < 0x38800000) {                       // below 2^-14: subnormal, a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
    return sign | static_cast<uint16_t>(std::nearbyint(scaled));
  }
  magnitude += 0xfff + (magnitude >> 13 & 1);
  return sign | static_cast<uint16_t>((magnitude - 0x38000000) >> 13);
}

float from_half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

Result<std::string> checkpoint_bytes(const Model& model, const Card& card) {
  const std::span<const float> params = model.parameters(), buffers = model.buffers();
  for (const Tensor& t : model.tensors())
    for (int64_t i = t.offset; i < t.offset + t.size(); ++i)
      if (!std::isfinite(params[static_cast<size_t>(i)]))
        return input_error("the network cannot be stored: parameter {} of '{}' is not finite", i - t.offset, t.name);
  for (float b : buffers)
    if (!std::isfinite(b))
      return input_error("the network cannot be stored: a scale or running statistic is not finite");
  auto with = [&](bool half) {
    const nlohmann::ordered_json header{
        {"version", kVersion},         {"config", nlohmann::ordered_json::parse(model.config().to_json())},
        {"features", card.features},   {"platform", card.platform},
        {"card", card.text},           {"storage", half ? "f16" : "f32"},
        {"parameters", params.size()}, {"buffers", buffers.size()}};
    const std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    ByteWriter body;
    body.put(static_cast<uint64_t>(text.size()));
    body.bytes += text;
    body.bytes.resize(padded(24 + body.bytes.size()) - 24);
    if (half)
      for (float p : params) body.put(to_half(p));
    else
      for (float p : params) body.put(p);
    for (float b : buffers) body.put(b);
    ByteWriter out;
    out.bytes = kMagic;
    out.put(static_cast<uint64_t>(24 + body.bytes.size()));
    out.put(hash_bytes(body.bytes));
    return out.bytes + body.bytes;
  };
  std::string bytes = with(false);
  if (static_cast<int64_t>(bytes.size()) <= kMaxCheckpointBytes) return bytes;
  for (const Tensor& t : model.tensors())
    for (int64_t i = t.offset; i < t.offset + t.size(); ++i)
      if (std::fabs(params[static_cast<size_t>(i)]) >= 65520)
        return input_error("the network cannot be stored in 2 MiB: parameter {} of '{}' is {}, above the range of f16",
                           i - t.offset, t.name, params[static_cast<size_t>(i)]);
  bytes = with(true);
  if (static_cast<int64_t>(bytes.size()) > kMaxCheckpointBytes)
    return input_error(
        "the network cannot be stored: its checkpoint would have {} bytes, more than {}; use fewer heads or a "
        "shorter card",
        bytes.size(), kMaxCheckpointBytes);
  return bytes;
}

Result<void> save_checkpoint(const std::string& path, const Model& model, const Card& card) {
  TCC_TRY(const std::string bytes, checkpoint_bytes(model, card));
  return write_file(path, bytes);
}

Result<Checkpoint> parse_checkpoint(std::string_view bytes, const std::string& name) {
  if (bytes.size() < kFixed || bytes.substr(0, 8) != kMagic)
    return input_error("{}: not a checkpoint of a network (expected it to begin with 'tccnet1')", name);
  if (static_cast<int64_t>(bytes.size()) > kMaxCheckpointBytes)
    return input_error("{}: the checkpoint has {} bytes; expected at most {}", name, bytes.size(), kMaxCheckpointBytes);
  ByteReader fixed(bytes.substr(8));
  uint64_t size = 0, checksum = 0, header_size = 0;
  fixed.get(size);
  fixed.get(checksum);
  fixed.get(header_size);
  if (size != bytes.size())
    return input_error("{}: the checkpoint has {} bytes, but was written with {}: copy the file again", name,
                       bytes.size(), size);
  if (checksum != hash_bytes(bytes.substr(24)))
    return input_error("{}: the checkpoint is damaged: its checksum does not match; copy the file again", name);
  if (header_size > bytes.size() - kFixed)
    return input_error("{}: the header of the checkpoint has {} bytes, more than the file", name, header_size);
  TCC_TRY(const Header h, parse_header(bytes.substr(kFixed, header_size), name));
  const Graph graph = build_graph(h.config, 1);
  if (h.parameters != graph.num_parameters || h.buffers != graph.num_buffers)
    return input_error("{}: the checkpoint has {} parameters and {} buffers, but its network '{}' has {} and {}", name,
                       h.parameters, h.buffers, architecture_name(h.config.architecture), graph.num_parameters,
                       graph.num_buffers);
  const size_t at = padded(kFixed + header_size), width = h.half ? 2 : 4;
  const auto params = static_cast<size_t>(h.parameters), buffers = static_cast<size_t>(h.buffers);
  if (at > bytes.size() || bytes.size() - at != params * width + buffers * 4)
    return input_error("{}: the checkpoint has {} bytes of data; expected {}", name,
                       at > bytes.size() ? 0 : bytes.size() - at, params * width + buffers * 4);
  std::vector<float> values(params), rest(buffers);
  if (h.half) {
    std::vector<uint16_t> stored(params);
    std::memcpy(stored.data(), bytes.data() + at, params * 2);
    std::transform(stored.begin(), stored.end(), values.begin(), from_half);
  } else {
    std::memcpy(values.data(), bytes.data() + at, params * 4);
  }
  std::memcpy(rest.data(), bytes.data() + at + params * width, buffers * 4);
  auto finite = [](float v) { return std::isfinite(v); };
  if (!std::all_of(values.begin(), values.end(), finite) || !std::all_of(rest.begin(), rest.end(), finite))
    return input_error("{}: a parameter of the checkpoint is not finite", name);
  for (int node : graph.batch_norms) {
    const Node& n = graph.nodes[static_cast<size_t>(node)];
    const auto first = rest.begin() + n.buffer + n.out.width;
    if (std::any_of(first, first + n.out.width, [](float v) { return v < 0; }))
      return input_error("{}: a running variance of the checkpoint is negative", name);
  }
  TCC_TRY(Model model, Model::create(h.config, 0));
  model.set_parameters(values);
  model.set_buffers(rest);
  return Checkpoint{std::move(model), h.card, h.half, hash_bytes(bytes)};
}

Result<Checkpoint> load_checkpoint(const std::string& path) {
  TCC_TRY(const std::shared_ptr<MappedFile> file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file->bytes();
  return parse_checkpoint({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

Result<void> require_features(const Checkpoint& checkpoint, std::string_view features, const std::string& name) {
  if (checkpoint.card.features == features) return {};
  return input_error("{}: the checkpoint was trained on the features '{}', but this tcc extracts '{}': train it again",
                     name, checkpoint.card.features, features);
}

}  // namespace tcc::nn
