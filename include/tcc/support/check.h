// TCC_CHECK: an invariant of tcc itself. On in release. A failure prints where and why, dumps the kernel under
// work (see CheckContext) and ends the process with exit code 70.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>

namespace tcc {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

// While alive, a failed check also prints describe() (for example the kernel's text). One stack per thread.
class CheckContext {
 public:
  explicit CheckContext(std::function<std::string()> describe);
  ~CheckContext();
  CheckContext(const CheckContext&) = delete;
  CheckContext& operator=(const CheckContext&) = delete;

 private:
  friend void check_failed(const char*, int, const char*, const std::string&);
  std::function<std::string()> describe_;
  CheckContext* outer_;
};

}  // namespace tcc

// TCC_CHECK(cond) or TCC_CHECK(cond, "format {}", args...)
#define TCC_CHECK(condition, ...)                                                         \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::tcc::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (0)
#define TCC_UNREACHABLE(...) ::tcc::check_failed(__FILE__, __LINE__, "unreachable", ::fmt::format("" __VA_ARGS__))
