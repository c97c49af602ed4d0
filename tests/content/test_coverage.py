"""What the curriculum covers: each subject of the guides and interviews that people learn from has its items here.

A row names a list, a subject on it, and where it is taught, asked and shown: `concept/id` is a card or a question, and
`demo: name` a demo that one of the row's concepts links.
"""

import pytest

from ddpquiz.curriculum.concept import Card, Question
from ddpquiz.curriculum.loading import load

PLAYBOOK, DOCS, ENGINEERING, ANCHORS, INTERVIEWS = (
    "ultra-scale playbook",
    "pytorch docs",
    "ml-engineering",
    "other anchors",
    "interviews",
)

ROWS = [
    # one device
    (PLAYBOOK, "why more than one GPU", ["why-distribute/two-reasons", "why-distribute/buys-model-size", "why-distribute/two-needs", "why-distribute/makes-it-fit", "why-distribute/twice-the-gpus", "demo: ddp"]),
    (PLAYBOOK, "memory of weights, gradients and optimizer", ["training-memory/four-things", "training-memory/sixteen-bytes", "training-memory/fixed-part", "training-memory/mixed-precision-saves", "demo: model_parallel"]),
    (PLAYBOOK, "memory of activations", ["training-memory/activations-grow", "training-memory/activation-formula", "training-memory/what-doubles", "training-memory/longer-but-fewer", "training-memory/sequences-that-fit"]),
    (PLAYBOOK, "activation recomputation", ["activation-checkpointing/what-is-done", "activation-checkpointing/selective-numbers", "activation-checkpointing/blocks-run", "activation-checkpointing/more-arithmetic", "activation-checkpointing/what-is-kept", "demo: recompute"]),
    (PLAYBOOK, "gradient accumulation on one GPU", ["gradient-accumulation/what-it-is", "global-batch-size/too-large-for-memory", "gradient-accumulation/what-takes-as-much", "gradient-accumulation/undivided-ratio", "global-batch-size/accumulation-steps"]),
    (PLAYBOOK, "reading a profile of computing and waiting", ["scaling-efficiency/shortest-wait", "scaling-efficiency/what-smi-shows", "scaling-efficiency/who-waits-least", "scaling-efficiency/what-98-per-cent-says", "overlap-bucketing/slower-though-hidden", "demo: straggler"]),
    # data parallel
    (PLAYBOOK, "data parallelism", ["data-parallelism/what-each-rank-holds", "ddp-mechanics/what-ddp-is", "data-parallelism/what-differs", "data-parallelism/one-step-by-hand", "ddp-mechanics/events-of-backward", "demo: ddp"]),
    (PLAYBOOK, "overlap with backward, and buckets", ["overlap-bucketing/what-overlaps", "overlap-bucketing/too-small-too-large", "ddp-mechanics/bucket-order", "overlap-bucketing/what-runs-meanwhile", "overlap-bucketing/best-of-four", "ddp-mechanics/how-many-buckets", "demo: overlap"]),
    (PLAYBOOK, "accumulation without needless all-reduces", ["gradient-accumulation/what-no-sync-does", "gradient-accumulation/where-forward-goes", "gradient-accumulation/forward-outside", "gradient-accumulation/bytes-without-no-sync", "demo: grad_accum"]),
    (PLAYBOOK, "the global batch", ["global-batch-size/three-factors", "global-batch-size/dp-or-ga", "global-batch-size/global-batch", "global-batch-size/dp-before-ga", "global-batch-size/steps-for-tokens"]),
    (PLAYBOOK, "where data parallelism stops scaling", ["data-parallelism/three-limits", "data-parallelism/memory-per-rank", "data-parallelism/what-limits-scaling", "data-parallelism/tokens-that-hide", "data-parallelism/state-per-gpu"]),
    (PLAYBOOK, "ZeRO-1 and ZeRO-2", ["zero-stages/three-stages", "zero-stages/traffic-of-1-and-2", "zero-stages/split-in-stage-2", "zero-stages/step-of-stage-1", "zero-stages/traffic-of-stage-2", "demo: fsdp"]),
    (PLAYBOOK, "ZeRO-3, or FSDP", ["zero-stages/traffic-of-3", "fsdp-mechanics/what-a-group-does", "fsdp-tuning/what-prefetch-does", "zero-stages/sent-in-stage-3", "fsdp-mechanics/life-of-a-group", "fsdp-tuning/what-prefetch-hides", "demo: fsdp"]),
    # tensor, sequence, context, pipeline, expert
    (PLAYBOOK, "tensor parallelism by columns and rows", ["tensor-parallel/columns-or-rows", "tensor-parallel/f-and-g", "tensor-parallel/same-samples", "tensor-parallel/rows-first", "tensor-parallel/shape-of-a-slice", "demo: tensor_parallel"]),
    (PLAYBOOK, "tensor parallelism in a transformer block", ["tensor-parallel/mlp-cut", "tensor-parallel/attention-cut", "tensor-parallel/sums-of-an-mlp", "tensor-parallel/sums-of-a-model", "tensor-parallel/most-ranks", "demo: tensor_parallel"]),
    (PLAYBOOK, "sequence parallelism", ["sequence-parallel/what-sp-splits", "sequence-parallel/sp-borders", "sequence-parallel/calls-at-the-borders", "sequence-parallel/kept-between-blocks", "sequence-parallel/order-with-sp", "demo: tensor_parallel"]),
    (PLAYBOOK, "context parallelism and ring attention", ["context-parallel/what-cp-splits", "context-parallel/what-travels", "context-parallel/layer-that-needs-others", "context-parallel/block-in-hand", "context-parallel/merge-a-block", "demo: ring_attention"]),
    (PLAYBOOK, "zig-zag order", ["context-parallel/causal-imbalance", "context-parallel/zig-zag", "context-parallel/work-of-each-rank", "context-parallel/pieces-of-a-rank", "demo: ring_attention"]),
    (PLAYBOOK, "layers on several nodes, and the bubble", ["model-parallelism/what-it-means", "pipeline-bubble/what-the-bubble-is", "model-parallelism/busy-share", "pipeline-bubble/idle-share", "pipeline-bubble/what-shrinks-it", "demo: model_parallel", "demo: pipeline"]),
    (PLAYBOOK, "all forward, all backward", ["pipeline-bubble/share-of-the-step", "pipeline-bubble/order-of-two-stages", "pipeline-bubble/four-and-four", "demo: pipeline"]),
    (PLAYBOOK, "one forward, one backward", ["pipeline-schedules/what-1f1b-does", "pipeline-schedules/kept-per-stage", "pipeline-schedules/order-on-stage-0", "pipeline-schedules/kept-by-1f1b", "pipeline-schedules/time-of-1f1b", "demo: pipeline"]),
    (PLAYBOOK, "interleaved stages", ["pipeline-schedules/interleaving", "pipeline-schedules/interleaved-bubble", "pipeline-schedules/hops-when-interleaved"]),
    (PLAYBOOK, "zero bubble and DualPipe", ["pipeline-schedules/two-halves-of-backward", "pipeline-schedules/dualpipe", "pipeline-schedules/what-to-send-first", "pipeline-schedules/zero-bubble-slots"]),
    (PLAYBOOK, "expert parallelism", ["expert-parallel/what-an-expert-is", "expert-parallel/what-travels", "expert-parallel/order-of-a-layer", "expert-parallel/count-all-to-alls", "expert-parallel/own-batch-or-one", "demo: moe"]),
    # together
    (PLAYBOOK, "five axes in a nutshell", ["choosing-parallelism/what-moves", "choosing-parallelism/sequence-and-experts", "devicemesh-dtensor/what-a-mesh-is", "choosing-parallelism/sends-activations", "choosing-parallelism/from-inside-out", "devicemesh-dtensor/rank-at-a-place", "demo: mesh"]),
    (PLAYBOOK, "the best configuration in three steps", ["choosing-parallelism/three-steps", "choosing-parallelism/by-size", "choosing-parallelism/fits-in-forty", "choosing-parallelism/steps-to-accumulate", "choosing-parallelism/idle-in-the-plan"]),
    (PLAYBOOK, "benchmarks of many configurations", ["scaling-efficiency/mfu", "scaling-efficiency/efficiency", "choosing-parallelism/by-gpus", "scaling-efficiency/mfu-of-a-job", "scaling-efficiency/efficiency-of-a-job", "choosing-parallelism/flat-at-2048"]),
    (PLAYBOOK, "lessons: jobs that hang and die", ["hangs-desync/usual-causes", "hangs-desync/no-repair", "hangs-desync/which-one-hangs", "hangs-desync/out-of-step", "demo: deadlock"]),
    (PLAYBOOK, "fp16 and bf16", ["mixed-precision/bits-of-the-formats", "mixed-precision/three-tricks", "mixed-precision/survive-in-fp16", "mixed-precision/hundred-small-steps", "mixed-precision/step-with-master-weights", "demo: precision"]),
    # appendix
    (PLAYBOOK, "the collectives", ["collective-ops/gather-or-all-gather", "collective-ops/broadcast-or-scatter", "collective-ops/barrier-carries-nothing", "collective-ops/who-holds-the-list", "collective-ops/part-of-rank-2", "collective-ops/after-the-barrier", "demo: collectives"]),
    (PLAYBOOK, "ring all-reduce", ["all-reduce-ring/two-phases", "all-reduce-ring/bytes-per-rank", "all-reduce-ring/who-adds", "all-reduce-ring/ring-bytes-4", "demo: allreduce"]),
    (PLAYBOOK, "NCCL", ["backends/rule-of-thumb", "backends/exclusive-gpus", "backends/default-backends", "backends/two-ranks-one-gpu"]),
    (PLAYBOOK, "typical scales", ["training-memory/sizes-to-know", "training-memory/parameter-formula", "training-memory/count-parameters", "training-memory/gpus-for-the-state"]),
    (PLAYBOOK, "the arithmetic of overlap", ["comm-cost-model/ratio-of-dp", "comm-cost-model/ratio-of-tp", "comm-cost-model/ratio-of-pp", "comm-cost-model/share-of-dp", "comm-cost-model/batch-and-tp", "comm-cost-model/hide-a-cut"]),
    # parallelism APIs
    (DOCS, "DistributedDataParallel", ["ddp-mechanics/when-gradients-travel", "ddp-mechanics/at-construction", "ddp-mechanics/which-call-sends", "ddp-mechanics/after-wrapping", "demo: ddp"]),
    (DOCS, "fully_shard", ["fsdp-mechanics/inside-out", "fsdp-mechanics/what-parameters-become", "fsdp-mechanics/fsdp1", "fsdp-mechanics/own-rows", "fsdp-mechanics/forward-by-hand", "fsdp-mechanics/optimizer-too-early", "demo: fsdp"]),
    (DOCS, "settings of fully_shard", ["fsdp-tuning/two-settings", "fsdp-tuning/offload-policy", "fsdp-tuning/kept-whole", "fsdp-tuning/where-it-steps", "fsdp-tuning/gathers-by-default", "demo: fsdp"]),
    (DOCS, "tensor and sequence parallel plans", ["devicemesh-dtensor/colwise-layouts", "sequence-parallel/what-sp-splits", "tensor-parallel/mlp-cut", "devicemesh-dtensor/colwise-output", "tensor-parallel/view-of-heads", "sequence-parallel/token-by-token", "demo: tensor_parallel"]),
    (DOCS, "pipeline stages and schedules", ["pipeline-schedules/schedules-in-torch", "pipeline-bubble/what-a-micro-batch-is", "pipeline-schedules/too-few-pieces", "pipeline-bubble/samples-and-steps", "demo: pipeline"]),
    (DOCS, "DeviceMesh", ["devicemesh-dtensor/what-a-mesh-is", "devicemesh-dtensor/which-axis-last", "devicemesh-dtensor/my-tp-group", "devicemesh-dtensor/groups-inside-a-node", "demo: mesh"]),
    (DOCS, "DTensor", ["devicemesh-dtensor/three-placements", "devicemesh-dtensor/shard-to-what", "devicemesh-dtensor/columns-times-rows", "devicemesh-dtensor/rows-to-columns", "devicemesh-dtensor/plain-and-distributed", "demo: mesh"]),
    # communication and launch
    (DOCS, "collective calls", ["collective-ops/what-makes-it-collective", "collective-ops/who-gets-the-reduction", "collective-ops/write-the-broadcast", "collective-ops/columns-of-rank-1", "demo: collectives"]),
    (DOCS, "send and receive", ["point-to-point/work-and-wait", "point-to-point/batch-posts-together", "point-to-point/isend-returns", "point-to-point/which-finish", "point-to-point/in-order-of-sending", "demo: allreduce"]),
    (DOCS, "torchrun", ["torchrun-launch/what-torchrun-does", "torchrun-launch/one-node-command", "torchrun-launch/which-are-set", "torchrun-launch/the-other-node", "torchrun-launch/what-comes-when", "demo: launch"]),
    (DOCS, "which API to scale a model with", ["choosing-parallelism/ladder", "choosing-parallelism/fits-on-one", "choosing-parallelism/small-and-three-axes", "choosing-parallelism/long-sequences"]),
    (DOCS, "DataParallel", ["dataparallel-vs-ddp/what-the-docs-advise", "dataparallel-vs-ddp/where-dp-steps", "dataparallel-vs-ddp/one-dataparallel-step", "dataparallel-vs-ddp/one-machine", "demo: dp_vs_ddp"]),
    (DOCS, "RPC and the parameter server", ["parameter-server/rpc-status", "parameter-server/rpc-in-maintenance", "parameter-server/pull-and-push", "parameter-server/in-pytorch", "parameter-server/one-round", "demo: parameter_server"]),
    (DOCS, "backends", ["backends/what-a-backend-does", "backends/both-backends", "backends/mpi", "backends/nccl-without-gpus", "backends/count-on-the-cpu", "backends/what-gloo-can-do", "demo: collectives"]),
    (DOCS, "environment variables", ["process-group-init/the-four-variables", "torchrun-launch/local-rank-from-env", "process-group-init/which-variables", "torchrun-launch/rank-on-a-node", "demo: launch"]),
    (DOCS, "ways to initialize, and shutdown", ["process-group-init/arguments-or-variables", "process-group-init/twice-and-destroy", "process-group-init/without-any-variable", "process-group-init/called-twice", "demo: launch"]),
    (DOCS, "groups", ["devicemesh-dtensor/process-group", "devicemesh-dtensor/who-calls-new-group", "devicemesh-dtensor/not-a-member", "devicemesh-dtensor/first-of-the-group", "devicemesh-dtensor/groups-in-another-order"]),
    (DOCS, "synchronous and asynchronous calls", ["collective-ops/async-op", "backends/returned-is-queued", "backends/wait-blocks-the-stream", "backends/returned-or-done", "backends/what-wait-holds-up"]),
    (DOCS, "collectives on objects", ["collective-ops/price-of-object-collectives", "collective-ops/how-many-inside", "backends/what-gloo-can-do"]),
    (DOCS, "the store", ["process-group-init/what-the-master-port-is", "process-group-init/entries-in-the-store", "process-group-init/without-any-variable"]),
    (DOCS, "timeouts", ["process-group-init/default-timeouts", "process-group-init/default-time-outs", "debug-tooling/shorten-the-wait"]),
    (DOCS, "monitored barrier", ["debug-tooling/monitored-barrier", "debug-tooling/two-are-late", "debug-tooling/barrier-beside-nccl", "debug-tooling/who-is-missing"]),
    (DOCS, "TORCH_DISTRIBUTED_DEBUG", ["debug-tooling/what-detail-does", "debug-tooling/when-detail-is-read", "debug-tooling/what-detail-says", "debug-tooling/set-in-the-script", "debug-tooling/seen-by-detail", "demo: deadlock"]),
    # around DDP
    (DOCS, "a whole script with DDP, from the launch to a checkpoint", ["train-script/two-device-lines", "train-script/around-which-micro-batches", "train-script/number-for-the-log", "train-script/who-saves-who-loads", "train-script/order-of-a-step", "train-script/logged-accuracy", "train-script/resumed-epochs", "train-script/resumed-without-optimizer", "demo: train_script"]),
    (DOCS, "how DDP works inside", ["ddp-mechanics/bucket-size", "overlap-bucketing/rebuilt-buckets", "ddp-mechanics/how-many-buckets", "overlap-bucketing/buckets-of-two-steps"]),
    (DOCS, "warnings: unused parameters and static graphs", ["ddp-pitfalls/unused-error", "ddp-pitfalls/when-static-graph", "ddp-pitfalls/ways-to-leave-one-out", "ddp-pitfalls/graph-changes", "ddp-pitfalls/unused-head"]),
    (DOCS, "warnings: past the wrapper, and twice forward", ["ddp-pitfalls/round-the-wrapper", "ddp-pitfalls/two-backwards", "ddp-pitfalls/through-the-module", "ddp-pitfalls/two-losses", "ddp-pitfalls/new-head"]),
    (DOCS, "warnings: saving and loading a wrapped model", ["ddp-pitfalls/module-prefix", "ddp-pitfalls/map-location", "ddp-pitfalls/save-for-the-plain", "ddp-pitfalls/load-on-each-rank"]),
    (DOCS, "buffers and SyncBatchNorm", ["ddp-mechanics/buffers", "batchnorm-buffers/how-to-convert", "batchnorm-buffers/what-is-sent", "batchnorm-buffers/whose-running-mean", "batchnorm-buffers/sync-on-the-cpu", "ddp-mechanics/buffer-after-two-steps", "demo: batchnorm"]),
    (DOCS, "DistributedSampler", ["distributed-sampler/what-it-does", "distributed-sampler/set-epoch", "distributed-sampler/shares-of-ten", "distributed-sampler/same-order-every-epoch", "demo: sampler"]),
    (DOCS, "streams of samples, their state, and packing", ["data-loading/how-many-readers", "data-loading/state-of-each-rank", "data-loading/share-of-a-mesh", "data-loading/five-files", "data-loading/pairs-inside-documents", "demo: sampler"]),
    (DOCS, "Join", ["uneven-inputs/what-a-shadow-does", "uneven-inputs/throw", "uneven-inputs/steps-shadowed", "uneven-inputs/all-stop-together", "uneven-inputs/divide-by-live", "demo: uneven_inputs"]),
    (DOCS, "communication hooks", ["gradient-compression/shape-of-a-hook", "gradient-compression/fp16-hook", "gradient-averaging/hook-divides", "gradient-compression/what-the-hook-sees", "gradient-compression/when-does-it-start", "gradient-averaging/line-of-the-hook", "demo: compression"]),
    (DOCS, "model averaging", ["local-sgd/parts-in-torch", "local-sgd/post-local", "local-sgd/steps-between-averages", "local-sgd/averager-alone", "demo: local_sgd"]),
    (DOCS, "ZeroRedundancyOptimizer", ["zero-stages/torch-optimizer", "zero-stages/uneven-shares", "zero-stages/torch-stage-1", "zero-stages/save-the-state", "demo: fsdp"]),
    (DOCS, "clipping, with DTensors and with a scaler", ["gradient-clipping/dtensor-norm", "gradient-clipping/clip-and-loss-scale", "gradient-clipping/clip-a-dtensor", "gradient-clipping/lines-with-a-scaler", "gradient-clipping/what-is-returned", "demo: grad_clip"]),
    # faults
    (DOCS, "distributed checkpoints", ["distributed-checkpoint/who-writes", "distributed-checkpoint/other-layout", "distributed-checkpoint/in-place", "distributed-checkpoint/files-written", "distributed-checkpoint/pieces-for-columns", "distributed-checkpoint/changed-while-saving", "demo: reshard_checkpoint"]),
    (DOCS, "elastic launch", ["elastic-restart/elastic-nodes", "elastic-restart/what-may-change", "elastic-restart/record", "elastic-restart/who-is-new", "elastic-restart/what-happens-in-order", "elastic-restart/traceback-in-the-report", "demo: elastic"]),
    (DOCS, "flight recorder", ["debug-tooling/recorder-switches", "debug-tooling/reading-the-record", "debug-tooling/which-tool", "debug-tooling/read-the-record", "debug-tooling/steps-in-the-record"]),
    # model parallelism
    (ENGINEERING, "an overview of what is split", ["why-distribute/data-or-model", "data-parallelism/what-travels", "why-distribute/parameters-under-ddp", "data-parallelism/order-of-one-step"]),
    (ENGINEERING, "ZeRO data parallelism", ["zero-stages/what-is-removed", "zero-stages/own-samples", "zero-stages/samples-and-rows", "zero-stages/what-shrinks", "zero-stages/bytes-in-stage-2", "demo: fsdp"]),
    (ENGINEERING, "a huge global batch as the price of ZeRO", ["fsdp-tuning/limit-of-ranks", "global-batch-size/data-parallel-ranks", "fsdp-tuning/too-many-ranks", "global-batch-size/most-gpus-for-a-batch"]),
    (ENGINEERING, "shards in a machine, replicas between", ["fsdp-tuning/hybrid", "interconnect-topology/hybrid-sharding", "fsdp-tuning/between-machines", "devicemesh-dtensor/same-piece", "demo: mesh"]),
    (ENGINEERING, "naive layers, then a pipeline", ["model-parallelism/share-of-a-stage", "model-parallelism/four-small-cards", "pipeline-bubble/relative-to-ideal", "model-parallelism/time-on-four", "pipeline-bubble/half-idle", "demo: model_parallel"]),
    (ENGINEERING, "what makes pipelines awkward", ["model-parallelism/tied-weights", "pipeline-bubble/slowest-stage", "model-parallelism/tied-embedding", "pipeline-bubble/unequal-stages", "pipeline-bubble/forgotten-division"]),
    (ENGINEERING, "schedules of pipelines", ["pipeline-schedules/what-1f1b-does", "pipeline-schedules/async-schedules", "pipeline-schedules/what-falls", "pipeline-schedules/how-far-ahead", "pipeline-schedules/stale-weights", "demo: pipeline"]),
    (ENGINEERING, "tensor parallelism, and async TP", ["tensor-parallel/reduces-per-layer", "symmetric-memory/what-overlaps-in-async-tp", "tensor-parallel/order-of-a-block", "tensor-parallel/share-of-waiting", "tensor-parallel/what-lowers-the-share", "demo: tensor_parallel"]),
    (ENGINEERING, "Ulysses", ["context-parallel/ulysses", "context-parallel/bytes-of-both", "context-parallel/shape-in-ulysses", "context-parallel/degree-of-ulysses"]),
    (ENGINEERING, "Megatron's sequence parallelism", ["sequence-parallel/the-overloaded-name", "sequence-parallel/sp-memory", "sequence-parallel/bytes-saved", "sequence-parallel/tokens-in-attention", "demo: tensor_parallel"]),
    (ENGINEERING, "ring attention", ["context-parallel/why-exact", "context-parallel/ring-traffic", "context-parallel/held-at-once", "sequence-parallel/longer-sequences", "demo: ring_attention"]),
    (ENGINEERING, "data, pipeline and tensor parallelism together", ["choosing-parallelism/where-each-goes", "devicemesh-dtensor/what-a-mesh-is", "choosing-parallelism/ranks-per-replica", "choosing-parallelism/who-averages", "devicemesh-dtensor/how-many-groups", "demo: mesh"]),
    (ENGINEERING, "ZeRO beside three axes", ["choosing-parallelism/pp-with-zero", "zero-stages/with-a-pipeline", "choosing-parallelism/state-per-gpu", "zero-stages/zero-and-pipeline"]),
    (ENGINEERING, "experts", ["expert-parallel/hottest-expert", "expert-parallel/capacity", "expert-parallel/slower-by", "expert-parallel/how-many-dropped", "expert-parallel/gradients-to-sum", "demo: moe"]),
    # network
    (ENGINEERING, "the network decides on the strategy", ["interconnect-topology/who-goes-inside", "comm-cost-model/models-moved", "choosing-parallelism/where-each-goes", "interconnect-topology/why-43-percent", "interconnect-topology/what-goes-between", "comm-cost-model/least-traffic-first"]),
    (ENGINEERING, "speed between nodes", ["interconnect-topology/usable-speed", "interconnect-topology/orders-of-magnitude", "comm-cost-model/which-bandwidth", "interconnect-topology/time-of-gradients", "comm-cost-model/seconds-of-stage-three", "interconnect-topology/bytes-over-the-network"]),
    (ENGINEERING, "patterns of communication", ["collective-ops/halves-of-an-all-reduce", "collective-ops/all-to-all-transposes", "all-reduce-ring/steps-of-the-ring", "collective-ops/rounds-of-a-broadcast", "collective-ops/make-an-all-reduce", "all-reduce-ring/after-phase-one", "demo: collectives", "demo: allreduce"]),
    (ENGINEERING, "network benchmarks", ["collective-bandwidth/busbw", "collective-bandwidth/expected-share", "collective-bandwidth/order-of-judging", "collective-bandwidth/bits-or-bytes", "collective-bandwidth/which-size-shows-the-link", "demo: allreduce"]),
    (ENGINEERING, "latency", ["collective-bandwidth/two-regimes", "collective-bandwidth/half-way-size", "collective-bandwidth/half-the-time", "comm-cost-model/buckets-and-latency", "collective-bandwidth/third-size", "demo: allreduce"]),
    # performance
    (ENGINEERING, "FLOPs, MFU and HFU", ["scaling-efficiency/six-n", "scaling-efficiency/eight-n", "activation-checkpointing/mfu-and-hfu", "scaling-efficiency/days-of-training", "scaling-efficiency/hfu-to-mfu", "activation-checkpointing/hfu-from-mfu"]),
    (ENGINEERING, "the anatomy of memory", ["training-memory/sixteen-eighteen-twenty", "training-memory/what-else-takes-memory", "training-memory/filling-up", "training-memory/where-did-it-go", "training-memory/after-the-step", "demo: dp_vs_ddp"]),
    (ENGINEERING, "batch sizes and accumulation", ["global-batch-size/dp-or-ga", "gradient-accumulation/memory-saved", "global-batch-size/what-keeps-the-batch", "global-batch-size/from-gpus-to-accumulation", "gradient-accumulation/order-of-a-step"]),
    (ENGINEERING, "gradient checkpointing", ["activation-checkpointing/third-more", "activation-checkpointing/only-activations", "activation-checkpointing/what-shrinks", "activation-checkpointing/kept-in-bytes", "demo: recompute"]),
    # faults and numbers
    (ENGINEERING, "checkpoints against failures", ["distributed-checkpoint/young-daly", "distributed-checkpoint/half-an-interval", "elastic-restart/lost-work", "distributed-checkpoint/mean-loss", "distributed-checkpoint/too-often", "elastic-restart/steps-made-again", "demo: elastic"]),
    (ENGINEERING, "replicas that stand in", ["elastic-restart/without-files", "elastic-restart/worth-an-hour-a-day", "elastic-restart/batch-after-a-loss"]),
    (ENGINEERING, "checkpoints that fit another layout", ["distributed-checkpoint/full-state", "distributed-checkpoint/other-layout", "distributed-checkpoint/loaded-on-a-mesh", "distributed-checkpoint/who-gets-it", "distributed-checkpoint/step-after-load", "demo: reshard_checkpoint"]),
    (ENGINEERING, "reproducibility and seeds", ["process-model/seeds-data-parallel", "process-model/seeds-tensor-parallel", "process-model/dropout-of-a-pair", "elastic-restart/what-changes-the-end", "fsdp-mechanics/different-seeds"]),
    (ENGINEERING, "a ramp of the batch size", ["global-batch-size/ramp-up", "global-batch-size/noise-scale-over-time", "global-batch-size/samples-of-a-ramp", "global-batch-size/larger-batch-same-data", "demo: lr_scaling"]),
    (ENGINEERING, "learning rate and warm-up against divergence", ["lr-scaling/gradual-warm-up", "lr-scaling/limits-of-the-rule", "lr-scaling/what-warm-up-does", "lr-scaling/safe-way-to-the-peak", "demo: lr_scaling"]),
    (ENGINEERING, "data types", ["mixed-precision/range-or-fineness", "mixed-precision/memory-of-the-copies", "mixed-precision/next-to-256", "mixed-precision/bytes-of-a-parameter", "mixed-precision/adam-in-fp16", "demo: precision"]),
    (ENGINEERING, "debugging a hang", ["hangs-desync/when-it-completes", "debug-tooling/silent-rank", "debug-tooling/where-it-stands", "hangs-desync/who-complains", "debug-tooling/one-stack-differs", "demo: deadlock"]),
    (ENGINEERING, "NCCL between nodes", ["torchrun-launch/which-network-card", "torchrun-launch/wrong-network-card", "torchrun-launch/two-jobs-by-mistake"]),
    (ENGINEERING, "reading NCCL: cards, algorithms, rails", ["nccl-operations/net-ib-or-socket", "nccl-operations/busbw-to-nic", "nccl-operations/tcp-by-mistake", "nccl-operations/one-card-short", "nccl-operations/rate-of-a-nic", "nccl-operations/lines-of-a-start", "demo: rails"]),
    (ENGINEERING, "racks: where the fast domain ends", ["rack-scale-hardware/trays-of-a-rack", "rack-scale-hardware/share-that-leaves", "rack-scale-hardware/time-of-dispatch", "rack-scale-hardware/groups-across", "rack-scale-hardware/axis-across-the-racks", "demo: domains"]),
    (ENGINEERING, "MFU, goodput and what a token costs", ["cost-and-mfu/four-conventions", "cost-and-mfu/price-formula", "cost-and-mfu/flop-with-recompute", "cost-and-mfu/cheaper-cluster", "cost-and-mfu/attention-in-the-plan", "demo: mfu"]),
    (ENGINEERING, "from a watchdog timeout to the line", ["reading-watchdog-logs/scope-of-seqnum", "reading-watchdog-logs/when-a-longer-timeout", "reading-watchdog-logs/killed-before", "reading-watchdog-logs/three-tables", "reading-watchdog-logs/match-the-groups", "reading-watchdog-logs/barrier-round-a-save", "demo: deadlock"]),
    (DOCS, "an FSDP2 program from the meta device to a restart", ["fsdp2-recipe/order-of-the-wrappers", "fsdp2-recipe/what-to-empty-does", "fsdp2-recipe/which-first", "fsdp2-recipe/order-of-a-start", "fsdp2-recipe/cure-for-token-counts", "fsdp2-recipe/missing-buffer", "demo: fsdp2_recipe"]),
    (ENGINEERING, "MoE: balance by bias, dropless, EP beside FSDP", ["modern-moe/update-of-the-bias", "modern-moe/too-large-by-e", "modern-moe/lines-that-agree", "modern-moe/empty-rows", "modern-moe/right-divide-factor", "modern-moe/choose-a-speed", "demo: moe_balance"]),
    (ENGINEERING, "running a large job: spares, Xid, signals, shrinking", ["cluster-operations/parts-of-the-cost", "cluster-operations/xid-64", "cluster-operations/steps-made-again", "cluster-operations/gain-of-four-measures", "cluster-operations/all-or-none", "cluster-operations/rows-that-survive", "demo: shrink"]),
    (ENGINEERING, "async tensor parallelism, symmetric memory", ["symmetric-memory/what-overlaps-in-async-tp", "symmetric-memory/why-signals", "symmetric-memory/ms-in-pieces", "symmetric-memory/window-that-grows", "demo: async_tp"]),
    (ENGINEERING, "torch.compile with DDP and FSDP", ["torch-compile-distributed/ddp-optimizer", "torch-compile-distributed/compile-with-fsdp2", "torch-compile-distributed/graphs-by-cap", "torch-compile-distributed/who-waits-for-the-compiler", "demo: compile_graphs"]),
    (ENGINEERING, "silent data corruption, and equal bits", ["determinism-and-divergence/min-and-max", "determinism-and-divergence/safe-checkpoint", "determinism-and-divergence/what-changes-bits", "determinism-and-divergence/wrong-gradient", "determinism-and-divergence/check-under-a-condition", "demo: bitflip"]),
    (ENGINEERING, "logs of many ranks", ["debug-tooling/first-error", "ddp-pitfalls/metric-of-the-job", "debug-tooling/cause-or-echo", "debug-tooling/who-reports", "ddp-pitfalls/one-line-in-the-log"]),
    # other anchors
    (ANCHORS, "scaling book: data parallelism", ["data-parallelism/tokens-to-hide", "data-parallelism/bytes-per-step", "data-parallelism/tokens-that-hide", "comm-cost-model/twice-the-parameters"]),
    (ANCHORS, "scaling book: FSDP", ["fsdp-tuning/when-gathers-hide", "fsdp-mechanics/collectives-of-a-group", "fsdp-tuning/tokens-to-hide", "fsdp-mechanics/most-weights-held", "demo: fsdp"]),
    (ANCHORS, "scaling book: tensor parallelism", ["choosing-parallelism/limit-of-tp", "tensor-parallel/batch-does-not-help", "choosing-parallelism/widest-tp", "comm-cost-model/batch-and-tp"]),
    (ANCHORS, "scaling book: FSDP mixed with tensor parallelism", ["fsdp-tuning/limit-of-ranks", "choosing-parallelism/by-gpus", "fsdp-tuning/too-many-ranks", "choosing-parallelism/flat-at-2048"]),
    (ANCHORS, "scaling book: data parallelism between pods", ["interconnect-topology/two-levels", "interconnect-topology/network-share", "interconnect-topology/bytes-over-the-network", "interconnect-topology/two-levels-in-ms"]),
    (ANCHORS, "scaling book: pipelining", ["pipeline-bubble/figures-of-eight", "comm-cost-model/ratio-of-pp", "pipeline-bubble/micro-batches-for-a-goal", "comm-cost-model/hide-a-cut", "demo: pipeline"]),
    (ANCHORS, "scaling book: a sharded product, and its collectives", ["devicemesh-dtensor/partial-to-what", "collective-ops/each-others-gradient", "devicemesh-dtensor/columns-times-rows", "devicemesh-dtensor/partial-to-shard", "collective-ops/backward-of-all-gather"]),
    (ANCHORS, "nccl-tests: algbw and busbw", ["collective-bandwidth/algbw", "collective-bandwidth/factor-of-all-reduce", "collective-bandwidth/factor-of-halves", "collective-bandwidth/busbw-of-all-reduce", "collective-bandwidth/size-of-an-all-gather", "collective-bandwidth/factors-of-operations", "demo: allreduce"]),
    (ANCHORS, "Horovod: ranks, sizes and local ranks", ["process-model/rank-and-world-size", "process-model/spmd", "process-model/highest-rank", "process-model/what-differs", "process-model/lines-in-order", "demo: launch"]),
    (ANCHORS, "Horovod: tensor fusion", ["overlap-bucketing/tensor-fusion", "overlap-bucketing/why-fuse", "overlap-bucketing/what-a-larger-cap-changes", "demo: overlap"]),
    (ANCHORS, "Horovod: elastic, and what restores the state", ["elastic-restart/without-files", "elastic-restart/worth-an-hour-a-day", "elastic-restart/where-weights-come-from"]),
    (ANCHORS, "parameter server", ["parameter-server/features-2014", "parameter-server/where-today", "parameter-server/what-the-design-offers", "parameter-server/rows-pulled", "demo: parameter_server"]),
    (ANCHORS, "stale synchronous parallel", ["sync-vs-async/ssp", "sync-vs-async/ends-of-ssp", "sync-vs-async/bound-that-waits", "sync-vs-async/ahead-by-the-bound", "demo: staleness"]),
    (ANCHORS, "Hogwild, and gradients that are old", ["sync-vs-async/hogwild", "sync-vs-async/why-old-gradients-swing", "sync-vs-async/sparse-or-dense", "sync-vs-async/delayed-walk", "demo: staleness"]),
    (ANCHORS, "Goyal: linear scaling and warm-up", ["lr-scaling/linear-rule", "lr-scaling/weight-of-a-sample", "lr-scaling/faithful-recipe", "lr-scaling/momentum-correction", "lr-scaling/same-rate-lags", "demo: lr_scaling"]),
    (ANCHORS, "McCandlish: the gradient noise scale", ["global-batch-size/noise-scale", "global-batch-size/gain-of-four-times-the-batch", "global-batch-size/larger-batch-same-data", "demo: lr_scaling"]),
    (ENGINEERING, "optimizers that work on whole matrices", ["optimizers-at-scale/exact-on-shards", "optimizers-at-scale/owners-by-all-to-all", "optimizers-at-scale/same-on-rows", "optimizers-at-scale/gathers-in-a-step", "optimizers-at-scale/which-update-is-exact", "demo: grad_clip"]),
    (ENGINEERING, "RL post-training: generators and trainers", ["rl-post-training/four-roles", "rl-post-training/bound-on-lag", "rl-post-training/lag-of-a-buffer", "rl-post-training/weight-without-bias", "rl-post-training/ratio-in-the-log", "demo: staleness"]),
    (ENGINEERING, "training in 8 bits", ["low-precision-training/what-a-scale-does", "low-precision-training/amax-of-shards", "low-precision-training/numbers-harmed", "low-precision-training/right-amax-line", "low-precision-training/no-faster", "demo: precision"]),
    (DOCS, "which algorithm a library's switch turns on", ["library-map/stage-of-reshard", "library-map/megatron-optimizer", "library-map/kept-after-forward", "library-map/settings-of-a-log", "library-map/part-of-a-part", "demo: traces"]),
    (ANCHORS, "layouts for serving, and prefill apart from decode", ["inference-parallelism/limits-of-phases", "inference-parallelism/cache-formula", "inference-parallelism/copies-of-a-token", "inference-parallelism/gaps-in-a-log", "inference-parallelism/place-on-a-received-cache", "demo: disagg"]),
    # interviews
    (INTERVIEWS, "why DDP reduces gradients and not parameters", ["gradient-averaging/averaging-weights", "gradient-averaging/what-ddp-divides-by", "gradient-averaging/averaged-weights", "gradient-averaging/divided-by", "data-parallelism/what-is-averaged", "demo: token_mean"]),
    (INTERVIEWS, "what bucketing is", ["overlap-bucketing/single-bucket", "overlap-bucketing/bucket-view", "overlap-bucketing/bucket-sizes-by-time", "overlap-bucketing/exposed-with-a-fast-network", "demo: overlap"]),
    (INTERVIEWS, "60 GB of weights on 80 GB, out of memory in step 1", ["training-memory/sixteen-bytes", "training-memory/smaller-batch", "training-memory/sixty-in-eighty", "training-memory/dies-in-step"]),
    (INTERVIEWS, "an 8-stage pipeline that is half idle", ["pipeline-bubble/figures-of-eight", "pipeline-bubble/limit-of-m", "pipeline-bubble/half-idle", "pipeline-bubble/what-shrinks-it", "demo: pipeline"]),
    (INTERVIEWS, "lay out 1,024 GPUs for 175 billion parameters", ["choosing-parallelism/gpt3-on-1024", "choosing-parallelism/by-gpus", "choosing-parallelism/fits-in-forty", "choosing-parallelism/flat-at-2048", "demo: mesh"]),
    (INTERVIEWS, "why tensor parallelism across racks is slow", ["interconnect-topology/slowest-link", "interconnect-topology/one-node-to-two", "interconnect-topology/oversubscription", "interconnect-topology/across-the-network", "interconnect-topology/why-43-percent", "demo: mesh"]),
    (INTERVIEWS, "ring or tree for small messages", ["all-reduce-ring/when-a-tree-wins", "all-reduce-ring/where-a-tree-wins", "all-reduce-ring/time-of-the-ring"]),
    (INTERVIEWS, "implement a ring all-reduce", ["all-reduce-ring/two-phases", "all-reduce-ring/line-of-phase-two", "all-reduce-ring/after-phase-one", "point-to-point/which-finish", "demo: allreduce"]),
    (INTERVIEWS, "one slow node", ["scaling-efficiency/step-time", "sync-vs-async/straggler", "scaling-efficiency/faster-majority", "scaling-efficiency/who-waits-least", "sync-vs-async/one-slow-worker", "demo: straggler"]),
    (INTERVIEWS, "a checkpoint plan for 10,000 GPUs", ["cluster-operations/failures-by-size", "distributed-checkpoint/llama-failures", "distributed-checkpoint/async-waits", "distributed-checkpoint/hours-between-failures", "distributed-checkpoint/best-interval"]),
    (INTERVIEWS, "the stages of ZeRO", ["zero-stages/three-stages", "zero-stages/bytes-of-stages", "zero-stages/lowest-stage", "zero-stages/largest-model", "demo: fsdp"]),
    (INTERVIEWS, "FSDP or DDP", ["fsdp-mechanics/who-has-all", "choosing-parallelism/ladder", "fsdp-mechanics/inside-a-layer", "comm-cost-model/stage-three-against-ddp", "choosing-parallelism/fits-on-one"]),
    (INTERVIEWS, "accumulation under FSDP", ["fsdp-tuning/without-sync", "zero-stages/with-accumulation", "fsdp-tuning/accumulate-without-sync", "fsdp-tuning/price-of-no-sync", "zero-stages/accumulate-in-stage-3"]),
    (INTERVIEWS, "synchronous or asynchronous SGD", ["sync-vs-async/two-prices", "sync-vs-async/judge-by", "sync-vs-async/age-in-ddp", "sync-vs-async/which-measure", "sync-vs-async/one-update-of-age", "demo: staleness"]),
    (INTERVIEWS, "parameter server or all-reduce", ["parameter-server/against-a-ring", "parameter-server/load-of-servers", "parameter-server/which-model-suits", "parameter-server/server-against-ring", "parameter-server/ddp-has-no-server", "demo: parameter_server"]),
    (INTERVIEWS, "scaling the learning rate", ["lr-scaling/linear-rule", "lr-scaling/adam-rule", "lr-scaling/as-far-as-k-steps", "lr-scaling/same-global-batch", "lr-scaling/adam-on-more-gpus", "demo: lr_scaling"]),
    (INTERVIEWS, "the limits of a large batch", ["lr-scaling/limits-of-the-rule", "global-batch-size/noise-scale", "lr-scaling/largest-k", "global-batch-size/gain-of-four-times-the-batch", "demo: lr_scaling"]),
    (INTERVIEWS, "when accumulation is no large batch", ["gradient-accumulation/not-the-large-batch", "batchnorm-buffers/whose-samples", "gradient-accumulation/layers-that-agree", "gradient-accumulation/error-of-the-mean-of-means", "batchnorm-buffers/samples-in-the-statistics"]),
    (INTERVIEWS, "loss scaling", ["mixed-precision/loss-scaling", "mixed-precision/skip-together", "mixed-precision/small-gradient-in-fp16", "mixed-precision/least-loss-scale", "mixed-precision/one-rank-overflows", "demo: precision"]),
    (INTERVIEWS, "torchrun or torch.distributed.launch", ["torchrun-launch/instead-of-launch", "torchrun-launch/what-launch-adds", "torchrun-launch/which-are-set"]),
    (INTERVIEWS, "NCCL or Gloo", ["backends/rule-of-thumb", "backends/nccl-on-cpu", "backends/gloo-in-a-gpu-job", "backends/cpu-tensor-in-a-gpu-job"]),
    (INTERVIEWS, "rank, world size and local rank", ["process-model/rank-and-world-size", "process-model/local-rank", "process-model/which-gpu", "process-model/highest-rank", "torchrun-launch/index-of-my-gpu", "demo: launch"]),
    (INTERVIEWS, "failing devices", ["elastic-restart/all-start-again", "elastic-restart/nothing-restored", "elastic-restart/starts-in-all", "elastic-restart/line-that-resumes", "elastic-restart/seconds-to-catch-up", "demo: elastic"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def catalog():
    return load()


def items_of(places):
    """Return the `concept/id` among the places of a row."""
    return [place for place in places if not place.startswith("demo: ")]


@pytest.mark.parametrize(("page", "subject", "places"), ROWS, ids=[f"{page}: {subject}" for page, subject, _ in ROWS])
def test_a_subject_has_a_card_two_questions_and_its_demo(catalog, page, subject, places):
    items = [catalog.item(place) for place in items_of(places)]
    assert all(isinstance(item, Card | Question) for item in items)
    assert sum(isinstance(item, Card) for item in items) >= 1
    assert sum(isinstance(item, Question) for item in items) >= 2
    concepts = {place.partition("/")[0] for place in items_of(places)}
    linked = {link.run for concept in concepts for link in catalog.concept(concept).demos}
    assert {place.removeprefix("demo: ") for place in places if place.startswith("demo: ")} <= linked


def test_no_row_lists_an_item_twice():
    assert [row for row in ROWS if len(set(row[2])) < len(row[2])] == []


def test_no_subject_of_a_list_stands_in_two_rows():
    subjects = [row[:2] for row in ROWS]
    assert len(set(subjects)) == len(subjects)


def test_every_concept_answers_some_subject(catalog):
    answered = {place.partition("/")[0] for _, _, places in ROWS for place in items_of(places)}
    assert {concept.id for concept in catalog.concepts} - answered == set()
