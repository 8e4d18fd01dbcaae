#include "fleet/sha256.h"

#include <bit>
#include <cstring>

namespace tcc::fleet {
namespace {

constexpr size_t kBlock = 64;
constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

class Sha256 {
 public:
  void add(std::string_view bytes) {
    length_ += bytes.size();
    while (!bytes.empty()) {
      const size_t n = std::min(kBlock - filled_, bytes.size());
      std::memcpy(block_.data() + filled_, bytes.data(), n);
      filled_ += n;
      bytes.remove_prefix(n);
      if (filled_ == kBlock) compress(), filled_ = 0;
    }
  }
  Digest finish() {
    const uint64_t bits = length_ * 8;
    block_[filled_++] = 0x80;
    if (filled_ > kBlock - 8) {
      std::memset(block_.data() + filled_, 0, kBlock - filled_);
      compress(), filled_ = 0;
    }
    std::memset(block_.data() + filled_, 0, kBlock - 8 - filled_);
    for (size_t i = 0; i < 8; ++i) block_[kBlock - 1 - i] = static_cast<uint8_t>(bits >> (8 * i));
    compress();
    Digest out;
    for (size_t i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
    return out;
  }

 private:
  void compress() {
    std::array<uint32_t, 64> w;
    for (size_t i = 0; i < 16; ++i)
      w[i] = uint32_t{block_[4 * i]} << 24 | uint32_t{block_[4 * i + 1]} << 16 | uint32_t{block_[4 * i + 2]} << 8 |
             block_[4 * i + 3];
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    std::array<uint32_t, 8> s = state_;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t t1 = s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                          ((s[4] & s[5]) ^ (~s[4] & s[6])) + kRound[i] + w[i];
      const uint32_t t2 = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                          ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      for (size_t j = 7; j > 0; --j) s[j] = s[j - 1];
      s[4] += t1;
      s[0] = t1 + t2;
    }
    for (size_t i = 0; i < 8; ++i) state_[i] += s[i];
  }

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, kBlock> block_{};
  size_t filled_ = 0;
  uint64_t length_ = 0;
};

std::string_view view_of(const Digest& d) {
  return {reinterpret_cast<const char*>(d.data()), d.size()};
}

}  // namespace

Digest sha256(std::initializer_list<std::string_view> parts) {
  Sha256 hash;
  for (const std::string_view part : parts) hash.add(part);
  return hash.finish();
}

Digest hmac_sha256(std::string_view key, std::initializer_list<std::string_view> parts) {
  std::array<char, kBlock> inner{}, outer{};
  const Digest short_key = key.size() > kBlock ? sha256({key}) : Digest{};
  if (key.size() > kBlock) key = view_of(short_key);
  std::memcpy(inner.data(), key.data(), key.size());
  outer = inner;
  for (char& c : inner) c ^= 0x36;
  for (char& c : outer) c ^= 0x5c;
  Sha256 hash;
  hash.add({inner.data(), kBlock});
  for (const std::string_view part : parts) hash.add(part);
  const Digest first = hash.finish();
  return sha256({{outer.data(), kBlock}, view_of(first)});
}

bool equal_digests(const Digest& a, const Digest& b) {
  uint8_t differing = 0;
  for (size_t i = 0; i < a.size(); ++i) differing |= a[i] ^ b[i];
  return differing == 0;
}

}  // namespace tcc::fleet
