// Linking objects into this process with LLVM's RuntimeDyld: synchronous, without threads, so that it also works in a
// child that was forked. All sections of an object share one mapping, because code refers to its constants by 32-bit
// distances.
#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>

#include "tcc/codegen/llvm.h"

namespace tcc::codegen {
namespace {

class Slab final : public llvm::RuntimeDyld::MemoryManager {
 public:
  ~Slab() override {
    if (base_ != nullptr) munmap(base_, size_);
  }
  bool needsToReserveAllocationSpace() override { return true; }
  void reserveAllocationSpace(uintptr_t code, llvm::Align code_align, uintptr_t constants, llvm::Align constants_align,
                              uintptr_t data, llvm::Align data_align) override {
    auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    auto pages = [&](uintptr_t bytes, llvm::Align align) {
      return (bytes + align.value() + 4096 + page - 1) / page * page;
    };
    const uintptr_t sizes[3] = {pages(code, code_align), pages(constants, constants_align), pages(data, data_align)};
    size_ = sizes[0] + sizes[1] + sizes[2];
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      size_ = 0;
      return;
    }
    base_ = static_cast<uint8_t*>(memory);
    uint8_t* start = base_;
    for (int i = 0; i < 3; ++i) {
      parts_[i] = {start, start, start + sizes[i]};
      start += sizes[i];
    }
  }
  uint8_t* allocateCodeSection(uintptr_t size, unsigned alignment, unsigned, llvm::StringRef) override {
    return take(parts_[0], size, alignment);
  }
  uint8_t* allocateDataSection(uintptr_t size, unsigned alignment, unsigned, llvm::StringRef, bool read_only) override {
    return take(parts_[read_only ? 1 : 2], size, alignment);
  }
  void registerEHFrames(uint8_t*, uint64_t, size_t) override {}
  void deregisterEHFrames() override {}
  bool finalizeMemory(std::string* error) override {
    if (base_ == nullptr) return true;
    auto protect = [](const Part& p, int mode) {
      return mprotect(p.begin, static_cast<size_t>(p.end - p.begin), mode) == 0;
    };
    if (protect(parts_[0], PROT_READ | PROT_EXEC) && protect(parts_[1], PROT_READ)) return false;
    if (error != nullptr) *error = std::strerror(errno);
    return true;
  }
  bool failed() const { return failed_ || base_ == nullptr; }

 private:
  struct Part {
    uint8_t *begin = nullptr, *next = nullptr, *end = nullptr;
  };
  uint8_t* take(Part& part, uintptr_t size, unsigned alignment) {
    auto address = reinterpret_cast<uintptr_t>(part.next);
    uintptr_t step = alignment == 0 ? 1 : alignment;
    uint8_t* start = part.next + ((address + step - 1) / step * step - address);
    if (part.next == nullptr || start + size > part.end) {
      failed_ = true;
      return nullptr;
    }
    part.next = start + size;
    return start;
  }
  uint8_t* base_ = nullptr;
  uintptr_t size_ = 0;
  Part parts_[3];  // code, constants, data
  bool failed_ = false;
};

// What emitted code may need from the process.
class Resolver final : public llvm::LegacyJITSymbolResolver {
 public:
  llvm::JITSymbol findSymbolInLogicalDylib(const std::string&) override { return nullptr; }
  llvm::JITSymbol findSymbol(const std::string& name) override {
    void* address = nullptr;
    if (name == "memcpy")
      address = reinterpret_cast<void*>(static_cast<void* (*)(void*, const void*, size_t)>(&std::memcpy));
    if (name == "memmove")
      address = reinterpret_cast<void*>(static_cast<void* (*)(void*, const void*, size_t)>(&std::memmove));
    if (name == "memset") address = reinterpret_cast<void*>(static_cast<void* (*)(void*, int, size_t)>(&std::memset));
    if (address == nullptr) {
      missing_ = name;
      return nullptr;
    }
    return llvm::JITSymbol(reinterpret_cast<uint64_t>(address), llvm::JITSymbolFlags::Exported);
  }
  const std::string& missing() const { return missing_; }

 private:
  std::string missing_;
};

class Loaded final : public LoadedObject {
 public:
  void* symbol(const std::string& name) const override {
    auto it = symbols_.find(name);
    return it == symbols_.end() ? nullptr : it->second;
  }
  Result<void> link(const std::string& code) {
    auto object = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(code, "kernel"));
    if (!object) return input_error("the object cannot be read: {}", llvm::toString(object.takeError()));
    Resolver resolver;
    llvm::RuntimeDyld linker(memory_, resolver);
    linker.loadObject(**object);
    if (memory_.failed()) return environment_error("no memory for {} bytes of code", code.size());
    if (!linker.hasError()) linker.resolveRelocations();
    if (!resolver.missing().empty())
      return input_error("the object needs {}, which compiled kernels may not call", resolver.missing());
    if (linker.hasError()) return input_error("the object cannot be linked: {}", linker.getErrorString().str());
    for (const auto& [name, value] : linker.getSymbolTable())
      if (value.getFlags().isExported()) symbols_[name.str()] = reinterpret_cast<void*>(value.getAddress());
    std::string error;
    if (memory_.finalizeMemory(&error)) return environment_error("code cannot be made executable: {}", error);
    return {};
  }

 private:
  Slab memory_;
  std::map<std::string, void*> symbols_;
};

}  // namespace

Result<std::shared_ptr<LoadedObject>> load_host(const Artifact& artifact) {
  if (artifact.format != CodeFormat::kHostObject)
    return input_error("only host objects can be loaded into the process");
  auto loaded = std::make_shared<Loaded>();
  TCC_TRY_VOID(loaded->link(artifact.code));
  return std::shared_ptr<LoadedObject>(std::move(loaded));
}

}  // namespace tcc::codegen
