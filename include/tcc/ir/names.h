// The IR's enumerations by name. Files hold names, and hashes of programs: neither depends on the order of enumerators.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::ir {

// Names by enumerator.
template <class E>
const std::vector<std::string_view>& names();
// The enumerator of a name; former names are known too.
template <class E>
std::optional<E> from_name(std::string_view name);

// What an enumerator contributes to a hash that is kept in files. It depends on the name only: the first files hashed
// positions, so names of that time keep their position; every other name counts with the hash of its text.
template <class E>
uint64_t stored_code(E e);
// The same for all enumerators, by their position: for loops that ask for many.
template <class E>
const uint64_t* stored_codes();
// The enumerator whose position in the first files was `code`; nullopt: no name had it, or the name has been removed.
template <class E>
std::optional<E> from_stored_code(int64_t code);
// stored_code() for lists that are kept elsewhere: `first` holds the names of the first files in their order.
uint64_t stored_code(std::string_view first, std::string_view name);
// The same for the row of the instruction table.
uint64_t stored_code_of_instruction(int32_t row);

}  // namespace tcc::ir
