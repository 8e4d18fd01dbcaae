// Models that tcc makes itself, as ONNX files like an exporter's: `zoo:NAME` wherever a model is named.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::onnx {

struct ZooOptions {
  int64_t batch = 1;
  int64_t image = 224;     // height and width of image networks
  uint64_t seed = 1;       // of the weights (He initialization before ReLU, Xavier elsewhere)
  int64_t sequence = 128;  // tokens of language networks
  int64_t width = 100;     // percent of MobileNet-V2's channels (its width multiplier)
};

struct ZooEntry {
  std::string name;
  std::string description;
};
std::vector<ZooEntry> zoo_models();

// A size of ZooOptions that only some models have: "image", "sequence", "width". Errors (usage): the model lacks it,
// and the option would do nothing. Other names, of sizes and of models, are not looked at.
Result<void> check_zoo_size(const std::string& name, std::string_view size);

// Bytes of an ONNX file. Unknown names, unusable options, and options that do nothing for the model are errors that
// list what exists.
Result<std::string> zoo_model(const std::string& name, const ZooOptions& options = {});
Result<void> write_zoo(const std::string& name, const ZooOptions& options, const std::string& path);

}  // namespace tcc::onnx
