#include "sass.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "tcc/support/files.h"

namespace tcc::benchmarks {
namespace {

struct Line {
  std::string opcode;             // with its modifiers
  std::vector<int> sources;       // general registers that it reads
  int destination = -1;           // the first general register that it writes
  int destination_registers = 0;  // how many
  std::string target;             // of a branch
  int64_t immediate = -1;         // the last one
};

bool starts(std::string_view text, std::string_view with) {
  return text.starts_with(with);
}
bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

int64_t access_bytes(std::string_view opcode) {
  if (has(opcode, ".128")) return 16;
  if (has(opcode, ".64")) return 8;
  if (has(opcode, ".U8") || has(opcode, ".S8")) return 1;
  if (has(opcode, ".U16") || has(opcode, ".S16")) return 2;
  return 4;
}

bool is_global_load(std::string_view op) {
  return starts(op, "LDG.") || op == "LDG" || starts(op, "LD.");
}

// R12, R12.64, desc[UR4][R12.64]: numbers of general registers in an operand.
void registers_in(std::string_view text, std::vector<int>& out) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const bool word = i > 0 && (std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0 || text[i - 1] == '_');
    if (text[i] != 'R' || word || std::isdigit(static_cast<unsigned char>(text[i + 1])) == 0) continue;
    const int first = std::atoi(text.data() + i + 1);
    out.push_back(first);
    size_t end = i + 1;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (text.substr(end).starts_with(".64")) out.push_back(first + 1);
  }
}

// "@!P0 LDG.E.128 R4, desc[UR4][R2.64+0x10] ;" behind the address comment.
Line read_line(std::string_view text) {
  Line line;
  auto skip = [&] {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  };
  skip();
  if (starts(text, "@")) {
    text.remove_prefix(std::min(text.find(' '), text.size()));
    skip();
  }
  const size_t end = text.find_first_of(" ;");
  line.opcode = std::string(text.substr(0, end));
  std::string_view rest = end == std::string_view::npos ? "" : text.substr(end);
  if (const size_t at = rest.find("`("); at != std::string_view::npos)
    line.target = std::string(rest.substr(at + 2, rest.find(')', at) - at - 2));
  rest = rest.substr(0, rest.find(';'));
  const bool stores = starts(line.opcode, "ST") || starts(line.opcode, "RED") || starts(line.opcode, "LDGSTS");
  size_t comma = rest.find(',');
  if (!stores && !rest.empty()) {
    std::vector<int> written;
    std::string_view first = rest.substr(0, comma);
    if (!has(first, "[")) registers_in(first, written);
    if (!written.empty()) line.destination = written[0];
    rest = comma == std::string_view::npos ? "" : rest.substr(comma);
  }
  if (line.destination >= 0)
    line.destination_registers = static_cast<int>(std::max<int64_t>(access_bytes(line.opcode) / 4, 1));
  registers_in(rest, line.sources);
  if (const size_t hex = rest.rfind("0x"); hex != std::string_view::npos)
    line.immediate = std::strtoll(std::string(rest.substr(hex)).c_str(), nullptr, 16);
  return line;
}

bool is_integer(std::string_view op) {
  for (std::string_view begin :
       {"IMAD",  "IADD",  "LOP3", "SHF",  "LEA",   "ISETP", "PRMT",   "SEL",  "IMNMX", "VIADD", "LOP",
        "ULOP3", "UIADD", "USHF", "ULEA", "UIMAD", "USEL",  "UISETP", "IABS", "I2F",   "F2I"})
    if (starts(op, begin)) return true;
  return false;
}
bool is_conversion(std::string_view op) {
  return starts(op, "F2F") || (starts(op, "HADD2") && has(op, "F32")) || starts(op, "I2F") || starts(op, "F2I");
}

void count(SassCounts& c, const Line& line) {
  const std::string_view op = line.opcode;
  ++c.instructions;
  c.hmma += starts(op, "HMMA") || starts(op, "IMMA") || starts(op, "DMMA") ? 1 : 0;
  c.hgmma += starts(op, "HGMMA") || starts(op, "IGMMA") || starts(op, "QGMMA") ? 1 : 0;
  c.ffma += starts(op, "FFMA") ? 1 : 0;
  c.mufu += starts(op, "MUFU") ? 1 : 0;
  c.ldsm += starts(op, "LDSM") ? 1 : 0;
  if (starts(op, "LDS") && !starts(op, "LDSM")) {
    ++c.lds;
    c.shared_read_words += std::max<int64_t>(access_bytes(op) / 4, 1);
  }
  c.sts += starts(op, "STS") || starts(op, "STSM") ? 1 : 0;
  c.tensor_copies += starts(op, "UTMALDG") ? 1 : 0;
  c.membar += starts(op, "MEMBAR") ? 1 : 0;
  c.bar += starts(op, "BAR.") ? 1 : 0;
  c.spills += starts(op, "LDL") || starts(op, "STL") ? 1 : 0;
  c.integer += is_integer(op) ? 1 : 0;
  c.conversions += is_conversion(op) ? 1 : 0;
  if (starts(op, "LDGSTS")) {
    ++c.async_copies;
    c.copied_bytes += access_bytes(op);
  } else if (is_global_load(op)) {
    ++c.loads[access_bytes(op)];
    c.loaded_bytes += access_bytes(op);
  } else if (starts(op, "STG") || starts(op, "ST.")) {
    ++c.stores[access_bytes(op)];
    c.stored_bytes += access_bytes(op);
  }
  if (starts(op, "DEPBAR") && line.immediate >= 0)
    c.groups_in_flight = std::max(c.groups_in_flight, line.immediate + 1);
}

// A thread's loads return in order: the first reader of one waits for it and for those before it.
int64_t bytes_in_flight(const std::vector<Line>& lines, size_t begin, size_t end) {
  struct Load {
    int first, registers;
    int64_t bytes;
  };
  std::vector<Load> under_way;
  int64_t bytes = 0, most = 0;
  for (size_t i = begin; i < end; ++i) {
    const Line& line = lines[i];
    size_t done = 0;
    for (size_t n = 0; n < under_way.size(); ++n)
      for (int source : line.sources)
        if (source >= under_way[n].first && source < under_way[n].first + under_way[n].registers) done = n + 1;
    for (size_t n = 0; n < done; ++n) bytes -= under_way[n].bytes;
    under_way.erase(under_way.begin(), under_way.begin() + static_cast<std::ptrdiff_t>(done));
    if (!is_global_load(line.opcode) || line.destination < 0) continue;
    under_way.push_back({line.destination, line.destination_registers, access_bytes(line.opcode)});
    bytes += access_bytes(line.opcode);
    most = std::max(most, bytes);
  }
  return most;
}

class Parser {
 public:
  std::vector<SassKernel> run(const std::string& text) {
    size_t at = 0;
    while (at < text.size()) {
      const size_t end = std::min(text.find('\n', at), text.size());
      line(std::string_view(text).substr(at, end - at));
      at = end + 1;
    }
    finish();
    return std::move(kernels_);
  }

 private:
  void line(std::string_view text) {
    constexpr std::string_view kSection = ".section\t.text.";
    if (const size_t at = text.find(kSection); at != std::string_view::npos) {
      finish();
      const size_t begin = at + kSection.size();
      name_ = std::string(text.substr(begin, text.find_first_of(", \t", begin) - begin));
      return;
    }
    if (has(text, ".section\t")) return finish();
    if (name_.empty()) return;
    const size_t comment = text.find("/*");
    if (const size_t colon = text.find(':'); starts(text, ".L_") && colon != std::string_view::npos) {
      labels_[std::string(text.substr(0, colon))] = lines_.size();
      return;
    }
    const size_t after = comment == std::string_view::npos ? std::string_view::npos : text.find("*/", comment);
    if (after == std::string_view::npos || !has(text, ";")) return;
    lines_.push_back(read_line(text.substr(after + 2)));
  }

  SassCounts counts_of(size_t begin, size_t end) const {
    SassCounts c;
    for (size_t i = begin; i < end; ++i) count(c, lines_[i]);
    c.bytes_in_flight = bytes_in_flight(lines_, begin, end);
    return c;
  }

  void finish() {
    if (!name_.empty() && !lines_.empty()) {
      SassKernel kernel;
      kernel.name = name_;
      kernel.all = counts_of(0, lines_.size());
      for (size_t i = 0; i < lines_.size(); ++i) {
        const auto label = labels_.find(lines_[i].target);
        // A branch to itself ends the code.
        if (!starts(lines_[i].opcode, "BRA") || label == labels_.end() || label->second >= i) continue;
        SassLoop loop{label->second, i + 1, counts_of(label->second, i + 1)};
        const SassCounts& c = loop.counts;
        const bool works = c.hmma + c.hgmma + c.ffma + c.loaded_bytes + c.stored_bytes + c.async_copies + c.lds +
                               c.sts + c.tensor_copies + c.mufu >
                           0;
        if (works) kernel.loops.push_back(std::move(loop));
      }
      kernels_.push_back(std::move(kernel));
    }
    name_.clear();
    lines_.clear();
    labels_.clear();
  }

  std::string name_;
  std::vector<Line> lines_;
  std::map<std::string, size_t> labels_;
  std::vector<SassKernel> kernels_;
};

// In the environments of tools/peers, beside the CUDA Toolkit's compiler, on the path.
std::optional<std::string> find_nvdisasm() {
  const char* given = std::getenv("TCC_PEERS_DIR");
  std::vector<std::string> places = {
      (given != nullptr ? given : std::string(TCC_SOURCE_DIR) + "/build/peers") + std::string("/sass/nvdisasm"),
      "/usr/local/cuda/bin/nvdisasm"};
  const char* path = std::getenv("PATH");
  for (std::string_view rest = path != nullptr ? path : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    places.push_back(std::string(rest.substr(0, end)) + "/nvdisasm");
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  for (const std::string& place : places)
    if (access(place.c_str(), X_OK) == 0) return place;
  return std::nullopt;
}

}  // namespace

int64_t SassCounts::widest(const std::map<int64_t, int64_t>& accesses) {
  return accesses.empty() ? 0 : accesses.rbegin()->first;
}
int64_t SassCounts::narrowest(const std::map<int64_t, int64_t>& accesses) {
  return accesses.empty() ? 0 : accesses.begin()->first;
}

const SassLoop* SassKernel::steady() const {
  const auto work = [&](const SassCounts& c) {
    if (all.hgmma > 0) return c.hgmma;
    if (all.hmma > 0) return c.hmma;
    const int64_t bytes = c.loaded_bytes + c.stored_bytes + c.copied_bytes;
    return all.ffma >= 16 && all.lds > 0 ? c.ffma : bytes;
  };
  const SassLoop* best = nullptr;
  for (const SassLoop& loop : loops) {
    if (work(loop.counts) == 0) continue;
    const bool smaller = best != nullptr && loop.end - loop.begin < best->end - best->begin;
    if (best == nullptr || work(loop.counts) > work(best->counts) ||
        (work(loop.counts) == work(best->counts) && smaller))
      best = &loop;
  }
  return best;
}

std::vector<SassKernel> parse_sass(const std::string& text) {
  return Parser().run(text);
}

Result<std::string> disassemble(const std::string& cubin) {
  const std::optional<std::string> program = find_nvdisasm();
  if (!program)
    return make_error(ErrorClass::kEnvironment, "nvdisasm, which prints SASS, was found nowhere",
                      "run tools/peers, which fetches it, or install the CUDA Toolkit's nvdisasm");
  const std::string file = std::filesystem::temp_directory_path() / fmt::format("tcc-sass-{}.cubin", getpid());
  TCC_TRY_VOID(write_file(file, cubin));
  FILE* pipe = popen(fmt::format("'{}' -c '{}' 2>&1", *program, file).c_str(), "r");
  std::string text;
  char buffer[1 << 16];
  for (size_t n = 1; pipe != nullptr && n > 0;) {
    n = fread(buffer, 1, sizeof buffer, pipe);
    text.append(buffer, n);
  }
  const int status = pipe != nullptr ? pclose(pipe) : -1;
  std::filesystem::remove(file);
  if (status != 0) return environment_error("{} failed: {}", *program, text.substr(0, 500));
  return text;
}

}  // namespace tcc::benchmarks
