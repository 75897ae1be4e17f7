"""The page of a run."""

import math
from html import escape
from importlib import resources
from itertools import accumulate

import pleiades
from pleiades._numbers import bytes_text, count_text, share_text, time_text
from pleiades.report.chart import Chart
from pleiades.report.run import PARTS, PHASES, Bucket, Run

PART_NAMES = {"stage_us": "staging", "wait_us": "waiting", "run_us": "computing"}


def render(run: Run, name: str) -> str:
    """A complete HTML document without references to anything outside it."""
    style = resources.files("pleiades.report").joinpath("page.css").read_text()
    title = escape(f"Pleiades: {name}")
    charts = [
        _hits(run),
        _reads(run),
        _read_times(run),
        *(_steps(run, phase) for phase in PHASES),
        _spread(run),
        _memory(run),
    ]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<header><h1>{escape(_headline(run))}</h1><p>{escape(_setting(run))}</p></header>
<section class="tiles">{"".join(_tiles(run))}</section>
<section class="charts">{"".join(chart for chart in charts if chart)}</section>
<footer>{title}, drawn by version {escape(pleiades.__version__)} · output digest
<code>{escape(str(run.json["output_digest"]))}</code></footer>
</body>
</html>
"""


def _headline(run: Run) -> str:
    share = run.number("rows_hit") / max(run.number("rows_distinct"), 1)
    return (
        f"{count_text(run.number('tokens'))} tokens at {count_text(run.number('tokens_per_s'))} "
        f"tokens/s; {share_text(share)} of the rows were in memory"
    )


def _setting(run: Run) -> str:
    json = run.json
    past = ", past the page cache" if json["direct_io"] else ""
    return (
        f"Layer {json['layer']} on {json['device']}, {json['threads']} threads, "
        f"{json['arithmetic']}; {json['arena']} arena of {bytes_text(json['arena_bytes'])}; "
        f"reads by {json['io']}{past}; {run.sequence_count} sequence"
        f"{'s' if run.sequence_count > 1 else ''}."
    )


def _tiles(run: Run) -> list[str]:
    json = run.json
    speeds = [
        (phase, count_text(json[phase]["tokens_per_s"]), "tokens/s")
        for phase in PHASES
        if json[phase]["tokens"] > 0
    ]
    tiles = [
        *speeds,
        ("waiting for rows", share_text(json["wait_share"]), "of the time"),
        ("one disk read", time_text(json["read_us"]["p50"]), f"p99 {time_text(json['read_us']['p99'])}"),
        ("read from disk", bytes_text(json["disk_bytes"]), f"{count_text(json['disk_reads'])} reads"),
        ("memory", bytes_text(json["peak_rss_bytes"]), "at most"),
    ]
    return [
        f"<div><h2>{escape(head)}</h2><b>{escape(value)}</b><span>{escape(unit)}</span></div>"
        for head, value, unit in tiles
    ]


def _figure(title: str, text: str, svg: str, legend: dict[str, str]) -> str:
    keys = "".join(
        f'<span><i class="{name}"></i>{escape(meaning)}</span>' for name, meaning in legend.items()
    )
    return (
        f"<figure><figcaption><h2>{escape(title)}</h2><p>{escape(text)}</p>"
        f'<div class="legend">{keys}</div></figcaption>{svg}</figure>'
    )


def _extent(buckets: list[Bucket]) -> tuple[float, float]:
    return buckets[0].first_token, buckets[-1].last_token


def _tokens(bucket: Bucket) -> str:
    return f"tokens {bucket.first_token:,} to {bucket.last_token:,}"


def _hits(run: Run) -> str:
    buckets = run.stretches()
    chart = Chart(_extent(buckets), (0, 1), share_text)
    for bucket in buckets:
        if bucket.hit_share is not None:
            tip = f"{_tokens(bucket)}: {share_text(bucket.hit_share)}"
            chart.bar(bucket.first_token, bucket.last_token, 0, bucket.hit_share, "hit", tip)
    overall = run.number("rows_hit") / max(run.number("rows_distinct"), 1)
    chart.level(overall)
    text = "Share of the rows staged meanwhile that were in memory already."
    legend = {"hit": "in memory", "level": f"{share_text(overall)} over all"}
    return _figure("Hits", text, chart.svg("hit share along the text"), legend)


def _reads(run: Run) -> str:
    buckets = [bucket for bucket in run.stretches() if bucket.read_p50_us > 0]
    if not buckets:
        return ""
    low = min(bucket.read_p50_us for bucket in buckets)
    high = max(bucket.read_p99_us for bucket in buckets)
    bounds = (10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high * 1.001)))
    chart = Chart(_extent(buckets), bounds, time_text, log_y=True)
    xs = [bucket.last_token for bucket in buckets]
    chart.line(xs, [bucket.read_p50_us for bucket in buckets], "median")
    chart.line(xs, [bucket.read_p99_us for bucket in buckets], "tail")
    text = "How long one disk read took, over all reads so far."
    legend = {"median": "half are faster", "tail": "99 % are faster"}
    return _figure("Read latency", text, chart.svg("read latency along the text"), legend)


def _time_axis(places: list[float], top: float, title: str) -> Chart:
    """A chart over times, which lie ten places a decade apart."""
    return Chart(
        (10 * (min(places) // 10), 10 * (max(places) // 10 + 1)),
        (0, top),
        share_text,
        x_format=lambda place: time_text(10 ** (place / 10)),
        x_title=title,
    )


def _read_times(run: Run) -> str:
    buckets: list[tuple[float, int]] = run.json.get("read_times_us", [])
    if not buckets:
        return ""
    places = [10 * math.log10(us) for us, _ in buckets]
    total = sum(count for _, count in buckets)
    shares = [count / total for count in accumulate(count for _, count in buckets)]
    chart = _time_axis(places, 1, "time of a read")
    chart.line([places[0], *places], [0, *shares], "median", area=True)
    text = f"The share of {count_text(total)} disk reads that took at most so long."
    legend = {"median": "as fast or faster"}
    return _figure("Spread of read times", text, chart.svg("distribution of read times"), legend)


def _steps(run: Run, phase: str) -> str:
    buckets = run.buckets(phase)
    if not buckets:
        return ""
    top = max(sum(bucket.mean_us.values()) for bucket in buckets)
    chart = Chart(_extent(buckets), (0, top * 1.05), time_text)
    for bucket in buckets:
        low = 0.0
        for part in PARTS:
            high = low + bucket.mean_us[part]
            tip = f"{_tokens(bucket)}: {PART_NAMES[part]} {time_text(bucket.mean_us[part])}"
            chart.bar(bucket.first_token, bucket.last_token, low, high, PART_NAMES[part], tip)
            low = high
    tokens = max(int(step["tokens"]) for step in run.phase(phase)) * run.sequence_count
    count = len(run.phase(phase))
    size = "one token" if tokens == 1 else f"up to {tokens:,} tokens"
    steps = "One step" if count == 1 else f"{count:,} steps"
    text = f"{steps} of {size}: where the time went, on average."
    legend = {name: name for name in PART_NAMES.values()}
    return _figure(f"Time of a {phase} step", text, chart.svg(f"time of {phase} steps"), legend)


def _spread(run: Run) -> str:
    # Equal widths of the time's logarithm, ten a decade.
    counts: dict[str, dict[int, int]] = {phase: {} for phase in PHASES}
    for step in run.steps:
        us = max(sum(step[part] for part in PARTS), 0.1)
        place = math.floor(10 * math.log10(us))
        of_phase = counts[step["phase"]]
        of_phase[place] = of_phase.get(place, 0) + 1
    places = [place for of_phase in counts.values() for place in of_phase]
    top = max(n / sum(of_phase.values()) for of_phase in counts.values() for n in of_phase.values())
    chart = _time_axis([*places], top * 1.05, "time of a step")
    for offset, (phase, of_phase) in enumerate(counts.items()):
        for place, count in sorted(of_phase.items()):
            share = count / sum(of_phase.values())
            tip = f"{share_text(share)} of {phase} steps take about {time_text(10 ** (place / 10))}"
            left = place + offset / 2
            chart.bar(left, left + 0.5, 0, share, phase, tip)
    text = "How often a step took how long; each phase by itself adds up to 100 %."
    legend = {phase: phase for phase, of_phase in counts.items() if of_phase}
    return _figure("Spread of step times", text, chart.svg("distribution of step times"), legend)


def _memory(run: Run) -> str:
    buckets = run.stretches()
    arena = run.number("arena_bytes")
    top = max(max(bucket.rss_bytes for bucket in buckets), arena) * 1.1
    chart = Chart(_extent(buckets), (0, top), bytes_text)
    xs = [bucket.last_token for bucket in buckets]
    chart.line(xs, [bucket.rss_bytes for bucket in buckets], "memory", area=True)
    chart.level(arena)
    text = "The arena of rows is the part that was asked for."
    legend = {"memory": "the process", "level": f"its arena, {bytes_text(arena)}"}
    return _figure("Memory", text, chart.svg("memory along the text"), legend)
