// The results of ONNX Runtime, from a Python that has it. Private to the room.
#pragma once

#include <string>

#include "tcc/driver/model.h"
#include "tcc/driver/tensor_file.h"

namespace tcc::driver {

// Runs the model's file, without optimizations, on `inputs` (an .npz that has the model's inputs by name) and writes
// its outputs by name to `outputs` (an .npz). `python` is an interpreter that can import numpy and onnxruntime.
// Errors: the Python cannot be started, or ONNX Runtime refuses the model.
Result<void> run_onnxruntime(const ModelSource& source, const std::string& python, const std::string& inputs,
                             const std::string& outputs, const std::string& scratch);

}  // namespace tcc::driver
