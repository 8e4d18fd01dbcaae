#include "tcc/support/memory.h"

namespace tcc {
namespace {

thread_local int depth = 0;

}  // namespace

NoExceptions::NoExceptions() {
  ++depth;
}

NoExceptions::~NoExceptions() {
  --depth;
}

bool exceptions_may_pass() {
  return depth == 0;
}

}  // namespace tcc
