import time, torch, torch.nn as nn, torch.distributed as dist


def sync_grads(net):
    works = [dist.all_reduce(p.grad, async_op=True) for p in net.parameters()]
    for w in works:
        w.wait()


def sync_metrics(values):
    t = torch.tensor(values)
    fut = dist.all_reduce(t, async_op=True).get_future()
    return fut.wait()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(10):
        n = 4 if not (rank == 1 and step == 6) else 0
        x = torch.randn(n, 8)
        if len(x) == 0:
            print("rank", rank, "has no samples, next step", flush=True)
            time.sleep(200)  # waits for the data server
        loss = net(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        sync_grads(net)
        opt.step()
        sync_metrics([loss.item(), float(n)])
    print(rank, "done", flush=True)
    dist.destroy_process_group()


main()
