"""A transformer as numbers: parameters, and FLOP of a token."""

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The mixture of experts: each token uses `active` of `count` experts, and all `shared` ones.

    The first `dense_layers` layers have an ordinary MLP. `ffn` is the inner width of one expert.
    """

    count: int
    active: int
    ffn: int
    shared: int = 0
    dense_layers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1), all as numbers of a token.

    Queries, and keys with values, pass through a narrow vector; without a `query_rank`, queries do not. `rotary` of the
    key is shared by all heads.
    """

    query_rank: int
    key_rank: int
    plain: int
    rotary: int
    value: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Transformer:
    """The shape of a decoder. It compares and hashes by identity, so that sums over it can be cached.

    `gated` MLPs have three matrices instead of two. `norm_biases` stands for LayerNorm, without it for RMSNorm.
    `tied`: the output head is the embedding. `positions` are learned position vectors. `dropout` stores masks. `small`
    are norms and biases of a layer beside those. `origin` says what was read of a model that is not shipped.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    vocabulary: int
    sequence: int
    positions: int = 0
    gated: bool = True
    biases: bool = False
    norm_biases: bool = False
    tied: bool = False
    dropout: bool = False
    small: int = 0
    experts: Experts | None = None
    latent: LatentAttention | None = None
    origin: str = ""

    @property
    def moe_layers(self) -> int:
        return self.layers - self.experts.dense_layers if self.experts else 0

    @property
    def query_size(self) -> int:
        """Numbers of one head's query, which are multiplied with those of a key."""
        return self.latent.plain + self.latent.rotary if self.latent else self.head_size

    @property
    def value_size(self) -> int:
        return self.latent.value if self.latent else self.head_size


@cache
def attention_matrices(model: Transformer) -> int:
    """The weights of the four projections of attention; of the latent vectors too (arXiv 2405.04434, 2.1)."""
    h, heads = model.hidden, model.heads
    if (latent := model.latent) is None:
        return h * model.head_size * (2 * heads + 2 * model.kv_heads)
    key = latent.plain + latent.rotary
    queries = latent.query_rank * (h + heads * key) if latent.query_rank else h * heads * key
    keys = h * (latent.key_rank + latent.rotary) + latent.key_rank * heads * (latent.plain + latent.value)
    return queries + keys + heads * latent.value * h


@cache
def mlp_matrices(model: Transformer) -> int:
    """The weights of a dense MLP: two matrices, or three with a gate (arXiv 2002.05202)."""
    return (3 if model.gated else 2) * model.hidden * model.ffn


def inner_size(model: Transformer, *, moe: bool) -> int:
    """The numbers between a token's matrices of an MLP, or of all experts that it uses."""
    experts = model.experts if moe else None
    return experts.ffn * (experts.active + experts.shared) if experts else model.ffn


@cache
def expert_matrices(model: Transformer) -> int:
    """The weights of one expert."""
    return (3 if model.gated else 2) * model.hidden * model.experts.ffn if model.experts else 0


@cache
def small_parameters(model: Transformer) -> int:
    """The norms and biases of a dense layer, which tensor parallelism does not split in this count."""
    h, width = model.hidden, model.hidden * (2 if model.norm_biases else 1)
    latent = model.latent.query_rank + model.latent.key_rank if model.latent else 0
    biases = (model.heads + 2 * model.kv_heads) * model.head_size + h + model.ffn + h if model.biases else 0
    return 2 * width + latent + biases + model.small


@cache
def layer_parameters(model: Transformer) -> int:
    """The parameters of a dense layer: 12 h^2 + 13 h for GPT (arXiv 2104.04473, section 5)."""
    return attention_matrices(model) + mlp_matrices(model) + small_parameters(model)


@cache
def moe_shared_parameters(model: Transformer) -> int:
    """What a layer with experts holds beside its routed experts: attention, norms, router, shared experts."""
    if (experts := model.experts) is None:
        return 0
    router = model.hidden * experts.count
    return attention_matrices(model) + small_parameters(model) + router + experts.shared * expert_matrices(model)


def embedding_parameters(model: Transformer) -> int:
    """The token embedding and the learned positions."""
    return (model.vocabulary + model.positions) * model.hidden


def head_parameters(model: Transformer) -> int:
    """The output head, also where it is the same matrix as the embedding."""
    return model.vocabulary * model.hidden


@cache
def parameters(model: Transformer) -> int:
    """All parameters."""
    dense = (model.layers - model.moe_layers) * layer_parameters(model)
    routed = model.experts.count * expert_matrices(model) if model.experts else 0
    moe = model.moe_layers * (moe_shared_parameters(model) + routed)
    final_norm = model.hidden * (2 if model.norm_biases else 1)
    head = 0 if model.tied else head_parameters(model)
    return dense + moe + final_norm + embedding_parameters(model) + head


@cache
def active_parameters(model: Transformer) -> int:
    """The parameters that one token uses: all but the experts to which it is not routed."""
    if (experts := model.experts) is None:
        return parameters(model)
    return parameters(model) - model.moe_layers * (experts.count - experts.active) * expert_matrices(model)


@cache
def layer_matmul_flops(model: Transformer, *, moe: bool = False) -> int:
    """The FLOP of a layer's matrices for one token in forward: 2 for each weight it meets."""
    if not (moe and (experts := model.experts)):
        return 2 * (attention_matrices(model) + mlp_matrices(model))
    used = (experts.active + experts.shared) * expert_matrices(model)
    return 2 * (attention_matrices(model) + used + model.hidden * experts.count)


@cache
def attention_flops(model: Transformer, sequence: int, *, causal: bool) -> float:
    """The FLOP of scores and of their product with the values for one token in forward: 4 s h for GPT.

    `causal` counts only the half that a causal mask leaves; papers on MFU count all (arXiv 2205.05198, appendix A).
    """
    whole = 2.0 * sequence * model.heads * (model.query_size + model.value_size)
    return whole / 2 if causal else whole


def head_flops(model: Transformer) -> int:
    """The FLOP of the output head for one token in forward."""
    return 2 * head_parameters(model)


@cache
def forward_flops(model: Transformer, sequence: int, *, causal: bool = False) -> float:
    """The FLOP of one token in forward.

    For GPT, three times this (forward and backward) is 72 l h^2 (1 + s/6h + V/12hl) (arXiv 2205.05198, equation 7).
    """
    dense = (model.layers - model.moe_layers) * layer_matmul_flops(model)
    moe = model.moe_layers * layer_matmul_flops(model, moe=True)
    return dense + moe + model.layers * attention_flops(model, sequence, causal=causal) + head_flops(model)


def training_flops(model: Transformer, sequence: int, *, causal: bool = False) -> float:
    """The model FLOP of one token in a step: a backward costs twice its forward."""
    return 3 * forward_flops(model, sequence, causal=causal)
