"""Pydantic AI: an approval-required tool ends the run with DeferredToolRequests; the message history
is kept in one row of our own and the run goes on with DeferredToolResults.  The model is a
FunctionModel, so no network.  A library: no timers, no workers (parts d n/a).
"""

import os
import threading

import harness
import psycopg


class PydanticAI(harness.Peer):
    name = "pydantic-ai"
    parts = "abce"
    n_workers = 2  # CPU-bound in Python: one process per core
    parked_one_sql = "SELECT 1 FROM chats WHERE id = %(id)s AND state = 'parked'"
    parked_sql = "SELECT count(*) FROM chats WHERE id LIKE %(p)s AND state = 'parked'"
    done_one_sql = "SELECT 1 FROM chats WHERE id = %(id)s AND state = 'done'"
    done_sql = "SELECT count(*) FROM chats WHERE id LIKE %(p)s AND state = 'done'"

    def create_schema(self):
        with psycopg.connect(self.url, autocommit=True) as c:
            c.execute(
                "CREATE TABLE chats(id text PRIMARY KEY, state text NOT NULL, messages jsonb NOT NULL,"
                " result text)"
            )

    def versions(self):
        from importlib.metadata import version

        return {p: version(p) for p in ("pydantic-ai-slim", "psycopg")}


def worker(args):
    from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext
    from pydantic_ai.messages import (
        ModelMessagesTypeAdapter,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
    )
    from pydantic_ai.models.function import FunctionModel

    url = os.environ["PEER_URL"]
    local = threading.local()

    def conn():
        if not hasattr(local, "c"):
            local.c = psycopg.connect(url, autocommit=True)
        return local.c

    def model(messages, info):
        done = {p.tool_name for m in messages for p in m.parts if isinstance(p, ToolReturnPart)}
        if "one" not in done:
            return ModelResponse(parts=[ToolCallPart("one", {"n": 1}, tool_call_id="c1")])
        if "two" not in done:
            return ModelResponse(parts=[ToolCallPart("two", {"kind": "yes"}, tool_call_id="c2")])
        return ModelResponse(parts=[TextPart("done")])

    agent = Agent(FunctionModel(model), deps_type=str, output_type=[str, DeferredToolRequests])

    @agent.tool
    def one(ctx: RunContext[str], n: int) -> int:
        return n + 1

    @agent.tool(requires_approval=True)
    def two(ctx: RunContext[str], kind: str) -> str:
        harness.effect(url, ctx.deps, kind)
        return kind

    def start(r, timeout):
        out = agent.run_sync("go", deps=r)
        assert isinstance(out.output, DeferredToolRequests)
        conn().execute(
            "INSERT INTO chats(id, state, messages) VALUES (%s, 'parked', %s::jsonb)",
            (r, out.all_messages_json().decode()),
        )

    def answer(r, v):
        (text,) = conn().execute("SELECT messages::text FROM chats WHERE id = %s", (r,)).fetchone()
        results = DeferredToolResults(approvals={"c2": True})
        out = agent.run_sync(
            message_history=ModelMessagesTypeAdapter.validate_json(text),
            deferred_tool_results=results,
            deps=r,
        )
        conn().execute(
            "UPDATE chats SET state = 'done', messages = %s::jsonb, result = %s WHERE id = %s",
            (out.all_messages_json().decode(), out.output, r),
        )

    harness.pipe_worker(start, answer, 8)


if __name__ == "__main__":
    harness.main(PydanticAI, worker)
