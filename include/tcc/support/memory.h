// Memory that runs out inside libraries that are built without exceptions.
#pragma once

namespace tcc {

// While one is alive, this thread calls a library (LLVM) that std::bad_alloc must not pass: destructors of its
// half-changed objects would run afterwards. The program's new handler asks exceptions_may_pass() and ends the process
// with its message instead of throwing.
class NoExceptions {
 public:
  NoExceptions();
  ~NoExceptions();
  NoExceptions(const NoExceptions&) = delete;
  NoExceptions& operator=(const NoExceptions&) = delete;
};

bool exceptions_may_pass();

}  // namespace tcc
