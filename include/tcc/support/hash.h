// 64-bit hashing for structural keys. Stable across processes and versions: values are stored in databases.
#pragma once

#include <cstdint>
#include <string_view>

namespace tcc {

constexpr uint64_t mix_hash(uint64_t x) {  // the finaliser of SplitMix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
constexpr uint64_t combine_hash(uint64_t seed, uint64_t value) {
  return mix_hash(seed ^ (value + 0x632be59bd9b4e019ull + (seed << 7)));
}

constexpr uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 0xcbf29ce484222325ull) {
  for (char c : bytes) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;  // FNV-1a
  return mix_hash(seed);
}

}  // namespace tcc
