// The bytes of models/cpu.prior inside the binary (cmake/embed.cmake). Private to the room.
#pragma once

extern "C" {
extern const unsigned char tcc_shipped_prior_begin[], tcc_shipped_prior_end[];
}
