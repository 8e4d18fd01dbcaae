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
  static const char* const texts[] = {
      [TCC_OK] = "ok",
      [TCC_ERROR_INVALID_ARGUMENT] = "invalid argument",
      [TCC_ERROR_TENSOR] = "wrong tensor",
      [TCC_ERROR_WORKSPACE] = "wrong workspace",
      [TCC_ERROR_RESOURCES] = "out of memory or threads",
      [TCC_ERROR_UNSUPPORTED_CPU] = "unsupported CPU",
      [TCC_ERROR_BUSY] = "context is busy",
      [TCC_ERROR_SELF_TEST] = "self test failed",
      [TCC_ERROR_DEVICE] = "device or driver error",
      [TCC_ERROR_INTERNAL] = "library is damaged",
  };
  const char* text = (unsigned)status < sizeof texts / sizeof texts[0] ? texts[status] : NULL;
  return text ? text : "unknown status";
}
