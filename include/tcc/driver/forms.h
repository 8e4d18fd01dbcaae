// The forms of a convolution by 3x3: direct, F(2x2, 3x3) or F(4x4, 3x3) (graph/winograd.h). They compute one task, and
// are tuned together; records decide which one is built. A form is a task of its own in records: its workload names it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tcc/driver/compile.h"

namespace tcc::driver {

// Forms that are further behind the fastest one alone are not compared inside of the model, nor built for having won
// there. Weights of Winograd forms are 1.8 to 4 times as large, and in a large model they come from memory.
inline constexpr double kFormInReach = 1.5;

// By the workload of a task or record: "direct", "winograd2" or "winograd4"; "" of what is not a convolution.
std::string form_of(std::string_view workload);
// Which form of which task is refused, its error and the tolerance, and the form in its place.
std::string refusal_text(const RefusedForm& refused);

// Finds the forms of each task of a program whose convolutions are direct, and gives it the one that was measured to be
// the fastest, inside of the model (driver/in_model.h) or else alone, or that records.estimated asks for; the weights
// of Winograd forms are transformed here. Forms that an estimate puts far behind, or whose rounding errors may be too
// large, are left out. Nothing is done where source.winograd is not kAutoForm, but for the list of refused forms, and
// where times are predicted. Errors: the store cannot be read.
Result<void> decide_forms(Program& program, const ModelSource& source, const target::Target& target,
                          const FormRecords& records);

// All forms of a task, the direct one first. The task itself where it has one form only.
std::vector<const task::Task*> forms_of(const Program& program, size_t index);
// The form of a task whose key `name` is the start of; the chosen one where `name` is a number or the start of none.
const task::Task& find_form(const Program& program, size_t index, const std::string& name);

}  // namespace tcc::driver
