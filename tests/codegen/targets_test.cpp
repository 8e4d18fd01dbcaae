// Code for a target has that target's instructions only, whatever the host offers, and calls nobody but libc's memcpy,
// memmove and memset.
#include <elf.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <regex>

#include "nest.h"
#include "skip.h"
#include "tcc/support/files.h"

namespace tcc::codegen {
namespace {

using ir::Intrinsic;
using ir::LoopKind;
using ir::Type;

// Functions, conversions, integer arithmetic, strided and masked accesses, and a reduction over one row.
ir::Kernel varied(Type type) {
  Nest t;
  ir::Builder& b = t.b();
  int64_t n = 100;
  const ir::Buffer *x = t.input("x", type, {n, 3}), *y = t.output("y", type, {n}), *s = t.output("s", Type::kF32, {1});
  ir::Stmt rows = t.loop((n + 15) / 16, LoopKind::kParallel, [&](ir::Expr o) {
    return t.loop(16, LoopKind::kVectorized, [&](ir::Expr v) {
      ir::Expr i = t.at(o, 16, v), inside = b.lt(i, t.i(n));
      std::vector<ir::Expr> at{i, t.i(1)};
      ir::Expr value = b.load(*x, at, inside, type == Type::kI8 ? b.integer(1, type) : b.real(1, type));
      if (type != Type::kI8) {
        ir::Expr wide = type == Type::kF64 ? value : b.cast(value, Type::kF32);
        std::vector<Intrinsic> functions{Intrinsic::kExp, Intrinsic::kLog, Intrinsic::kRsqrt, Intrinsic::kFloor,
                                         Intrinsic::kRound};
        // In f64 these are long series, which say nothing more.
        if (type != Type::kF64)
          functions.insert(functions.end(), {Intrinsic::kTanh, Intrinsic::kErf, Intrinsic::kSigmoid, Intrinsic::kSin});
        for (Intrinsic fn : functions) wide = b.add(wide, t.call(fn, {wide}));
        wide = t.call(Intrinsic::kPow, {wide, b.real(1.5, wide->type)});
        wide = t.call(Intrinsic::kFma, {wide, wide, wide});
        value = b.cast(wide, type);
      }
      return t.store(y, {i}, value, inside);
    });
  });
  ir::Stmt sum = t.loop(n, LoopKind::kSerial, [&](ir::Expr i) {
    return t.store(s, {t.i(0)}, b.add(t.load(s, {t.i(0)}), b.cast(t.load(x, {i, t.i(0)}), Type::kF32)));
  });
  return t.lowered(t.seq({rows, sum}));
}

// Line by line: the library's matcher recurses for every character.
bool matches(const std::string& text, const char* pattern) {
  std::regex regex(pattern);
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    if (std::regex_search(text.begin() + static_cast<std::ptrdiff_t>(at),
                          text.begin() + static_cast<std::ptrdiff_t>(end), regex))
      return true;
    at = end + 1;
  }
  return false;
}

std::vector<std::string> undefined_symbols(const std::string& object) {
  Elf64_Ehdr header;
  std::memcpy(&header, object.data(), sizeof header);
  std::vector<std::string> names;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), object.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const char* strings = object.data() + sections[section.sh_link].sh_offset;
    for (uint64_t at = 0; at < section.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, object.data() + section.sh_offset + at, sizeof symbol);
      if (symbol.st_shndx == SHN_UNDEF && strings[symbol.st_name] != 0) names.emplace_back(strings + symbol.st_name);
    }
  }
  return names;
}

}  // namespace

TEST_CASE("code keeps to the instructions of its target", "[codegen]") {
  for (Type type : {Type::kF32, Type::kF64, Type::kF16, Type::kBF16, Type::kI8}) {
    ir::Kernel kernel = varied(type);
    for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
      INFO(name << " " << ir::type_name(type));
      HostOptions options;
      options.want_assembly = true;
      auto artifact = compile_host(kernel, *target::find_target(name), options);
      if (!artifact) FAIL(artifact.error().message);
      const std::string& text = artifact->source;
      bool v2 = std::string(name) == "x86-64-v2", v4 = std::string(name) == "x86-64-v4";
      CHECK(matches(text, "%ymm|\\tv[a-z0-9]+\\t") == !v2);
      CHECK(matches(text, "%zmm|%k[0-7]|%[xy]mm(1[6-9]|2[0-9]|3[01])") == v4);
      CHECK_FALSE(matches(text, "vpdp|vcvtneps2bf16|vdpbf16|\\ttile|\\tv[a-z]+ph\\t[^%]*%[xyz]mm[^\\n]*\\{"));
      bool fuses = matches(text, "vfn?m(add|sub)");
      CHECK(fuses == (!v2 && type != Type::kI8));
      for (const std::string& symbol : undefined_symbols(artifact->code)) {
        INFO(symbol);
        CHECK((symbol == "memcpy" || symbol == "memmove" || symbol == "memset"));
      }
    }
  }
}

TEST_CASE("loops are vectorized where a kernel without a schedule asks for it, and give the same", "[codegen]") {
  Nest t;
  ir::Builder& b = t.b();
  const int64_t n = 45, k = 7;
  const ir::Buffer *x = t.input("x", Type::kF64, {k, n}), *w = t.input("w", Type::kF64, {k}),
                   *y = t.output("y", Type::kF64, {n});
  const ir::Kernel kernel =
      t.lowered(t.seq({t.loop(n, LoopKind::kSerial, [&](ir::Expr i) { return t.store(y, {i}, b.real(0, Type::kF64)); }),
                       t.loop(k, LoopKind::kSerial, [&](ir::Expr r) {
                         return t.loop(n, LoopKind::kSerial, [&](ir::Expr i) {
                           return t.store(y, {i}, b.add(t.load(y, {i}), b.mul(t.load(x, {r, i}), t.load(w, {r}))));
                         });
                       })}));
  HostOptions options;
  options.want_assembly = true;
  auto plain = compile_host(kernel, target::host_target(), options);
  options.vectorize = true;
  auto vectorized = compile_host(kernel, target::host_target(), options);
  REQUIRE((plain && vectorized));
  CHECK_FALSE(matches(plain->source, "mulpd|fn?madd[0-9]*pd"));
  CHECK(matches(vectorized->source, "mulpd|fn?madd[0-9]*pd"));
  std::vector<Aligned<double>> results;
  for (const Artifact* artifact : {&*plain, &*vectorized}) {
    Aligned<double> xs(static_cast<size_t>(k * n)), ws(static_cast<size_t>(k)), ys(static_cast<size_t>(n));
    for (size_t i = 0; i < xs.size(); ++i) xs[i] = std::sin(static_cast<double>(i));
    for (size_t i = 0; i < ws.size(); ++i) ws[i] = std::cos(static_cast<double>(i));
    auto object = load_host(*artifact);
    REQUIRE(object);
    void* buffers[] = {xs.data(), ws.data(), ys.data()};
    for (const Launch& launch : artifact->launches) (*object)->function(launch.symbol)(buffers, 0, launch.extent);
    results.push_back(std::move(ys));
  }
  CHECK(results[0] == results[1]);
}

// The assembler as a judge: it refuses instructions of features that it was not given.
bool assembles(const std::string& assembly, const target::CpuFeatures& features) {
  static constexpr std::pair<const char*, const char*> kSpelling[] = {{"avxvnni", "avx_vnni"},
                                                                      {"avx512vbmi2", "avx512_vbmi2"},
                                                                      {"avx512vnni", "avx512_vnni"},
                                                                      {"avx512bitalg", "avx512_bitalg"},
                                                                      {"avx512vpopcntdq", "avx512_vpopcntdq"},
                                                                      {"avx512bf16", "avx512_bf16"},
                                                                      {"avx512fp16", "avx512_fp16"},
                                                                      {"amx-tile", "amx_tile"},
                                                                      {"amx-bf16", "amx_bf16"},
                                                                      {"amx-int8", "amx_int8"},
                                                                      {"amx-fp16", "amx_fp16"}};
  std::string march = "generic64";
#define TCC_X(field, llvm)                                                            \
  if (features.field) {                                                               \
    std::string name = llvm;                                                          \
    for (const auto& [ours, theirs] : kSpelling) name = name == ours ? theirs : name; \
    if (name != "sahf" && name != "cx16") march += "+" + name;                        \
  }
  TCC_CPU_FEATURES(TCC_X)
#undef TCC_X
  auto folder = TemporaryDirectory::create("tcc-features-test-").value();
  REQUIRE(write_file(folder->path() + "/code.s", assembly).has_value());
  return std::system(("as -march=" + march + " -o /dev/null " + folder->path() + "/code.s 2>/dev/null").c_str()) == 0;
}

TEST_CASE("the features that code needs are those without which the assembler refuses it", "[codegen]") {
  if (std::system("as --version >/dev/null 2>&1") != 0) return testing::report_skip("no assembler");
  target::CpuFeatures seen;
  for (Type type : {Type::kF32, Type::kF64, Type::kF16, Type::kBF16, Type::kI8}) {
    ir::Kernel kernel = varied(type);
    for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "host"}) {
      auto target = target::find_target(name);
      if (!target) continue;
      INFO(name << " " << ir::type_name(type));
      HostOptions options;
      options.want_assembly = true;
      auto artifact = compile_host(kernel, *target, options);
      if (!artifact) FAIL(artifact.error().message);
      const target::CpuFeatures used = used_features(artifact->code, *target);
      CHECK(assembles(artifact->source, used));
      // Each of them is needed. (Features that another one implies are given back by the assembler.)
      const bool words =
          used.avx512_bf16 || used.avx512_fp16 || used.avx512_vbmi || used.avx512_vbmi2 || used.avx512_bitalg;
      const bool part = words || used.avx512bw || used.avx512dq || used.avx512vl || used.avx512cd || used.avx512_vnni ||
                        used.avx512_ifma || used.avx512_vpopcntdq;
      const bool wide = part || used.avx512f;
      target::CpuFeatures implied;
      implied.avx = used.avx2 || used.fma || used.f16c || wide;
      implied.avx2 = implied.fma = implied.f16c = wide;
      implied.avx512f = part;
      implied.avx512bw = words;
      implied.avx512dq = implied.avx512vl = used.avx512_fp16;
      implied.sse4_2 = implied.sse4_1 = implied.ssse3 = implied.sse3 = implied.popcnt = used.avx;
      implied.sse4_1 = implied.sse4_1 || used.sse4_2;
      implied.ssse3 = implied.ssse3 || used.sse4_1 || used.sse4_2;
      implied.sse3 = implied.sse3 || used.ssse3 || used.sse4_1 || used.sse4_2;
#define TCC_X(field, llvm)                                              \
  if (used.field) {                                                     \
    seen.field = true;                                                  \
    INFO("without " llvm);                                              \
    target::CpuFeatures less = used;                                    \
    less.field = false;                                                 \
    if (!implied.field) CHECK_FALSE(assembles(artifact->source, less)); \
  }
      TCC_CPU_FEATURES(TCC_X)
#undef TCC_X
    }
  }
  CHECK(seen.avx512f);
  CHECK(seen.avx2);
  CHECK(seen.fma);
  CHECK(seen.sse4_1);
  CHECK_FALSE(seen.amx_tile);
  // A plain sum of vectors needs little of what its target has.
  Nest t;
  const ir::Buffer *x = t.input("x", Type::kF32, {64}), *y = t.output("y", Type::kF32, {64});
  const ir::Kernel sum = t.lowered(t.loop(64, LoopKind::kVectorized, [&](ir::Expr v) {
    return t.store(y, {v}, t.b().add(t.load(x, {v}), t.load(x, {v})));
  }));
  const auto v4 = target::find_target("x86-64-v4").value();
  const target::CpuFeatures used = used_features(compile_host(sum, v4).value().code, v4);
  CHECK(used.avx512f);
  CHECK_FALSE((used.avx512bw || used.avx512dq || used.avx512cd || used.fma || used.bmi2 || used.popcnt));
  // Bytes that are not an object need everything.
  CHECK(used_features("?", v4) == v4.cpu.features);
}

TEST_CASE("vectors are as wide as the target's registers", "[codegen]") {
  Nest t;
  const ir::Buffer *x = t.input("x", Type::kF32, {64}), *y = t.output("y", Type::kF32, {64});
  ir::Stmt root = t.loop(64, LoopKind::kVectorized,
                         [&](ir::Expr v) { return t.store(y, {v}, t.b().add(t.load(x, {v}), t.load(x, {v}))); });
  ir::Kernel kernel = t.lowered(root);
  const std::pair<const char*, const char*> wide[] = {
      {"x86-64-v2", "addps[^\\n]*%xmm"}, {"x86-64-v3", "vaddps[^\\n]*%ymm"}, {"x86-64-v4", "vaddps[^\\n]*%zmm"}};
  for (const auto& [name, pattern] : wide) {
    INFO(name);
    HostOptions options;
    options.want_assembly = true;
    auto artifact = compile_host(kernel, *target::find_target(name), options);
    REQUIRE(artifact);
    CHECK(matches(artifact->source, pattern));
  }
}

// LLVM turns a comparison of two extended halves into one of halves, which it makes lane by lane.
TEST_CASE("comparisons and roundings of halves are made of whole vectors", "[codegen]") {
  const auto compiled = [](const char* target, const auto& make) {
    Nest t;
    const ir::Buffer *x = t.input("x", Type::kF16, {64}), *z = t.input("z", Type::kF16, {64}),
                     *y = t.output("y", Type::kF16, {64});
    ir::Stmt root = t.loop(64, LoopKind::kVectorized, [&](ir::Expr v) {
      const auto wide = [&](const ir::Buffer* from) { return t.b().cast(t.load(from, {v}), Type::kF32); };
      return t.store(y, {v}, t.b().cast(make(t, wide(x), wide(z)), Type::kF16));
    });
    HostOptions options;
    options.want_assembly = true;
    auto artifact = compile_host(t.lowered(root), *target::find_target(target), options);
    return artifact ? artifact->source : artifact.error().message;
  };
  const auto lines = [](const std::string& text, const char* word) {
    int64_t count = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
    return count;
  };
  for (const auto& [target, vectors] : {std::pair{"x86-64-v3", 8}, {"x86-64-v4", 4}}) {
    INFO(target);
    const std::string least = compiled(target, [](Nest& t, ir::Expr x, ir::Expr z) { return t.b().min(x, z); });
    CHECK(lines(least, "vcvtph2ps") == 2 * vectors);
    CHECK(lines(least, "vcvtps2ph") <= vectors);
    const std::string floor =
        compiled(target, [](Nest& t, ir::Expr x, ir::Expr) { return t.call(Intrinsic::kFloor, {x}); });
    CHECK(lines(floor, "vcvtph2ps") == vectors);
    // A selection rounds nothing, so it needs no conversion of what it selects.
    const std::string selected = compiled(
        target, [](Nest& t, ir::Expr x, ir::Expr z) { return t.b().select(t.b().lt(x, t.b().real(0.5)), z, x); });
    CHECK(lines(selected, "vcvtph2ps") == vectors);
    CHECK(lines(selected, "vcvtps2ph") == 0);
  }
}

}  // namespace tcc::codegen
