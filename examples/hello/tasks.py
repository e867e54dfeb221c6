"""Split a text into words, count them, name the most frequent one."""

from collections import Counter

from piton.tasks import Context, Inputs, Permanent, task


@task("hello.words")
def words(_ctx: Context, inputs: Inputs) -> list[str]:
    text = (inputs["execution"] or {}).get("text")
    if not isinstance(text, str) or not text.strip():
        raise Permanent("TEXT_MISSING", 'start it with {"text": "..."}')
    return text.lower().split()


@task("hello.count")
def count(_ctx: Context, inputs: Inputs) -> dict[str, int]:
    return dict(Counter(inputs["nodes"]["words"]))


@task("hello.report")
def report(ctx: Context, inputs: Inputs) -> str:
    counts: dict[str, int] = inputs["nodes"]["count"]
    ctx.logger.info("%d different words", len(counts))
    return max(counts, key=lambda word: (counts[word], word))
