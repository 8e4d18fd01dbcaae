#include <stdarg.h>
#include <stdio.h>

#include "tcc/rt/rt.h"

static _Thread_local char last_error[1024];

tcc_status tcc_rt_fail(tcc_status status, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(last_error, sizeof last_error, format, args);
  va_end(args);
  return status;
}

const char* tcc_rt_last_error(void) {
  return last_error;
}

const char* tcc_rt_status_string(tcc_status status) {
  switch (status) {
    case TCC_OK:
      return "ok";
    case TCC_ERROR_INVALID_ARGUMENT:
      return "invalid argument";
    case TCC_ERROR_TENSOR:
      return "wrong tensor";
    case TCC_ERROR_WORKSPACE:
      return "wrong workspace";
    case TCC_ERROR_RESOURCES:
      return "out of memory or threads";
    case TCC_ERROR_UNSUPPORTED_CPU:
      return "unsupported CPU";
    case TCC_ERROR_BUSY:
      return "context is busy";
    case TCC_ERROR_SELF_TEST:
      return "self test failed";
    case TCC_ERROR_DEVICE:
      return "device or driver error";
    case TCC_ERROR_INTERNAL:
      return "library is damaged";
  }
  return "unknown status";
}
