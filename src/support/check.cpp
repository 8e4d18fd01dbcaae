#include "tcc/support/check.h"

#include <cstdio>
#include <cstdlib>

namespace tcc {
namespace {
thread_local CheckContext* current_context = nullptr;
}  // namespace

CheckContext::CheckContext(std::function<std::string()> describe)
    : describe_(std::move(describe)), outer_(current_context) {
  current_context = this;
}
CheckContext::~CheckContext() {
  current_context = outer_;
}

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "tcc: internal error at %s:%d: %s%s%s\n", file, line, condition, message.empty() ? "" : ": ",
               message.c_str());
  CheckContext* context = current_context;
  current_context = nullptr;  // a failure inside describe() must not come back here
  for (; context != nullptr; context = context->outer_) std::fprintf(stderr, "%s\n", context->describe_().c_str());
  std::fprintf(stderr, "This is a bug in tcc; please report it with the command line and the text above.\n");
  std::fflush(stderr);
  std::_Exit(70);
}

}  // namespace tcc
