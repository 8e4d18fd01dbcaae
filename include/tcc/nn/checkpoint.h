// Networks in files: at most 2 MiB, checksummed, read through a memory map.
//
// Layout (little-endian): 8 bytes "tccnet1\n", u64 bytes of the whole file, u64 hash of all that follows, u64 bytes of
// the header, the header (JSON: version, config, features, platform, card, storage and counts), zeros up to a multiple
// of 64, the parameters, and the buffers as f32. Parameters are f32, or f16 rounded to nearest even where f32 would not
// fit: TLP's 610,369 are 2.4 MB in f32. A network behaves as its file says only after it has been read back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tcc/nn/model.h"

namespace tcc::nn {

inline constexpr int64_t kMaxCheckpointBytes = 2 << 20;

struct Card {
  std::string features;  // names and versions of the tables that the network reads
  std::string platform;  // where the training data was measured
  std::string text;      // data, split, metrics, command
};

struct Checkpoint {
  Model model;
  Card card;
  bool half = false;  // parameters were stored as f16
  uint64_t hash = 0;  // of the file: equal for equal networks and cards
};

// Errors: a parameter that is not finite or not within f16, a network that does not fit.
Result<std::string> checkpoint_bytes(const Model& model, const Card& card);
// Writes to a temporary file and renames it.
Result<void> save_checkpoint(const std::string& path, const Model& model, const Card& card);
// Any bytes give a network or an input error; `name` is the file's in messages.
Result<Checkpoint> parse_checkpoint(std::string_view bytes, const std::string& name);
Result<Checkpoint> load_checkpoint(const std::string& path);
// An input error that names both sides where the checkpoint was trained on other features.
Result<void> require_features(const Checkpoint& checkpoint, std::string_view features, const std::string& name);

uint16_t to_half(float value);  // rounds to nearest even; infinity above 65,504
float from_half(uint16_t bits);

}  // namespace tcc::nn
