// Bytes of pools: numbers, texts, traces. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/schedule/trace.h"

namespace tcc::data {

inline constexpr size_t kMaxText = size_t{4} << 20, kMaxInstructions = 4096, kMaxNumbers = 4096;

class Writer {
 public:
  void byte(uint8_t b) { out_ += static_cast<char>(b); }
  void fixed(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) byte(static_cast<uint8_t>(value >> (8 * i)));
  }
  // Seven bits a byte, the lowest first.
  void number(uint64_t value) {
    for (; value >= 128; value >>= 7) byte(static_cast<uint8_t>(value | 128));
    byte(static_cast<uint8_t>(value));
  }
  // Small negative numbers stay short: 0, -1, 1, -2, ...
  void integer(int64_t value) { number(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63)); }
  void text(std::string_view s) {
    number(s.size());
    out_ += s;
  }
  const std::string& bytes() const { return out_; }

 private:
  std::string out_;
};

// Reads as Writer writes. After an error everything is 0 or empty, and failed() says so.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  uint8_t byte() {
    if (rest_.empty()) return failed_ = true, 0;
    const auto b = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return b;
  }
  uint64_t fixed(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(byte()) << (8 * i);
    return failed_ ? 0 : value;
  }
  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t b = byte();
      value |= static_cast<uint64_t>(b & 127) << shift;
      if (b < 128) return failed_ ? 0 : value;
    }
    return failed_ = true, 0;
  }
  int64_t integer() {
    const uint64_t value = number();
    return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }
  // A number of things of which each takes at least a byte.
  size_t count(size_t most) {
    const uint64_t n = number();
    if (n > most || n > rest_.size()) return failed_ = true, 0;
    return static_cast<size_t>(n);
  }
  std::string text() {
    const size_t n = count(kMaxText);
    std::string out(rest_.substr(0, n));
    rest_.remove_prefix(out.size());
    return out;
  }
  void fail() { failed_ = true; }
  bool failed() const { return failed_; }
  bool ended() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

// The operations of traces as numbers: a file begins with their names. Scopes, axes and annotations are numbers, too:
// the skeleton's hash, in which names count, tells whether they still mean the same.
using OpNumbers = std::vector<std::optional<schedule::Op>>;  // nothing: this version does not know the name
void write_names(Writer& out);
OpNumbers read_names(Reader& in);
// A trace with its decisions.
void write_trace(Writer& out, const schedule::Trace& trace);
// Nothing: not a trace of this version; `why` says in which respect.
std::optional<schedule::Trace> read_trace(Reader& in, const OpNumbers& ops, std::string& why);

// Decisions of a program of `sketch`. A tile that divides the extent, which the sketch's own decision tells, is one
// number: the places of its factors, from the innermost outward, among the divisors of what is left. Others are written
// out. Reading stops at what does not fit, and in.failed() says so.
void write_decisions(Writer& out, const schedule::Trace& sketch, std::span<const int64_t> decisions);
void read_decisions(Reader& in, const schedule::Trace& sketch, std::vector<int64_t>& decisions);

// Seconds in three bytes: logarithms in steps of 2^-18, from 2^-40 s to 2^24 s. The last 16 numbers are failures.
uint32_t pack_seconds(double seconds);
double unpack_seconds(uint32_t packed);
inline constexpr uint32_t kFirstFailure = 0xfffff0;

}  // namespace tcc::data
