"""A server with the newer endpoints, in memory, around the application: for tests of the page only.

Runs and decisions are made up; everything else is asked of the application at ``/api/…``.
"""

import json
from urllib.parse import parse_qs, urlencode

from starlette.responses import PlainTextResponse

from bilink.serving.app import Json

NAMES = ("head", "relation", "tail")


class FakeReview:
    """An ASGI application that adds runs, decisions, a queue and an update."""

    def __init__(self, app, review=True, runs=2):
        self.app, self.allowed, self.runs = app, review, runs
        self.forget()

    def forget(self):
        """Take all decisions back."""
        self.review, self.decisions, self.undone, self.updates = self.allowed, [], [], None

    async def __call__(self, scope, receive, send):
        """Answer what is made up; pass on the rest."""
        if scope["type"] != "http" or not scope["path"].startswith("/api/"):
            await self.app(scope, receive, send)
            return
        name = scope["path"].removeprefix("/api/").removeprefix("v1/")
        body = b""
        if scope["method"] == "POST":
            while True:
                message = await receive()
                body += message.get("body", b"")
                if not message.get("more_body"):
                    break
        query = {k: v[0] for k, v in parse_qs(scope["query_string"].decode()).items()}
        query.pop("run", None)
        handler = getattr(self, "_" + name.replace("/", "_"), None)
        found = await (
            handler(query, body, scope) if handler else self._ask(name, query, body, scope)
        )
        status = 200
        if isinstance(found, tuple):
            status, found = found
        if isinstance(found, str):
            headers = {"content-disposition": "attachment; filename=decisions.tsv"}
            answer = PlainTextResponse(found, headers=headers)
        else:
            answer = Json(found, status)
        await answer(scope, receive, send)

    async def _ask(self, name, query, body, scope):
        """What the application answers, with decisions."""
        sent, chunks = {}, []
        allowed = {k: v for k, v in query.items() if k not in ("offset",)}
        k, offset = int(query.get("k", 10)), int(query.get("offset", 0))
        if name in ("query", "audit"):
            allowed["k"] = min(1000, k + offset + 1)

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            if message["type"] == "http.response.start":
                sent["status"] = message["status"]
            else:
                chunks.append(message.get("body", b""))

        plain = [
            (k, v) for k, v in scope["headers"] if k not in (b"accept-encoding", b"if-none-match")
        ]
        inner = {**scope, "path": f"/api/{name}", "raw_path": f"/api/{name}".encode()}
        inner["headers"] = plain
        await self.app({**inner, "query_string": urlencode(allowed).encode()}, receive, send)
        found = json.loads(b"".join(chunks))
        for key in ("answers", "doubts"):
            if name in ("query", "audit") and key in found:
                found["more"] = len(found[key]) > k + offset
                found[key] = [
                    {**row, "decision": self._decided(row)}
                    for row in found[key][offset : offset + k]
                ]
        return sent["status"], found

    def _decided(self, row):
        rows = (d["decision"] for d in self.decisions if all(d[n] == row[n] for n in NAMES))
        return next(rows, None)

    @property
    def _counts(self):
        made = [d["decision"] for d in self.decisions]
        return {kind: made.count(kind) for kind in ("accept", "reject", "unsure")}

    async def _info(self, query, body, scope):
        _, found = await self._ask("info", {}, b"", scope)
        extra = {
            key: found[key] for key in ("entities", "relations", "facts", "calibrated", "audited")
        }
        runs = [{"id": str(i), "name": f"run {i}", "run": "", **extra} for i in range(self.runs)]
        if self.updates and self.updates["state"] == "done":
            runs.append({"id": "0/1", "name": "update 1", "run": "", **extra})
        return {
            **found,
            "audited": True,
            "runs": runs,
            "review": self.review,
            "decisions": self._counts,
        }

    async def _facts(self, query, body, scope):
        status, found = await self._ask("entity", {"name": query["entity"]}, b"", scope)
        if status != 200:
            return status, found
        k, offset = int(query.get("k", 50)), int(query.get("offset", 0))
        rows = next(
            (g["entities"] for g in found["groups"]
             if g["relation"]["name"] == query["relation"] and g["side"] == query["side"]), [],
        )  # fmt: skip
        page = rows[offset : offset + k]
        more = len(rows) > offset + k
        return {"entities": page, "count": len(rows), "offset": offset, "more": more}

    async def _audit(self, query, body, scope):
        """A few facts, as if they looked wrong."""
        given = {"head": "Germany", "relation": "borders", "k": 12}
        _, found = await self._ask("query", given, b"", scope)
        other = {"name": "Peru", "label": "Peru", "probability": 0.7}
        rows = [row for row in found.get("answers", ()) if row["known"]]
        for i, row in enumerate(rows):
            row |= {"probability": 0.1 + i / 15, "side": "tail"}
            row["suggestion"] = other if i % 2 else None
        k, offset = int(query.get("k", 50)), int(query.get("offset", 0))
        page = rows[offset : offset + k]
        more = len(rows) > offset + k
        return {"audited": True, "command": "", "doubts": page, "count": len(rows), "more": more}

    async def _entity(self, query, body, scope):
        status, found = await self._ask("entity", query, b"", scope)
        if query.get("name") == "Germany" and status == 200:
            found["doubts"] = (await self._audit({"k": 4}, b"", scope))["doubts"]
        return status, found

    async def _compare(self, query, body, scope):
        _, found = await self._ask("query", query, b"", scope)
        rows = []
        for i, row in enumerate(found["answers"]):
            other = None if i % 3 == 0 else {**row, "rank": row["rank"] + i}
            answers = {"0": row, **{str(run): other for run in range(1, self.runs)}}
            rows.append({**row, "answers": answers, "disagreement": 1 - i / 100})
        return {"runs": [str(run) for run in range(self.runs)], "rows": rows}

    async def _decisions(self, query, body, scope):
        if scope["method"] == "POST":
            if not self.review:
                return 403, {"error": "This server keeps no decisions.", "code": "review-off"}
            for given in json.loads(body)["decisions"]:
                self._decide(given)
            return {"decisions": self.decisions[:1], "counts": self._counts}
        k, offset = int(query.get("k", 50)), int(query.get("offset", 0))
        rows = [d for d in self.decisions if query.get("decision") in (None, d["decision"])]
        return {"decisions": rows[offset : offset + k], "counts": self._counts, "count": len(rows),
                "more": len(rows) > offset + k}  # fmt: skip

    def _decide(self, given, keep=True):
        triple = {name: given[name] for name in NAMES}
        old = next((d for d in self.decisions if all(d[n] == triple[n] for n in NAMES)), None)
        if keep:
            self.undone.append((triple, old))
        self.decisions = [d for d in self.decisions if d is not old]
        if given["decision"]:
            labels = {f"{name}_label": triple[name] for name in NAMES}
            reason = given.get("reason", (old or {}).get("reason"))
            self.decisions.insert(0, {
                **triple, **labels, "id": len(self.undone), "decision": given["decision"],
                "probability": 0.5, "reason": reason, "time": "2024-05-01T10:00:00Z", "kind": "new",
            })  # fmt: skip

    async def _decisions_undo(self, query, body, scope):
        if not self.undone:
            return {"decision": None, "counts": self._counts, "triple": None}
        triple, old = self.undone.pop()
        self._decide(old or {**triple, "decision": None}, keep=False)
        return {"decision": old, "counts": self._counts, "triple": triple}

    async def _decisions_export(self, query, body, scope):
        kept = [d for d in self.decisions if d["decision"] == query.get("decision")]
        return "".join("\t".join(d[name] for name in NAMES) + "\n" for d in kept)

    async def _decisions_import(self, query, body, scope):
        lines = [line.split("\t") for line in body.decode().splitlines() if line.strip()]
        good = [line for line in lines if len(line) >= 3]
        for line in good:
            self._decide({**dict(zip(NAMES, line, strict=False)), "decision": query["decision"]})
        unknown = [f"Line {line} has no three names." for line in lines if len(line) < 3]
        return {"added": len(good), "known": 0, "unknown": unknown, "counts": self._counts}

    async def _queue(self, query, body, scope):
        k = int(query.get("k", 20))
        if query.get("kind") == "doubts":
            rows = (await self._audit({"k": 100}, b"", scope))["doubts"]
            rows = [{**row, "decision": self._decided(row)} for row in rows]
        else:
            given = {"k": 100, "new": True, "seen": True, "relation": query.get("relation")}
            given = {key: value for key, value in given.items() if value is not None}
            _, found = await self._ask("query", given, b"", scope)
            rows = found.get("answers", [])
        left = [row for row in rows if row["decision"] is None]
        asked = "The members disagree most here." if query.get("order") == "learning" else None
        return {"rows": [{**row, "why_asked": asked} for row in left[:k]], "more": len(left) > k}

    async def _update(self, query, body, scope):
        if scope["method"] == "POST":
            self.updates = {"state": "running", "step": "Learning from decisions", "progress": 0.3}
            return 202, {"state": "running"}
        idle = {"error": None, "run": None, "changes": None, "step": "", "progress": None}
        if self.updates is None:
            return {**idle, "state": "idle"}
        if self.updates["state"] == "running" and self.updates["progress"] < 0.9:
            self.updates["progress"] += 0.4
            return {**idle, **self.updates}
        self.updates = {**idle, "state": "done", "run": "0/1", "changes": self._changes()}
        return self.updates

    def _changes(self):
        facts = [
            {"triple": {n: d[n] for n in NAMES}, "labels": {f"{n}_label": d[n] for n in NAMES},
             "before": 0.2, "after": 0.9 if d["decision"] == "accept" else 0.01}
            for d in self.decisions
        ]  # fmt: skip
        question = {"head": "Chile", "relation": "official language"}
        answers = [{"question": question, "labels": {}, "rose": ["English"], "fell": ["German"]}]
        rules = [
            {"sentence": "X borders Y ← Y borders X", "before": 0.9, "after": 0.95},
            {"sentence": "X in country Y ← Y has capital X", "before": 0.9, "after": 0.8},
        ]
        counts = {"accepted": self._counts["accept"], "rejected": self._counts["reject"]}
        return {"facts": facts, "answers": answers, "rules": rules, "metrics": None,
                "counts": {**counts, "new_entities": 0}}  # fmt: skip
