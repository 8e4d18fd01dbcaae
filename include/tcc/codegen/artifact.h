// What codegen makes of a Lowered kernel: device code, how to launch it, and facts about it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::codegen {

enum class CodeFormat : uint8_t { kHostObject, kCubin, kPtx };

// A tensor map (CUtensorMap) that a launch takes by value behind its pointers: a box of a buffer that one instruction
// copies between global and shared memory. Dimensions innermost first.
struct TensorMap {
  int buffer = 0;  // number of the buffer that begins where the tensor does
  ir::Type type = ir::Type::kF16;
  std::vector<int64_t> dims;     // elements
  std::vector<int64_t> strides;  // bytes, from the second dimension on
  std::vector<int64_t> box;      // elements
  int64_t swizzle = 0;  // bytes of a row of the box in shared memory whose 16-byte pieces are permuted; 0: none
  bool tf32 = false;    // copies into shared memory round f32 to tf32, to nearest
  bool operator==(const TensorMap&) const = default;
};

// One launch. Host: symbol is void fn(void* const* buffers, int64_t begin, int64_t end), called over disjoint ranges of
// [0, extent); extent 1 is a serial call with (0, 1). CUDA: symbol is a kernel taking the buffer pointers in order,
// then the tensor maps; grid counts blocks, clusters are part of the code and only told here.
struct Launch {
  std::string symbol;
  int64_t extent = 1;
  std::array<int64_t, 3> grid = {1, 1, 1}, block = {1, 1, 1}, cluster = {1, 1, 1};
  int64_t shared_bytes = 0;  // dynamic
  bool cooperative = false;
  // By the compiler, 0 where it did not say: registers of a thread, and shared memory of a block beside the dynamic
  // one.
  int64_t registers = 0, static_shared_bytes = 0;
  std::vector<TensorMap> tensor_maps;
};

// Buffers in the order of the `buffers` array: parameters as in Kernel::buffers, then workspace.
struct BufferInfo {
  ir::BufferRole role;
  ir::Type type;
  std::vector<int64_t> shape;  // logical
  std::string layout;          // ir::print_layout text; "" = row-major
  int64_t bytes = 0;           // physical size
  int64_t alignment = 4;       // that the code assumes of the pointer, bytes
};

struct Artifact {
  CodeFormat format = CodeFormat::kHostObject;
  std::string code;  // the object, cubin or PTX bytes
  std::vector<Launch> launches;
  std::vector<BufferInfo> buffers;
  std::string source;                   // when asked for: CUDA C++, LLVM IR or assembly
  std::string_view source_ending = "";  // of a file with the source: ".cu", ".ll", ".s"
  std::map<std::string, double> facts;  // registers, spill_bytes, shared_bytes, compile_seconds, code_bytes, ...
};

}  // namespace tcc::codegen
