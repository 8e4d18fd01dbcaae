// Attributes of instructions as names and as JSON values. Private to the room.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tcc/schedule/trace.h"

namespace tcc::schedule {

using Json = nlohmann::ordered_json;

std::optional<Op> op_from_name(std::string_view name);
std::vector<std::string> all_op_names();

// What the instruction adds to a hash that files hold: its name and those of its attributes' values.
uint64_t stored_code(Op op);
std::vector<uint64_t> stored_codes(const Instruction& in);

// The attribute's value as a word, a number or lists of those; nothing for kFactors and for the default.
std::optional<Json> attribute_value(const Instruction& in, const Attribute& a);
// Sets in.attrs and in.text from values by name; in.outputs is known. The error says what was expected and found.
Legal<void> set_attributes(Instruction& in, const Json& values);
// The same from the numbers that the first version of the format holds.
Legal<void> set_first_attributes(Instruction& in, std::vector<int64_t> numbers);
// A value without quotation marks: [mask, peel].
std::string print_value(const Json& value);
// The attribute that may be written without its name; nullptr: the row has no such attribute.
const Attribute* nameless_attribute(Op op);

}  // namespace tcc::schedule
