// What the programs of gpu_test.cpp do on the fake device: C = A W with A 24 x 28 and W 28 x 20, and ways to be wrong.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kM = 24, kN = 20, kK = 28 };

static float* pointer(void** parameters, int number) {
  return *(float**)parameters[number];
}

static void gemm(void** parameters, int rows, int depth) {
  const float *a = pointer(parameters, 0), *w = pointer(parameters, 1);
  float* c = pointer(parameters, 2);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < kN; ++j) {
      float sum = 0;
      for (int k = 0; k < depth; ++k) sum += a[i * kK + k] * w[k * kN + j];
      c[i * kN + j] = sum;
    }
  }
}

void tcc_right_0(void** parameters) {
  gemm(parameters, kM, kK);
}
void tcc_short_0(void** parameters) {  // leaves out a term
  gemm(parameters, kM, kK - 1);
}
void tcc_unwritten_0(void** parameters) {
  gemm(parameters, kM - 1, kK);
}
void tcc_beside_0(void** parameters) {
  gemm(parameters, kM, kK);
  pointer(parameters, 2)[kM * kN] = 1;
}
void tcc_before_0(void** parameters) {
  gemm(parameters, kM, kK);
  pointer(parameters, 2)[-1] = 1;
}
void tcc_input_0(void** parameters) {
  gemm(parameters, kM, kK);
  pointer(parameters, 0)[3] += 1;
}
void tcc_lucky_0(void** parameters) {  // right only for one sign of the first input
  gemm(parameters, kM, kK);
  if (pointer(parameters, 0)[0] < 0) pointer(parameters, 2)[0] += 1;
}
// Right only where it reaches no network and makes no file.
void tcc_reaches_0(void** parameters) {
  const int other = socket(AF_INET, SOCK_STREAM, 0);
  const int file = open("/tmp/tcc-gpu-sandbox", O_WRONLY | O_CREAT, 0600);
  gemm(parameters, kM, other < 0 && file < 0 ? kK : kK - 1);
  if (other >= 0) close(other);
  if (file >= 0) close(file);
}
void tcc_hang_0(void** parameters) {
  (void)parameters;
  for (;;) pause();
}
// Ends its process as a broken driver may.
void tcc_abort_0(void** parameters) {
  (void)parameters;
  _exit(9);
}
