// NVML for tests: one device, whose clock and throttling the environment's FAKE_NVML says, "1980" or "600 throttled".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned clock_mhz(void) {
  const char* text = getenv("FAKE_NVML");
  return text ? (unsigned)atoi(text) : 0;
}

int nvmlInit_v2(void) {
  return clock_mhz() > 0 ? 0 : 9;  // driver not loaded
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  static int only;
  *device = &only;
  return strcmp(uuid, "GPU-00000000-0000-0000-0000-000000000000") == 0 ? 0 : 6;
}
int nvmlDeviceGetClockInfo(void* device, int which, unsigned* mhz) {
  (void)device;
  *mhz = which == 1 ? clock_mhz() : 1;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  const char* text = getenv("FAKE_NVML");
  (void)device;
  *reasons = text && strstr(text, "throttled") ? 0x40 : text && strstr(text, "capped") ? 0x4 : 0x1;
  return 0;
}
