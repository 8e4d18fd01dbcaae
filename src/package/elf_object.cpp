#include "elf_object.h"

#include <elf.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "tcc/support/check.h"

namespace tcc::package {
namespace {

constexpr uint64_t kLargeSection = 0x10000000;  // SHF_X86_64_LARGE: need not be in reach of 32-bit displacements
// Symbol ids given out by define() and refer(); ids below are section symbols. The real numbers are known at the end.
constexpr uint32_t kFirstGlobal = 1u << 16;

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span<const T>(&value, 1));
}

uint64_t round_up(uint64_t n, uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

// Bytes to a file, with the position; remembers the first failure.
class FileSink {
 public:
  explicit FileSink(const std::string& path) : file_(std::fopen(path.c_str(), "wbe"), &std::fclose) {
    if (!file_) error_ = errno;
  }
  bool put(std::span<const std::byte> bytes) {
    errno = 0;
    if (error_ == 0 && !bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) {
      error_ = errno == 0 ? EIO : errno;
    }
    at_ += bytes.size();
    return error_ == 0;
  }
  bool put(std::string_view text) { return put(std::as_bytes(std::span(text.data(), text.size()))); }
  void pad_to(uint64_t offset) {
    static constexpr std::byte kZero[64] = {};
    while (at_ < offset && error_ == 0) put(std::span(kZero, std::min<uint64_t>(64, offset - at_)));
  }
  uint64_t at() const { return at_; }
  void rewind() {
    if (error_ == 0 && std::fseek(file_.get(), 0, SEEK_SET) != 0) error_ = errno;
  }
  // 0, or what went wrong.
  int close() {
    std::FILE* file = file_.release();
    if (file != nullptr && std::fclose(file) != 0 && error_ == 0) error_ = errno;
    return error_;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  uint64_t at_ = 0;
  int error_ = 0;
};

class StringTable {
 public:
  uint32_t add(const std::string& text) {
    auto at = static_cast<uint32_t>(bytes_.size());
    bytes_ += text;
    bytes_ += '\0';
    return at;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_ = std::string(1, '\0');
};

}  // namespace

ElfObject::SectionId ElfObject::add_section(std::string name, Kind kind, uint64_t alignment, std::string bytes) {
  uint64_t size = bytes.size();
  sections_.push_back({std::move(name), kind, alignment, size, std::move(bytes), nullptr, {}});
  return static_cast<SectionId>(sections_.size());
}

ElfObject::SectionId ElfObject::add_streamed_section(std::string name, Kind kind, uint64_t alignment, uint64_t size,
                                                     std::function<bool(const ByteSink&)> produce) {
  sections_.push_back({std::move(name), kind, alignment, size, {}, std::move(produce), {}});
  return static_cast<SectionId>(sections_.size());
}

ElfObject::SymbolId ElfObject::define(std::string name, SectionId section, uint64_t offset, uint64_t size,
                                      bool function, bool hidden) {
  auto info = static_cast<uint8_t>(ELF64_ST_INFO(STB_GLOBAL, function ? STT_FUNC : STT_OBJECT));
  symbols_.push_back({std::move(name), static_cast<uint16_t>(section), offset, size, info,
                      static_cast<uint8_t>(hidden ? STV_HIDDEN : STV_DEFAULT)});
  return kFirstGlobal + static_cast<uint32_t>(symbols_.size()) - 1;
}

ElfObject::SymbolId ElfObject::refer(std::string name) {
  symbols_.push_back({std::move(name), SHN_UNDEF, 0, 0, ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), STV_DEFAULT});
  return kFirstGlobal + static_cast<uint32_t>(symbols_.size()) - 1;
}

void ElfObject::point_at(SectionId id, uint64_t offset, SymbolId symbol, int64_t addend) {
  TCC_CHECK(offset + 8 <= section(id).size);
  section(id).relocations.push_back({offset, ELF64_R_INFO(static_cast<uint64_t>(symbol), R_X86_64_64), addend});
}

void ElfObject::call_at(SectionId id, uint64_t offset, SymbolId symbol, int64_t addend) {
  TCC_CHECK(offset + 4 <= section(id).size);
  section(id).relocations.push_back({offset, ELF64_R_INFO(static_cast<uint64_t>(symbol), R_X86_64_PLT32), addend});
}

struct ElfObject::Output {
  explicit Output(const std::string& path) : file(path) {}
  FileSink file;
  StringTable names, symbol_names;
  std::vector<Elf64_Shdr> headers = std::vector<Elf64_Shdr>(1);

  // A header for what comes next in the file.
  Elf64_Shdr& begin(const std::string& name, uint32_t type, uint64_t alignment) {
    file.pad_to(round_up(file.at(), alignment));
    Elf64_Shdr header{};
    header.sh_name = names.add(name);
    header.sh_type = type;
    header.sh_offset = file.at();
    header.sh_addralign = alignment;
    return headers.emplace_back(header);
  }
};

bool ElfObject::write_sections(Output& out) const {
  for (const Section& s : sections_) {
    Elf64_Shdr& header = out.begin(s.name, SHT_PROGBITS, s.alignment);
    header.sh_flags = SHF_ALLOC;
    if (s.kind == Kind::kCode) header.sh_flags |= SHF_EXECINSTR;
    if (s.kind == Kind::kReadOnlyLarge) header.sh_flags |= kLargeSection;
    if (s.kind == Kind::kRelocatedData) header.sh_flags |= SHF_WRITE;
    header.sh_size = s.size;
    if (!s.produce) {
      out.file.put(s.bytes);
      continue;
    }
    if (!s.produce([&](std::span<const std::byte> bytes) { return out.file.put(bytes); })) return false;
    TCC_CHECK(out.file.at() == header.sh_offset + s.size, "section {} gave {} bytes, not {}", s.name,
              out.file.at() - header.sh_offset, s.size);
  }
  return true;
}

void ElfObject::write_relocations(Output& out, uint32_t symbol_section) const {
  uint64_t count = sections_.size();
  // Symbol 0, one per section, then the globals.
  auto number = [&](uint64_t id) { return id >= kFirstGlobal ? 1 + count + (id - kFirstGlobal) : id; };
  for (uint32_t i = 0; i < count; ++i) {
    const Section& s = sections_[i];
    if (s.relocations.empty()) continue;
    Elf64_Shdr& header = out.begin(".rela" + s.name, SHT_RELA, 8);
    header.sh_flags = SHF_INFO_LINK;
    header.sh_size = s.relocations.size() * sizeof(Elf64_Rela);
    header.sh_link = symbol_section;
    header.sh_info = i + 1;
    header.sh_entsize = sizeof(Elf64_Rela);
    for (const Relocation& r : s.relocations) {
      Elf64_Rela rela{r.offset, ELF64_R_INFO(number(ELF64_R_SYM(r.info)), ELF64_R_TYPE(r.info)), r.addend};
      out.file.put(bytes_of(rela));
    }
  }
}

void ElfObject::write_tables(Output& out) const {
  auto count = static_cast<uint32_t>(sections_.size());
  Elf64_Shdr& table = out.begin(".symtab", SHT_SYMTAB, 8);
  table.sh_link = static_cast<uint32_t>(out.headers.size());
  table.sh_info = count + 1;
  table.sh_entsize = sizeof(Elf64_Sym);
  table.sh_size = (1 + count + symbols_.size()) * sizeof(Elf64_Sym);
  out.file.put(bytes_of(Elf64_Sym{}));
  for (uint32_t i = 0; i < count; ++i) {
    Elf64_Sym symbol{};
    symbol.st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION);
    symbol.st_shndx = static_cast<uint16_t>(i + 1);
    out.file.put(bytes_of(symbol));
  }
  for (const Symbol& s : symbols_) {
    Elf64_Sym symbol{out.symbol_names.add(s.name), s.info, s.other, s.section, s.offset, s.size};
    out.file.put(bytes_of(symbol));
  }
  out.begin(".strtab", SHT_STRTAB, 1).sh_size = out.symbol_names.bytes().size();
  out.file.put(out.symbol_names.bytes());
  Elf64_Shdr& strings = out.begin(".shstrtab", SHT_STRTAB, 1);
  strings.sh_size = out.names.bytes().size();
  out.file.put(out.names.bytes());
}

Result<void> ElfObject::write(const std::string& path) const {
  Output out(path);
  out.file.pad_to(sizeof(Elf64_Ehdr));
  if (write_sections(out)) {
    // After the sections: their relocations, the note that the stack is not executable, then the symbols.
    auto symbol_section = static_cast<uint32_t>(out.headers.size()) + 1;
    for (const Section& s : sections_) symbol_section += s.relocations.empty() ? 0 : 1;
    write_relocations(out, symbol_section);
    out.begin(".note.GNU-stack", SHT_PROGBITS, 1);
    TCC_CHECK(out.headers.size() == symbol_section);
    write_tables(out);
    out.file.pad_to(round_up(out.file.at(), 8));
  }
  Elf64_Ehdr file{};
  std::memcpy(file.e_ident, ELFMAG, SELFMAG);
  file.e_ident[EI_CLASS] = ELFCLASS64;
  file.e_ident[EI_DATA] = ELFDATA2LSB;
  file.e_ident[EI_VERSION] = EV_CURRENT;
  file.e_type = ET_REL;
  file.e_machine = EM_X86_64;
  file.e_version = EV_CURRENT;
  file.e_shoff = out.file.at();
  file.e_ehsize = sizeof(Elf64_Ehdr);
  file.e_shentsize = sizeof(Elf64_Shdr);
  file.e_shnum = static_cast<uint16_t>(out.headers.size());
  file.e_shstrndx = static_cast<uint16_t>(out.headers.size() - 1);
  for (const Elf64_Shdr& header : out.headers) out.file.put(bytes_of(header));
  out.file.rewind();
  out.file.put(bytes_of(file));
  if (int error = out.file.close(); error != 0) {
    return make_error(ErrorClass::kEnvironment, fmt::format("cannot write '{}': {}", path, std::strerror(error)),
                      "free some space there, raise the limit on file sizes (ulimit -f), or choose another folder "
                      "with -o");
  }
  return {};
}

}  // namespace tcc::package
