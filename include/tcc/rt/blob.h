// What every emitted library contains of rt, as bytes inside the tcc binary (library target tcc_rt_blob).
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// One relocatable x86-64 ELF object: all of rt, position independent, every symbol hidden, one section per function
// (link with --gc-sections). Undefined in it: tcc_rt_the_plan (hidden), functions of libc, and the loader's
// __tls_get_addr: link against libc.so.6 and ld-linux-x86-64.so.2, or let the compiler driver do so.
extern const unsigned char tcc_rt_object_begin[], tcc_rt_object_end[];

// The text of tcc/rt/model_abi.h, for the emitted header.
extern const unsigned char tcc_rt_model_abi_begin[], tcc_rt_model_abi_end[];

#ifdef __cplusplus
}
#endif
