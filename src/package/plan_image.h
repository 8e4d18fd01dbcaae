// The C structs of a plan as one block of data with the places of its pointers.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tcc::package {

// Strings, zero-terminated, each once.
class StringPool {
 public:
  int64_t add(const std::string& text) {
    auto [it, fresh] = known_.try_emplace(text, static_cast<int64_t>(bytes_.size()));
    if (fresh) bytes_.append(text.c_str(), text.size() + 1);
    return it->second;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::map<std::string, int64_t> known_;
  std::string bytes_;
};

class PlanImage {
 public:
  enum class To : uint8_t { kData, kStrings, kMetadata, kWeights, kSymbol, kDeviceCode };
  struct Pointer {
    uint64_t at;
    To to;
    int64_t addend;  // kSymbol: index into symbols()
  };

  template <class T>
  int64_t add(std::span<const T> items) {
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    auto at = static_cast<int64_t>(bytes_.size());
    bytes_.append(reinterpret_cast<const char*>(items.data()), items.size_bytes());
    return at;
  }
  template <class T>
  int64_t add(const T& item) {
    return add(std::span<const T>(&item, 1));
  }
  void point(int64_t at, To to, int64_t addend) { pointers_.push_back({static_cast<uint64_t>(at), to, addend}); }
  // The pointer at `at` is the address of something that another object defines.
  void point_at_symbol(int64_t at, const std::string& name) {
    point(at, To::kSymbol, static_cast<int64_t>(symbols_.size()));
    symbols_.push_back(name);
  }
  // Device code, each text once, with a zero behind it. Returns its offset.
  int64_t add_device_code(const std::string& code) {
    auto [it, fresh] = known_code_.try_emplace(code, 0);
    if (!fresh) return it->second;
    device_code_.resize((device_code_.size() + 63) / 64 * 64);
    it->second = static_cast<int64_t>(device_code_.size());
    device_code_ += code;
    device_code_ += '\0';
    return it->second;
  }
  const std::string& bytes() const { return bytes_; }
  const std::string& device_code() const { return device_code_; }
  const std::vector<Pointer>& pointers() const { return pointers_; }
  const std::vector<std::string>& symbols() const { return symbols_; }

 private:
  std::string bytes_, device_code_;
  std::map<std::string, int64_t> known_code_;
  std::vector<Pointer> pointers_;
  std::vector<std::string> symbols_;
};

}  // namespace tcc::package
