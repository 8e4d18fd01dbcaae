// Models that tcc makes itself, as ONNX files like an exporter's: `zoo:NAME` wherever a model is named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/graph/types.h"
#include "tcc/support/result.h"

namespace tcc::onnx {

struct ZooOptions {
  int64_t batch = 1;
  int64_t image = 224;     // height and width of image networks
  uint64_t seed = 1;       // of the weights (He initialization before ReLU, Xavier elsewhere)
  int64_t sequence = 128;  // tokens of language networks
  int64_t width = 100;     // percent of MobileNet-V2's channels (its width multiplier)
  int64_t layers = 0;      // of networks of equal layers; 0: the network's own number, see its description
  int64_t past = 0;        // tokens of decoders whose keys and values are inputs; `sequence` counts the new ones
  int64_t opset = 0;       // of the file; 0: the oldest that has the network's operators
  graph::DType precision = graph::DType::kF32;  // of the floats in the file: f32, f16 or bf16
};

// The type of that name that a zoo's file may have for its floats; nothing for other names.
std::optional<graph::DType> find_zoo_precision(std::string_view name);

struct ZooEntry {
  std::string name;
  std::string description;
};
std::vector<ZooEntry> zoo_models();

// An option of ZooOptions that only some models have: "image", "sequence", "width", "layers", "past", "precision".
// Errors (usage): the model lacks it, and the option would do nothing. Other names, of sizes and of models, are not
// looked at.
Result<void> check_zoo_size(const std::string& name, std::string_view size);

// Bytes of an ONNX file. Unknown names, unusable options, and options that do nothing for the model are errors that
// list what exists.
Result<std::string> zoo_model(const std::string& name, const ZooOptions& options = {});
Result<void> write_zoo(const std::string& name, const ZooOptions& options, const std::string& path);

}  // namespace tcc::onnx
