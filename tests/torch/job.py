"""One rank of the job that tests/torch/run starts: every collective, each result verified.

Environment: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT as torchrun sets them; ROUNDS, the number of
all-reduces at the end; LATENCIES, if 1, replaces all of that by the times of small all-reduces.
Exit status 0: nothing was wrong.
"""

import datetime
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

SIZES = (1, 3, 257, 4096, 65537, 1 << 20, (1 << 24) + 5)  # elements of four bytes
REPEATS = 5
ROUND_ELEMENTS = 1 << 22
SAY_EVERY = 50
SMALL_BYTES = [1 << power for power in range(10, 19)]
SMALL_CALLS = 50
SMALL_ROUNDS = 11
TIMEOUT = datetime.timedelta(seconds=120)


class Job:
    def __init__(self):
        self.rank = int(os.environ["RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        self.device = torch.device("cuda", 0)
        self.wrong = 0

    def say(self, text):
        if self.rank == 0:
            print(text, flush=True)

    def check(self, name, got, want):
        exact = not got.is_floating_point()
        if torch.equal(got, want) if exact else torch.allclose(got, want):
            return
        self.wrong += 1
        print("rank %d: %s is WRONG" % (self.rank, name), flush=True)

    def values(self, count):
        return torch.arange(count, dtype=torch.int32, device=self.device) % 1000

    def full(self, count, value):
        return torch.full((count,), float(value), device=self.device)

    def time_of(self, operation):
        """Returns the time of one call in microseconds, the mean of a few."""
        operation()
        torch.cuda.synchronize()
        dist.barrier()
        begin = time.monotonic()
        for _ in range(REPEATS):
            operation()
        torch.cuda.synchronize()
        return (time.monotonic() - begin) / REPEATS * 1e6

    def all_reduce(self, count):
        base, world = self.values(count), self.world

        def once():
            values = base + self.rank
            dist.all_reduce(values)
            return values

        self.check("all_reduce", once(), base * world + world * (world - 1) // 2)
        self.say("all_reduce %9d B  %9.0f us" % (4 * count, self.time_of(once)))

    def one_to_all(self, count):
        base, world = self.values(count), self.world
        values = base + 1 if self.rank == 1 else torch.zeros_like(base)
        dist.broadcast(values, 1)
        self.check("broadcast", values, base + 1)
        gathered = [torch.empty_like(base) for _ in range(world)]
        dist.all_gather(gathered, base + self.rank)
        for rank in range(world):
            self.check("all_gather", gathered[rank], base + rank)
        part = torch.empty_like(base)
        dist.reduce_scatter_tensor(part, torch.cat([base + rank for rank in range(world)]))
        self.check("reduce_scatter", part, (base + self.rank) * world)

    def each_to_each(self, count):
        base, world, rank = self.values(count), self.world, self.rank
        got = [torch.empty_like(base) for _ in range(world)]
        dist.all_to_all(got, [base + rank * world + to for to in range(world)])
        for source in range(world):
            self.check("all_to_all", got[source], base + source * world + rank)
        after, before = (rank + 1) % world, (rank - 1) % world
        received = torch.empty_like(base)
        work = dist.batch_isend_irecv([dist.P2POp(dist.isend, base + rank, after),
                                       dist.P2POp(dist.irecv, received, before)])
        for request in work:
            request.wait()
        self.check("send and receive", received, base + before)

    def communicators(self):
        """Makes one more communicator for every pair of ranks."""
        pairs = [(a, b) for a in range(self.world) for b in range(a + 1, self.world)]
        groups = [dist.new_group(list(pair)) for pair in pairs]
        for group, pair in zip(groups, pairs):
            if self.rank in pair:
                values = self.full(100000, self.rank)
                dist.all_reduce(values, group=group)
                self.check("a communicator of two", values, self.full(100000, sum(pair)))

    def graph(self):
        """Captures an all-reduce and replays it."""
        values = self.full(1 << 18, 1)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            dist.all_reduce(values)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            dist.all_reduce(values)
        values.fill_(1.0)
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        self.check("a graph", values, self.full(1 << 18, self.world**3))
        graph.reset()  # a communicator that ends waits for the graphs that use it

    def small_all_reduces(self):
        """Prints the median time of one small all-reduce of a sequence, queued and in a graph."""
        stream = torch.cuda.Stream()
        torch.cuda.set_stream(stream)
        for size in SMALL_BYTES:
            values = self.full(size // 4, 0)

            def sequence():
                for _ in range(SMALL_CALLS):
                    dist.all_reduce(values)

            sequence()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                sequence()
            queued, replayed = self.median_time(sequence), self.median_time(graph.replay)
            values.fill_(1.0)
            dist.all_reduce(values)
            self.check("all_reduce", values, self.full(size // 4, self.world))
            self.say("small %d %.2f %.2f" % (size, queued, replayed))
            graph.reset()

    def median_time(self, sequence):
        """Returns the median time of one call of a sequence in microseconds."""
        times = []
        for _ in range(SMALL_ROUNDS):
            dist.barrier()
            torch.cuda.synchronize()
            begin = time.monotonic()
            sequence()
            torch.cuda.synchronize()
            times.append((time.monotonic() - begin) / SMALL_CALLS * 1e6)
        return statistics.median(times)

    def training(self):
        """Ten steps of DistributedDataParallel; all ranks then have the same weights."""
        torch.manual_seed(1)
        layers = (torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512))
        model = torch.nn.Sequential(*layers).to(self.device)
        parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
        optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
        for step in range(10):
            torch.manual_seed(100 * step + self.rank)
            loss = parallel(torch.randn(64, 512, device=self.device)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        mine = torch.cat([weights.flatten() for weights in model.parameters()])
        every = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(every, mine)
        for theirs in every:
            self.check("training", theirs, every[0])

    def everything(self):
        for count in SIZES:
            self.all_reduce(count)
            self.one_to_all(count)
            self.each_to_each(count)
        self.communicators()
        self.graph()
        self.training()
        self.rounds(int(os.environ.get("ROUNDS", "0")))

    def rounds(self, count):
        """Runs verified all-reduces for faults to happen in."""
        for number in range(count):
            values = self.full(ROUND_ELEMENTS, self.rank + number)
            dist.all_reduce(values)
            total = self.world * number + self.world * (self.world - 1) // 2
            self.check("round %d" % number, values, self.full(ROUND_ELEMENTS, total))
            if number % SAY_EVERY == 0:
                self.say("round %d of %d" % (number, count))


def main():
    job = Job()
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", timeout=TIMEOUT)
    if os.environ.get("LATENCIES") == "1":
        job.small_all_reduces()
    else:
        job.everything()
    dist.barrier()
    torch.cuda.synchronize()
    dist.destroy_process_group()
    job.say("rank 0: done")
    return 1 if job.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
