"""Models read from a config.json of Hugging Face Transformers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_program import piped

from ddpquiz.errors import UserError
from ddpquiz.plan.hugging_face import load_config
from ddpquiz.plan.model import active_parameters, parameters

# The numbers of published configs, and the parameters of the published weights
PUBLISHED = [
    ("Llama-3.1-8B", 8_030_261_248, {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False}),
    ("Llama-3.2-1B", 1_235_814_400, {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 8192, "vocab_size": 128256, "max_position_embeddings": 131072, "tie_word_embeddings": True}),
    ("Mistral-7B-v0.1", 7_241_732_096, {"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 32768, "sliding_window": 4096}),
    ("Qwen2.5-7B", 7_615_616_512, {"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064, "max_position_embeddings": 131072, "use_sliding_window": False, "sliding_window": 131072}),
    ("Qwen2.5-0.5B", 494_032_768, {"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936, "max_position_embeddings": 32768, "tie_word_embeddings": True}),
    ("Qwen3-8B", 8_190_735_360, {"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936, "max_position_embeddings": 40960}),
    ("Qwen3-30B-A3B", 30_532_122_624, {"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936, "max_position_embeddings": 40960}),
    ("Mixtral-8x7B-v0.1", 46_702_792_704, {"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000, "max_position_embeddings": 32768, "sliding_window": None}),
    ("DeepSeek-V3", 671_026_419_200, {"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280, "max_position_embeddings": 163840, "num_nextn_predict_layers": 1}),
    ("DeepSeek-V2-Lite", 15_706_484_224, {"model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1, "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 102400, "max_position_embeddings": 163840}),
    ("gpt-oss-20b", 20_914_757_184, {"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32, "num_experts_per_tok": 4, "experts_per_token": 4, "attention_bias": True, "vocab_size": 201088, "max_position_embeddings": 131072, "sliding_window": 128, "tie_word_embeddings": False}),
    ("gpt-oss-120b", 116_829_156_672, {"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 128, "num_experts_per_tok": 4, "attention_bias": True, "vocab_size": 201088, "max_position_embeddings": 131072, "sliding_window": 128, "tie_word_embeddings": False}),
    ("gpt2", 124_439_808, {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257, "resid_pdrop": 0.1}),
    ("pythia-6.9b", 6_857_302_016, {"model_type": "gpt_neox", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 16384, "vocab_size": 50432, "max_position_embeddings": 2048, "tie_word_embeddings": False}),
    ("gemma-2-9b", 9_241_705_984, {"model_type": "gemma2", "hidden_size": 3584, "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "intermediate_size": 14336, "vocab_size": 256000, "max_position_embeddings": 8192, "sliding_window": 4096}),
    ("gemma-7b", 8_537_680_896, {"model_type": "gemma", "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "intermediate_size": 24576, "vocab_size": 256000, "max_position_embeddings": 8192}),
    ("Phi-3-mini", 3_821_079_552, {"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 8192, "vocab_size": 32064, "max_position_embeddings": 4096, "sliding_window": 2047}),
    ("opt-1.3b", 1_315_758_080, {"model_type": "opt", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32, "ffn_dim": 8192, "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": 2048, "dropout": 0.1}),
    ("OLMo-2-7B", 7_298_617_344, {"model_type": "olmo2", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 100352, "max_position_embeddings": 4096, "tie_word_embeddings": False}),
    ("Qwen1.5-MoE-A2.7B", 14_315_784_192, {"model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 5632, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts": 60, "num_experts_per_tok": 4, "decoder_sparse_step": 1, "vocab_size": 151936, "max_position_embeddings": 8192, "tie_word_embeddings": False}),
    ("Kimi-K2", 1_026_408_232_448, {"model_type": "kimi_k2", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 64, "num_key_value_heads": 64, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 1, "moe_layer_freq": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 163840, "max_position_embeddings": 131072}),
]  # fmt: skip
CONFIGS = {name: config for name, _, config in PUBLISHED}
ROUTER_BIASES = {"DeepSeek-V3": 58 * 256, "Kimi-K2": 60 * 384}  # balance the load of experts, and are not trained


def written(folder, config, name="a-model"):
    path = folder / name / "config.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(config))
    return path


def refused(folder, config):
    with pytest.raises(UserError) as refusal:
        load_config(written(folder, config))
    return str(refusal.value).replace(str(folder / "a-model"), ".")


@pytest.mark.parametrize(("name", "count", "config"), PUBLISHED)
def test_parameters_are_those_of_the_published_weights(name, count, config, tmp_path):
    assert parameters(load_config(written(tmp_path, config))) == count - ROUTER_BIASES.get(name, 0)


def test_the_active_parameters_of_experts_are_those_that_papers_name(tmp_path):
    named = {"Qwen3-30B-A3B": 3.3, "DeepSeek-V3": 37, "Kimi-K2": 32, "DeepSeek-V2-Lite": 2.4, "Qwen1.5-MoE-A2.7B": 2.7}
    for name, billions in named.items():
        model = load_config(written(tmp_path, CONFIGS[name], name))
        embedding = 0 if name != "DeepSeek-V2-Lite" else model.vocabulary * model.hidden  # left out of its 2.4
        assert (active_parameters(model) - embedding) / 1e9 == pytest.approx(billions, rel=0.04), name


def test_the_page_says_what_was_read_and_what_is_planned_otherwise(home, tmp_path):
    path = written(tmp_path, CONFIGS["gpt-oss-20b"], "gpt-oss-20b")
    for words in (str(path), str(path.parent)):
        page = " ".join(piped(home, "plan", "--model", words, "--gpus", "8", "--zero", "3").stdout.split())
        assert page.startswith("gpt-oss-20b on 8 x H100")
        assert (
            "Read from config.json (gpt_oss): 20.91 billion parameters, 4.19 billion of them active. 24 layers of 2,880,"
            " 64 heads (8 for keys and values), 4 of 32 experts of 2,880, vocabulary 201,088. Sequences of 8,192 unless"
            " --seq says more (it allows 131,072); sliding windows are planned as full attention."
        ) in page
    plan = json.loads(piped(home, "plan", "--model", str(path), "--gpus", "8", "--json").stdout)
    assert plan["model_read"].startswith("Read from config.json")
    assert plan["sequence"] == 8192


def test_a_model_has_the_name_of_its_folder_also_in_the_cache_of_hugging_face(tmp_path):
    snapshot = tmp_path / "models--meta-llama--Llama-3.1-8B" / "snapshots" / ("0123456789" * 4)
    assert load_config(written(snapshot.parent, CONFIGS["Llama-3.1-8B"], snapshot.name)).name == "Llama-3.1-8B"
    assert load_config(written(tmp_path, CONFIGS["gpt2"], "mine")).name == "mine"


def test_of_a_model_that_also_sees_the_language_model_is_planned(tmp_path):
    inner = CONFIGS["Mistral-7B-v0.1"]
    model = load_config(written(tmp_path, {"model_type": "mistral3", "text_config": inner, "vision_config": {}}))
    assert parameters(model) == 7_241_732_096
    assert "; only the language model is planned, not what reads pictures or sound; sliding" in model.origin


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model_type": "mamba2"}, "./config.json has the model type 'mamba2'; ddpquiz reads llama, mistral,"),
        ({"model_type": None}, "./config.json has no `model_type`; ddpquiz reads"),
        ({"hidden_size": None}, "./config.json: there is no `hidden_size`."),
        ({"hidden_size": "4096"}, "./config.json: `hidden_size` must be a whole number from 1 to 10,000,000, not '4096'."),
        ({"num_attention_heads": 7}, "./config.json: 7 heads do not divide a hidden size of 2048, and there is no `head_dim`."),
        ({"num_experts_per_tok": 200}, "./config.json: 200 of 128 experts, or 0 dense layers of 48, cannot be."),
        ({"decoder_sparse_step": 2}, "./config.json: its layers differ: every 2th has experts. ddpquiz plans models whose"),
        ({"mlp_only_layers": [3]}, "./config.json: its layers differ: those in `mlp_only_layers` have no experts. ddpquiz"),
        ({"tie_word_embeddings": "yes"}, "./config.json: `tie_word_embeddings` must be true or false, not 'yes'."),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_is_refused_in_a_sentence(change, sentence, tmp_path):
    config = CONFIGS["Qwen3-30B-A3B"] | change
    if "num_attention_heads" in change:
        del config["head_dim"]
    assert refused(tmp_path, config).startswith(sentence)


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"a": "' + "x" * (1 << 20) + '"}', "\xff"])
def test_a_file_that_is_no_config_is_refused(text, tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError):
        load_config(path)
    with pytest.raises(UserError, match="cannot be read"):
        load_config(tmp_path / "nothing.json")


_WRONG = st.one_of(st.none(), st.booleans(), st.integers(-2, 10**12), st.floats(), st.text(max_size=8), st.lists(st.integers(0, 9)), st.just({}))  # fmt: skip


@given(name=st.sampled_from(sorted(CONFIGS)), data=st.data())
def test_a_config_with_any_other_value_is_read_or_refused(name, data, tmp_path_factory):
    config = dict(CONFIGS[name])
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), max_size=3)):
        config[key] = data.draw(_WRONG)
    path = tmp_path_factory.getbasetemp() / "config.json"
    path.write_text(json.dumps(config))
    try:
        model = load_config(path)
    except UserError:
        return
    assert parameters(model) > 0
