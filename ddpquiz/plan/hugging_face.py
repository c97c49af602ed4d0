"""A model that is described by the `config.json` of Hugging Face Transformers.

Each kind of model (`model_type`) has rules of its own: under which names its numbers stand, and which norms and biases
a layer has.
A kind that is not listed here is refused, since a count that is wrong looks like one that is right.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ddpquiz.errors import UserError
from ddpquiz.plan.model import Experts, LatentAttention, Transformer, active_parameters, parameters

_USUAL_SEQUENCE = 8192  # tokens of a sequence where none is named; many configs allow far more than anybody trains with
_LARGEST = 10**7  # of a number in a config
_LARGEST_FILE = 1 << 20  # bytes
_GROUPED = "its layers differ: {}. ddpquiz plans models whose layers, after the first dense ones, are all alike"


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a kind of model has beside matrices; `tied` and `query_biases` are what its configs leave out.

    `head_norms` are norms of each head's queries and keys, `wide_norms` of all heads together.
    """

    gated: bool = True
    tied: bool = False
    biases: bool = False
    norm_biases: bool = False
    positions: int = -1  # more learned positions than the longest sequence has tokens; -1 for none
    norms: int = 2  # of a layer
    query_biases: bool = False
    head_norms: bool = False
    wide_norms: bool = False


_GPT = _Kind(gated=False, biases=True, norm_biases=True)
_KINDS = {
    "llama": _Kind(),
    "mistral": _Kind(),
    "phi3": _Kind(),
    "qwen2": _Kind(query_biases=True),
    "qwen3": _Kind(head_norms=True),
    "olmo2": _Kind(wide_norms=True),
    "gemma": _Kind(tied=True),
    "gemma2": _Kind(tied=True, norms=4),
    "gemma3_text": _Kind(tied=True, norms=4, head_norms=True),
    "mixtral": _Kind(),
    "qwen2_moe": _Kind(query_biases=True),
    "qwen3_moe": _Kind(head_norms=True),
    "gpt_oss": _Kind(),
    "deepseek_v2": _Kind(),
    "deepseek_v3": _Kind(),
    "kimi_k2": _Kind(),
    "gpt2": _Kind(gated=False, tied=True, biases=True, norm_biases=True, positions=0),
    "opt": _Kind(gated=False, tied=True, biases=True, norm_biases=True, positions=2),
    "gpt_neox": _GPT,
}
_MOE = {"mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss", "deepseek_v2", "deepseek_v3", "kimi_k2"}
_LATENT = {"deepseek_v2", "deepseek_v3", "kimi_k2"}


def load_config(path: Path) -> Transformer:
    """Load a model from a `config.json`, or from the folder that holds one; its `origin` says what was read.

    UserError if the file is no such config, or describes a model that cannot be planned.
    """
    if path.is_dir():
        path /= "config.json"
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a pipe or a device. Save it as a file, and name that.")
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_FILE + 1)
        config = json.loads(text) if len(text) <= _LARGEST_FILE else None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path} is not JSON.") from None
    if not isinstance(config, dict):
        raise UserError(f"{path} is no config of a model: it holds no JSON object of at most 1 MiB.")
    reading = _Config(path, config)
    return reading.model()


class _Config:
    """One config: its numbers under any of their names, and what is to be said of it."""

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path, self.notes = path, list[str]()
        inner = config.get("text_config")
        if isinstance(inner, dict):
            config = {"tie_word_embeddings": config.get("tie_word_embeddings"), **inner}
            self.notes.append("only the language model is planned, not what reads pictures or sound")
        self.config = {key: value for key, value in config.items() if value is not None}
        kind = self.config.get("model_type")
        if not isinstance(kind, str) or kind not in _KINDS:
            named = f"the model type {kind!r}" if isinstance(kind, str) else "no `model_type`"
            raise UserError(
                f"{path} has {named}; ddpquiz reads {', '.join(_KINDS)}. Other models can be written as a YAML file:"
                " docs/plan.md shows one."
            )
        self.type, self.kind = kind, _KINDS[kind]

    def refuse(self, why: str) -> UserError:
        return UserError(f"{self.path}: {why}.")

    def whole(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """The number under the first of some names that is there; UserError if it is missing or no size."""
        for name in names:
            if name in self.config:
                value = self.config[name]
                if type(value) is not int or not least <= value <= _LARGEST:
                    raise self.refuse(
                        f"`{name}` must be a whole number from {least} to {_LARGEST:,}, not {value!r:.40}"
                    )
                return value
        if default is None:
            raise self.refuse(f"there is no `{names[0]}`")
        return default

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.config.get(name, default)
        if not isinstance(value, bool):
            raise self.refuse(f"`{name}` must be true or false, not {value!r:.40}")
        return value

    def model(self) -> Transformer:
        hidden, heads = self.whole("hidden_size", "n_embd"), self.whole("num_attention_heads", "n_head")
        layers = self.whole("num_hidden_layers", "n_layer")
        kv_heads = self.whole("num_key_value_heads", default=heads)
        if "head_dim" not in self.config and hidden % heads and self.type not in _LATENT:
            raise self.refuse(f"{heads} heads do not divide a hidden size of {hidden}, and there is no `head_dim`")
        longest = self.whole("max_position_embeddings", "n_positions")
        if self.whole("word_embed_proj_dim", default=hidden) != hidden:
            raise self.refuse("its embedding has another width than its layers, which ddpquiz cannot plan")
        experts, latent = self._experts(layers), self._latent()
        head_size = self.whole("head_dim", default=max(1, hidden // heads))
        ffn = self.whole("intermediate_size", "ffn_dim", "n_inner", default=4 * hidden)
        self._say_what_is_left_out()
        model = Transformer(
            name=self._name(),
            layers=layers,
            hidden=hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_size=head_size,
            ffn=ffn,
            vocabulary=self.whole("vocab_size"),
            sequence=min(longest, _USUAL_SEQUENCE),
            positions=longest + self.kind.positions if self.kind.positions >= 0 else 0,
            gated=self.kind.gated,
            biases=self.kind.biases,
            norm_biases=self.kind.norm_biases,
            tied=self.flag("tie_word_embeddings", default=self.kind.tied),
            dropout=bool(self.config.get("resid_pdrop") or (self.type == "opt" and self.config.get("dropout"))),
            experts=experts,
            latent=latent,
        )
        model = replace(model, small=self._small(model))
        return replace(model, origin=f"{'. '.join(self._origin(model, longest))}.")

    def _name(self) -> str:
        folder = self.path.absolute().parent
        if self.path.name != "config.json":
            return self.path.stem
        if re.fullmatch(
            "[0-9a-f]{40}", folder.name
        ):  # in Hugging Face's cache: models--ORGANISATION--NAME/snapshots/HASH
            folder = folder.parent.parent
        return folder.name.rpartition("--")[2] or self.type

    def _experts(self, layers: int) -> Experts | None:
        if self.type not in _MOE:
            return None
        ffn = self.whole("moe_intermediate_size", "intermediate_size")
        shared = self.whole("n_shared_experts", default=0, least=0)
        if wide := self.whole("shared_expert_intermediate_size", default=0, least=0):
            if wide % ffn:
                raise self.refuse(f"a shared expert of {wide} is no multiple of an expert of {ffn}")
            shared = wide // ffn
        if (step := self.whole("decoder_sparse_step", "moe_layer_freq", default=1)) > 1:
            raise self.refuse(_GROUPED.format(f"every {step}th has experts"))
        dense = self.whole("first_k_dense_replace", default=0, least=0)
        if plain := self.config.get("mlp_only_layers"):
            if plain != list(range(len(plain))):
                raise self.refuse(_GROUPED.format("those in `mlp_only_layers` have no experts"))
            dense = len(plain)
        count = self.whole("num_local_experts", "n_routed_experts", "num_experts")
        active = self.whole("num_experts_per_tok", "experts_per_token")
        if active > count or dense > layers:
            raise self.refuse(f"{active} of {count} experts, or {dense} dense layers of {layers}, cannot be")
        return Experts(count=count, active=active, ffn=ffn, shared=shared, dense_layers=dense)

    def _latent(self) -> LatentAttention | None:
        if self.type not in _LATENT:
            return None
        return LatentAttention(
            query_rank=self.whole("q_lora_rank", default=0),
            key_rank=self.whole("kv_lora_rank"),
            plain=self.whole("qk_nope_head_dim"),
            rotary=self.whole("qk_rope_head_dim"),
            value=self.whole("v_head_dim"),
        )

    def _small(self, model: Transformer) -> int:
        """The norms and biases of a layer beside those that a Transformer counts itself."""
        kind, projected = self.kind, (model.heads + 2 * model.kv_heads) * model.head_size
        small = (kind.norms - 2) * model.hidden
        if kind.query_biases:
            small += projected
        elif self.flag("attention_bias") and not kind.biases:
            small += projected + model.hidden
        if self.flag("mlp_bias"):
            small += 2 * model.ffn + model.hidden
        if kind.head_norms:
            small += 2 * model.head_size
        if kind.wide_norms:
            small += (model.heads + model.kv_heads) * model.head_size
        if self.type == "qwen2_moe":
            small += model.hidden  # the gate of the shared experts
        if self.type == "gpt_oss" and (
            experts := model.experts
        ):  # a sink for each head, and biases of router and experts
            small += model.heads + experts.count * (1 + 2 * experts.ffn + model.hidden)
        return small

    def _say_what_is_left_out(self) -> None:
        if self.config.get("sliding_window") and self.config.get("use_sliding_window", True):
            self.notes.append("sliding windows are planned as full attention")
        if more := self.config.get("num_nextn_predict_layers"):
            self.notes.append(f"the {more!r:.10} layers that predict further tokens are not planned")

    def _origin(self, model: Transformer, longest: int) -> Iterator[str]:
        total, active = parameters(model) / 1e9, active_parameters(model) / 1e9
        size = f"{total:,.4g} billion parameters"
        if model.experts:
            size += f", {active:,.3g} billion of them active"
        yield f"Read from {self.path.name} ({self.type}): {size}"
        shape = f"{model.layers} layers of {model.hidden:,}, {model.heads} heads"
        if model.latent:
            shape += " with latent vectors"
        elif model.kv_heads != model.heads:
            shape += f" ({model.kv_heads} for keys and values)"
        if experts := model.experts:
            shape += f", {experts.active} of {experts.count} experts of {experts.ffn:,}"
            shape += f" and {experts.shared} shared" if experts.shared else ""
        else:
            shape += f", MLP of {model.ffn:,}"
        yield f"{shape}, vocabulary {model.vocabulary:,}{', tied' if model.tied else ''}"
        if longest > model.sequence:
            self.notes.insert(0, f"sequences of {model.sequence:,} unless --seq says more (it allows {longest:,})")
        if self.notes:
            text = "; ".join(self.notes)
            yield text[0].upper() + text[1:]
