// Which features of x86-64 an object's instructions need: its code is disassembled, and each instruction is looked up
// by its mnemonic (AT&T syntax, as LLVM prints it), its encoding and the width of its registers.
// Source of the tables: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, column "CPUID feature
// flag" of each instruction.
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "tcc/codegen/llvm.h"
#include "tcc/support/memory.h"

namespace tcc::codegen {
namespace {

using target::CpuFeatures;
using Feature = bool CpuFeatures::*;

// Names separated by blanks; '*' at the end of one is any ending.
struct Rule {
  Feature feature;
  std::string_view names;
};

bool matches(std::string_view names, std::string_view mnemonic) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    std::string_view name = names.substr(0, end);
    if (name.ends_with('*') ? mnemonic.starts_with(name.substr(0, name.size() - 1)) : mnemonic == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

// The first rule that matches; nullptr: none does.
template <size_t N>
Feature first_match(const Rule (&rules)[N], std::string_view mnemonic) {
  for (const Rule& rule : rules)
    if (matches(rule.names, mnemonic)) return rule.feature;
  return nullptr;
}

// Without a prefix of vectors. What no rule names belongs to every x86-64.
constexpr Rule kLegacy[] = {
    {&CpuFeatures::popcnt, "popcnt*"},
    {&CpuFeatures::lzcnt, "lzcnt*"},
    {&CpuFeatures::bmi, "tzcnt*"},
    {&CpuFeatures::movbe, "movbe*"},
    {&CpuFeatures::cx16, "cmpxchg16b"},
    {&CpuFeatures::sahf, "sahf lahf"},
    {&CpuFeatures::sse3, "addsubp* haddp* hsubp* lddqu movddup movshdup movsldup fisttp*"},
    {&CpuFeatures::ssse3, "pshufb phadd* phsub* pmaddubsw pmulhrsw psign* pabs* palignr"},
    {&CpuFeatures::sse4_2, "pcmpgtq pcmpestr* pcmpistr* crc32*"},
    {&CpuFeatures::sse4_1,
     "blend* pblend* dpp* extractps insertps mpsadbw packusdw pcmpeqq pextrb pextrd pextrq pinsrb pinsrd pinsrq "
     "phminposuw pmaxsb pmaxsd pmaxuw pmaxud pminsb pminsd pminuw pminud pmovsx* pmovzx* pmuldq pmulld ptest round* "
     "movntdqa pextrw"}};

// With the prefix VEX.
constexpr Rule kVex[] = {
    {&CpuFeatures::amx_bf16, "tdpbf16ps"},
    {&CpuFeatures::amx_fp16, "tdpfp16ps"},
    {&CpuFeatures::amx_int8, "tdpb*"},
    {&CpuFeatures::amx_tile, "ldtilecfg sttilecfg tile*"},
    {&CpuFeatures::bmi, "andn* bextr* blsi* blsmsk* blsr*"},
    {&CpuFeatures::bmi2, "bzhi* mulx* pdep* pext* rorx* sarx* shlx* shrx*"},
    {&CpuFeatures::fma, "vfmadd* vfmsub* vfnmadd* vfnmsub*"},
    {&CpuFeatures::f16c, "vcvtph2ps vcvtps2ph"},
    {&CpuFeatures::avx_vnni, "vpdp*"},
    {&CpuFeatures::avx512bw,
     "kunpckwd kunpckdq kmovd kmovq kandd kandq kandnd kandnq kord korq kxord kxorq kxnord kxnorq knotd knotq kaddd "
     "kaddq kortestd kortestq ktestd ktestq kshiftld kshiftlq kshiftrd kshiftrq"},
    {&CpuFeatures::avx512dq,
     "kmovb kandb kandnb korb kxorb kxnorb knotb kaddb kaddw kortestb ktestb ktestw kshiftlb kshiftrb"},
    {&CpuFeatures::avx512f, "kunpckbw kmovw kandw kandnw korw kxorw kxnorw knotw kortestw kshiftlw kshiftrw"},
    {&CpuFeatures::avx2,
     "vpbroadcast* vbroadcasti128 vpermd vpermq vpermps vpermpd vperm2i128 vinserti128 vextracti128 vpsllv* vpsrlv* "
     "vpsrav* vpmaskmov* vgather* vpgather* vpblendd"},
    {&CpuFeatures::avx,
     "vmov* vadd* vsub* vmul* vdiv* vmax* vmin* vsqrt* vcmp* vucomi* vcomi* vand* vor* vxor* vshuf* vunpck* vblend* "
     "vround* vcvt* vextractf128 vinsertf128 vperm2f128 vpermil* vbroadcast* vzeroupper vzeroall vinsertps vextractps "
     "vrsqrt* vrcp* vhadd* vhsub* vdpp* vtestp* vmaskmov* vlddqu vldmxcsr vstmxcsr vp*"}};

// With the prefix EVEX, beside avx512vl. Words and bytes before the longer integers, whose rules would match them, too.
constexpr Rule kEvex[] = {
    {&CpuFeatures::avx512_bf16, "vdpbf16ps vcvtne2ps2bf16 vcvtneps2bf16"},
    {&CpuFeatures::avx512_vnni, "vpdpbusd vpdpbusds vpdpwssd vpdpwssds"},
    {&CpuFeatures::avx512_ifma, "vpmadd52*"},
    {&CpuFeatures::avx512_vbmi, "vpermb vpermi2b vpermt2b vpmultishiftqb"},
    {&CpuFeatures::avx512_vbmi2, "vpcompressb vpcompressw vpexpandb vpexpandw vpshld* vpshrd*"},
    {&CpuFeatures::avx512_bitalg, "vpopcntb vpopcntw vpshufbitqmb"},
    {&CpuFeatures::avx512_vpopcntdq, "vpopcntd vpopcntq"},
    {&CpuFeatures::avx512cd, "vpconflict* vplzcnt* vpbroadcastm*"},
    {&CpuFeatures::avx512dq,
     "vpmovm2d vpmovm2q vpmovd2m vpmovq2m vpextrd vpextrq vpinsrd vpinsrq vandp* vandnp* vorp* vxorp* vpmullq "
     "vcvtqq2* vcvtuqq2* vcvtps2qq vcvtps2uqq vcvtpd2qq vcvtpd2uqq vcvttps2qq vcvttps2uqq vcvttpd2qq vcvttpd2uqq "
     "vbroadcastf32x2 vbroadcasti32x2 vbroadcastf32x8 vbroadcasti32x8 vbroadcastf64x2 vbroadcasti64x2 vextractf32x8 "
     "vextracti32x8 vextractf64x2 vextracti64x2 vinsertf32x8 vinserti32x8 vinsertf64x2 vinserti64x2 vfpclass* vrange* "
     "vreduce*"},
    {&CpuFeatures::avx512bw,
     "vpaddb vpaddw vpadds* vpaddus* vpsubb vpsubw vpsubs* vpsubus* vpavg* vpabsb vpabsw vpmaxsb vpmaxsw vpmaxub "
     "vpmaxuw vpminsb vpminsw vpminub vpminuw vpmulh* vpmullw vpmaddubsw vpmaddwd vpack* vpunpcklbw vpunpckhbw "
     "vpunpcklwd vpunpckhwd vpshufb vpshufhw vpshuflw vpslldq vpsrldq vpsllw vpsrlw vpsraw vpsllvw vpsrlvw vpsravw "
     "vpsadbw vdbpsadbw vpalignr vpermw vpermi2w vpermt2w vpblendmb vpblendmw vpbroadcastb vpbroadcastw vmovdqu8 "
     "vmovdqu16 vptestmb vptestmw vptestnmb vptestnmw vpmovm2b vpmovm2w vpmovb2m vpmovw2m vpextrb vpextrw vpinsrb "
     "vpinsrw vpmovsxbw vpmovzxbw vpmovwb vpmovswb vpmovuswb"},
    {&CpuFeatures::avx512f,
     "vmovap* vmovup* vmovnt* vmovdqa* vmovdqu32 vmovdqu64 vmovs* vmovd vmovddup vmovq vmovh* vmovl* vadd* vsub* vmul* "
     "vdiv* vmax* vmin* vsqrt* vfmadd* vfmsub* vfnmadd* vfnmsub* vcomi* vucomi* vbroadcast* vpbroadcastd "
     "vpbroadcastq vpermd vpermq vpermp* vpermil* vpermi2* vpermt2* vshuf* vunpck* vpunpck* vpshufd valign* vblendm* "
     "vpblendm* vextract* vinsert* vcompress* vexpand* vpcompress* vpexpand* vpternlog* vpand* vpor* vpxor* vpadd* "
     "vpsub* vpmulld vpmuldq vpmuludq vpabs* vpmax* vpmin* vpsll* vpsrl* vpsra* vprol* vpror* vptestm* vptestnm* vcvt* "
     "vrndscale* vscalef* vgetexp* vgetmant* vfixupimm* vrcp14* vrsqrt14* vgather* vscatter* vpgather* vpscatter* "
     "vpmovsx* vpmovzx* vpmov*"}};

// Arithmetic of half precision. The conversions of F16C have forms in AVX512F.
bool is_half(std::string_view mnemonic) {
  if (mnemonic == "vcvtph2ps" || mnemonic == "vcvtps2ph") return false;
  if (mnemonic == "vmovw" || mnemonic.find("ph2") != mnemonic.npos || mnemonic.find("2ph") != mnemonic.npos ||
      mnemonic.find("sh2") != mnemonic.npos || mnemonic.find("2sh") != mnemonic.npos)
    return true;
  return !mnemonic.starts_with("vp") && (mnemonic.ends_with("ph") || mnemonic.ends_with("sh"));
}

// One element, whatever the registers' width: no avx512vl.
bool is_scalar(std::string_view mnemonic) {
  constexpr std::string_view kMoves =
      "vmovd vmovq vmovw vpextr* vpinsr* vmovhp* vmovlp* vmovhlps vmovlhps vextractps vinsertps vcomi* vucomi*";
  if (matches(kMoves, mnemonic)) return true;
  if (mnemonic.starts_with("vp") || mnemonic.starts_with("vbroadcast")) return false;
  return mnemonic.ends_with("ss") || mnemonic.ends_with("sd") || mnemonic.ends_with("sh") ||
         mnemonic.find("2si") != mnemonic.npos || mnemonic.find("2usi") != mnemonic.npos ||
         mnemonic.find("si2s") != mnemonic.npos;
}

enum class Encoding : uint8_t { kLegacy, kVex, kEvex };

// In 64-bit mode these bytes begin nothing else; other prefixes do not precede them.
Encoding encoding_of(uint8_t first) {
  return first == 0x62 ? Encoding::kEvex : first == 0xc4 || first == 0xc5 ? Encoding::kVex : Encoding::kLegacy;
}

// Adds what an instruction needs. False: no rule names it.
bool add_needs(std::string_view text, Encoding encoding, CpuFeatures& used) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  const std::string_view mnemonic = text.substr(0, text.find_first_of(" \t"));
  const auto reads = [&](std::string_view name) { return text.find(name) != text.npos; };
  if (encoding == Encoding::kLegacy) {
    if (const Feature feature = first_match(kLegacy, mnemonic)) used.*feature = true;
    return true;
  }
  if (encoding == Encoding::kVex) {
    Feature feature = first_match(kVex, mnemonic);
    if (feature == nullptr) return false;
    // Broadcasts of registers, and integers in 256 bits, came with AVX2.
    const bool register_broadcast = mnemonic.starts_with("vbroadcasts") && !reads("(");
    const bool wide_integer = mnemonic.starts_with("vp") && reads("%ymm") && !mnemonic.starts_with("vpermil") &&
                              !mnemonic.starts_with("vptest") && mnemonic != "vperm2f128";
    const bool wide_other = reads("%ymm") && (mnemonic == "vmovntdqa" || mnemonic == "vmpsadbw");
    if (feature == &CpuFeatures::avx && (register_broadcast || wide_integer || wide_other))
      feature = &CpuFeatures::avx2;
    used.*feature = true;
    return true;
  }
  Feature feature = is_half(mnemonic) ? &CpuFeatures::avx512_fp16 : first_match(kEvex, mnemonic);
  // Comparisons are printed with their condition: vcmpltps, vpcmpnequb.
  if (feature == nullptr && mnemonic.starts_with("vcmp")) feature = &CpuFeatures::avx512f;
  if (feature == nullptr && mnemonic.starts_with("vpcmp"))
    feature = mnemonic.ends_with("b") || mnemonic.ends_with("w") ? &CpuFeatures::avx512bw : &CpuFeatures::avx512f;
  if (feature == nullptr) return false;
  used.*feature = true;
  if (!reads("%zmm") && !is_scalar(mnemonic)) used.avx512vl = true;
  return true;
}

// What LLVM needs to read and to print instructions.
struct Reader {
  llvm::MCTargetOptions options;
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  std::unique_ptr<llvm::MCAsmInfo> assembly;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget;
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCContext> context;
  std::unique_ptr<llvm::MCDisassembler> disassembler;
  std::unique_ptr<llvm::MCInstPrinter> printer;

  // False: LLVM lacks a part of it.
  bool open() {
    static const bool once = [] {
      LLVMInitializeX86TargetInfo();
      LLVMInitializeX86TargetMC();
      LLVMInitializeX86Disassembler();
      return true;
    }();
    constexpr const char* kTriple = "x86_64-unknown-linux-gnu";
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(kTriple, error);
    if (!once || target == nullptr) return false;
    registers.reset(target->createMCRegInfo(kTriple));
    if (!registers) return false;
    assembly.reset(target->createMCAsmInfo(*registers, kTriple, options));
    subtarget.reset(target->createMCSubtargetInfo(kTriple, "x86-64", ""));
    instructions.reset(target->createMCInstrInfo());
    if (!assembly || !subtarget || !instructions) return false;
    context =
        std::make_unique<llvm::MCContext>(llvm::Triple(kTriple), assembly.get(), registers.get(), subtarget.get());
    disassembler.reset(target->createMCDisassembler(*subtarget, *context));
    constexpr unsigned kAttSyntax = 0;
    printer.reset(target->createMCInstPrinter(llvm::Triple(kTriple), kAttSyntax, *assembly, *instructions, *registers));
    return disassembler && printer;
  }
};

// False: some bytes are not an instruction, or no rule names it.
bool add_needs_of_code(Reader& reader, llvm::ArrayRef<uint8_t> code, std::set<unsigned>& seen, CpuFeatures& used) {
  for (uint64_t at = 0; at < code.size();) {
    llvm::MCInst instruction;
    uint64_t size = 0;
    if (reader.disassembler->getInstruction(instruction, size, code.slice(at), at, llvm::nulls()) !=
            llvm::MCDisassembler::Success ||
        size == 0)
      return false;
    // The opcode says mnemonic, encoding and width; comparisons also differ in their conditions, which changes nothing.
    if (seen.insert(instruction.getOpcode()).second) {
      std::string text;
      llvm::raw_string_ostream out(text);
      reader.printer->printInst(&instruction, at, "", *reader.subtarget, out);
      out.flush();
      if (!add_needs(text, encoding_of(code[at]), used)) return false;
    }
    at += size;
  }
  return true;
}

bool within(const CpuFeatures& some, const CpuFeatures& all) {
  bool inside = true;
#define TCC_X(field, name) inside = inside && (!some.field || all.field);
  TCC_CPU_FEATURES(TCC_X)
#undef TCC_X
  return inside;
}

}  // namespace

target::CpuFeatures used_features(const std::string& object, const target::Target& target) {
  const CpuFeatures& all = target.cpu.features;
  NoExceptions in_llvm;
  Reader reader;
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernel"));
  if (!file) {
    llvm::consumeError(file.takeError());
    return all;
  }
  if (!reader.open()) return all;
  CpuFeatures used;
  std::set<unsigned> seen;
  for (const llvm::object::SectionRef& section : (*file)->sections()) {
    if (!section.isText()) continue;
    auto bytes = section.getContents();
    if (!bytes) {
      llvm::consumeError(bytes.takeError());
      return all;
    }
    const llvm::ArrayRef<uint8_t> code(reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size());
    if (!add_needs_of_code(reader, code, seen, used)) return all;
  }
  // What the target lacks cannot be in its code: a rule is wrong.
  return within(used, all) ? used : all;
}

}  // namespace tcc::codegen
