"""LangGraph: interrupt() + Command(resume=...) on the sync PostgresSaver, default durability ("async").

A library: runs advance inside the call of whoever invokes the graph, here two app processes of
8 threads each.  It has no timers and no worker, so part d does not apply, and in part e nothing but the
client's own second call can resume a run that was cut off.
"""

import os

import harness


class LangGraph(harness.Peer):
    name = "langgraph"
    parts = "abce"
    n_workers = 2  # CPU-bound in Python: one process per core
    # parked: the interrupt and the checkpoint it hangs on are both stored
    parked_one_sql = (
        "SELECT 1 FROM checkpoint_writes w JOIN checkpoints c USING (thread_id, checkpoint_ns, checkpoint_id)"
        " WHERE w.thread_id = %(id)s AND w.channel = '__interrupt__'"
    )
    parked_sql = (
        "SELECT count(*) FROM checkpoint_writes w JOIN checkpoints c USING (thread_id, checkpoint_ns,"
        " checkpoint_id) WHERE w.thread_id LIKE %(p)s AND w.channel = '__interrupt__'"
    )
    done_one_sql = "SELECT 1 FROM checkpoints WHERE thread_id = %(id)s AND metadata->>'step' = '3'"
    done_sql = (
        "SELECT count(*) FROM checkpoints WHERE thread_id LIKE %(p)s AND metadata->>'step' = '3'"
    )

    def __init__(self, args):
        super().__init__(args)
        if args.mode != "async":
            self.name = "langgraph-" + args.mode

    def create_schema(self):
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(self.url) as s:
            s.setup()

    def versions(self):
        from importlib.metadata import version

        return {p: version(p) for p in ("langgraph", "langgraph-checkpoint-postgres", "psycopg")}


def worker(args):
    from typing import TypedDict

    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, interrupt
    from psycopg.rows import dict_row
    from psycopg_pool import ConnectionPool

    url = os.environ["PEER_URL"]
    pool = ConnectionPool(
        url,
        min_size=8,
        max_size=16,
        open=True,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
    )
    saver = PostgresSaver(pool)

    class State(TypedDict, total=False):
        run: str
        n: int
        decision: str
        result: str

    def one(s):
        return {"n": s["n"] + 1}

    def wait(s):
        return {"decision": interrupt({"ask": "approve?"})}

    def two(s):
        harness.effect(url, s["run"], s["decision"])
        return {"result": s["decision"]}

    g = StateGraph(State)
    g.add_node("one", one)
    g.add_node("wait", wait)
    g.add_node("two", two)
    g.add_edge(START, "one")
    g.add_edge("one", "wait")
    g.add_edge("wait", "two")
    g.add_edge("two", END)
    graph = g.compile(checkpointer=saver)

    def config(r):
        return {"configurable": {"thread_id": r}}

    def start(r, timeout):
        out = graph.invoke({"run": r, "n": 1}, config(r), durability=args.mode)
        assert "__interrupt__" in out

    def answer(r, v):
        out = graph.invoke(Command(resume=v), config(r), durability=args.mode)
        assert out["result"] == v

    harness.pipe_worker(start, answer, 8)


if __name__ == "__main__":
    harness.main(LangGraph, worker, ("async", "sync", "exit"))
