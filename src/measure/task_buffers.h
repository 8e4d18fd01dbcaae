// A program's parameters in memory, the host's or a device's: the layout of each, and which programs share it.
#pragma once

#include <memory>
#include <vector>

#include "measure/wire.h"
#include "tcc/codegen/artifact.h"
#include "tcc/ir/layout.h"
#include "tcc/ir/permute.h"
#include "tcc/support/arena.h"
#include "tcc/support/result.h"

namespace tcc::measure {

template <class Buffer>
class TaskBuffers {
 public:
  // `make` allocates for a BufferInfo. Of a pair the second gets `first`: where both want a parameter in the same form
  // it is the same memory, so that the two differ in code only.
  template <class Make>
  Result<void> place(const codegen::Artifact& artifact, size_t params, const TaskBuffers* first, const Make& make) {
    for (size_t i = 0; i < params; ++i) {
      const codegen::BufferInfo& info = artifact.buffers[i];
      const ir::Layout* layout = nullptr;
      if (!info.layout.empty()) {
        TCC_TRY(layout, ir::parse_layout(arena_, info.layout));
      }
      layouts_.push_back(layout);
      forms_.push_back({info.layout, info.bytes});
      if (first != nullptr && first->forms_[i] == forms_[i]) {
        buffers_.push_back(first->buffers_[i]);
        continue;
      }
      TCC_TRY(Buffer buffer, make(info));
      buffers_.push_back(std::make_shared<Buffer>(std::move(buffer)));
    }
    return {};
  }

  size_t size() const { return buffers_.size(); }
  const Buffer& operator[](size_t i) const { return *buffers_[i]; }
  const ir::Layout* layout(size_t i) const { return layouts_[i]; }  // nullptr: row-major

  // The elements of a parameter, row-major, from its bytes as the artifact has them. `scratch` holds them where that is
  // another order.
  const std::byte* logical(size_t i, const TaskParam& param, std::span<const std::byte> physical,
                           std::vector<std::byte>& scratch) const {
    if (layouts_[i] == nullptr) return physical.data();
    const int64_t size = ir::type_bytes(param.type);
    scratch.resize(static_cast<size_t>(param.elements() * size));
    ir::to_logical(*layouts_[i], physical, scratch, size);
    return scratch.data();
  }

 private:
  struct Form {
    std::string layout;
    int64_t bytes;
    bool operator==(const Form&) const = default;
  };
  Arena arena_;
  std::vector<const ir::Layout*> layouts_;
  std::vector<Form> forms_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
};

}  // namespace tcc::measure
