"""Split a text into words, count them, name the most frequent one."""

from collections import Counter

from piton.tasks import Context, Inputs, Json, Permanent, task


@task("hello.words")
def words(_ctx: Context, inputs: Inputs) -> Json:
    match inputs["execution"]:
        case {"text": str(text)} if text.strip():
            return list(text.lower().split())
        case _:
            raise Permanent("TEXT_MISSING", 'start it with {"text": "..."}')


@task("hello.count")
def count(_ctx: Context, inputs: Inputs) -> Json:
    match inputs["nodes"]:
        case {"words": list(found)}:
            return dict(Counter(str(word) for word in found))
        case _:
            raise Permanent("WORDS_MISSING")


@task("hello.report")
def report(ctx: Context, inputs: Inputs) -> Json:
    match inputs["nodes"]:
        case {"count": dict(counts)}:
            ctx.logger.info("%d different words", len(counts))
            return max(counts, key=lambda word: (counts[word], word))
        case _:
            raise Permanent("COUNT_MISSING")
