// The user's failures: a value or an Error with the fault, its place and the next step.
// Three failures take three paths through tcc: an Error (the user's input or environment), a schedule::Reject
// (an illegal candidate) and TCC_CHECK (a bug in tcc).
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace tcc {

// Which exit code an error leads to; see cli for the mapping.
enum class ErrorClass {
  kInput,        // the user's file or flag value is wrong (exit 1)
  kEnvironment,  // disk, permissions, missing tool or device (exit 1)
  kUsage,        // the command line itself is wrong (exit 2)
};

struct Error {
  ErrorClass cls = ErrorClass::kInput;
  std::string message;             // one sentence: what failed and where
  std::string hint;                // what to do about it; may be empty
  std::vector<std::string> notes;  // further findings of the same phase, one line each

  // Adds "while <context>" information in front, keeping class and hint.
  Error with_context(const std::string& context) && {
    message = context + ": " + message;
    return std::move(*this);
  }
};

template <class T>
using Result = tl::expected<T, Error>;

template <class... Args>
tl::unexpected<Error> input_error(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{ErrorClass::kInput, fmt::format(format, std::forward<Args>(args)...), "", {}});
}
template <class... Args>
tl::unexpected<Error> environment_error(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(
      Error{ErrorClass::kEnvironment, fmt::format(format, std::forward<Args>(args)...), "", {}});
}
inline tl::unexpected<Error> make_error(ErrorClass cls, std::string message, std::string hint = {},
                                        std::vector<std::string> notes = {}) {
  return tl::unexpected<Error>(Error{cls, std::move(message), std::move(hint), std::move(notes)});
}

// TCC_TRY(auto x, f()): x = value, or return the error from the enclosing function.
#define TCC_CONCAT_INNER(a, b) a##b
#define TCC_CONCAT(a, b) TCC_CONCAT_INNER(a, b)
#define TCC_TRY(declaration, expression) TCC_TRY_IMPL(TCC_CONCAT(tcc_try_, __LINE__), declaration, expression)
#define TCC_TRY_IMPL(temporary, declaration, expression)                      \
  auto temporary = (expression);                                              \
  if (!temporary) return ::tl::make_unexpected(std::move(temporary).error()); \
  declaration = std::move(*temporary)
// The same for results without a value.
#define TCC_TRY_VOID(expression)                                                          \
  do {                                                                                    \
    auto tcc_try_result = (expression);                                                   \
    if (!tcc_try_result) return ::tl::make_unexpected(std::move(tcc_try_result).error()); \
  } while (0)

}  // namespace tcc
