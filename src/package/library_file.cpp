#include "library_file.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::package {
namespace {

using Bytes = std::span<const std::byte>;

template <class T>
T read_at(Bytes bytes, uint64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// begin + length, or the largest number where that overflows.
uint64_t end_of(uint64_t begin, uint64_t length) {
  return begin > UINT64_MAX - length ? UINT64_MAX : begin + length;
}

std::string file_name(const std::string& path) {
  return sanitize(path.substr(path.rfind('/') + 1));
}

class ElfFile {
 public:
  static Result<ElfFile> read(Bytes bytes, const std::string& path) {
    if (bytes.size() < sizeof(Elf64_Ehdr) || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0)
      return refused(path, "expected a shared library, found no ELF header");
    ElfFile file(bytes, path);
    const Elf64_Ehdr& h = file.header_;
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != EM_X86_64 ||
        h.e_type != ET_DYN)
      return refused(path, "expected a shared library for x86-64, found another kind of ELF file");
    TCC_TRY_VOID(file.read_table(h.e_phoff, h.e_phnum, h.e_phentsize, file.segments_));
    TCC_TRY_VOID(file.read_table(h.e_shoff, h.e_shnum, h.e_shentsize, file.sections_));
    for (const Elf64_Phdr& p : file.segments_) TCC_TRY_VOID(file.need(end_of(p.p_offset, p.p_filesz)));
    for (const Elf64_Shdr& s : file.sections_)
      if (s.sh_type != SHT_NOBITS) TCC_TRY_VOID(file.need(end_of(s.sh_offset, s.sh_size)));
    return file;
  }

  // The section's place in the file.
  std::optional<Elf64_Shdr> find(std::string_view name) const {
    if (header_.e_shstrndx >= sections_.size()) return std::nullopt;
    const Elf64_Shdr& names = sections_[header_.e_shstrndx];
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type == SHT_NOBITS || s.sh_name >= names.sh_size || names.sh_size - s.sh_name <= name.size()) continue;
      const char* text = reinterpret_cast<const char*>(bytes_.data() + names.sh_offset + s.sh_name);
      if (std::string_view(text, name.size()) == name && text[name.size()] == '\0') return s;
    }
    return std::nullopt;
  }

  // Of the segments and their headers; the eight bytes at `hole` count as zeros. Left out is what strip changes: the
  // ELF header, which points at the sections, and the offsets of segments without bytes in the file.
  uint64_t checksum(uint64_t hole) const {
    uint64_t hash = 0x7463632d6c696221u;
    for (Elf64_Phdr p : segments_) {
      if (p.p_filesz == 0) p.p_offset = 0;
      for (const uint64_t word : {uint64_t{p.p_type} << 32 | p.p_flags, p.p_offset, p.p_vaddr, p.p_filesz, p.p_memsz})
        hash = step(hash, word);
    }
    const uint64_t headers = header_.e_phoff == sizeof(Elf64_Ehdr) ? segments_.size() * sizeof(Elf64_Phdr) : 0;
    const uint64_t headers_end = sizeof(Elf64_Ehdr) + headers;
    for (const Elf64_Phdr& p : segments_) {
      if (p.p_type != PT_LOAD) continue;
      const uint64_t end = p.p_offset + p.p_filesz;
      uint64_t at = std::max(p.p_offset, headers_end);
      while (at < end) {
        // Up to the hole, the hole itself, behind it.
        const bool inside = at >= hole && at < hole + 8;
        const uint64_t stop = at < hole ? std::min(end, hole) : inside ? std::min(end, hole + 8) : end;
        hash = add(hash, at, stop, inside);
        at = stop;
      }
    }
    return hash;
  }

 private:
  ElfFile(Bytes bytes, std::string path)
      : bytes_(bytes), path_(std::move(path)), header_(read_at<Elf64_Ehdr>(bytes, 0)) {}

  static tl::unexpected<Error> refused(const std::string& path, std::string_view what) {
    return make_error(ErrorClass::kInput, fmt::format("'{}': {}", sanitize(path), what),
                      "give the lib<ID>.so that was built");
  }

  // The file is at least that long.
  Result<void> need(uint64_t bytes) const {
    if (bytes <= bytes_.size()) return {};
    // The section headers come last.
    const uint64_t whole = std::max(bytes, end_of(header_.e_shoff, uint64_t{header_.e_shnum} * sizeof(Elf64_Shdr)));
    return make_error(ErrorClass::kInput,
                      fmt::format("{} ends early: {} of {} bytes", file_name(path_), bytes_.size(), whole),
                      "copy it again, or build it again");
  }

  template <class T>
  Result<void> read_table(uint64_t at, uint64_t count, uint64_t entry_bytes, std::vector<T>& table) const {
    if (count == 0) return {};
    if (entry_bytes != sizeof(T)) return refused(path_, "found a table of headers in an unknown format");
    TCC_TRY_VOID(need(end_of(at, count * sizeof(T))));
    for (uint64_t i = 0; i < count; ++i) table.push_back(read_at<T>(bytes_, at + i * sizeof(T)));
    return {};
  }

  static constexpr uint64_t kPrime = 0x9e3779b185ebca87u;
  static uint64_t step(uint64_t state, uint64_t word) {
    state = (state ^ word) * kPrime;
    return state ^ (state >> 29);
  }

  // Four words at a time, each with a state of its own: as fast as memory is read.
  uint64_t add(uint64_t hash, uint64_t at, uint64_t end, bool zeros) const {
    std::array<uint64_t, 4> state = {hash, hash + kPrime, hash ^ kPrime, ~hash};
    for (; end - at >= 32; at += 32)
      for (size_t i = 0; i < 4; ++i) state[i] = step(state[i], zeros ? 0 : read_at<uint64_t>(bytes_, at + 8 * i));
    for (; at < end; ++at) state[at % 4] = step(state[at % 4], zeros ? 0 : static_cast<uint64_t>(bytes_[at]) + 1);
    return step(step(state[0], state[1]), step(state[2], state[3]));
  }

  Bytes bytes_;
  std::string path_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
};

// The section, where it is one of a library made by tcc.
std::optional<Elf64_Shdr> find_metadata(const ElfFile& elf, Bytes bytes) {
  std::optional<Elf64_Shdr> section = elf.find(kMetadataSection);
  if (!section || section->sh_size < kMetadataHeaderBytes) return std::nullopt;
  if (std::memcmp(bytes.data() + section->sh_offset, kMetadataMagic.data(), kMetadataMagic.size()) != 0)
    return std::nullopt;
  return section;
}

tl::unexpected<Error> cannot_seal(const std::string& path) {
  return make_error(ErrorClass::kEnvironment, fmt::format("cannot write '{}': {}", path, std::strerror(errno)),
                    "free some space there, or choose another folder with -o");
}

// --- the structure of the metadata ---------------------------------------------------------------------------------

using Json = nlohmann::json;

// One example of each member that is read back: the types that are expected. null stands for any.
constexpr const char* kExample = R"json({
  "id": "", "tool_version": "", "abi_version": 0, "model": "", "target": {"name": "", "kind": "", "features": ""},
  "inputs": [{"name": "", "type": "", "shape": [0], "bytes": 0}],
  "outputs": [{"name": "", "type": "", "shape": [0], "bytes": 0}],
  "workspace_bytes": 0, "weights_bytes": 0, "steps": [0], "counts": [0],
  "tasks": [{"key": "", "workload": "", "type": "", "count": 0, "flops": 0, "bytes": 0, "tuned": true, "launches": 0,
             "code_bytes": 0, "seconds": 0,
             "code": [{"architecture": "", "format": "", "record": "", "code_bytes": 0, "seconds": 0,
                       "predicted_seconds": 0, "registers": 0, "spill_bytes": 0, "stack_bytes": 0, "shared_bytes": 0,
                       "serialized_products": 0, "injected_waits": 0, "ignored_register_budgets": 0,
                       "launch_models": [{"threads": 0, "registers": 0, "shared_bytes": 0, "blocks_per_sm": 0,
                                          "rounds": 0, "occupancy": 0, "bank_conflicts": 0, "stages": 0, "steps": 0,
                                          "copy_seconds": 0, "arithmetic_seconds": 0,
                                          "roles": [{"work": "", "first_warp": 0, "warps": 0, "registers": 0}]}],
                       "launches": [{"symbol": "", "grid": [0], "block": [0], "dynamic_shared_bytes": 0}]}]}],
  "source": {"model": "", "hash": ""},
  "architectures": [{"architecture": "", "target": "", "format": ""}],
  "cuda_toolkit": "", "conformance": {"checked_on_device": true, "note": ""}
})json";

bool same_type(const Json& a, const Json& b) {
  return a.is_number() ? b.is_number() : a.type() == b.type();
}

std::string compare(const Json& example, const Json& found, const std::string& where) {
  if (!same_type(example, found))
    return fmt::format("'{}': expected {}, found {}", where, example.type_name(), found.type_name());
  if (example.is_array()) {
    for (size_t i = 0; i < found.size(); ++i)
      if (std::string problem = compare(example[0], found[i], fmt::format("{}[{}]", where, i)); !problem.empty())
        return problem;
  }
  if (!example.is_object()) return "";
  for (const auto& [key, value] : example.items()) {
    if (!found.contains(key)) continue;
    std::string problem = compare(value, found[key], where.empty() ? key : where + "." + key);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace

std::string metadata_section(const std::string& json) {
  return std::string(kMetadataMagic) + std::string(8, '\0') + json + '\0';
}

Result<void> seal_library(const std::string& path) {
  uint64_t at = 0, checksum = 0;
  {
    TCC_TRY(auto file, MappedFile::open(path));
    TCC_TRY(ElfFile elf, ElfFile::read(file->bytes(), path));
    std::optional<Elf64_Shdr> section = find_metadata(elf, file->bytes());
    if (!section) return environment_error("the linker dropped the section {} of '{}'", kMetadataSection, path);
    at = section->sh_offset + kMetadataMagic.size();
    checksum = elf.checksum(at);
  }
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return cannot_seal(path);
  const bool written = ::pwrite(fd, &checksum, sizeof checksum, static_cast<off_t>(at)) == sizeof checksum;
  if (::close(fd) != 0 || !written) return cannot_seal(path);
  return {};
}

Result<std::optional<std::string>> check_library(const std::string& path) {
  TCC_TRY(auto file, MappedFile::open(path));
  const Bytes bytes = file->bytes();
  TCC_TRY(ElfFile elf, ElfFile::read(bytes, path));
  std::optional<Elf64_Shdr> section = find_metadata(elf, bytes);
  if (!section) return std::optional<std::string>();
  const uint64_t at = section->sh_offset + kMetadataMagic.size();
  // 0: somebody linked the objects of `--emit obj`.
  const auto checksum = read_at<uint64_t>(bytes, at);
  if (checksum != 0 && checksum != elf.checksum(at))
    return make_error(
        ErrorClass::kInput,
        fmt::format("{} is damaged: its bytes do not have the checksum that it was built with", file_name(path)),
        "copy it again, or build it again");
  std::string text(reinterpret_cast<const char*>(bytes.data()) + section->sh_offset + kMetadataHeaderBytes,
                   section->sh_size - kMetadataHeaderBytes);
  text.erase(std::min(text.find('\0'), text.size()));
  if (std::string problem = metadata_problem(text); !problem.empty())
    return make_error(ErrorClass::kInput, fmt::format("{}: its metadata are damaged: {}", file_name(path), problem),
                      "build it again");
  return std::optional(std::move(text));
}

std::string metadata_problem(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return "expected a JSON object";
  return sanitize(compare(Json::parse(kExample), json, ""));
}

}  // namespace tcc::package
