"""Disaggregated serving: rank 0 reads the prompts and sends the keys and values; the other ranks write the answers.

    torchrun --nproc-per-node 4 demos/disagg.py

Prefill computes all tokens of a prompt in one pass and leaves their keys and
values, the KV cache. Decode adds one token in each pass, and reads that cache
instead of computing the prompt again. Here prefill and decode are different
ranks, so the cache travels. Each answer is compared with that of one process
that computes the whole sequence again for each token.
Compare `cache received` with `cache per token`, and `rows computed` with
`rows without a cache`.

Try    --kv-heads 1     all four query heads share one key and one value: half the bytes
       --prompt 30      a longer prompt: more bytes to send, the same number of decode passes
       on 1 rank        prefill and decode in one place: nothing is sent
"""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

LAYERS, WIDTH, HEADS, VOCABULARY, LONGEST = 2, 16, 4, 32, 64
HEAD = WIDTH // HEADS  # numbers per head
Cache = list[torch.Tensor]  # for each layer, its keys and values, (2, kv heads, tokens, HEAD)


class Layer(nn.Module):
    """Attention in which several query heads share the keys and values of one head (GQA), and an MLP."""

    def __init__(self, kv_heads: int) -> None:
        super().__init__()
        self.kv_heads = kv_heads
        self.query, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        nn.init.normal_(self.out.weight)  # large, so that the answer depends on the whole prompt
        self.key, self.value = nn.Linear(WIDTH, kv_heads * HEAD), nn.Linear(WIDTH, kv_heads * HEAD)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor, past: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Take rows of new tokens, and keys and values of earlier ones; return new rows, and all keys and values."""
        new = torch.stack([self.key(x), self.value(x)]).unflatten(-1, (self.kv_heads, HEAD)).transpose(1, 2)
        past = torch.cat([past, new], dim=2)  # this is all that decode needs from earlier tokens
        keys, values = past.repeat_interleave(HEADS // self.kv_heads, dim=1)
        queries = self.query(x).unflatten(-1, (HEADS, HEAD)).transpose(0, 1)
        scores = queries @ keys.transpose(1, 2) / HEAD**0.5
        later = torch.ones(scores.shape[1:], dtype=torch.bool, device=x.device).triu(1 + past.shape[2] - len(x))
        seen = scores.masked_fill(later, float("-inf")).softmax(dim=-1) @ values
        x = x + self.out(seen.transpose(0, 1).flatten(1))
        return x + self.mlp(x), past


class Model(nn.Module):
    """A language model with random weights, the same on all ranks."""

    def __init__(self, kv_heads: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer(kv_heads) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.rows = 0  # how many rows, one for each token, went through the layers

    def forward(self, tokens: torch.Tensor, cache: Cache) -> torch.Tensor:
        """Compute these tokens, which come after those in the cache; extend the cache and return the last logits."""
        start = cache[0].shape[2]
        x = self.words(tokens) + self.places.weight[start : start + len(tokens)]
        for number, layer in enumerate(self.layers):
            x, cache[number] = layer(x, cache[number])
        self.rows += len(tokens)
        return self.head(x[-1])

    def empty(self, tokens: int = 0) -> Cache:
        """Return a cache with room for this many tokens."""
        return [self.head.weight.new_empty(2, layer.kv_heads, tokens, HEAD) for layer in self.layers]


def prefill(model: Model, prompt: torch.Tensor) -> tuple[torch.Tensor, Cache]:
    """Read the prompt in one pass; return the logits of the first token of the answer, and the cache."""
    cache = model.empty()
    return model(prompt, cache), cache


def send_cache(logits: torch.Tensor, cache: Cache, to: int) -> int:
    """Send the first logits and the keys and values of all layers; return the bytes of the cache."""
    for tensor in (logits, *cache):
        dist.send(tensor.contiguous(), to)
    return sum(each.nbytes for each in cache)


def receive_cache(model: Model, prompt_length: int) -> tuple[torch.Tensor, Cache]:
    """Receive what `send_cache` sends."""
    logits, cache = torch.empty_like(model.head.bias), model.empty(prompt_length)
    for tensor in (logits, *cache):
        dist.recv(tensor, src=0)
    return logits, cache


def decode(model: Model, logits: torch.Tensor, cache: Cache, count: int) -> tuple[list[int], torch.Tensor]:
    """Write `count` tokens, one in each pass; return them and the last logits."""
    written = [int(logits.argmax())]
    while len(written) < count:
        logits = model(torch.tensor(written[-1:], device=logits.device), cache)
        written.append(int(logits.argmax()))
    return written, logits


def write_without_cache(model: Model, prompt: torch.Tensor, count: int) -> tuple[list[int], torch.Tensor]:
    """Write the same tokens with a full forward for each of them."""
    written: list[int] = []
    while len(written) < count:
        logits = model(torch.cat([prompt, prompt.new_tensor(written)]), model.empty())
        written.append(int(logits.argmax()))
    return written, logits


def serve(model: Model, prompts: torch.Tensor, count: int) -> None:
    """Do this rank's part, and compare an answer with that of one process."""
    rank, world = dist.get_rank(), dist.get_world_size()
    token_bytes = sum(each.nbytes for each in model.empty(1))
    print(f"cache per token (bytes): {token_bytes}")
    if rank == 0:
        logits, cache = prefill(model, prompts[0])
        sent = sum(send_cache(*prefill(model, prompts[other]), other) for other in range(1, world))
        print(f"cache sent (bytes): {sent}")
        assert model.rows == world * prompts.shape[1], "prefill computes each token of each prompt once"
        if world > 1:
            print(f"rows computed: {model.rows}")
            return
    else:
        logits, cache = receive_cache(model, prompts.shape[1])
        received = sum(each.nbytes for each in cache)
        print(f"cache received (bytes): {received}")
        kv_numbers = 2 * LAYERS * model.layers[0].kv_heads * HEAD * prompts.shape[1]
        assert received == 4 * kv_numbers, "the cache is 2 x layers x KV heads x head size numbers for each token"
    written, logits = decode(model, logits, cache, count)
    print(f"rows computed: {model.rows}")
    if rank > 0:
        assert model.rows == count - 1, "decode computes one row a pass, and none of the prompt"
    model.rows = 0
    right, right_logits = write_without_cache(model, prompts[rank], count)
    off = (logits - right_logits).abs().max().item()
    print(f"rows without a cache: {model.rows}")
    print(f"answer: {' '.join(map(str, written))}")
    print(f"answer from one process: {' '.join(map(str, right))}")
    assert (written, off < 1e-4) == (right, True), "decode on the received cache writes what one process writes"


def main() -> None:
    """Form the group, and serve one prompt for each rank."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompt", type=int, default=10, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=6, help="tokens of an answer")
    parser.add_argument("--kv-heads", type=int, default=2, choices=(1, 2, 4), help="heads of keys and values")
    args = parser.parse_args()
    if args.prompt < 1 or args.tokens < 2 or args.prompt + args.tokens > LONGEST:
        raise SystemExit(f"--prompt and --tokens may add up to {LONGEST}; a prompt has 1 token or more, an answer 2.")
    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=20))
    model = Model(args.kv_heads).to(device).requires_grad_(False)
    torch.manual_seed(1)
    prompts = torch.randint(VOCABULARY, (dist.get_world_size(), args.prompt)).to(device)
    serve(model, prompts, args.tokens)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
