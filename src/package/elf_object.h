// Writes one relocatable ELF64 x86-64 object: the few sections and relocations that a model's data needs. Sections may
// be streamed, so that weights are never held in memory a second time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::package {

// Appends bytes to the file being written; false once writing has failed.
using ByteSink = std::function<bool(std::span<const std::byte>)>;

class ElfObject {
 public:
  enum class Kind : uint8_t { kCode, kReadOnly, kReadOnlyLarge, kRelocatedData };
  using SectionId = uint32_t;
  using SymbolId = uint32_t;

  SectionId add_section(std::string name, Kind kind, uint64_t alignment, std::string bytes);
  // `produce` gives exactly `size` bytes to the sink when the object is written.
  SectionId add_streamed_section(std::string name, Kind kind, uint64_t alignment, uint64_t size,
                                 std::function<bool(const ByteSink&)> produce);
  // The symbol that stands for the section's first byte.
  SymbolId section_symbol(SectionId section) const { return section; }
  SymbolId define(std::string name, SectionId section, uint64_t offset, uint64_t size, bool function, bool hidden);
  SymbolId refer(std::string name);  // undefined here

  // The eight bytes at `offset` become symbol + addend.
  void point_at(SectionId section, uint64_t offset, SymbolId symbol, int64_t addend);
  // The four bytes at `offset` become symbol + addend - here, through the linkage table where needed.
  void call_at(SectionId section, uint64_t offset, SymbolId symbol, int64_t addend);

  // Errors name the path and the system's reason.
  Result<void> write(const std::string& path) const;

 private:
  struct Relocation {
    uint64_t offset;
    uint64_t info;
    int64_t addend;
  };
  struct Section {
    std::string name;
    Kind kind;
    uint64_t alignment, size;
    std::string bytes;
    std::function<bool(const ByteSink&)> produce;
    std::vector<Relocation> relocations;
  };
  struct Symbol {
    std::string name;
    uint16_t section;  // 0: undefined
    uint64_t offset, size;
    uint8_t info, other;
  };
  struct Output;
  Section& section(SectionId id) { return sections_[id - 1]; }
  bool write_sections(Output& out) const;
  void write_relocations(Output& out, uint32_t symbol_section) const;
  void write_tables(Output& out) const;

  std::vector<Section> sections_;  // number i is section header i + 1
  std::vector<Symbol> symbols_;    // global ones; the local section symbols come before
};

}  // namespace tcc::package
