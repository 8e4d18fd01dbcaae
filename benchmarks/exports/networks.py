"""Networks that `tools/bench exports` exports: configurations of torchvision, timm and Hugging Face's transformers with
random weights, and recurrent taggers. No weight is downloaded.

A row has a family, a name, and a function without arguments that returns the module, its positional inputs and, where
they are called by name, their names.
"""
import torch

ROWS = []


def row(family, name, make):
    ROWS.append((family, name, make))


def image(size, batch=1):
    return (torch.randn(batch, 3, size, size),)


# torchvision: name and image size.
VISION = """alexnet 224, convnext_tiny 64, densenet121 64, efficientnet_b0 64, efficientnet_v2_s 64, googlenet 64,
inception_v3 96, maxvit_t 224, mnasnet0_5 64, mobilenet_v2 64, mobilenet_v3_large 64, mobilenet_v3_small 64,
regnet_x_400mf 64, regnet_y_400mf 64, resnet18 64, resnet34 64, resnet50 64, resnext50_32x4d 64, shufflenet_v2_x0_5 64,
squeezenet1_1 64, swin_t 64, swin_v2_t 64, vgg11 64, vgg16_bn 64, vit_b_32 224, wide_resnet50_2 64"""


def torchvision_classifier(name, size):
    import torchvision
    extra = {"init_weights": False, "aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    return getattr(torchvision.models, name)(weights=None, **extra), image(size), None


for line in VISION.split(","):
    network, side = line.split()
    row("torchvision", network, lambda n=network, s=int(side): torchvision_classifier(n, s))


def torchvision_segmentation(name, size):
    import torchvision

    class Scores(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None)

        def forward(self, x):
            return self.model(x)["out"]

    return Scores(), image(size), None


for network in ("deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large"):
    row("segmentation", network, lambda n=network: torchvision_segmentation(n, 64))


def torchvision_video(name):
    import torchvision
    frames, size = {"mvit_v2_s": (16, 224), "swin3d_t": (8, 64), "s3d": (16, 64)}.get(name, (8, 64))
    return getattr(torchvision.models.video, name)(weights=None), (torch.randn(1, 3, frames, size, size),), None


for network in ("r3d_18", "mc3_18", "r2plus1d_18", "s3d", "swin3d_t", "mvit_v2_s"):
    row("video", network, lambda n=network: torchvision_video(n))


def raft():
    import torchvision

    class Flow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = torchvision.models.optical_flow.raft_small(weights=None)

        def forward(self, a, b):
            return self.model(a, b, num_flow_updates=2)[-1]

    return Flow(), image(128) + image(128), None


row("video", "raft_small", raft)


def detector(name):
    import torchvision
    model = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None)
    return model, ([torch.rand(3, 160, 160)],), None


for network in ("ssdlite320_mobilenet_v3_large", "retinanet_resnet50_fpn", "fasterrcnn_mobilenet_v3_large_320_fpn"):
    row("detection", network, lambda n=network: detector(n))

# timm: name and image size; 0 is the size of the configuration.
TIMM = """caformer_s18 64, cait_xxs24_224 0, coat_tiny 0, convit_tiny 0, convmixer_768_32 64, convnextv2_atto 64,
crossvit_tiny_240 0, cs3darknet_s 64, davit_tiny 64, deit_tiny_patch16_224 0, dla34 64, dm_nfnet_f0 64, dpn48b 64,
ecaresnet26t 64, edgenext_xx_small 64, efficientformer_l1 0, ese_vovnet19b_dw 64, fastvit_t8 64, focalnet_tiny_srf 64,
ghostnet_100 64, gmlp_ti16_224 0, hardcorenas_a 64, hrnet_w18_small 64, inception_next_tiny 64, lcnet_050 64,
levit_128s 0, mambaout_femto 64, mixer_s32_224 0, mixnet_s 64, mobilenetv4_conv_small 64, mobileone_s0 64,
mobilevit_xxs 64, nest_tiny 0, pit_ti_224 0, poolformer_s12 64, pvt_v2_b0 64, regnetz_040 64, repghostnet_050 64,
repvgg_a0 64, res2net50_14w_8s 64, resmlp_12_224 0, resnest14d 64, resnetv2_50 64, rexnet_100 64, selecsls42b 64,
skresnet18 64, starnet_s1 64, tinynet_a 64, tiny_vit_5m_224 0, tresnet_m 64, twins_svt_small 64, visformer_tiny 0,
xception41 64, xcit_nano_12_p16_224 0"""


def timm_classifier(name, size):
    import timm
    model = timm.create_model(name, pretrained=False, exportable=True)
    return model, image(size or model.default_cfg["input_size"][-1]), None


for line in TIMM.split(","):
    network, side = line.split()
    row("timm", network, lambda n=network, s=int(side): timm_classifier(n, s))

LENGTH = 16


class First(torch.nn.Module):
    """The first output of a model of transformers, called by position with named inputs."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs)), return_dict=False)[0]


SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
         "vocab_size": 200}
# Classes of transformers: name, model class, settings, inputs. Text models see ids and a mask.
LANGUAGE = {
    "albert": ("Albert", "Model", {**SMALL, "embedding_size": 32}),
    "bert": ("Bert", "Model", SMALL),
    "bert_classifier": ("Bert", "ForSequenceClassification", SMALL),
    "bert_questions": ("Bert", "ForQuestionAnswering", SMALL),
    "bloom": ("Bloom", "ForCausalLM", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 200}),
    "camembert": ("Camembert", "ForTokenClassification", SMALL),
    "codegen": ("CodeGen", "ForCausalLM", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 200, "rotary_dim": 8,
                                           "n_ctx": 64, "n_positions": 64}),
    "cohere": ("Cohere", "ForCausalLM", {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0}),
    "convbert": ("ConvBert", "Model", SMALL),
    "deberta": ("Deberta", "Model", SMALL),
    "deberta_v2": ("DebertaV2", "Model", SMALL),
    "distilbert": ("DistilBert", "Model", {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 200}),
    "electra": ("Electra", "Model", SMALL),
    "ernie": ("Ernie", "Model", SMALL),
    "falcon": ("Falcon", "ForCausalLM", SMALL),
    "gemma": ("Gemma", "ForCausalLM", {**SMALL, "num_key_value_heads": 2, "head_dim": 16}),
    "data2vec_text": ("Data2VecText", "Model", SMALL),
    "fnet": ("FNet", "Model", {**SMALL, "use_tpu_fourier_optimizations": False}),
    "glm": ("Glm", "ForCausalLM", {**SMALL, "num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 0}),
    "gpt_bigcode": ("GPTBigCode", "ForCausalLM", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 200}),
    "helium": ("Helium", "ForCausalLM", {**SMALL, "num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 0}),
    "ibert": ("IBert", "Model", SMALL),
    "gemma2": ("Gemma2", "ForCausalLM", {**SMALL, "num_key_value_heads": 2, "head_dim": 16}),
    "gpt2": ("GPT2", "LMHeadModel", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 200}),
    "gpt_neo": ("GPTNeo", "ForCausalLM", {"hidden_size": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 200,
                                         "attention_types": [[["global", "local"], 1]]}),
    "gpt_neox": ("GPTNeoX", "ForCausalLM", SMALL),
    "gptj": ("GPTJ", "ForCausalLM", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 200, "rotary_dim": 8}),
    "granite": ("Granite", "ForCausalLM", {**SMALL, "num_key_value_heads": 2}),
    "layoutlm": ("LayoutLM", "Model", SMALL),
    "llama": ("Llama", "ForCausalLM", {**SMALL, "num_key_value_heads": 2}),
    "mamba": ("Mamba", "ForCausalLM", {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 200, "state_size": 8}),
    "mistral": ("Mistral", "ForCausalLM", {**SMALL, "num_key_value_heads": 2}),
    "megatron_bert": ("MegatronBert", "Model", SMALL),
    "mixtral": ("Mixtral", "ForCausalLM", {**SMALL, "num_key_value_heads": 2, "num_local_experts": 2}),
    "mobilebert": ("MobileBert", "Model", {**SMALL, "embedding_size": 32, "intra_bottleneck_size": 32}),
    "modernbert": ("ModernBert", "Model", {**SMALL, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                                           "cls_token_id": 1, "sep_token_id": 2}),
    "mpnet": ("MPNet", "Model", SMALL),
    "nystromformer": ("Nystromformer", "Model", {**SMALL, "segment_means_seq_len": 16, "num_landmarks": 16}),
    "olmo": ("Olmo", "ForCausalLM", SMALL),
    "olmo2": ("Olmo2", "ForCausalLM", SMALL),
    "opt": ("OPT", "ForCausalLM", {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 128,
                                  "vocab_size": 200, "word_embed_proj_dim": 64}),
    "phi": ("Phi", "ForCausalLM", SMALL),
    "phi3": ("Phi3", "ForCausalLM", {**SMALL, "pad_token_id": 0}),
    "qwen2": ("Qwen2", "ForCausalLM", {**SMALL, "num_key_value_heads": 2}),
    "qwen3": ("Qwen3", "ForCausalLM", {**SMALL, "num_key_value_heads": 2, "head_dim": 16}),
    "rembert": ("RemBert", "Model", {**SMALL, "input_embedding_size": 32, "output_embedding_size": 64}),
    "roberta": ("Roberta", "Model", SMALL),
    "roformer": ("RoFormer", "Model", SMALL),
    "squeezebert": ("SqueezeBert", "Model", {**SMALL, "embedding_size": 64}),
    "stablelm": ("StableLm", "ForCausalLM", {**SMALL, "hidden_size": 128, "num_key_value_heads": 4}),
    "starcoder2": ("Starcoder2", "ForCausalLM", {**SMALL, "num_key_value_heads": 2}),
    "xlm": ("XLM", "Model", {"emb_dim": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 200, "n_langs": 1}),
    "xlnet": ("XLNet", "Model", {"d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128, "vocab_size": 200}),
    "t5_encoder": ("T5", "EncoderModel", {"d_model": 64, "num_layers": 2, "num_heads": 4, "d_kv": 16, "d_ff": 128,
                                         "vocab_size": 200}),
    "xlm_roberta": ("XLMRoberta", "Model", SMALL),
}


def transformers_model(prefix, suffix, settings):
    import transformers
    config = getattr(transformers, prefix + "Config")(**settings)
    config._attn_implementation = "eager"
    return getattr(transformers, prefix + suffix)(config)


def language(name):
    prefix, suffix, settings = LANGUAGE[name]
    model = transformers_model(prefix, suffix, {**settings, "use_cache": False})
    names = ["input_ids", "attention_mask"]
    ids = torch.randint(2, 200, (1, LENGTH))
    inputs = (ids, torch.ones(1, LENGTH, dtype=torch.int64))
    if name == "mamba":
        names, inputs = names[:1], inputs[:1]
    return First(model, names), inputs, names


for network in LANGUAGE:
    row("language", network, lambda n=network: language(n))

SIGHT = {**SMALL, "image_size": 64, "patch_size": 16}
SIGHT.pop("vocab_size")
PICTURES = {
    "beit": ("Beit", "Model", SIGHT),
    "clip_vision": ("CLIPVision", "Model", SIGHT),
    "convnext": ("ConvNext", "ForImageClassification", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}),
    "convnextv2": ("ConvNextV2", "Model", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}),
    "data2vec_vision": ("Data2VecVision", "Model", SIGHT),
    "deit": ("DeiT", "Model", SIGHT),
    "dinov2": ("Dinov2", "Model", SIGHT),
    "mobilenet_v2": ("MobileNetV2", "Model", {"depth_multiplier": 0.35, "image_size": 64}),
    "mobilevitv2": ("MobileViTV2", "Model", {"image_size": 64, "width_multiplier": 0.25}),
    "poolformer": ("PoolFormer", "Model", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}),
    "pvt": ("Pvt", "Model", {"image_size": 64, "hidden_sizes": [16, 32, 40, 64], "depths": [1, 1, 1, 1]}),
    "swinv2": ("Swinv2", "Model", {"image_size": 64, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4],
                                   "window_size": 4}),
    "vitdet": ("VitDet", "Model", {**{k: v for k, v in SIGHT.items() if k != "intermediate_size"}, "window_size": 0}),
    "mobilevit": ("MobileViT", "Model", {"image_size": 64, "hidden_sizes": [24, 32, 40], "neck_hidden_sizes":
                                         [8, 16, 24, 32, 40, 48, 64]}),
    "regnet": ("RegNet", "Model", {"embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1],
                                   "groups_width": 8}),
    "resnet": ("ResNet", "Model", {"embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}),
    "segformer": ("Segformer", "ForSemanticSegmentation", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1],
                                                           "decoder_hidden_size": 32}),
    "siglip_vision": ("SiglipVision", "Model", SIGHT),
    "swin": ("Swin", "Model", {"image_size": 64, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4],
                               "window_size": 4}),
    "vit": ("ViT", "ForImageClassification", SIGHT),
    "vit_mae": ("ViTMSN", "Model", SIGHT),
    "yolos": ("Yolos", "Model", {**SIGHT, "image_size": [64, 64], "num_detection_tokens": 10}),
}


def picture(name):
    prefix, suffix, settings = PICTURES[name]
    return First(transformers_model(prefix, suffix, settings), ["pixel_values"]), image(64), ["pixel_values"]


for network in PICTURES:
    row("vision", network, lambda n=network: picture(n))


# Encoders and decoders together: what an encoder sees and the ids of a decoder.
PAIR = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 200, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "use_cache": False}
PAIRS = {
    "bart": ("Bart", "Model", PAIR),
    "marian": ("Marian", "Model", PAIR),
    "mbart": ("MBart", "Model", PAIR),
    "pegasus": ("Pegasus", "Model", PAIR),
    "t5": ("T5", "Model", {"d_model": 64, "num_layers": 2, "num_heads": 4, "d_kv": 16, "d_ff": 128, "vocab_size": 200,
                           "use_cache": False}),
}


def pair(name):
    model = transformers_model(*PAIRS[name])
    ids = (torch.randint(3, 200, (1, LENGTH)), torch.randint(3, 200, (1, 8)))
    return First(model, ["input_ids", "decoder_input_ids"]), ids, ["input_ids", "decoder_input_ids"]


for network in PAIRS:
    row("language", network, lambda n=network: pair(n))


def whisper():
    model = transformers_model("Whisper", "Model", {**PAIR, "max_source_positions": 50})
    inputs = (torch.randn(1, 80, 100), torch.randint(3, 200, (1, 8)))
    return First(model, ["input_features", "decoder_input_ids"]), inputs, ["input_features", "decoder_input_ids"]


row("speech", "whisper", whisper)


def clip():
    text = {**SMALL, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    model = transformers_model("CLIP", "Model", {"text_config": text, "vision_config": SIGHT, "projection_dim": 32})
    names = ["input_ids", "pixel_values", "attention_mask"]
    ids = torch.randint(3, 200, (2, LENGTH))
    return First(model, names), (ids, *image(64), torch.ones(2, LENGTH, dtype=torch.int64)), names


row("vision", "clip", clip)


def detr():
    import transformers
    backbone = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1],
                                         out_features=["stage4"])
    settings = {k: v for k, v in PAIR.items() if k not in ("vocab_size", "use_cache", "decoder_start_token_id")}
    model = transformers_model("Detr", "ForObjectDetection", {
        **settings, "num_queries": 10, "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None,
        "backbone_config": backbone})
    return First(model, ["pixel_values"]), image(64), ["pixel_values"]


row("vision", "detr", detr)


def sam_encoder():
    model = transformers_model("SamVision", "Model", {
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "mlp_dim": 128, "image_size": 64,
        "patch_size": 8, "output_channels": 32, "window_size": 3, "global_attn_indexes": [1]})
    return First(model, ["pixel_values"]), image(64), ["pixel_values"]


row("vision", "sam_encoder", sam_encoder)


def whisper_encoder():
    import transformers
    config = transformers.WhisperConfig(d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128,
                                        decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=128,
                                        max_source_positions=50, vocab_size=200, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                        decoder_start_token_id=1)
    config._attn_implementation = "eager"
    model = transformers.WhisperModel(config).encoder
    return First(model, ["input_features"]), (torch.randn(1, 80, 100),), ["input_features"]


def wave(prefix):
    settings = {**SMALL, "conv_dim": [32] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    return First(transformers_model(prefix, "Model", settings), ["input_values"]), (torch.randn(1, 4000),), [
        "input_values"]


row("speech", "whisper_encoder", whisper_encoder)
row("speech", "wav2vec2", lambda: wave("Wav2Vec2"))
row("speech", "hubert", lambda: wave("Hubert"))
row("speech", "wavlm", lambda: wave("WavLM"))
row("speech", "data2vec_audio", lambda: wave("Data2VecAudio"))
row("speech", "unispeech", lambda: wave("UniSpeech"))


def spectrogram():
    settings = {**SMALL, "max_length": 64, "num_mel_bins": 32}
    settings.pop("vocab_size")
    return First(transformers_model("AST", "Model", settings), ["input_values"]), (torch.randn(1, 64, 32),), [
        "input_values"]


row("speech", "ast", spectrogram)


class Tagger(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.words = torch.nn.Embedding(100, 24)
        self.layers = getattr(torch.nn, kind)(24, 32, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = torch.nn.Linear(64, 9)

    def forward(self, words):
        return self.tags(self.layers(self.words(words))[0])


for kind in ("LSTM", "GRU", "RNN"):
    row("recurrent", kind.lower() + "_tagger",
        lambda k=kind: (Tagger(k), (torch.randint(0, 100, (2, 12)),), ["words"]))


def unet_block():
    import torch.nn as nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.conv = nn.GroupNorm(8, 32), nn.Conv2d(32, 32, 3, padding=1)
            self.up, self.down = nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.Conv2d(32, 32, 3, 2, 1)
            self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

        def forward(self, x):
            y = self.conv(nn.functional.silu(self.norm(x))) + x
            z = self.down(y)
            n, c, h, w = z.shape
            t = z.flatten(2).transpose(1, 2)
            z = self.attention(t, t, t, need_weights=False)[0].transpose(1, 2).reshape(n, c, h, w)
            return torch.cat([self.up(z), nn.functional.interpolate(z, scale_factor=2.0, mode="nearest"), y], 1)

    return Block(), (torch.randn(1, 32, 16, 16),), ["sample"]


row("recurrent", "transformer_encoder", lambda: (torch.nn.TransformerEncoder(
    torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2, enable_nested_tensor=False),
    (torch.randn(2, 10, 32),), ["x"]))
row("segmentation", "unet_block", unet_block)
