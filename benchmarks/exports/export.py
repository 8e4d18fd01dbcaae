"""Exports one row of networks.py. Prints one line of JSON: {"ok": true} or {"ok": false, "why": ...}.

usage: export.py FAMILY/NAME EXPORTER FORM FOLDER
  EXPORTER  script (TorchScript, opset 17) or dynamo (opset 20)
  FORM      f32; f16: ONNX Runtime's conversion; int8: its static quantization to pairs of Q and DQ
Writes FOLDER/model.onnx and FOLDER/inputs.npz.
"""
import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402

from networks import ROWS  # noqa: E402


def export(name, exporter, folder):
    torch.manual_seed(1)
    torch.backends.mha.set_fastpath_enabled(False)  # one operator that neither exporter knows
    make = next(make for family, network, make in ROWS if f"{family}/{network}" == name)
    model, inputs, names = make()
    model.eval()
    # Normalization with the statistics of a new network is the identity; trained ones are not.
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.8, 1.2)
    # Weights that a new network has as zeros, such as ViT's head, make outputs of which a comparison says nothing.
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1 and not weight.any():
                weight.normal_(0, 0.02)
    file = os.path.join(folder, "model.onnx")
    with torch.no_grad():
        if exporter == "script":
            torch.onnx.export(model, inputs, file, opset_version=17, dynamo=False, input_names=names)
        else:
            torch.onnx.export(model, inputs, file, opset_version=20, dynamo=True, verbose=False)
    return file, [x for given in inputs for x in (given if isinstance(given, list) else [given])]


def sample(file, inputs):
    import onnxruntime as ort
    ort.set_default_logger_severity(3)
    session = ort.InferenceSession(file, providers=["CPUExecutionProvider"])
    wanted = session.get_inputs()
    tensors = [x.numpy() for x in inputs]
    return {i.name: x for i, x in zip(wanted, tensors)}


def convert(file, form, inputs):
    import onnx
    if form == "f16":
        from onnxruntime.transformers.float16 import convert_float_to_float16
        onnx.save(convert_float_to_float16(onnx.load(file), keep_io_types=True), file)
    elif form == "int8":
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

        class Reader(CalibrationDataReader):
            def __init__(self):
                self.left = [inputs]

            def get_next(self):
                return self.left.pop() if self.left else None

        quantize_static(file, file + ".q", Reader(), quant_format=QuantFormat.QDQ, per_channel=True)
        os.replace(file + ".q", file)


def main():
    name, exporter, form, folder = sys.argv[1:]
    try:
        file, tensors = export(name, exporter, folder)
        inputs = sample(file, tensors)
        if form != "f32":
            convert(file, form, inputs)
        np.savez(os.path.join(folder, "inputs.npz"), **inputs)
        print(json.dumps({"ok": True}))
    except Exception as error:  # what the exporter or the converter refuses is reported, not mended
        text = str(error).strip().splitlines()
        print(json.dumps({"ok": False, "why": f"{type(error).__name__}: {text[0] if text else ''}"[:300]}))


if __name__ == "__main__":
    main()
