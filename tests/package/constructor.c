// A library whose constructor ends the process that loads it, with metadata as libraries of models have them.
#include <stdlib.h>

__attribute__((constructor)) static void run(void) {
  abort();
}

__attribute__((section(".tcc.metadata"), used)) static const char kMetadata[] =
    "TCCMETA1\0\0\0\0\0\0\0\0{\"id\": \"constructor\"}";
